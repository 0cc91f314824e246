# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold across the parts of a topology. Each rule says what would break, and how to mend it."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ansible_collections.mooncake.pd.plugins.plugin_utils import router as routers
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import (
    CONNECTORS,
    ROUTER_KINDS,
    Connector,
    connectors_of,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm, vllm_ascend
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines.kinds import ENGINES
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import (
    EPHEMERAL,
    MAX_PORT,
    NODE_PORTS,
    Claim,
    collide,
    free_base,
    intersects,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.fields import suggestion
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import (
    DECODE,
    PREFILL,
    Host,
    Instance,
    Reading,
    Topology,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

GROUPS = ("pd", "engine", "prefill", "decode", "router", "master")
INSTANCE_GROUP = "instance_"
_NOT_HOSTS = frozenset((*GROUPS, "all", "ungrouped"))
_NOT_INSTANCES = frozenset(("router", "master"))  # their units would have the same name
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INSTANCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,49}")
_HIDES_LINES = "hides the lines by which a start is proven, so the start would never count as done."
_SHOWS_LINES = "use info or remove it."


def check_connector(topology: Topology, report: Report) -> Connector | None:
    """The connector of the plan, unless this engine has none of that name."""
    engine, choice = topology.engine, topology.connector
    known = connectors_of(engine.kind)
    connector = known.get(choice.name)
    if connector is None:
        owners = [other.engine for other in CONNECTORS if other.name == choice.name]
        belongs = f" It belongs to {owners[0]}." if owners else ""
        report.error(
            "connector-unknown",
            "connector.name",
            f"{choice.name} is no connector that can be planned for {engine.kind}.{belongs}",
            suggestion(choice.name, known) or f"choose one of {', '.join(known)}.",
        )
        return None
    if not at_least(engine.version, connector.since):
        report.error(
            "connector-version",
            "engine.version",
            f"{engine.kind} {engine.version} lacks {connector.name}, or numbers its ports in another way than later "
            "releases.",
            f"use {connector.since} or later.",
        )
    if choice.protocol and choice.protocol not in connector.protocols:
        report.error(
            "connector-protocol",
            "connector.protocol",
            f"{connector.name} cannot move KV over {choice.protocol}.",
            f"choose {' or '.join(connector.protocols)}, or leave the key out for {connector.protocols[0]}.",
        )
    return connector


def check_hosts(topology: Topology, report: Report) -> None:
    first_with: dict[str, Host] = {}
    for host in topology.hosts.values():
        at = f"{host.where}.address"
        if not _HOST_NAME.fullmatch(host.name) or host.name in _NOT_HOSTS or host.name.startswith(INSTANCE_GROUP):
            report.error(
                "host-name",
                host.where,
                f"{host.name!r} is the name of a group, or Ansible would read it as a pattern.",
                "use letters, digits, dots and dashes, and no group name.",
            )
        twin = first_with.setdefault(host.address, host)
        if twin is not host:
            report.error(
                "address-duplicate",
                at,
                f"{host.address} is also the address of {twin.name} ({twin.where}.address): two hosts would be one "
                "machine, and their ports would clash unseen.",
                "give each machine one entry.",
            )
        address = ipaddress.ip_address(host.address)
        if address.version == 6:
            report.error(
                "address-ipv6",
                at,
                "the connectors listen on IPv4 only (vllm-ascend#4103, upstream's bootstrap server binds 0.0.0.0).",
                "write the IPv4 address of the host.",
            )
        if address.is_loopback and len(topology.hosts) > 1:
            report.error(
                "address-loopback",
                at,
                f"{host.address} is each host's own loopback, so the other hosts would connect to themselves.",
                "write the address that the other hosts reach.",
            )
        for name in sorted({"pd_cluster", "pd_host"} & set(map(str, host.vars))):
            report.error(
                "host-vars", f"{host.where}.vars.{name}", "would hide what the plan says.", "use another name."
            )


def check_placement(reading: Reading, topology: Topology, report: Report) -> None:
    """Every process has a host, every side an instance, every instance a name of its own."""
    placed = [
        (f"{item.where}.host", item.host) for item in (*topology.instances, topology.router, topology.master) if item
    ]
    for where, name in placed:
        if name not in topology.hosts and not reading.is_broken(f"hosts.{name}"):
            known = ", ".join(list(topology.hosts)[:20])
            report.error(
                "host-unknown",
                where,
                f"{name} is not in hosts, so it has no address.",
                suggestion(name, topology.hosts) or f"add it to hosts or name one of {known}.",
            )
    used = {name for _where, name in placed}
    # a misspelt or faulty entry may be the one that belongs there
    certain = used <= set(topology.hosts) and not reading.broken
    for host in topology.hosts.values():
        if certain and host.name not in used:
            report.warning(
                "host-unused",
                host.where,
                "nothing of the plan runs there.",
                "place something there or remove the host.",
            )
    for kind in (PREFILL, DECODE):
        if not topology.side(kind) and not reading.is_broken(kind):
            report.error(
                "side-missing",
                kind,
                f"there is no {kind} instance, so no request could be answered.",
                f"add `- {{name: {kind[0]}1, host: ...}}` to {kind}.",
            )
    first_named: dict[str, Instance] = {}
    for instance in topology.instances:
        at = f"{instance.where}.name"
        if not _INSTANCE_NAME.fullmatch(instance.name) or instance.name in _NOT_INSTANCES:
            report.error(
                "instance-name",
                at,
                f"{instance.name!r} cannot name a unit and a group.",
                "use up to 50 letters, digits and underscores, and neither router nor master.",
            )
        twin = first_named.setdefault(instance.name, instance)
        if twin is not instance:
            report.error(
                "instance-duplicate",
                at,
                f"{instance.name} is also the name of {twin.where}, so both would write the same unit.",
                "give each instance a name of its own.",
            )


def check_shapes(topology: Topology, connector: Connector, report: Report) -> None:
    ascend = connector.engine == "vllm_ascend"
    if ascend:
        for side in (topology.prefill, topology.decode):
            for instance in side[1:]:
                if (instance.tp, instance.dp) != (side[0].tp, side[0].dp):
                    report.error(
                        "shape-differs",
                        instance.where,
                        f"tp {instance.tp} dp {instance.dp} is not tp {side[0].tp} dp {side[0].dp} of {side[0].where}: "
                        f"peers are told one shape for every {instance.kind}, and one with another does not start.",
                        f"give all {instance.kind} instances the same tp and dp.",
                    )
    for decode in topology.decode[: 1 if ascend else None]:
        for prefill in topology.prefill[:1]:
            _check_tp(prefill, decode, ascend, report)
    for instance in topology.instances:
        if not ascend and instance.dp > 1:
            report.error(
                "shape-dp",
                f"{instance.where}.dp",
                "an instance of vllm_cpu is one process.",
                "set dp to 1 and add instances instead.",
            )
        if connector.hybrid and instance.kv_load_failure_policy == "recompute":
            report.error(
                "recompute-hybrid",
                f"{instance.where}.kv_load_failure_policy",
                "hybrid models do not support recompute, the engine ends with an AssertionError.",
                "use fail.",
            )


def _check_tp(prefill: Instance, decode: Instance, ascend: bool, report: Report) -> None:
    if prefill.tp % decode.tp == 0 or (not ascend and decode.tp % prefill.tp == 0):
        return
    report.error(
        "shape-tp",
        f"{decode.where}.tp",
        f"tp {decode.tp} does not fit tp {prefill.tp} of {prefill.where}: KV heads cannot be dealt out evenly, and the "
        "engine refuses the start or the first transfer.",
        "choose a decode tp that divides the prefill tp." if ascend else "choose sizes of which one divides the other.",
    )


def check_devices(topology: Topology, report: Report) -> None:
    owner: dict[tuple[str, int], Instance] = {}
    for instance in topology.instances:
        at, own = f"{instance.where}.devices", vllm_ascend.devices(instance)
        if len(own) != instance.tp * instance.dp:
            report.error(
                "devices-count",
                at,
                f"names {len(own)} devices, but tp {instance.tp} x dp {instance.dp} needs {instance.tp * instance.dp}.",
                "name one device for each rank, or change tp or dp.",
            )
        taken = [device for device in own if owner.setdefault((instance.host, device), instance) is not instance]
        if taken or len(set(own)) != len(own):
            others = sorted({owner[instance.host, device].name for device in taken}) or ["itself"]
            report.error(
                "devices-overlap",
                at,
                f"devices {', '.join(map(str, taken or own))} of {instance.host} are given to {instance.name} and "
                f"{', '.join(others)}: the later one finds no memory, or port 16666 of the device taken.",
                "give each instance devices of its own.",
            )


def check_settings(topology: Topology, connector: Connector, report: Report) -> None:
    """Nothing may be set beside the plan that the plan decides: ports, claims and peers would no longer be true."""
    engine = ENGINES[topology.engine.kind]
    _check_arguments("engine_args", topology.engine_args, report)
    _check_variables("engine_environment", topology.engine_environment, engine.PLANNED_VARIABLES, report)
    for instance in topology.instances:
        _check_arguments(f"{instance.where}.args", instance.args, report)
        planned = dict(engine.PLANNED_VARIABLES)
        host = topology.hosts.get(instance.host)
        if host and host.interface:
            planned |= dict.fromkeys(engine.INTERFACE_VARIABLES, f"{host.where}.interface")
            _check_variables(
                "engine_environment",
                topology.engine_environment,
                {k: planned[k] for k in engine.INTERFACE_VARIABLES},
                report,
            )
        _check_variables(f"{instance.where}.environment", instance.environment, planned, report)
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


def _check_arguments(where: str, arguments: Sequence[str], report: Report) -> None:
    for index, (argument, following) in enumerate(pairwise((*arguments, ""))):
        at = f"{where}[{index}]"
        name, value = vllm.spelling(argument)
        level = following if value is None else value
        if options := vllm.beginning_of(name):
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
                "remove it, and size the instance with tp and dp.",
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


def check_router(topology: Topology, connector: Connector, report: Report) -> None:
    router = topology.router
    if router is None:
        return
    speaks = ROUTER_KINDS[connector.contract]
    if router.kind not in ("auto", speaks):
        report.error(
            "router-kind",
            f"{router.where}.kind",
            f"{router.kind} does not speak the contract of {connector.name}: requests would fail, or decode would "
            "compute the prompt again.",
            f"use {speaks} or auto.",
        )
    for name in ("backend_ports", "metrics_ports"):
        ports = getattr(router, name)
        if len(ports) != len(routers.BACKENDS):
            report.error(
                "router-backends",
                f"{router.where}.{name}",
                f"names {len(ports)} ports for {len(routers.BACKENDS)} router processes, which take turns at restarts.",
                f"name {len(routers.BACKENDS)} ports.",
            )


def check_ports(processes: Sequence[Process], report: Report) -> None:
    by_host: dict[str, list[tuple[Process, Claim]]] = defaultdict(list)
    for process in processes:
        by_host[process.host] += [(process, claim) for claim in process.claims]
    for host, claims in by_host.items():
        _check_overlaps(host, claims, report)
    by_key: dict[str, Claim] = {}
    for process in processes:
        for claim in process.claims:
            known = by_key.get(claim.where)
            if claim.kind == "exact" and (known is None or claim.last > known.last):
                by_key[claim.where] = claim
    for claim in by_key.values():
        _check_range(claim, report)


def _check_overlaps(host: str, claims: Sequence[tuple[Process, Claim]], report: Report) -> None:
    order = {id(claim): index for index, (_process, claim) in enumerate(claims)}
    told: set[tuple[str, str]] = set()
    open_ranges: list[tuple[Process, Claim]] = []
    for process, claim in sorted(claims, key=lambda item: (item[1].first, item[1].last, order[id(item[1])])):
        open_ranges = [item for item in open_ranges if item[1].last >= claim.first]
        for other_process, other in open_ranges:
            if not collide(claim, other):
                continue
            # the one to move: never a pool, else the later one in the file
            pair = sorted(
                ((process, claim), (other_process, other)),
                key=lambda item: (item[1].kind != "pool", order[id(item[1])]),
            )
            (stays_process, stays), (moves_process, moves) = pair
            if (moves.where, stays.where) in told:
                continue
            told.add((moves.where, stays.where))
            moving = [item for _process, item in claims if item.where == moves.where and item.kind == "exact"]
            free = free_base(moving, [item for _process, item in claims if item not in moving])
            report.error(
                "port-overlap",
                moves.where,
                _overlap_message(host, (moves_process, moves), (stays_process, stays)),
                f"set {moves.where} to {free}, which is free on {host}."
                if free
                else "move one of them to another host.",
            )
        open_ranges.append((process, claim))


def _overlap_message(host: str, moves: tuple[Process, Claim], stays: tuple[Process, Claim]) -> str:
    (mover, own), (owner, other) = moves, stays
    head = f"{own.purpose} {own.text()} of {mover.name} on {host}"
    if other.kind == "pool":
        return (
            f"{head} lies among the ports {other.text()} that {owner.name} ({other.where}) draws from at random for "
            f"{other.purpose}: some starts would fail with 'Address already in use'."
        )
    return (
        f"{head} overlaps {other.purpose} {other.text()} of {owner.name} ({other.where}): the second to start fails "
        "with 'Address already in use' or hangs."
    )


def _check_range(claim: Claim, report: Report) -> None:
    if claim.last > MAX_PORT:
        report.error(
            "port-out-of-range",
            claim.where,
            f"leads to {claim.purpose} port {claim.last}, but ports end at {MAX_PORT}.",
            "choose a smaller one.",
        )
    elif intersects(claim, EPHEMERAL):
        report.warning(
            "port-in-ephemeral-range",
            claim.where,
            f"{claim.purpose} {claim.text()} lies in {EPHEMERAL[0]}-{EPHEMERAL[1]}, from which the kernel takes source "
            "ports: any outgoing connection can hold it when the process starts.",
            f"choose one below {NODE_PORTS[0]}, or reserve it with net.ipv4.ip_local_reserved_ports.",
        )
    elif intersects(claim, NODE_PORTS):
        report.warning(
            "port-in-nodeport-range",
            claim.where,
            f"{claim.purpose} {claim.text()} lies in {NODE_PORTS[0]}-{NODE_PORTS[1]}: on a Kubernetes node a service "
            "with this NodePort takes the traffic, though the process listens.",
            f"choose one below {NODE_PORTS[0]}, unless no host is a Kubernetes node.",
        )
