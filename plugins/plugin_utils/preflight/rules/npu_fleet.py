# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NPUs of all hosts together: what has to be equal, and what no two may have."""

from __future__ import annotations

import ipaddress
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import npu as view
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Fleet, Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.odd import odd_ones
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, fleet_rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import GIB, some

_DOCS = "docs/source/tutorials/features/pd_disaggregation_mooncake_multi_node.md@182b75ea of vllm-ascend"
_SKEW = "https://github.com/vllm-project/vllm-ascend/issues/10224"
_VERSIONS = "Prefill and decode exchange KV through libraries of both; nobody tries out such mixtures."
Place = tuple[str, int]  # host, chip
_SHOWN = 2  # of the others that have the same


@dataclass(frozen=True)
class Same:
    rule: str
    what: str
    value: Callable[[Host], Hashable]
    fix: str
    why: str
    source: str
    severity: str = "warning"
    cases: tuple[str, ...] = ()


def _memory(host: Host) -> str | None:
    totals = {chip["hbm_total"] for chip in view.chips(host) if chip["hbm_total"]}
    return " and ".join(f"{round(total / GIB)} GiB" for total in sorted(totals)) or None


def _mtu(host: Host) -> int | None:
    """Where KV goes by RoCE: the MTU of most of its ports."""
    values = Counter(port["mtu"] for port in view.ports(host) if port.get("mtu"))
    return int(values.most_common(1)[0][0]) if values and view.roce_between(host) else None


def _netmask(host: Host) -> str | None:
    values = Counter(port["netmask"] for port in view.ports(host) if port.get("netmask"))
    return str(values.most_common(1)[0][0]) if values and view.roce_between(host) else None


def _superpod(host: Host) -> int | None:
    pods = Counter(entry["superpod"] for entry in host.each("npu.superpod") if entry["superpod"] is not None)
    return pods.most_common(1)[0][0] if pods and not view.roce_between(host) else None


_SAME = (
    Same(
        "npu-generation-differs",
        "generation of the NPUs",
        lambda host: host.fact("npu.generation"),
        "serve with hosts of one generation.",
        "KV is not exchanged between generations.",
        "docs/source/developer_guide/Design_Documents/disaggregated_prefill.md@182b75ea of vllm-ascend",
        "error",
    ),
    Same(
        "npu-superpod-differs",
        "superpod",
        _superpod,
        "take hosts of one superpod, or let KV go by RoCE (HCCL_INTRA_ROCE_ENABLE=1 for all instances).",
        "HCCS ends at the superpod: 'halMemImportFromShareableHandleV2 failed', 'sdid:0xffffffff'.",
        "FAQ of HIXL (cann/hixl, issue 105)",
        "error",
        ("C-089",),
    ),
    Same(
        "npu-driver-differs",
        "version of the driver",
        lambda host: host.fact("npu.driver.version"),
        "install one version of the driver on all hosts.",
        _VERSIONS,
        _SKEW,
        cases=("C-090",),
    ),
    Same(
        "npu-firmware-differs",
        "version of the firmware",
        lambda host: host.fact("npu.firmware.version"),
        "install the firmware that belongs to the driver on all hosts.",
        "Driver and firmware are released together; one of these hosts has a pair that nobody tried.",
        _SKEW,
        cases=("C-090",),
    ),
    Same(
        "npu-cann-differs",
        "version of CANN",
        view.cann,
        "install one release of CANN on all hosts.",
        _VERSIONS,
        _SKEW,
        cases=("C-090",),
    ),
    Same(
        "npu-smi-differs",
        "version of npu-smi",
        lambda host: host.fact("npu.tool.version"),
        "install one version of the driver's tools on all hosts.",
        "It comes with the driver, so a part of an installation is of another time.",
        _SKEW,
        "notice",
        ("C-037", "C-090"),
    ),
    Same(
        "npu-memory-differs",
        "memory of the NPUs",
        _memory,
        "set --gpu-memory-utilization and sizes for the smallest, or serve with equal hosts.",
        "What fits on one host does not fit on the other.",
        "mooncake.pd",
        "notice",
    ),
    Same(
        "npu-mtu-differs",
        "MTU of the NPUs' ports",
        _mtu,
        "set it equal on all hosts: `hccn_tool -i N -mtu -s size <size>`.",
        "Small requests pass and large ones hang.",
        "https://github.com/kvcache-ai/Mooncake/issues/1766",
        cases=("C-059",),
    ),
    Same(
        "npu-netmask-differs",
        "netmask of the NPUs",
        _netmask,
        "set it equal on all hosts: `hccn_tool -i N -ip -s address <address> netmask <mask>`.",
        "One side thinks that it needs a gateway to the other, which answers directly; some rails fail.",
        _DOCS,
        "error",
    ),
)


