# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices of all hosts, where the plan moves KV by RDMA: transfers go from any to any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import rdma as view
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Fleet
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, fleet_rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import some

_GID_SOURCE = "rdma_context.cpp@v0.3.11.post1; rdma_gid_probe.h@v0.3.12"


def _odd(values: Mapping[str, Hashable]) -> list[str | None]:
    """Hosts whose value is not that of most; None where there is no such value."""
    counts = Counter(values.values()).most_common()
    if len(counts) < 2:
        return []
    if counts[0][1] == counts[1][1]:
        return [None]
    return [host for host, value in values.items() if value != counts[0][0]]


def _by_value(values: Mapping[str, Any]) -> str:
    hosts: dict[str, list[str]] = {}
    for host, value in values.items():
        hosts.setdefault(str(value), []).append(host)
    return "; ".join(f"{value}: {some(names)}" for value, names in hosts.items())


@fleet_rule(
    "rdma-link-layer-mixed",
    family="rdma",
    about="all RDMA ports have the same link layer",
    why="Mooncake takes any pair of adapters, and Ethernet does not reach InfiniBand.",
    source="Topology::selectDevice, topology.cpp@v0.3.11.post1",
    cases=("C-011",),
)
def rdma_link_layer_mixed(fleet: Fleet) -> Iterator[Found]:
    layers = {f"{host.name} {port}": port["link_layer"] for host in fleet for port in view.active_ports(host)}
    layers = {place: layer for place, layer in layers.items() if layer}
    if len(set(layers.values())) > 1:
        yield Found(
            what=f"RDMA ports are mixed: {some(sorted(set(layers.values())))}",
            evidence=_by_value(layers),
            fix="name the devices of one kind in MC_TE_FILTERS (engine_environment, Mooncake from 0.3.12 on), or as"
            " device_name of the connector.",
        )


@fleet_rule(
    "rdma-gid-kind-differs",
    family="rdma",
    about="all hosts take GIDs of the same IP version",
    why="A GID of an IPv4 address does not reach one of an IPv6 address: 'Failed to modify QP to RTR'.",
    source=_GID_SOURCE,
    cases=("C-011",),
)
def rdma_gid_kind_differs(fleet: Fleet) -> Iterator[Found]:
    kinds: dict[str, str] = {}
    for host in fleet:
        gids = [view.taken(host, port) for port in view.active_ports(host) if port.roce]
        seen = {
            "IPv4" if gid["address"] else "IPv6"
            for gid in gids
            if gid and gid["type"] == view.V2 and not view.is_link_local(gid)
        }
        if seen:
            kinds[host.name] = " and ".join(sorted(seen))
    if len(set(kinds.values())) > 1 or any("and" in kind for kind in kinds.values()):
        for name in _odd(kinds) or [None]:
            yield Found(
                host=name,
                what="GIDs of IPv4 and of IPv6 addresses are mixed",
                evidence=_by_value(kinds),
                fix="give every adapter an address of the same kind, or set MC_GID_INDEX (environment of the instance)"
                " to entries of one kind.",
            )


@fleet_rule(
    "rdma-gid-index-differs",
    family="rdma",
    severity="notice",
    about="the index of the GID is the same everywhere",
    why="No single MC_GID_INDEX would be right; NCCL_IB_GID_INDEX, which engines set for themselves, counts as one.",
    source="config.cpp@v0.3.6",
    cases=("C-011",),
)
def rdma_gid_index_differs(fleet: Fleet) -> Iterator[Found]:
    indexes: dict[str, str] = {}
    for host in fleet:
        ports = (
            [] if view.gid_indexes(host) else [port for port in view.active_ports(host) if port.roce and port["chosen"]]
        )
        if ports:
            indexes[host.name] = some(sorted({port["chosen"]["index"] for port in ports}), 8)
    if len(set(indexes.values())) > 1 or any("," in text for text in indexes.values()):
        yield Found(
            what="the index of the GID is not the same on all adapters",
            evidence=_by_value(indexes),
            fix="set neither MC_GID_INDEX nor NCCL_IB_GID_INDEX for all; Mooncake chooses by itself.",
        )


