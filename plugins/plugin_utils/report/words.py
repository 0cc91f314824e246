# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the parts of a plan are said in few words; the table and the page say them alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.report.document import Document

Span = tuple[int, int]

_ANY = ("0.0.0.0", "::")
_MOST_ROWS = 4  # processes of an instance on one host that are shown apart
_SERVICES = {
    "etcd": "etcd",
    "master": "Mooncake master",
    "store": "Mooncake store node",
    "router": "router",
    "frontend": "front door",
    "supervisor": "supervisor",
}


def span(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


def merged(ranges: Iterable[Span]) -> list[Span]:
    """Sorted; ranges that overlap or touch become one."""
    found: list[Span] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def spans(ranges: Iterable[Span]) -> str:
    return ",".join(span(*each) for each in merged(ranges))


def numbers(values: Iterable[int]) -> str:
    return spans((value, value) for value in values)


def listing(names: Sequence[str], most: int = 8) -> str:
    """Names in their order, three and more that count up as first..last: npu1..npu8 gpu."""
    runs: list[list[str]] = []
    at = None
    for name in names:
        step = _counts_up(runs[-1][-1], name) if runs else None
        if step is not None and (at is None or at == step):
            runs[-1].append(name)
            at = step
        else:
            runs.append([name])
            at = None
    words = [word for run in runs for word in ([f"{run[0]}..{run[-1]}"] if len(run) > 2 else run)]
    more = len(words) - most
    return " ".join(words if more <= 1 else [*words[:most], f"and {more} more"])


def _counts_up(one: str, other: str) -> int | None:
    """Which number of a name is one more in the other, when nothing else differs."""
    ours, theirs = re.split(r"(\d+)", one), re.split(r"(\d+)", other)
    differing = [index for index, (left, right) in enumerate(zip(ours, theirs, strict=False)) if left != right]
    if len(ours) != len(theirs) or len(differing) != 1:
        return None
    left, right = ours[differing[0]], theirs[differing[0]]
    # the odd parts are the numbers; a leading zero makes 009 and 010 neighbours but not 9 and 010
    grows = differing[0] % 2 == 1 and str(int(left) + 1).zfill(len(left)) == right
    return differing[0] if grows else None


def role(process: dict[str, Any]) -> str:
    kind: str = process["kind"]
    if kind in _SERVICES:
        return _SERVICES[kind]
    part, ranks = process["role"], process["ranks"]
    if part is None:
        return kind
    counted = f"rank{'s' if len(ranks) > 1 else ''} {numbers(ranks)}"
    return f"{kind} {counted}" if part == "rank" else f"{kind} {part}, {counted}"


def rows(processes: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """What is shown in one row: a process, or all of an instance when it has many on the host."""
    together: dict[str, list[dict[str, Any]]] = {}
    for process in processes:
        together.setdefault(process["instance"] or process["name"], []).append(process)
    return [
        row
        for group in together.values()
        for row in ([group] if len(group) > _MOST_ROWS else [[process] for process in group])
    ]


def row_role(row: Sequence[dict[str, Any]]) -> str:
    if len(row) == 1:
        return role(row[0])
    return f"{row[0]['kind']} ranks {numbers(rank for process in row for rank in process['ranks'])}"


def sizes(instance: dict[str, Any]) -> str:
    """The sizes that are not 1: dp 2 tp 8."""
    shape = instance["shape"]
    told = (f"{name} {shape[name]}" for name in ("dp", "tp", "pp", "pcp", "dcp") if shape[name] != 1)
    return " ".join(told) or "tp 1"


def at(claim: dict[str, Any], address: str) -> str:
    """What stands before a port: nothing for the host's own address, * for all of them."""
    if claim["address"] in _ANY:
        return "*:"
    return "" if claim["address"] == address else f"{claim['address']}:"


def ports(processes: Iterable[dict[str, Any]], address: str) -> list[tuple[str, str, list[Span]]]:
    """(purpose, what stands before the port, ranges) of the claims, merged over the processes."""
    found: dict[tuple[str, str], list[Span]] = {}
    for process in processes:
        for claim in process["claims"]["ports"]:
            found.setdefault((claim["purpose"], at(claim, address)), []).append((claim["first"], claim["last"]))
    return [(purpose, before, merged(ranges)) for (purpose, before), ranges in found.items()]


def pools(host: dict[str, Any]) -> list[tuple[str, str, list[Span]]]:
    """Where the processes of a host draw ports from, in the same form."""
    found: dict[str, list[Span]] = {}
    for item in host["pools"]:
        found.setdefault(item["purpose"], []).append((item["first"], item["last"]))
    return [(purpose, "", merged(ranges)) for purpose, ranges in found.items()]


def said(port: tuple[str, str, list[Span]]) -> str:
    purpose, before, ranges = port
    return f"{purpose} {before}{spans(ranges)}"


def alike(content: Document, apart: int) -> list[list[str]]:
    """Hosts in the order of the file, those that differ in names and addresses only as one group.

    Up to `apart` hosts each one is a group of its own.
    """
    hosts = content["hosts"]
    if len(hosts) <= apart:
        return [[name] for name in hosts]
    groups: dict[Any, list[str]] = {}
    for name, host in hosts.items():
        groups.setdefault(_likeness(host), []).append(name)
    return list(groups.values())


def _likeness(host: dict[str, Any]) -> tuple[Any, ...]:
    """Also which of its processes belong together, but not how they are called."""
    instances = list(dict.fromkeys(process["instance"] for process in host["processes"]))
    rows = (
        (
            role(process),
            process["instance"] and instances.index(process["instance"]),
            tuple(process["devices"]),
            tuple(said(port) for port in ports([process], host["address"])),
        )
        for process in host["processes"]
    )
    return (host["chips"], tuple(said(port) for port in pools(host)), *rows)
