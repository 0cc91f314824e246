# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the planned releases make of the operator's variables and options."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import BESIDE, Connector
from ansible_collections.mooncake.pd.plugins.plugin_utils.findings import Finding
from ansible_collections.mooncake.pd.plugins.plugin_utils.options.extra import (
    DIRECT_OF_OLD,
    ENGINE_NAMES,
    asks_for_direct,
    check_extra_config,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.options.serve import check_arguments, check_options
from ansible_collections.mooncake.pd.plugins.plugin_utils.options.transfer import check_transfer_config
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.releases import vllm_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Instance, Topology
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.table import POOL_HASH_SEED
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.together import check_together
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.values import check_variable

# Variables that both ends of a link have to agree on: what breaks when they do not.
_LINK = "the two ends of a link then speak of different networks, and the first transfer ends with status 103900"
_TIMES = "the side with the smaller value gives up while the other still waits (HIXL FAQ, vllm-ascend#7401)"
_HASHES = "keys of the pool are hashes, and nothing that one stores the other ever finds"
_EQUAL_VARIABLES = {
    POOL_HASH_SEED[0]: ("error", _HASHES),
    "HCCL_INTRA_ROCE_ENABLE": ("error", _LINK),
    "HCCL_INTRA_PCIE_ENABLE": ("error", _LINK),
    **dict.fromkeys(
        ("ASCEND_CONNECT_TIMEOUT", "ASCEND_TRANSFER_TIMEOUT", "HCCL_CONNECT_TIMEOUT", "HCCL_RDMA_TIMEOUT"),
        ("warning", _TIMES),
    ),
}


def check_knowledge(topology: Topology, connector: Connector, report: Report) -> None:
    releases = _releases(topology)
    _check_environment("engine_environment", topology.engine_environment, {}, releases, report)
    for instance in topology.instances:
        _check_environment(
            f"{instance.where}.environment", instance.environment, topology.engine_environment, releases, report
        )
        policy = {"kv_load_failure_policy": instance.kv_load_failure_policy} if instance.kv_load_failure_policy else {}
        _tell(f"{instance.where}.kv_load_failure_policy", check_transfer_config(policy, releases["vllm"]), report)
    _check_options(topology, releases, report)
    if topology.engine.kind == "vllm_ascend":
        _check_extra_configs(topology, connector, report)
    _check_companions(topology, report)
    _check_equal_variables(topology, report)


def _check_options(topology: Topology, releases: Mapping[str, str], report: Report) -> None:
    def judge(arguments: Sequence[str], side: str | None = None) -> list[Finding]:
        ascend = releases.get("vllm_ascend")
        return check_arguments(arguments, ascend, side) if ascend else check_options(arguments, releases["vllm"])

    _tell("engine_args", judge(topology.engine_args), report)
    for instance in topology.instances:
        _tell(f"{instance.where}.args", judge(instance.args, instance.kind), report)


def _releases(topology: Topology) -> dict[str, str]:
    """Who reads variables, and in which release."""
    engine = topology.engine
    if engine.kind == "vllm_cpu":
        return {"vllm": engine.version, "mooncake": topology.mooncake.version}
    return {
        "vllm_ascend": engine.version,
        "vllm": vllm_of(engine.version),
        "mooncake": topology.mooncake.version,
    }


def _check_environment(
    where: str,
    own: Mapping[str, str],
    under: Mapping[str, str],
    releases: Mapping[str, str],
    report: Report,
) -> None:
    for name, value in own.items():
        _tell(f"{where}.{name}", check_variable(name, value, releases), report)
    if own:
        _tell(where, check_together({**under, **own}, releases), report)


def _check_extra_configs(topology: Topology, connector: Connector, report: Report) -> None:
    version, choice = topology.engine.version, topology.connector
    told = {DIRECT_OF_OLD: True} if asks_for_direct(connector.name, version) else {}
    effective = {**told, **choice.extra_config}
    _tell("connector.extra_config", check_extra_config(connector.name, effective, version), report)
    for side in ("prefill", "decode"):
        given = choice.extra_config.get(side)
        sizes = sorted({"dp_size", "tp_size", "pp_size"} & set(given)) if isinstance(given, Mapping) else []
        for size in sizes:
            report.error(
                "planned-extra-config",
                f"connector.extra_config.{side}.{size}",
                "is written by the plan from the instances.",
                f"set {size.removesuffix('_size')} of the {side} instances instead.",
            )


def _check_companions(topology: Topology, report: Report) -> None:
    engine = topology.engine
    for companion in topology.connector.also:
        known = BESIDE.get(companion.name)
        if known and known.engine == engine.kind:
            found = check_extra_config(
                companion.name, companion.extra_config, engine.version, ENGINE_NAMES[engine.kind]
            )
            _tell(f"{companion.where}.extra_config", found, report)


def _check_equal_variables(topology: Topology, report: Report) -> None:
    values: dict[str, dict[str | None, Instance]] = defaultdict(dict)
    for instance in topology.instances:
        environment = {**topology.engine_environment, **instance.environment}
        for name in _EQUAL_VARIABLES:
            values[name].setdefault(environment.get(name), instance)
    for name, (severity, effect) in _EQUAL_VARIABLES.items():
        if name != POOL_HASH_SEED[0] and topology.engine.kind != "vllm_ascend":
            continue
        if len(values[name]) < 2:
            continue
        (one, first), (other, second) = list(values[name].items())[:2]
        report.add(
            "variable-differs",
            severity,
            f"{second.where}.environment",
            f"{name} is {_value(other)} here and {_value(one)} for {first.where}: {effect}.",
            f"give {name} once, in engine_environment.",
        )


def _value(value: str | None) -> str:
    return "not set" if value is None else value


def _tell(where: str, findings: Iterable[Finding], report: Report) -> None:
    for finding in findings:
        report.add(finding.rule, finding.severity, where, finding.message, finding.fix)
