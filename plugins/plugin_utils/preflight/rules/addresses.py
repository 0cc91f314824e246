# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planned address and the interface that has it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from ipaddress import ip_interface
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Fleet, Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.odd import odd_ones
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, fleet_rule, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import some

_GET_IP = "https://github.com/vllm-project/vllm/issues/42023; Mooncake and vLLM announce the address they are told"
_SYSFS = "Documentation/ABI/testing/sysfs-class-net of Linux"
_VIRTUAL = ("bridge", "veth", "tun", "loopback")


def own_interface(host: Host) -> dict[str, Any] | None:
    """The interface with the planned address."""
    for interface in host.each("host.interfaces"):
        if any(entry["address"] == host.address for entry in interface["addresses"]):
            return dict(interface)
    return None


def _own(host: Host, key: str) -> Any:
    return (own_interface(host) or {}).get(key)


@rule(
    "address-absent",
    family="network",
    about="the planned address is one of the host",
    why="Every process binds it and announces it: none of them could start.",
    source=_GET_IP,
    cases=("C-005",),
)
def address_absent(host: Host) -> Iterator[Found]:
    interfaces = host.fact("host.interfaces")
    if interfaces and own_interface(host) is None:
        addresses = [
            f"{entry['address']} ({interface['name']})"
            for interface in interfaces
            for entry in interface["addresses"]
            if entry["family"] == 4 and interface["kind"] != "loopback"
        ]
        yield Found(
            what=f"{host.address} is no address of this host",
            evidence=f"it has {some(addresses) or 'none'}",
            fix="correct hosts.<name>.address in the topology, or give the address to the interface.",
        )


@rule(
    "interface-absent",
    family="network",
    about="the planned interface is there",
    why="HCCL, Gloo and the transport are told to use it and end at the start.",
    source="https://github.com/vllm-project/vllm/pull/10492",
    cases=("C-005",),
)
def interface_absent(host: Host) -> Iterator[Found]:
    interfaces, planned = host.fact("host.interfaces"), host.plan.get("interface")
    if planned and interfaces and planned not in {interface["name"] for interface in interfaces}:
        yield Found(
            what=f"there is no interface {planned}",
            evidence=f"there are {some((i['name'] for i in interfaces if i['kind'] != 'loopback'), 8)}",
            fix="correct hosts.<name>.interface in the topology.",
        )


@rule(
    "interface-other",
    family="network",
    about="the planned address lies on the planned interface",
    why="Ranks announce the address of one and listen on the other: they hang in 'wait socket establish timeout'.",
    source="https://github.com/vllm-project/vllm/pull/10492",
    cases=("C-005",),
)
def interface_other(host: Host) -> Iterator[Found]:
    planned, own = host.plan.get("interface"), own_interface(host)
    known = {interface["name"] for interface in host.each("host.interfaces")}
    if planned in known and own and own["name"] != planned:
        yield Found(
            what=f"{host.address} lies on {own['name']}, not on {planned}",
            fix="correct hosts.<name>.interface or hosts.<name>.address in the topology.",
        )


@rule(
    "interface-down",
    family="network",
    about="the interface with the planned address is up",
    why="The address can be bound, and nothing reaches it.",
    source=_SYSFS,
    cases=("C-005",),
)
def interface_down(host: Host) -> Iterator[Found]:
    own = own_interface(host)
    if own and (not own["up"] or own["carrier"] is False):
        yield Found(
            what=f"{own['name']} is {'down' if not own['up'] else 'up and has no carrier'}",
            fix="ip link set dev NAME up; without carrier look at the cable and the port of the switch.",
        )


@rule(
    "interface-virtual",
    family="network",
    severity="warning",
    about="the planned address lies on a card that peers reach",
    why="Bridges of containers and tunnels have the same addresses on every host, or lead elsewhere.",
    source="https://github.com/kvcache-ai/Mooncake/issues/1115",
    cases=("C-005", "C-051"),
)
def interface_virtual(host: Host) -> Iterator[Found]:
    own = own_interface(host)
    # a host that is a container has one end of a veth for its card
    if own and own["kind"] in _VIRTUAL and host.fact("host.containers.inside") is None:
        yield Found(
            what=f"{host.address} lies on {own['name']}, a {own['kind']}",
            fix="plan the address of a card (or bond) that all peers reach.",
        )


@rule(
    "bond-degraded",
    family="network",
    severity="warning",
    about="all members of the bond are up",
    why="KV moves with half the bandwidth, and the next cable takes the host away.",
    source="Documentation/networking/bonding.rst of Linux",
)
def bond_degraded(host: Host) -> Iterator[Found]:
    own = own_interface(host)
    if not own or own["kind"] != "bond":
        return
    members = {entry["name"]: entry for entry in host.each("host.interfaces") if entry["name"] in own["members"]}
    down = [name for name, entry in members.items() if not entry["up"] or entry["carrier"] is False]
    if down:
        yield Found(
            what=f"{some(down)} of {own['name']} {'is' if len(down) == 1 else 'are'} down",
            fix="look at cable, optic and switch port.",
        )


