# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The master of the KV store has a place, and flags that its release takes and that fit each other."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Topology


def check_master(topology: Topology, report: Report) -> None:
    master = topology.master
    if master is None:
        return
    if bool(master.host) == bool(master.hosts):
        report.error(
            "master-place",
            master.where,
            "has both host and hosts, so it is not clear whether one master runs or several."
            if master.host
            else "has neither host nor hosts, so it is nowhere.",
            "name host for one master, or hosts for several that stand by for each other.",
        )
