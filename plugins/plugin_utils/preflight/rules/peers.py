# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way to the peers: routes, firewalls, names and proxies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import LEFT_OUT, Fleet, Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, fleet_rule, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import some

_TCP = "tcp(7): a reset proves the way; silence, unreachable and a refusal by ICMP (what firewalls send) disprove it"
_GET_IP = "https://github.com/vllm-project/vllm/issues/42023"


def _tried(peer: dict[str, Any]) -> list[dict[str, Any]]:
    """Ports whose state is known."""
    return [port for port in peer["ports"] if port["state"] is not None]


def _lost(peer: dict[str, Any]) -> bool:
    """Nothing of what was tried can be reached."""
    states = {port["state"] for port in _tried(peer)}
    return bool(states) and not states & {"open", "closed"}


@rule(
    "peer-route",
    family="network",
    about="there is a route to every peer",
    why="KV cannot move: every connection ends with 'Network is unreachable'.",
    source=_TCP,
    cases=("C-005", "C-059"),
)
def peer_route(host: Host) -> Iterator[Found]:
    lost = [peer for peer in host.each("host.peers") if peer["source"] is None]
    if lost:
        yield Found(
            what=f"there is no route to {some(peer['name'] for peer in lost)}",
            evidence=some(peer["address"] for peer in lost),
            fix="add the route, or plan addresses of one network.",
        )


@rule(
    "peer-source",
    family="network",
    severity="warning",
    about="peers are reached from the planned address",
    why="Peers see connections from an address that the plan does not know; firewalls and rank tables refuse it.",
    source=_GET_IP,
    cases=("C-005",),
)
def peer_source(host: Host) -> Iterator[Found]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for peer in host.each("host.peers"):
        if peer["source"] not in (None, host.address):
            found[peer["source"], peer["interface"]].append(peer["name"])
    for (source, interface), names in found.items():
        yield Found(
            what=f"{some(names)} would be reached from {source} ({interface}), not from {host.address}",
            fix="plan the address that the route uses, or correct the route: ip route replace ... src ADDRESS.",
        )


@fleet_rule(
    "peer-silent",
    family="network",
    about="peers answer",
    why="Decode cannot fetch KV from prefill, and a headless host cannot join its head: both wait until a timeout.",
    source=_TCP,
    cases=("C-016", "C-038", "C-059"),
)
def peer_silent(fleet: Fleet) -> Iterator[Found]:
    for host in fleet:
        # that a host is gone is told once, as host-absent
        lost = [
            peer
            for peer in host.each("host.peers")
            if peer["source"] is not None and _lost(peer) and fleet.absent.get(peer["name"], LEFT_OUT) == LEFT_OUT
        ]
        if lost:
            errors = {port["error"] or port["state"] for peer in lost for port in _tried(peer)}
            yield Found(
                host=host.name,
                what=f"{some(peer['name'] for peer in lost)} cannot be reached on any planned port",
                evidence=f"{some(peer['address'] for peer in lost)}: {some(sorted(errors))}",
                fix="open the planned ports (plan.html) between the hosts of the plan, in firewalls and switches.",
            )


@rule(
    "peer-filtered",
    family="network",
    about="no firewall closes single planned ports",
    why="The service starts and answers until the first KV has to move; then requests hang.",
    source=_TCP,
    cases=("C-016", "C-059"),
)
def peer_filtered(host: Host) -> Iterator[Found]:
    closed: dict[str, list[str]] = defaultdict(list)
    errors: dict[str, dict[str, None]] = defaultdict(dict)
    for peer in host.each("host.peers"):
        if not _lost(peer):
            for port in peer["ports"]:
                if port["state"] in ("filtered", "unreachable"):
                    named = f"{port['purpose']} {port['port']}"
                    closed[named].append(peer["name"])
                    errors[named][port["error"] or port["state"]] = None
    for port, names in closed.items():
        yield Found(
            what=f"{port} of {some(names)} cannot be reached, though other ports can",
            evidence=some(errors[port]),
            fix="open all planned ports between the hosts of the plan: plan.html lists them.",
        )


@rule(
    "peer-gateway",
    family="network",
    severity="notice",
    about="peers are in one network",
    why="KV passes a router, which may be slower than the cards and may forget idle connections.",
    source="ip-route(8)",
)
def peer_gateway(host: Host) -> Iterator[Found]:
    behind = [peer for peer in host.each("host.peers") if peer["gateway"]]
    if behind:
        yield Found(
            what=f"{some(peer['name'] for peer in behind)} are reached through a gateway",
            evidence=some({f"{peer['gateway']} ({peer['interface']})" for peer in behind}),
            fix="plan addresses of one network where there is one.",
        )


@rule(
    "firewall-active",
    family="network",
    severity="notice",
    about="a firewall, where there is one, knows the plan",
    why="Ports that are open today are closed by the next reload of its rules.",
    source="firewalld(1), ufw(8)",
    cases=("C-016",),
)
def firewall_active(host: Host) -> Iterator[Found]:
    active = host.each("host.security.firewall")
    if active:
        yield Found(
            what=f"{some(active)} is active", fix="let it know the ports of plan.html, for the hosts of the plan only."
        )


