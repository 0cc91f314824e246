# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planned ports as spans: what of them lies where, and how the kernel is told to leave them alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from operator import itemgetter

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host

Span = tuple[int, int]
SYSCTL_FILE = "/etc/sysctl.d/90-mooncake-pd.conf"
HCCL = "hccl"  # purpose of the pool of host ports that HCCL listens on

_ANY = ("0.0.0.0", "::")
_NARROW = 64  # ports of an entry that is found by its first one; wider ones are few


@dataclass(frozen=True)
class Planned:
    """What a process takes for sure, or (process empty) what is drawn from at random."""

    purpose: str
    address: str
    span: Span
    process: str = ""
    where: str = ""

    def named(self, span: Span | None = None) -> str:
        ports = text(span or self.span)
        if not self.process:
            return f"{self.purpose} {ports}"
        return f"{self.purpose} {ports} of {self.process}" + (f" ({self.where})" if self.where else "")


def claims(host: Host) -> Iterator[Planned]:
    for process in host.processes:
        for claim in process["claims"]["ports"]:
            span = (claim["first"], claim["last"])
            yield Planned(claim["purpose"], claim["address"], span, process["name"], claim.get("where") or "")


def pools(host: Host) -> Iterator[Planned]:
    for pool in host.plan.get("pools") or ():
        yield Planned(pool["purpose"], "0.0.0.0", (pool["first"], pool["last"]))


def text(span: Span) -> str:
    return f"{span[0]}" if span[0] == span[1] else f"{span[0]}-{span[1]}"


def common(one: Span, other: Span) -> Span | None:
    first, last = max(one[0], other[0]), min(one[1], other[1])
    return (first, last) if first <= last else None


def size(spans: Iterable[Span]) -> int:
    return sum(last - first + 1 for first, last in spans)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Sorted; those that touch become one."""
    made: list[Span] = []
    for first, last in sorted(spans):
        if made and first <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(last, made[-1][1]))
        else:
            made.append((first, last))
    return made


def without(span: Span, others: Iterable[Span]) -> list[Span]:
    left = []
    first = span[0]
    for begin, end in merged(others):
        if end < first or begin > span[1]:
            continue
        if begin > first:
            left.append((first, begin - 1))
        first = end + 1
    return [*left, (first, span[1])] if first <= span[1] else left


def ephemeral(host: Host) -> Span | None:
    given = host.fact("ports.ephemeral")
    return (given[0], given[1]) if given else None


def reserved(host: Host) -> list[Span]:
    return [(span[0], span[1]) for span in host.each("ports.reserved")]


def exposed(host: Host, span: Span) -> list[Span]:
    """What of the span the kernel may hand out as source ports."""
    among = ephemeral(host)
    inside = common(span, among) if among and host.fact("ports.reserved") is not None else None
    return without(inside, reserved(host)) if inside else []


def reservation(host: Host) -> str:
    """The line that keeps the kernel off every planned port of this host, with what is reserved already."""
    planned = [*claims(host), *pools(host)]
    new = [span for one in planned for span in exposed(host, one.span)]
    value = ",".join(text(span) for span in merged([*reserved(host), *new]))
    return f"net.ipv4.ip_local_reserved_ports = {value}"


def severity(host: Host) -> str | None:
    """A notice where the role host reserves the ports before anything starts."""
    return "notice" if host.fact("host.settings.reserves_ports") else None


def reserve(host: Host) -> str:
    if host.fact("host.settings.reserves_ports"):
        return f"nothing: prepare.yml reserves it. By hand: `{reservation(host)}` in {SYSCTL_FILE}."
    return f"reserve it: write `{reservation(host)}` to {SYSCTL_FILE} and run `sysctl -p {SYSCTL_FILE}`."


def catches(address: str | None, planned: str) -> bool:
    """Whether something for this address (or network, or for all: None) gets connections to the planned one."""
    if address is None or address == planned:
        return True
    six = ":" in planned
    if address in _ANY or planned in _ANY:
        return (":" in address) is six or planned == "::"
    try:
        return ip_address(planned) in ip_network(address, strict=False)
    except ValueError:
        return False


def meeting(planned: Iterable[Planned], entries: Sequence[Mapping[str, object]]) -> Iterator[tuple[Planned, Span, int]]:
    """Each planned range with each entry (address, first and last or port) that gets some of its connections."""
    found = []
    for index, entry in enumerate(entries):
        first = int(str(entry.get("first", entry.get("port"))))
        found.append((first, int(str(entry.get("last", entry.get("port")))), index))
    narrow = sorted(item for item in found if item[1] - item[0] < _NARROW)
    wide = [item for item in found if item[1] - item[0] >= _NARROW]
    for one in planned:
        begin = bisect_left(narrow, (one.span[0] - _NARROW,))
        end = bisect_left(narrow, (one.span[1] + 1,))
        for first, last, index in sorted([*narrow[begin:end], *wide], key=itemgetter(2)):
            inside = common(one.span, (first, last))
            address = entries[index]["address"]
            if inside and catches(None if address is None else str(address), one.address):
                yield one, inside, index
