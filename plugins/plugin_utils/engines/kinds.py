# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engines that can be planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ansible_collections.mooncake.pd.plugins.plugin_utils.choices import Choice
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import Connector
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm_ascend, vllm_cpu
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Instance, Topology


class EngineKind(Protocol):
    """What a module of this folder offers."""

    @property
    def PLANNED_VARIABLES(self) -> Mapping[str, str]:
        """Environment variables that only the plan may set, and the key that decides each."""

    @property
    def INTERFACE_VARIABLES(self) -> tuple[str, ...]:
        """Variables that hosts.<name>.interface sets."""

    @property
    def UNUSED_KEYS(self) -> tuple[str, ...]:
        """Keys of an instance that mean nothing to this engine."""

    def kv_port(self, topology: Topology, instance: Instance) -> int | None:
        """The port of its first worker, when the connector counts from one."""

    def choices(self, topology: Topology, instance: Instance) -> tuple[Choice, ...]:
        """The ports that the plan chooses because the instance names none."""

    def processes(self, topology: Topology, instance: Instance, connector: Connector) -> tuple[Process, ...]:
        """One or more for each host of the instance that is known."""


ENGINES: dict[str, EngineKind] = {"vllm_cpu": vllm_cpu, "vllm_ascend": vllm_ascend}
