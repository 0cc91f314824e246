# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports that a process claims, and whether two claims can live on one host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_PORT = 65535
# net.ipv4.ip_local_port_range of a stock kernel (Documentation/networking/ip-sysctl.rst)
EPHEMERAL = (32768, 60999)
# kube-apiserver --service-node-port-range default; such a port is taken by NAT without any listener
NODE_PORTS = (30000, 32767)

_ANY = ("0.0.0.0", "::")


@dataclass(frozen=True)
class Claim:
    """An inclusive range of ports on an address.

    kind exact: the process takes every one of them. kind pool: it takes random ones.
    where is the key that decides the range and base that key's value: ranges of one key move together.
    held: the port stays open while the process serves (some are open during the start only).
    """

    purpose: str
    address: str
    first: int
    last: int
    kind: str
    where: str
    base: int = 0
    held: bool = True
    # how far from a given value of the key the range begins; a default may lie elsewhere
    offset: int = 0

    def as_dict(self) -> dict[str, str | int]:
        return {
            "purpose": self.purpose,
            "address": self.address,
            "first": self.first,
            "last": self.last,
            "where": self.where,
        }

    def listening(self) -> dict[str, str | int]:
        return {"purpose": self.purpose, "address": self.address, "first": self.first, "last": self.last}

    def text(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


def exact(
    purpose: str,
    address: str,
    port: int,
    where: str,
    *,
    size: int = 1,
    offset: int = 0,
    held: bool = True,
    default: int | None = None,
) -> Claim:
    """default: where the range begins as long as the key, which would be port, is not given."""
    first = port + offset if default is None else default
    return Claim(purpose, address, first, first + size - 1, "exact", where, port, held, offset)


def pool(purpose: str, ranges: Iterable[tuple[int, int]], where: str) -> tuple[Claim, ...]:
    """Pool claims on all addresses; ranges that touch become one."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(Claim(purpose, "0.0.0.0", first, last, "pool", where) for first, last in merged)


def intersects(claim: Claim, span: tuple[int, int]) -> bool:
    return claim.first <= span[1] and span[0] <= claim.last


def addresses_meet(one: Claim, other: Claim) -> bool:
    return one.address == other.address or one.address in _ANY or other.address in _ANY


def collide(one: Claim, other: Claim) -> bool:
    """Whether both cannot be claimed on the same host. Two pools share: each draws until it finds a free port."""
    return (
        "exact" in (one.kind, other.kind) and intersects(one, (other.first, other.last)) and addresses_meet(one, other)
    )


def free_base(hosts: Sequence[tuple[Sequence[Claim], Sequence[Claim]]]) -> int | None:
    """The nearest value for a key that collides with nothing: on each of its hosts, what moves with it and the rest."""
    base = hosts[0][0][0].base
    blocked: list[tuple[int, int]] = []  # values of the key that put one of its claims on a port that is taken
    low = high = 0
    for moving, others in hosts:
        for own in moving:
            first, last = own.offset, own.offset + own.last - own.first
            low, high = min(low, first), max(high, last)
            taken = [(claim.first, claim.last) for claim in others if addresses_meet(claim, own)]
            blocked += [(start - last, end - first) for start, end in (*taken, EPHEMERAL, NODE_PORTS)]

    def fits(value: int) -> bool:
        inside = value + low >= 1024 and value + high <= MAX_PORT
        return inside and not any(first <= value <= last for first, last in blocked)

    # base itself is blocked, so the nearest free value touches a blocked one
    touching = [value for first, last in blocked for value in (last + 1, first - 1)]
    return min(filter(fits, touching), key=lambda value: (abs(value - base), -value), default=None)
