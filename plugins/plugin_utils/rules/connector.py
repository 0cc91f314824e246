# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connector, what stands beside it, and the releases that have it."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import (
    BESIDE,
    CONNECTORS,
    NOT_PLANNED,
    Connector,
    connectors_of,
    names_at,
    there,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.releases import (
    NEWEST,
    image_mooncake,
    is_newer,
    pool_needs_mooncake,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.fields import suggestion
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Companion, Topology
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


def check_connector(topology: Topology, report: Report) -> Connector | None:
    """The connector of the plan, unless this engine has none of that name."""
    engine, choice = topology.engine, topology.connector
    known = connectors_of(engine.kind)
    connector = known.get(choice.name)
    usable = list(names_at(engine.kind, engine.version)) or list(known)
    if connector is None:
        owners = [other.engine for other in CONNECTORS if other.name == choice.name]
        why = f" It belongs to {owners[0]}." if owners else ""
        if choice.name in NOT_PLANNED and engine.kind == "vllm_ascend":
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
    for companion in choice.also:
        _check_companion(topology, connector, companion, report)
    return connector


def _check_companion(topology: Topology, connector: Connector, companion: Companion, report: Report) -> None:
    engine = topology.engine
    at = f"{companion.where}.name"
    known = BESIDE.get(companion.name) if engine.kind == "vllm_ascend" else None
    if known is None:
        report.error(
            "companion-unknown",
            at,
            f"{companion.name} is no connector that {engine.kind} can have beside {connector.name}.",
            suggestion(companion.name, BESIDE) or f"choose one of {', '.join(BESIDE)}, or remove it.",
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
    if companion.extra_config.get("backend", "mooncake") != "mooncake":
        return
    needed = pool_needs_mooncake(topology.engine.version)
    if needed and not at_least(topology.mooncake.version, needed):
        report.warning(
            "pool-mooncake",
            "mooncake.version",
            f"the KV pool of vllm-ascend {topology.engine.version} is made for Mooncake {needed} or later, this is "
            f"{topology.mooncake.version}.",
            f"use {needed} or later.",
        )
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
                "set MOONCAKE_CONFIG_PATH to the mooncake.json of the host, here or in engine_environment.",
            )
