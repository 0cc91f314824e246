# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing may be set beside the plan that the plan decides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ansible_collections.mooncake.pd.plugins.plugin_utils import store
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import Connector, joins_store
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines.kinds import ENGINES, EngineKind
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import EXTERNAL, Instance, Topology
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.table import POOL_HASH_SEED

_HIDES_LINES = "hides the lines by which a start is proven, so the start would never count as done."
_SHOWS_LINES = "use info or remove it."


def check_settings(topology: Topology, connector: Connector, report: Report) -> None:
    """Nothing may be set beside the plan that the plan decides: ports, claims and peers would no longer be true."""
    engine = ENGINES[topology.engine.kind]
    _check_arguments("engine_args", topology.engine_args, report)
    pooled = store.PLANNED_VARIABLES if topology.store else {}
    planned = {**engine.PLANNED_VARIABLES, **pooled}
    _check_variables("engine_environment", topology.engine_environment, planned, report)
    if topology.store:
        _check_variables(f"{topology.store.where}.environment", topology.store.environment, pooled, report)
    if connector.engine == "vllm_cpu":
        _check_npu_keys(topology, report)
    if any(host.interface for host in topology.hosts.values()):
        planned = dict.fromkeys(engine.INTERFACE_VARIABLES, "hosts.<name>.interface")
        _check_variables("engine_environment", topology.engine_environment, planned, report)
    for instance in topology.instances:
        _check_arguments(f"{instance.where}.args", instance.args, report)
        _check_variables(
            f"{instance.where}.environment", instance.environment, _planned(topology, instance, engine), report
        )
        _check_idle_keys(topology, instance, connector, engine, report)


# they move ports that the plan has counted with; in topology.yml it sees them
_MOVE_PORTS = (
    *("ASCEND_BASE_PORT", "HCCL_IF_BASE_PORT", "HCCL_HOST_SOCKET_PORT_RANGE", "VLLM_PORT"),
    *("MC_MIN_RPC_PORT", "MC_MAX_RPC_PORT", "MC_MIN_PRC_PORT", "MC_MAX_PRC_PORT"),
    *("MC_STORE_CLIENT_MIN_PORT", "MC_STORE_CLIENT_MAX_PORT"),
)


def unalterable(topology: Topology) -> set[str]:
    """Variables that settings of a host may not change behind the plan's back."""
    engine = ENGINES[topology.engine.kind]
    own = {*engine.PLANNED_VARIABLES, *engine.INTERFACE_VARIABLES, *(store.PLANNED_VARIABLES if topology.store else ())}
    return {*own, *_MOVE_PORTS, *vllm.REFUSED_VARIABLES, *vllm.LOG_LEVEL_VARIABLES, POOL_HASH_SEED[0]}


def _check_npu_keys(topology: Topology, report: Report) -> None:
    told = {
        "connector.extra_config": bool(topology.connector.extra_config),
        "engine.data_parallel": topology.engine.data_parallel != EXTERNAL,
        "hardware": topology.hardware is not None,
        **{f"{host.where}.chips": host.chips is not None for host in topology.hosts.values()},
        **{f"{host.where}.generation": host.generation is not None for host in topology.hosts.values()},
    }
    for where, given in told.items():
        if given:
            report.error(
                "key-without-effect", where, "means nothing to vllm_cpu, which has no NPUs.", "remove the key."
            )


def _planned(topology: Topology, instance: Instance, engine: EngineKind) -> Mapping[str, str]:
    named = [name for name in instance.places if name in topology.hosts and topology.hosts[name].interface]
    pooled = store.PLANNED_VARIABLES if topology.store and joins_store(topology, instance.kind) else {}
    if not named:
        return {**engine.PLANNED_VARIABLES, **pooled}
    return {
        **engine.PLANNED_VARIABLES,
        **pooled,
        **dict.fromkeys(engine.INTERFACE_VARIABLES, f"hosts.{named[0]}.interface"),
    }


def _check_idle_keys(
    topology: Topology, instance: Instance, connector: Connector, engine: EngineKind, report: Report
) -> None:
    idle = [name for name in engine.UNUSED_KEYS if getattr(instance, name) is not None]
    if instance.bootstrap_port and "bootstrap_port" not in idle and instance.kind != connector.binds:
        idle.append("bootstrap_port")
    for name in idle:
        report.error(
            "key-without-effect",
            f"{instance.where}.{name}",
            f"a {instance.kind} instance of {topology.engine.kind} with {connector.name} has no {name}.",
            "remove the key.",
        )
    if instance.dp_rpc_port and instance.dp == 1 and "dp_rpc_port" not in idle:
        report.warning(
            "dp-rpc-idle",
            f"{instance.where}.dp_rpc_port",
            "has no effect: an instance with dp 1 has no ranks that meet.",
            "remove the key, or set dp.",
        )
    for name in ("group_port", "group_grace"):
        if getattr(instance, name) is not None and len(instance.places) == 1 and name not in idle:
            report.warning(
                "group-idle",
                f"{instance.where}.{name}",
                "has no effect: supervisors of one host connect to nobody.",
                "remove the key, or set hosts.",
            )


def _check_arguments(where: str, arguments: Sequence[str], report: Report) -> None:
    for index, (argument, following) in enumerate(pairwise((*arguments, ""))):
        at = f"{where}[{index}]"
        name, value = vllm.spelling(argument)
        level = following if value is None else value
        if re.match(r"--?[A-Za-z][\w.-]*\s", argument):
            report.error(
                "glued-argument",
                at,
                f"{argument!r} is one argument with a space in it, and the engine knows none of that name.",
                "write option and value as two entries, or with = between them.",
            )
        elif options := vllm.beginning_of(name):
            report.error(
                "abbreviated-argument",
                at,
                f"{name} can be read as {' or '.join(options)}, so the plan does not know what it sets.",
                "write the option in full.",
            )
        elif name in vllm.REFUSED_ARGUMENTS:
            message, fix = vllm.REFUSED_ARGUMENTS[name]
            report.error("refused-argument", at, f"{name} {message}", fix)
        elif name in vllm.LOG_LEVEL_ARGUMENTS and vllm.hides_lines(level):
            report.error("refused-argument", at, f"{name} {level} {_HIDES_LINES}", _SHOWS_LINES)
        elif name in vllm.PLANNED_ARGUMENTS:
            report.error(
                "planned-argument",
                at,
                f"{name} is written by the plan; a second one would win and the plan would be wrong about it.",
                f"set {vllm.PLANNED_ARGUMENTS[name]} instead.",
            )
        elif name in vllm.UNPLANNED_ARGUMENTS:
            report.error(
                "planned-argument",
                at,
                f"{name} changes which ports and processes there are, and the plan does not know that shape.",
                "remove it; data_parallel, dp and hosts say how the ranks are run.",
            )


def _check_variables(where: str, variables: Mapping[str, str], planned: Mapping[str, str], report: Report) -> None:
    for name, value in variables.items():
        if name in vllm.REFUSED_VARIABLES:
            message, fix = vllm.REFUSED_VARIABLES[name]
            report.error("refused-variable", f"{where}.{name}", message, fix)
        elif name in vllm.LOG_LEVEL_VARIABLES and vllm.hides_lines(value):
            report.error("refused-variable", f"{where}.{name}", f"{value} {_HIDES_LINES}", _SHOWS_LINES)
        elif name in planned:
            report.error(
                "planned-variable",
                f"{where}.{name}",
                f"is written by the plan from {planned[name]}.",
                f"remove it and set {planned[name]} instead.",
            )
