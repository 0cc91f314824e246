# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules that send TCP connections somewhere else, whoever wrote them down: which ports of this host do they catch?"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

Span = tuple[int, int]
EVERY: tuple[Span, ...] = ((1, 65535),)
_DEPTH = 16
_MOST = 20000  # visits; a host with more NAT rules than that is told in part
# libnetwork; netavark; the portmap plugin of CNI (containerd, nerdctl, CRI-O, older podman)
_RUNTIMES = {"DOCKER": "docker", "docker-bridges": "docker", "NETAVARK": "podman", "netavark": "podman", "CNI": "cni"}
# of containerd behind the name of its namespace
_CONTAINER = re.compile(r"\bid:\s*\\*\"?(?:[\w.]+-)?([0-9a-f]{12,64})\b")


@dataclass(frozen=True)
class Rule:
    """One rule of a chain: what it can catch, and what it does with it."""

    jump: str = ""  # the chain it goes on in
    to: str = ""  # where it sends the connection
    tcp: bool = True  # it can catch TCP
    ports: tuple[Span, ...] = EVERY
    address: str = ""  # the destination, an address or a network; empty: any
    comment: str = ""


@dataclass(frozen=True)
class Redirection:
    by: str  # iptables, nftables, ipvs
    chain: str  # the one that names the port
    address: Optional[str]
    first: int
    last: int
    to: str
    path: tuple[str, ...] = ()  # chains from the hook on
    comment: str = ""

    @property
    def kubernetes(self) -> bool:
        return any(name.startswith("KUBE-") or name == "kube-proxy" for name in self.path)

    @property
    def runtime(self) -> Optional[str]:
        """The container runtime whose chain it is."""
        for name in self.path:
            known = _RUNTIMES.get(name) or _RUNTIMES.get(name.partition("-")[0])
            if known:
                return known
        return None

    @property
    def container(self) -> Optional[str]:
        match = _CONTAINER.search(self.comment)
        return match.group(1)[:12] if match else None

    def as_dict(self) -> dict[str, object]:
        return {
            "by": self.by,
            "chain": self.chain,
            "address": self.address,
            "first": self.first,
            "last": self.last,
            "to": self.to,
            "kubernetes": self.kubernetes,
        }


def common(some: Sequence[Span], others: Sequence[Span]) -> tuple[Span, ...]:
    return tuple((max(a, c), min(b, d)) for a, b in some for c, d in others if max(a, c) <= min(b, d))


def but(spans: Iterable[Span]) -> tuple[Span, ...]:
    """All other ports."""
    left: list[Span] = []
    begin = 1
    for first, last in sorted(spans):
        if first > begin:
            left.append((begin, first - 1))
        begin = max(begin, last + 1)
    return tuple([*left, (begin, 65535)] if begin <= 65535 else left)


def is_here(network: str, local: Collection[str]) -> bool:
    """Whether one of the host's addresses lies in it; what is not understood may."""
    if not network or network in local:
        return True
    try:
        wanted = ipaddress.ip_network(network, strict=False)
    except ValueError:
        return True
    if wanted.num_addresses == 1:
        return str(wanted.network_address) in local
    return any(ipaddress.ip_address(one) in wanted for one in local)


@dataclass(frozen=True)
class _Step:
    chain: str
    ports: tuple[Span, ...] = EVERY
    address: str = ""
    named: str = ""  # the chain that named the ports
    path: tuple[str, ...] = ()
    comment: str = ""


def walk(
    by: str, rules: Callable[[str], Iterable[Rule]], starts: Iterable[str], local: Collection[str], table: str = ""
) -> list[Redirection]:
    """Everything that a connection to one of the local addresses can meet, beginning with the chains of the hooks."""
    steps = [_Step(start, path=(table,) if table else ()) for start in starts]
    found: dict[tuple[object, ...], Redirection] = {}
    seen: set[_Step] = set()
    while steps and len(seen) < _MOST:
        step = steps.pop()
        if step in seen or len(step.path) > _DEPTH:
            continue
        seen.add(step)
        for rule in rules(step.chain):
            for item in _onward(by, step, rule, local):
                if isinstance(item, _Step):
                    steps.append(item)
                else:
                    found.setdefault((item.chain, item.address, item.first, item.last), item)
    return sorted(found.values(), key=lambda item: (item.first, item.last, item.chain, item.address or ""))


def _onward(by: str, step: _Step, rule: Rule, local: Collection[str]) -> Iterator[_Step | Redirection]:
    ports = common(step.ports, rule.ports)
    if not rule.tcp or not ports or not is_here(rule.address, local):
        return
    address = rule.address or step.address
    named = step.named if rule.ports == EVERY else step.named or step.chain
    path = (*step.path, step.chain)
    comment = rule.comment or step.comment
    if rule.jump:
        yield _Step(rule.jump, ports, address, named, path, comment)
    if rule.to:
        for first, last in ports:
            yield Redirection(by, named or step.chain, address or None, first, last, rule.to, path, comment)
