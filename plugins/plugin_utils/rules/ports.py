# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No two processes of a host want the same port."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

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

Owned = tuple[Process, Claim]


def check_ports(processes: Sequence[Process], report: Report) -> None:
    by_host: dict[str, list[Owned]] = defaultdict(list)
    for process in processes:
        by_host[process.host] += [(process, claim) for claim in process.claims]
    advice = _Advice(by_host)
    told: set[tuple[str, str]] = set()
    for host, claims in by_host.items():
        for moves, stays in _overlaps(claims):
            places = (moves[1].where, stays[1].where)
            if places in told:
                continue
            told.add(places)
            report.error(
                "port-in-pool" if stays[1].kind == "pool" else "port-overlap",
                moves[1].where,
                _overlap_message(host, moves, stays),
                advice.text(moves[1].where),
            )
    by_key: dict[str, Claim] = {}
    for process in processes:
        for claim in process.claims:
            if claim.kind == "exact":
                known = by_key.setdefault(claim.where, claim)
                first, last = min(known.first, claim.first), max(known.last, claim.last)
                by_key[claim.where] = replace(known, first=first, last=last)
            elif claim.last > MAX_PORT:
                report.error(
                    "port-out-of-range",
                    claim.where,
                    f"{claim.purpose} draws from {claim.text()}, but ports end at {MAX_PORT}.",
                    "give the variable that moves it a smaller value.",
                )
    for claim in by_key.values():
        _check_range(claim, report)


def _overlaps(claims: Sequence[Owned]) -> Iterator[tuple[Owned, Owned]]:
    """Pairs that collide: the one to move, which is never a pool and else the later one in the file, and the other."""
    order = {id(claim): index for index, (_process, claim) in enumerate(claims)}
    open_ranges: list[Owned] = []
    for owned in sorted(claims, key=lambda item: (item[1].first, item[1].last, order[id(item[1])])):
        open_ranges = [item for item in open_ranges if item[1].last >= owned[1].first]
        for other in open_ranges:
            if collide(owned[1], other[1]):
                stays, moves = sorted((owned, other), key=lambda item: (item[1].kind != "pool", order[id(item[1])]))
                yield moves, stays
        open_ranges.append(owned)


class _Advice:
    """Where a key could move to. What was proposed before counts as taken, so all advice can be followed at once."""

    def __init__(self, by_host: Mapping[str, Sequence[Owned]]) -> None:
        self.by_host = {host: [claim for _process, claim in claims] for host, claims in by_host.items()}
        self.moved: dict[str, int | None] = {}
        self.given = {claim.where: claim.base for claims in self.by_host.values() for claim in claims}
        self.hosts: dict[str, list[str]] = defaultdict(list)
        for host, owned in self.by_host.items():
            for where in dict.fromkeys(claim.where for claim in owned if claim.kind == "exact"):
                self.hosts[where].append(host)

    def text(self, where: str) -> str:
        hosts = self.hosts[where]
        if where not in self.moved:
            self.moved[where] = self._move(where, hosts)
        value = self.moved[where]
        if value and value == self.given[where]:
            return "follow the other advice; what stands here is free then."
        if value and where.endswith(".args"):
            return f"write port {value} in {where}, which is free on {_names(hosts)}."
        return (
            f"set {where} to {value}, which is free on {_names(hosts)}."
            if value
            else "move one of them to another host."
        )

    def _move(self, where: str, hosts: Sequence[str]) -> int | None:
        split = [
            (
                [claim for claim in self.by_host[host] if _moves(claim, where)],
                [claim for claim in self.by_host[host] if not _moves(claim, where)],
            )
            for host in hosts
        ]
        value = free_base(split)
        if value is not None:
            for host, (moving, others) in zip(hosts, split, strict=True):
                self.by_host[host] = [*others, *(_moved(claim, value) for claim in moving)]
        return value


def _moves(claim: Claim, where: str) -> bool:
    return claim.where == where and claim.kind == "exact"


def _moved(claim: Claim, value: int) -> Claim:
    first = value + claim.offset
    return replace(claim, first=first, last=first + claim.last - claim.first, base=value)


def _names(hosts: Sequence[str]) -> str:
    return hosts[0] if len(hosts) == 1 else f"{', '.join(hosts[:-1])} and {hosts[-1]}"


# kv_port in the tutorials and examples of vLLM-Ascend, which are older than its own table of ports (at 182b75ea)
_TUTORIALS = (20001, 20002, 20050, 23010, 30000, 30100, 30200, 36000)


def _copied(claim: Claim) -> str:
    if claim.purpose == "kv" and claim.base in _TUTORIALS:
        return f" Tutorials write {claim.base} all the same."
    return ""


def _overlap_message(host: str, moves: tuple[Process, Claim], stays: tuple[Process, Claim]) -> str:
    (mover, own), (owner, other) = moves, stays
    head = f"{own.purpose} {own.text()} of {mover.name} on {host}"
    if other.kind == "pool":
        return (
            f"{head} lies among the ports {other.text()} that {owner.name} ({other.where}) draws from at random for "
            f"{other.purpose}: some starts would fail with 'Address already in use'.{_copied(own)}"
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
