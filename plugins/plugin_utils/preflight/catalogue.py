# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All rules about hosts. Importing a module of rules registers them."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import RULES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.rules import (  # noqa: F401  # pylint: disable=unused-import
    addresses,
    disks,
    fleet,
    limits,
    memory,
    npu,
    npu_conf,
    npu_fleet,
    npu_network,
    npu_software,
    npu_use,
    peers,
    port_ranges,
    port_traffic,
    ports,
    rdma,
    rdma_fleet,
    software,
    store,
    unknown,
)

__all__ = ["RULES"]