@rule(
    "subnet-shared",
    family="network",
    severity="warning",
    about="one interface only lies in the subnet of the planned address",
    why="The kernel answers ARP on any of them and may send from the other, from an address that peers do not expect.",
    source="Documentation/networking/ip-sysctl.rst of Linux (arp_ignore, arp_announce)",
    cases=("C-005",),
)
def subnet_shared(host: Host) -> Iterator[Found]:
    own = own_interface(host)
    if own is None:
        return
    networks = {
        ip_interface(f"{entry['address']}/{entry['prefix']}").network
        for entry in own["addresses"]
        if entry["address"] == host.address
    }
    beside = [
        interface["name"]
        for interface in host.each("host.interfaces")
        if interface["name"] != own["name"]
        and any(
            ip_interface(f"{entry['address']}/{entry['prefix']}").network in networks
            for entry in interface["addresses"]
            if entry["family"] == 4
        )
    ]
    ignore, announce = (host.sysctl(f"net.ipv4.conf.all.arp_{name}") for name in ("ignore", "announce"))
    if beside and not (ignore in ("1", "2") and announce == "2"):
        yield Found(
            what=f"{some(beside)} {'has' if len(beside) == 1 else 'have'} an address in the subnet of {own['name']}",
            fix="sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2, or use one subnet each.",
        )


@fleet_rule(
    "address-twice",
    family="network",
    about="planned addresses are on one host only",
    why="Which of the two answers changes with every ARP reply: KV goes to the wrong host.",
    source="RFC 5227",
    cases=("C-005",),
)
def address_twice(fleet: Fleet) -> Iterator[Found]:
    planned = {host.address: host.name for host in fleet}
    for host in fleet:
        for interface in host.each("host.interfaces"):
            for entry in interface["addresses"]:
                owner = planned.get(entry["address"])
                if owner and owner != host.name:
                    yield Found(
                        host=host.name,
                        what=f"{interface['name']} has {entry['address']}, which the plan gives to {owner}",
                        fix="take the address off one of them; when both names are one machine, correct the topology.",
                    )


@fleet_rule(
    "mtu-differs",
    family="network",
    severity="warning",
    about="all hosts have one MTU",
    why="Small messages pass and large ones hang: the first requests are answered, then transfers time out.",
    source="https://github.com/kvcache-ai/Mooncake/issues/1766",
    cases=("C-059",),
)
def mtu_differs(fleet: Fleet) -> Iterator[Found]:
    for odd in odd_ones(fleet, lambda host: _own(host, "mtu")):
        yield Found(
            host=odd.host,
            what=f"MTU is {odd.value}; {odd.like_it} other(s) have {odd.usual}",
            fix="give all interfaces of this network, and the switch ports between them, one MTU.",
        )


@fleet_rule(
    "speed-differs",
    family="network",
    severity="warning",
    about="all engine hosts have links of one speed",
    why="KV moves as fast as the slower end; a link that came up with less is a bad cable more often than not.",
    source=_SYSFS,
)
def speed_differs(fleet: Fleet) -> Iterator[Found]:
    for odd in odd_ones(fleet.engines, lambda host: _own(host, "speed")):
        yield Found(
            host=odd.host,
            what=f"the link has {odd.value} Mb/s; {odd.like_it} other(s) have {odd.usual}",
            fix="look at cable, optic and switch port (ethtool NAME).",
        )


@fleet_rule(
    "interface-differs",
    family="network",
    severity="notice",
    about="interfaces are called alike",
    why="A name that is set for all hosts fits the odd one only by chance.",
    source="https://github.com/vllm-project/vllm/pull/10492",
)
def interface_differs(fleet: Fleet) -> Iterator[Found]:
    unnamed = [host for host in fleet.engines if not host.plan.get("interface")]
    for odd in odd_ones(unnamed, lambda host: _own(host, "name")):
        yield Found(
            host=odd.host,
            what=f"the interface is {odd.value}; {odd.like_it} other(s) have {odd.usual}",
            fix="name the interface of every host in the topology (hosts.<name>.interface).",
        )


@fleet_rule(
    "host-twice",
    family="network",
    about="hosts of the plan are machines of their own",
    why="Two names for one machine take the same NPUs, ports and memory twice.",
    source="random(4), boot_id",
)
def host_twice(fleet: Fleet) -> Iterator[Found]:
    machines: dict[str, list[str]] = defaultdict(list)
    for host in fleet:
        boot = host.fact("host.kernel.boot_id")
        # containers share the kernel of their machine, and its boot
        if boot and host.fact("host.containers.inside") is None:
            machines[boot].append(host.name)
    for names in machines.values():
        if len(names) > 1:
            yield Found(
                what=f"{some(names)} are one machine", fix="write each machine once under hosts of the topology."
            )