def _check(same: Same) -> Callable[[Fleet], Iterator[Found]]:
    def check(fleet: Fleet) -> Iterator[Found]:
        for odd in odd_ones(fleet.ascend, same.value):
            what = f"{same.what} is {odd.value}; {odd.like_it} other(s) have {odd.usual}"
            yield Found(host=odd.host, what=what, fix=same.fix)

    return check


for _same in _SAME:
    fleet_rule(
        _same.rule,
        family="npu",
        severity=_same.severity,
        about=f"hosts with NPUs have the same {_same.what}",
        why=_same.why,
        source=_same.source,
        cases=_same.cases,
    )(_check(_same))


@fleet_rule(
    "npu-tls-differs",
    family="npu",
    about="the TLS switch is the same for all NPUs of the service",
    why="NPUs with another switch do not connect to each other: 'Getting socket times out' (EI0006).",
    source=f"{_DOCS}; https://github.com/vllm-project/vllm-ascend/issues/1955",
)
def npu_tls_differs(fleet: Fleet) -> Iterator[Found]:
    by_host = {host.name: view.with_fact(view.ports(host), "tls", lambda value: True) for host in fleet.ascend}
    values = Counter(value for chips in by_host.values() for value in chips.values())
    if len(values) < 2:
        return
    # of two halves the one that is off is usual: it is what the guides ask for
    usual = max(values, key=lambda value: (values[value], -value))
    for name, chips in by_host.items():
        odd = [number for number, value in chips.items() if value != usual]
        if odd:
            whole = "every chip" if len(odd) == len(chips) else view.told(odd)
            yield Found(
                host=name,
                what=f"the TLS switch of {whole} is {1 - usual}, of most NPUs of the service it is {usual}",
                evidence=f"{values[1 - usual]} NPUs with {1 - usual}, {values[usual]} with {usual}",
                fix=f"set it for these NPUs: `hccn_tool -i N -tls -s enable {usual}`, and tls_enable_N in"
                " /etc/hccn.conf.",
            )


def _twice(places: Iterable[tuple[Hashable, Place]]) -> Iterator[tuple[Any, list[Place]]]:
    by_key: dict[Hashable, dict[Place, None]] = defaultdict(dict)
    for key, place in places:
        by_key[key][place] = None
    for key, found in by_key.items():
        if len(found) > 1:
            yield key, list(found)


def _tell_twice(doubles: Iterable[tuple[Any, list[Place]]], name: str, fix: str) -> Iterator[Found]:
    """One finding for each host that has some."""
    by_host: dict[str, dict[int, str]] = defaultdict(dict)
    for key, places in doubles:
        shown = key[-1] if isinstance(key, tuple) else key
        first = places[: _SHOWN + 1]  # a copied file makes one key of thousands of places
        for place in places:
            others = [f"chip {chip} of {host}" for host, chip in first if (host, chip) != place][:_SHOWN]
            rest = len(places) - 1 - len(others)
            more = f" and {rest} more" if rest else ""
            by_host[place[0]][place[1]] = f"chip {place[1]}: {shown}, as {', '.join(others)}{more}"
    for host, chips in by_host.items():
        yield Found(
            host=host,
            what=f"{name} of {view.told(chips)} {'is' if len(chips) == 1 else 'are'} there twice in the service",
            evidence=some(chips.values()),
            fix=fix,
        )


