# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connector, what stands beside it, and the releases that have it."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils import layout
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import (
    BESIDE,
    CONNECTORS,
    LOOKUP_BY_RANK_SINCE,
    NOT_PLANNED,
    OWN_ENGINE_ID_UNTIL,
    Connector,
    connectors_of,
    names_at,
    of_mooncake,
    pools,
    there,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report, below
from ansible_collections.mooncake.pd.plugins.plugin_utils.releases import (
    NEWEST,
    image_mooncake,
    is_newer,
    pool_needs_mooncake,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.fields import suggestion
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import (
    DECODE,
    PREFILL,
    Companion,
    Instance,
    Topology,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least, version_key


def check_releases(topology: Topology, report: Report) -> None:
    engine, mooncake = topology.engine, topology.mooncake
    for kind, version, where in (
        (engine.kind, engine.version, "engine.version"),
        ("mooncake", mooncake.version, "mooncake.version"),
    ):
        if is_newer(kind, version):
            report.warning(
                "version-newer",
                where,
                f"{version} is newer than {NEWEST[kind]}, the newest {kind} that the plan knows, and is planned "
                "like that one.",
                "compare ports, connectors and variables with the release notes, and waive this once you have.",
            )
    shipped = image_mooncake(engine.version) if engine.kind == "vllm_ascend" else None
    if shipped and version_key(mooncake.version) < version_key(shipped):
        report.warning(
            "mooncake-behind",
            "mooncake.version",
            f"{mooncake.version} is older than {shipped}, with which vllm-ascend {engine.version} is released and "
            "tested.",
            f"use {shipped} on all hosts.",
        )
    if shipped and version_key(mooncake.version) > version_key(shipped):
        report.warning(
            "mooncake-ahead",
            "mooncake.version",
            f"{mooncake.version} is newer than {shipped}, with which vllm-ascend {engine.version} is released and "
            "tested. The role engine does not install what was not released together.",
            f"use {shipped} on all hosts, or try this one, set engine_force_combination and waive this.",
        )


def check_connector(topology: Topology, report: Report) -> Connector | None:
    """The connector of the plan, unless this engine has none of that name."""
    engine, choice = topology.engine, topology.connector
    known = connectors_of(engine.kind)
    connector = known.get(choice.name)
    usable = list(names_at(engine.kind, engine.version)) or list(known)
    if connector is None:
        owners = [other.engine for other in CONNECTORS if other.name == choice.name]
        why = f" It belongs to {owners[0]}." if owners else ""
        if choice.name in NOT_PLANNED and (engine.kind == "vllm_ascend" or _is_of(choice.name, engine.kind)):
            why = f" It {NOT_PLANNED[choice.name]}"
        report.error(
            "connector-unknown",
            "connector.name",
            f"{choice.name} is no connector that can be planned for {engine.kind}.{why}",
            suggestion(choice.name, usable) or f"choose one of {', '.join(usable)}.",
        )
        return None
    if not at_least(engine.version, connector.since):
        report.error(
            "connector-version",
            "engine.version",
            f"{engine.kind} {engine.version} has no {connector.name}, or one whose requests no router here speaks.",
            f"use {connector.since} or later.",
        )
    elif not there(connector.since, connector.gone, engine.version):
        report.error(
            "connector-version",
            "connector.name",
            f"{connector.name} is no longer vLLM-Ascend's since {connector.gone}: the name gives upstream's connector, "
            "which knows no NPU.",
            f"choose one of {', '.join(usable)}.",
        )
    if choice.protocol and choice.protocol not in connector.protocols:
        report.error(
            "connector-protocol",
            "connector.protocol",
            f"{connector.name} cannot move KV over {choice.protocol}.",
            f"choose {' or '.join(connector.protocols)}, or leave the key out for {connector.protocols[0]}.",
        )
    for index, companion in enumerate(choice.also):
        _check_companion(topology, connector, companion, report)
        earlier = [other for other in choice.also[:index] if other.name == companion.name]
        if any(other.serves(kind) and companion.serves(kind) for other in earlier for kind in (PREFILL, DECODE)):
            report.error(
                "companion-twice",
                f"{companion.where}.name",
                f"{companion.name} stands there already, and both would take the same sockets.",
                "name it once for each side.",
            )
    _check_lookup(topology, report)
    if not at_least(engine.version, OWN_ENGINE_ID_UNTIL):
        _check_engine_ids(topology, report)
    return connector


def _is_of(companion: str, engine: str) -> bool:
    return companion in BESIDE and BESIDE[companion].engine == engine


def _check_lookup(topology: Topology, report: Report) -> None:
    """A number that the operator gives is the same for all instances."""
    for companion in topology.connector.also:
        given = [key for key in ("lookup_rpc_port", "mooncake_rpc_port") if key in companion.extra_config]
        if not given or not pools(companion):
            continue
        owner: dict[str, Instance] = {}
        for instance in topology.instances:
            for host in instance.places if companion.serves(instance.kind) else ():
                twin = owner.setdefault(host, instance)
                if twin is not instance:
                    report.error(
                        "companion-lookup",
                        f"{companion.where}.extra_config.{given[0]}",
                        f"{instance.name} and {twin.name} on {host} would take the same socket to look keys up.",
                        "remove it; the plan gives every instance a number of its own.",
                    )


def _check_engine_ids(topology: Topology, report: Report) -> None:
    owner: dict[str, Instance] = {}
    for instance in topology.instances:
        effective = instance.engine_id or instance.name
        twin = owner.setdefault(effective, instance)
        if twin is not instance:
            report.error(
                "engine-id-duplicate",
                f"{instance.where}.engine_id",
                f"{effective} is also the id of {twin.name}: vllm-ascend {topology.engine.version} ends with "
                '"Conflict engine id".',
                "give each instance an id of its own, or leave it out.",
            )


def _check_companion(topology: Topology, connector: Connector, companion: Companion, report: Report) -> None:
    engine = topology.engine
    at = f"{companion.where}.name"
    own = [name for name in BESIDE if _is_of(name, engine.kind)]
    known = BESIDE.get(companion.name)
    if known is None or companion.name not in own:
        report.error(
            "companion-unknown",
            at,
            f"{companion.name} is no connector that {engine.kind} can have beside {connector.name}.",
            suggestion(companion.name, own) or f"choose one of {', '.join(own)}, or remove it.",
        )
        return
    if not there(known.since, known.gone, engine.version):
        report.error(
            "companion-version",
            at,
            f"{engine.kind} {engine.version} has no {companion.name}: it came with {known.since}"
            f"{f' and went with {known.gone}' if known.gone else ''}.",
            "use another release, or remove it.",
        )
    if known.only and companion.side != known.only:
        report.error(
            "companion-side",
            f"{companion.where}.side",
            f"{companion.name} works on the {known.only} side only.",
            f"set side to {known.only}.",
        )
    if known.lookup_port:
        _check_pool(topology, connector, companion, report)


def _check_pool(topology: Topology, connector: Connector, companion: Companion, report: Report) -> None:
    if connector.transfer == "push":
        report.warning(
            "pool-layerwise",
            f"{companion.where}.name",
            f"{companion.name} beside {connector.name} ended with an assertion in releases that were tried "
            "(vllm-ascend#7085).",
            "use MooncakeConnectorV1, or prove that your release can.",
        )
    ascend = topology.engine.kind == "vllm_ascend"
    if ascend and not at_least(topology.engine.version, LOOKUP_BY_RANK_SINCE):
        for instance in topology.instances:
            if companion.serves(instance.kind) and layout.local_ranks(instance) > 1:
                report.error(
                    "pool-ranks",
                    f"{instance.where}.dp",
                    f"with {companion.name} of vllm-ascend {topology.engine.version} all ranks on a host take the same "
                    "socket to look keys up.",
                    f"use {LOOKUP_BY_RANK_SINCE} or later, or one rank on each host.",
                )
    if not of_mooncake(companion):
        return
    needed = pool_needs_mooncake(topology.engine.version) if ascend else None
    if needed and not at_least(topology.mooncake.version, needed):
        report.warning(
            "pool-mooncake",
            "mooncake.version",
            f"the KV pool of vllm-ascend {topology.engine.version} is made for Mooncake {needed} or later, this is "
            f"{topology.mooncake.version}.",
            f"use {needed} or later.",
        )
    # the plan writes the configuration, and rules/store.py looks at it; or a fault of it has been told
    if topology.store or any(below(problem.where, "store") for problem in report.found):
        return
    if not topology.master:
        report.warning(
            "pool-master",
            companion.where,
            "the pool needs a Mooncake master that serves before any engine starts, and the plan has none.",
            "add master, or waive this when another one is used.",
        )
    for instance in topology.instances:
        if companion.serves(instance.kind) and "MOONCAKE_CONFIG_PATH" not in {
            **topology.engine_environment,
            **instance.environment,
        }:
            report.error(
                "pool-config",
                f"{instance.where}.environment",
                "the engine ends with \"The environment variable 'MOONCAKE_CONFIG_PATH' is not set\".",
                "add store, and the plan writes the file; or set MOONCAKE_CONFIG_PATH to one that every host has, here "
                "or in engine_environment.",
            )
