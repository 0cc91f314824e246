# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM-Ascend.

External data parallelism: one process for each rank, each with its own API port and devices. Internal: one process for
each host; the first host has the API for all, the others are headless.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils import choices as ports_of
from ansible_collections.mooncake.pd.plugins.plugin_utils import layout, mooncake, store, supervisor
from ansible_collections.mooncake.pd.plugins.plugin_utils.choices import Choice
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import (
    BESIDE,
    OWN_ENGINE_ID_UNTIL,
    Connector,
    joins_store,
    lookup_key,
    pools,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm
from ansible_collections.mooncake.pd.plugins.plugin_utils.layout import Part
from ansible_collections.mooncake.pd.plugins.plugin_utils.numbers import whole
from ansible_collections.mooncake.pd.plugins.plugin_utils.options.extra import DIRECT_OF_OLD, asks_for_direct
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import Claim, exact, pool
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Endpoint, LogLine, Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import (
    DECODE,
    PREFILL,
    Companion,
    Instance,
    Topology,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.table import (
    ABORT_VARIABLES,
    abort_variable,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

# HCCL on the host: HCCL_IF_BASE_PORT and 15 more (hiascend documentation)
_HCCL_BASE, _HCCL_COUNT = 60000, 16
# "Starting listening on path: tcp://" up to 0.20, "KVCacheSendingThread started listening on path: tcp://" and
# "KVCacheRecvingLayerThread listening on tcp://" since 0.21.0rc1; one for each worker of the side that binds
_LISTENING = r"listening on (path: )?tcp://"
# vllm/entrypoints/cli/serve.py
_HEADLESS = LogLine(
    r"Launching \d+ data parallel engine\(s\) in headless mode",
    text="Launching data parallel engine(s) in headless mode",
)
# vllm/v1/engine/core.py; comes after the handshake with the head. The time behind it is spelt in several ways.
_ENGINE_UP = LogLine(
    r"init engine \(profile, create kv cache, warmup model\) took", text="init engine (profile, ...) took"
)

UNUSED_KEYS = ("bootstrap_port",)
# no program reads it
GROUP_VARIABLE = "MOONCAKE_PD_GROUP"
PLANNED_VARIABLES = {
    **vllm.RELEASE_VARIABLES,
    GROUP_VARIABLE: "dp and hosts",
    "VLLM_HOST_IP": "hosts.<name>.address",
    "HCCL_IF_IP": "hosts.<name>.address",
    "ASCEND_RT_VISIBLE_DEVICES": "devices",
    **dict.fromkeys(ABORT_VARIABLES, "abort_timeout"),
}
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME")


def kv_port(topology: Topology, instance: Instance) -> int:
    return instance.kv_port or ports_of.kv_port(instance, _drawn(topology, instance)).value


def choices(topology: Topology, instance: Instance) -> tuple[Choice, ...]:
    chosen = []
    if instance.api_port is None:
        chosen.append(ports_of.api_port(instance, layout.lowest_device(instance)))
    if instance.kv_port is None:
        chosen.append(ports_of.kv_port(instance, _drawn(topology, instance)))
    if instance.dp_rpc_port is None and instance.dp > 1:
        chosen.append(ports_of.dp_rpc_port(instance, _drawn(topology, instance)))
    if instance.group_port is None and len(instance.places) > 1:
        chosen.append(ports_of.group_port(instance, _drawn(topology, instance)))
    return tuple(chosen)


def _drawn(topology: Topology, instance: Instance) -> list[tuple[int, int]]:
    """Where Mooncake and HCCL may take ports on a host that is full of NPUs."""
    environment = {**topology.engine_environment, **instance.environment}
    release = topology.mooncake.version
    return [
        mooncake.rpc_span(release, environment),
        *mooncake.adxl_spans(release, environment, range(ports_of.MOST_DEVICES)),
        *_hccl_spans(environment),
        *_store_spans(topology, instance.kind, environment),
    ]


def _hccl_spans(environment: Mapping[str, str]) -> list[tuple[int, int]]:
    """A list of ranges wins over a base; auto lets the kernel choose (hiascend documentation)."""
    ranges = re.findall(r"(\d{1,5})(?:-(\d{1,5}))?", environment.get("HCCL_HOST_SOCKET_PORT_RANGE", ""))
    if ranges:
        return [(int(first), int(last or first)) for first, last in ranges]
    base = whole(environment.get("HCCL_IF_BASE_PORT", "")) or _HCCL_BASE
    return [(base, base + _HCCL_COUNT - 1)]


def _store_spans(topology: Topology, kind: str, environment: Mapping[str, str]) -> list[tuple[int, int]]:
    """Clients of Mooncake's store, one for each worker of a pool."""
    return [mooncake.store_span(environment)] if joins_store(topology, kind) else []


@dataclass(frozen=True)
class _Group:
    """What all processes of an instance share. An instance has up to hundreds, so it is found out once."""

    topology: Topology
    instance: Instance
    connector: Connector
    parts: tuple[Part, ...]
    head: tuple[str, int]  # address and API port of the first rank
    kv_port: int
    dp_rpc_port: int
    transfer: str
    arguments: tuple[str, ...]
    shared: Mapping[str, str]


def processes(topology: Topology, instance: Instance, connector: Connector) -> tuple[Process, ...]:
    parts = layout.parts(topology, instance)
    if not parts:
        return ()
    first = topology.hosts.get(parts[0].host)
    port = kv_port(topology, instance)
    group = _Group(
        topology,
        instance,
        connector,
        parts,
        # the host of a faulty topology may not be known
        head=(first.address if first else parts[0].host, _api_port(instance, parts[0])),
        kv_port=port,
        dp_rpc_port=instance.dp_rpc_port or ports_of.dp_rpc_port(instance, _drawn(topology, instance)).value,
        transfer=vllm.json_text(_transfer(topology, instance, connector, port)),
        arguments=vllm.arguments(topology, instance),
        shared=vllm.shared_environment(topology),
    )
    made = tuple(_process(group, part) for part in parts if part.host in topology.hosts)
    if len(parts) == 1:
        return made
    meeting = instance.group_port or ports_of.group_port(instance, _drawn(topology, instance)).value
    return (*supervisor.members(_bound_together(made)), *supervisor.processes(topology, instance, made, meeting))


def _bound_together(processes: tuple[Process, ...]) -> tuple[Process, ...]:
    """What changes in one process of a group makes all units of it others, for the group can only start as one."""
    content = vllm.json_text([[process.argv, process.environment] for process in processes])
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    return tuple(
        replace(process, environment=dict(sorted({**process.environment, GROUP_VARIABLE: digest}.items())))
        for process in processes
    )


def _process(group: _Group, part: Part) -> Process:
    topology, instance = group.topology, group.instance
    address = topology.hosts[part.host].address
    environment = vllm.environment(topology, instance, _planned(topology, instance, group.connector, part))
    role = _role(topology, instance, part)
    listen = None if role == "headless" else (address, _api_port(instance, part))
    arguments = _arguments(group, role)
    several = len(group.parts) > 1
    index = part.ranks[0] if role == "rank" else part.node
    return Process(
        name=f"{instance.name}-{index}" if several else instance.name,
        kind=instance.kind,
        host=part.host,
        instance=instance.name,
        where=instance.where,
        description=f"vLLM-Ascend {instance.kind} {instance.name}{_suffix(role, index, several)} of {topology.name}",
        argv=vllm.command(topology, listen, group.transfer, _sizes(group, part, role), arguments),
        environment=environment,
        timeout_stop=vllm.stop_timeout(topology),
        claims=_claims(group, part, role, environment),
        lines=_lines(group, part, role, arguments),
        # a host without an API serves when the head does, which waits for all ranks
        health=vllm.health(*(listen or group.head)),
        role=role,
        ranks=part.ranks,
        devices=part.devices,
        endpoint=Endpoint(*listen) if listen else None,
        shared=group.shared,
        files=store.files(topology, instance, group.connector, part.host),
        pool=store.share(topology, instance, len(part.ranks)),
    )


def _role(topology: Topology, instance: Instance, part: Part) -> str:
    if layout.external(topology, instance) or instance.dp == 1:
        return "rank"
    return "head" if part.node == 0 else "headless"


def _suffix(role: str, index: int, several: bool) -> str:
    if role == "rank":
        return f" rank {index}" if several else ""
    return f" {role}{f' {index}' if index else ''}"


def _arguments(group: _Group, role: str) -> tuple[str, ...]:
    if role == "headless":
        return vllm.without_api_servers(group.arguments)
    if role == "head" and vllm.api_servers(group.arguments) is None:
        # vLLM would start one API server for each rank
        return ("--api-server-count", "1", *group.arguments)
    return group.arguments


def _api_port(instance: Instance, part: Part) -> int:
    if instance.api_port is not None:
        return instance.api_port + part.first_local
    # a rank without devices is told elsewhere; it must not look like a clash of ports as well
    lowest = min(part.devices, default=layout.lowest_device(instance) + part.first_local)
    return ports_of.api_port(instance, lowest).value


def _planned(topology: Topology, instance: Instance, connector: Connector, part: Part) -> dict[str, str]:
    host = topology.hosts[part.host]
    planned = {
        "VLLM_HOST_IP": host.address,
        "HCCL_IF_IP": host.address,
        "ASCEND_RT_VISIBLE_DEVICES": ",".join(map(str, part.devices)),
        abort_variable(topology.engine.version, topology.connector.name): str(topology.abort_timeout),
    }
    planned |= vllm.hash_seed(topology, instance) | store.environment(topology, instance, connector, part.host)
    if host.interface:
        planned |= dict.fromkeys(INTERFACE_VARIABLES, host.interface)
    return planned


def _sizes(group: _Group, part: Part, role: str) -> tuple[str, ...]:
    instance = group.instance
    options = ["--tensor-parallel-size", str(instance.tp)]
    for option, size in (
        ("--pipeline-parallel-size", instance.pp),
        ("--prefill-context-parallel-size", instance.pcp),
        ("--decode-context-parallel-size", instance.dcp),
    ):
        if size > 1:
            options += [option, str(size)]
    if instance.dp > 1:
        options += ["--data-parallel-size", str(instance.dp)]
        if role == "rank":
            options += ["--data-parallel-rank", str(part.ranks[0])]
        else:
            options += ["--data-parallel-size-local", str(len(part.ranks))]
        if role == "headless":
            options += ["--data-parallel-start-rank", str(part.ranks[0]), "--headless"]
        options += ["--data-parallel-address", group.head[0], "--data-parallel-rpc-port", str(group.dp_rpc_port)]
    return tuple(options)


def _lines(group: _Group, part: Part, role: str, arguments: tuple[str, ...]) -> tuple[LogLine, ...]:
    # without the second one, a headless process would count as ready before it has met the head
    lines = [_HEADLESS, _ENGINE_UP] if role == "headless" else [vllm.api_ready(arguments)]
    if group.instance.kind == group.connector.binds:
        workers = len(part.ranks) * layout.workers(group.instance)
        lines.append(LogLine(_LISTENING, workers, "KV thread listening"))
    return tuple(lines)


def _transfer(topology: Topology, instance: Instance, connector: Connector, port: int) -> dict[str, Any]:
    version = topology.engine.version
    named: dict[str, Any] = {"kv_port": port}
    if instance.engine_id or not at_least(version, OWN_ENGINE_ID_UNTIL):
        named["engine_id"] = instance.engine_id or instance.name
    module = connector.module(version)
    if module:
        named["kv_connector_module_path"] = module
    config = vllm.transfer_config(topology, instance, **named, kv_connector_extra_config=_extra_config(topology))
    beside = [item for item in topology.connector.also if item.serves(instance.kind)]
    return vllm.multi_connector(config, [_companion(item, instance, version) for item in beside])


def _extra_config(topology: Topology) -> dict[str, Any]:
    """Both sides name the shapes of both sides; the engine compares its own with its command line."""
    extra = dict(topology.connector.extra_config)
    if asks_for_direct(topology.connector.name, topology.engine.version):
        extra.setdefault(DIRECT_OF_OLD, True)
    for kind, side in ((PREFILL, topology.prefill), (DECODE, topology.decode)):
        if not side:
            continue
        sizes = {"dp_size": side[0].dp, "tp_size": side[0].tp}
        if side[0].pp > 1:
            sizes["pp_size"] = side[0].pp
        given = extra.pop(kind, {})
        extra[kind] = {**(given if isinstance(given, Mapping) else {}), **sizes}
    return extra


def _companion(companion: Companion, instance: Instance, version: str) -> dict[str, Any]:
    known = BESIDE.get(companion.name)
    extra = dict(companion.extra_config)
    if pools(companion):
        extra.setdefault(lookup_key(version), str(layout.lowest_device(instance)))
    role = "kv_both" if known and known.both_roles else vllm.role(instance.kind)
    return {"kv_connector": companion.name, "kv_role": role, "kv_connector_extra_config": extra}


def _claims(group: _Group, part: Part, role: str, environment: Mapping[str, str]) -> tuple[Claim, ...]:
    topology, instance = group.topology, group.instance
    address, where = topology.hosts[part.host].address, instance.where
    release = topology.mooncake.version
    claims = []
    if role != "headless":
        base = group.head[1]
        port = None if instance.api_port else _api_port(instance, part)
        claims.append(exact("api", address, base, f"{where}.api_port", offset=part.first_local, default=port))
    if instance.kind == group.connector.binds:
        claims.append(_kv_claim(group, part, address))
    if instance.dp > 1 and part.leads:
        # open only while the ranks of the group find each other
        claims.append(exact("dp-rpc", address, group.dp_rpc_port, f"{where}.dp_rpc_port", held=False))
    claims += vllm.kv_event_claims(group.arguments, part.ranks[0], len(part.ranks), f"{where}.args")
    claims += mooncake.adxl_pool(release, environment, part.devices, f"{where}.devices")
    claims += mooncake.rpc_pool(release, environment, where)
    claims += pool("hccl", _hccl_spans(environment), where)
    claims += pool("store-client", _store_spans(topology, instance.kind, environment), where)
    return tuple(claims)


def _kv_claim(group: _Group, part: Part, address: str) -> Claim:
    """One port for each worker. The ranks of a host follow each other, so their ports do."""
    numbering = group.connector.numbering(group.topology.engine.version)
    width = layout.width(group.instance, numbering.counts)
    first = part.ranks[0] if numbering.global_ranks else part.first_local
    return exact(
        "kv",
        address,
        group.kv_port,
        f"{group.instance.where}.kv_port",
        size=len(part.ranks) * width,
        offset=first * width,
    )