@fleet_rule(
    "npu-address-twice",
    family="npu",
    about="no two NPUs have the same address",
    why="KV goes to whichever of them answers first, or to none.",
    source="mooncake.pd; copied /etc/hccn.conf",
    cases=("C-014",),
)
def npu_address_twice(fleet: Fleet) -> Iterator[Found]:
    places = (
        (port["address"], (host.name, port["id"]))
        for host in fleet.ascend
        for port in view.ports(host)
        if port.get("address")
    )
    fix = "give every NPU an address of its own: `hccn_tool -i N -ip -s address <address> netmask <mask>`."
    yield from _tell_twice(_twice(places), "the address", fix)


@fleet_rule(
    "npu-vnic-twice",
    family="npu",
    about="no two NPUs of a superpod have the same virtual address",
    why="HCCS brings KV to one of them only.",
    source=_DOCS,
    cases=("C-089",),
)
def npu_vnic_twice(fleet: Fleet) -> Iterator[Found]:
    places = []
    for host in fleet.ascend:
        # another superpod may count from the same number
        pods = {entry["chip"]: entry["superpod"] for entry in host.each("npu.superpod")}
        places += [
            ((pods.get(port["id"]), port["vnic"]), (host.name, port["id"]))
            for port in view.ports(host)
            if port.get("vnic")
        ]
    fix = "look which host has joined the superpod with a number that another has (server index of spod-info)."
    yield from _tell_twice(_twice(places), "the virtual address", fix)


@fleet_rule(
    "npu-sdid-twice",
    family="npu",
    about="every NPU of a superpod has a number (SDID) of its own",
    why="Memory of a peer is found by it: 'invalid host device id', 'halMemImportFromShareableHandleV2 failed'.",
    source="FAQ of HIXL (cann/hixl, issue 105)",
    cases=("C-089",),
)
def npu_sdid_twice(fleet: Fleet) -> Iterator[Found]:
    places = (
        ((entry["superpod"], entry["sdid"]), (host.name, entry["chip"]))
        for host in fleet.ascend
        for entry in host.each("npu.superpod")
        if entry["sdid"] is not None
    )
    fix = "the superpod's management gives these numbers: two of its servers have one server index."
    yield from _tell_twice(_twice(places), "the SDID", fix)


@fleet_rule(
    "npu-subnet-differs",
    family="npu",
    severity="notice",
    about="NPUs that exchange KV by RoCE are in one network, or have a gateway",
    why="Across networks every packet goes by the gateway; without one the peers are not reached.",
    source=_DOCS,
)
def npu_subnet_differs(fleet: Fleet) -> Iterator[Found]:
    hosts = [host for host in fleet.ascend if view.roce_between(host)]
    networks = {host.name: _networks(host) for host in hosts}
    rails: dict[int, Counter[str]] = defaultdict(Counter)
    for chips in networks.values():
        for number, network in chips.items():
            rails[number][network] += 1
    for host in hosts:
        odd = {n: net for n, net in networks[host.name].items() if net != rails[n].most_common(1)[0][0]}
        if not odd:
            continue
        gateways = {port["id"]: port.get("gateway") for port in view.ports(host)}
        without = [number for number in odd if gateways.get(number) == ""]
        first = min(odd)
        yield Found(
            host=host.name,
            what=f"{view.told(odd)} {view.are(odd)} in another network than those of the other hosts"
            + (f", and {view.told(without)} {'has' if len(without) == 1 else 'have'} no gateway" if without else ""),
            evidence=f"chip {first}: {odd[first]}; of the others: {rails[first].most_common(1)[0][0]}",
            fix="put the NPUs of all hosts into one network, or see to gateways and routes between them"
            " (`hccn_tool -i N -gateway -s gateway <address>`).",
            severity="error" if without else None,
        )


def _networks(host: Host) -> Mapping[int, str]:
    found = {}
    for port in view.ports(host):
        try:
            network = ipaddress.ip_network(f"{port['address']}/{port['netmask']}", strict=False)
        except ValueError:  # unknown or empty
            continue
        found[port["id"]] = str(network)
    return found