@rule(
    "name-loopback",
    family="network",
    severity="warning",
    about="the host's own name is not an address that only itself reaches",
    why="Gloo and others announce what the own name resolves to; peers then connect to themselves.",
    source="https://github.com/vllm-project/vllm/issues/7074",
    cases=("C-017",),
)
def name_loopback(host: Host) -> Iterator[Found]:
    own = host.each("host.names.own")
    if host.engine and own and all(str(address).startswith("127.") or address == "::1" for address in own):
        yield Found(
            what=f"its own name resolves to {some(own)}",
            evidence=str(host.fact("host.names.hostname")),
            fix="write the planned address beside the name in /etc/hosts, in place of 127.0.1.1.",
        )


@rule(
    "name-unresolved",
    family="network",
    severity="warning",
    about="the host knows its own name",
    why="Gloo looks its own name up and falls back to the loopback address.",
    source="https://github.com/vllm-project/vllm/issues/7074",
    cases=("C-017",),
)
def name_unresolved(host: Host) -> Iterator[Found]:
    if host.engine and host.fact("host.names.own") == []:
        yield Found(
            what="its own name does not resolve",
            evidence=str(host.fact("host.names.hostname")),
            fix="write the planned address and the name into /etc/hosts.",
        )


@fleet_rule(
    "name-twice",
    family="network",
    severity="warning",
    about="hosts have names of their own",
    why="Logs, metrics and rank tables that go by the name mix two hosts up.",
    source="hostname(7)",
)
def name_twice(fleet: Fleet) -> Iterator[Found]:
    named: dict[str, list[str]] = defaultdict(list)
    for host in fleet:
        if host.fact("host.names.hostname"):
            named[host.fact("host.names.hostname")].append(host.name)
    for name, hosts in named.items():
        if len(hosts) > 1:
            yield Found(what=f"{some(hosts)} are all called {name}", fix="hostnamectl set-hostname NAME on each.")


@rule(
    "proxy",
    family="network",
    severity="warning",
    about="units send traffic inside the cluster through no proxy",
    why="Health checks and KV metadata of peers end at the proxy with 403 or 503.",
    source="https://github.com/sgl-project/sglang/issues/9155; httpx knows no ranges in no_proxy, curl since 7.86",
    cases=("C-034",),
)
def proxy(host: Host) -> Iterator[Found]:
    unit = {entry["name"]: entry["value"] for entry in host.each("host.proxies") if entry["where"] == "unit"}
    asked = [name for name in unit if name.lower() in ("http_proxy", "all_proxy")]
    if not asked:
        return
    exempt = {
        part.strip() for name, value in unit.items() if name.lower() == "no_proxy" for part in str(value).split(",")
    }
    addresses = {host.address, *(peer["address"] for peer in host.each("host.peers"))}
    missing = sorted(addresses - exempt)
    if missing and "*" not in exempt:
        yield Found(
            what=f"units get {some(asked)}, and no_proxy does not name {some(missing)}",
            evidence=some(f"{name}={value}" for name, value in unit.items()),
            fix="take it out of DefaultEnvironment (/etc/systemd/system.conf) or the drop-in, or name all in no_proxy.",
        )


@rule(
    "somaxconn",
    family="network",
    severity="warning",
    about="many clients may connect at once",
    why="Connections of a burst are dropped and tried again after a second: it looks like a slow first token.",
    source="Documentation/networking/ip-sysctl.rst of Linux: 4096 since 5.4, 128 before",
)
def somaxconn(host: Host) -> Iterator[Found]:
    value = host.sysctl("net.core.somaxconn")
    if value and int(value) < 1024:
        yield Found(
            what=f"{value} connections may wait to be accepted",
            fix="sysctl -w net.core.somaxconn=4096 (and in /etc/sysctl.d).",
        )


@fleet_rule(
    "neighbours",
    family="network",
    severity="warning",
    about="the kernel can remember all hosts of the fleet",
    why="Beyond the limit it forgets neighbours ('neighbour table overflow'), and connections stall at random.",
    source="arp(7), gc_thresh3",
)
def neighbours(fleet: Fleet) -> Iterator[Found]:
    all_hosts = len(fleet.hosts) + len(fleet.absent)
    for host in fleet:
        most = host.sysctl("net.ipv4.neigh.default.gc_thresh3")
        if most and int(most) < 1.5 * all_hosts:
            yield Found(
                host=host.name,
                what=f"{most} neighbours are remembered, the plan has {all_hosts} hosts",
                fix="sysctl -w net.ipv4.neigh.default.gc_thresh3=16384 (and gc_thresh1, gc_thresh2 below it).",
            )


@rule(
    "reverse-path",
    family="network",
    severity="warning",
    about="answers may take another interface than requests",
    why="With strict filtering a host with several cards drops what comes in on the other one, without a word.",
    source="Documentation/networking/ip-sysctl.rst of Linux (rp_filter)",
)
def reverse_path(host: Host) -> Iterator[Found]:
    strict = host.sysctl("net.ipv4.conf.all.rp_filter") == "1"
    elsewhere = [peer["name"] for peer in host.each("host.peers") if peer["source"] not in (None, host.address)]
    if strict and elsewhere:
        yield Found(
            what=f"reverse path filtering is strict, and {some(elsewhere)} would be reached from another address",
            fix="sysctl -w net.ipv4.conf.all.rp_filter=2, or mend the route.",
        )