@fleet_rule(
    "rdma-mtu-differs",
    family="rdma",
    about="all RDMA ports send with the same MTU",
    why="Each side of a connection uses its own; the smaller side drops what is larger: small requests work, large ones"
    " hang.",
    source="attr.path_mtu, rdma_endpoint.cpp@v0.3.12",
    cases=("C-011", "C-059"),
)
def rdma_mtu_differs(fleet: Fleet) -> Iterator[Found]:
    mtus: dict[str, tuple[int, ...]] = {}
    for host in fleet:
        given = [view.as_number(text) for _name, text in view.values(host, "MC_MTU")]
        limit = min([mtu for mtu in given if mtu in view.MTUS[:-1]], default=view.MTUS[0])
        used = {min(port["active_mtu"], limit) for port in view.active_ports(host) if port["active_mtu"]}
        if used:
            mtus[host.name] = tuple(sorted(used))
    seen = {mtu for used in mtus.values() for mtu in used}
    if len(seen) > 1:
        smallest = max(min(seen), 512)
        evidence = _by_value({name: some(used) for name, used in mtus.items()})
        for name in _odd(mtus) or [None]:
            yield Found(
                host=name,
                what=f"RDMA ports send with different MTUs ({some(sorted(seen))})",
                evidence=evidence,
                fix=f"give all interfaces the same MTU, or set MC_MTU={smallest} (engine_environment).",
            )


@fleet_rule(
    "rdma-rate-differs",
    family="rdma",
    severity="warning",
    about="all RDMA ports have the same rate",
    why="Transfers between two hosts are as fast as the slower one, and the slowest host sets the time to first token.",
    source="`rate` of /sys/class/infiniband/*/ports/*",
)
def rdma_rate_differs(fleet: Fleet) -> Iterator[Found]:
    rates = {host.name: tuple(sorted({p["rate"] for p in view.active_ports(host) if p["rate"]})) for host in fleet}
    rates = {name: told for name, told in rates.items() if told}
    seen = {rate for told in rates.values() for rate in told}
    if len(seen) > 1:
        evidence = _by_value({name: some(f"{rate:g} Gb/s" for rate in told) for name, told in rates.items()})
        for name in _odd(rates) or [None]:
            yield Found(
                host=name,
                what=f"RDMA ports have different rates ({some(f'{rate:g}' for rate in sorted(seen))} Gb/s)",
                evidence=evidence,
                fix="look at cables, transceivers and the speed of the switch's ports (`ethtool`, `ibstat`), or name"
                " devices of one rate in MC_TE_FILTERS.",
            )


@fleet_rule(
    "rdma-count-differs",
    family="rdma",
    severity="warning",
    about="hosts of a kind have the same number of active RDMA ports",
    why="A host with fewer adapters moves KV more slowly than its like, and the fleet waits for it.",
    source="Topology::selectDevice, topology.cpp@v0.3.11.post1",
)
def rdma_count_differs(fleet: Fleet) -> Iterator[Found]:
    for kind in ("prefill", "decode"):
        counts = {
            host.name: len(view.active_ports(host))
            for host in fleet
            if kind in host.kinds and host.each("rdma.devices")
        }
        for name in _odd(counts):
            yield Found(
                host=name,
                what=f"{kind} hosts have different numbers of active RDMA ports",
                evidence=_by_value(counts),
                fix="look for adapters that are missing or down (`rdma link`), or plan hosts of the same make.",
            )


@fleet_rule(
    "rdma-firmware-differs",
    family="rdma",
    severity="notice",
    about="adapters of the same make have the same firmware",
    why="Faults of one firmware look like faults of single hosts.",
    source="fw_ver and board_id of /sys/class/infiniband/*",
)
def rdma_firmware_differs(fleet: Fleet) -> Iterator[Found]:
    boards: dict[str, dict[str, str]] = {}
    for host in fleet:
        for device in view.devices_of(host):
            if device["board"] and device["firmware"]:
                boards.setdefault(device["board"], {})[f"{host.name} {device['name']}"] = device["firmware"]
    for board, versions in boards.items():
        if len(set(versions.values())) > 1:
            yield Found(
                what=f"adapters {board} have different firmware ({some(sorted(set(versions.values())))})",
                evidence=_by_value(versions),
                fix="bring all of them to the same firmware.",
            )
