# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as text for a terminal of 110 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.report import words
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.document import Document, summary

WIDTH = 110
# with more hosts than this, those that are alike are shown as one
APART = 32

_GAP = 2
_MOST = {"process": 24, "role": 30, "devices": 12, "unit": 34}
_LEAST_PORTS = 24
_UNIT_ENDING = ".service"
_SIDES = {"pull": "decode pulls", "push": "prefill pushes"}


@dataclass(frozen=True)
class Line:
    text: str
    style: str = "plain"  # title | host | plain | dim | warning


@dataclass(frozen=True)
class _Row:
    process: str
    role: str
    devices: str
    ports: tuple[str, ...]
    unit: str


@dataclass(frozen=True)
class _Block:
    head: str
    rows: tuple[_Row, ...]
    pools: tuple[str, ...]


def lines(content: Document, apart: int = APART) -> list[Line]:
    blocks = [_block(content, names) for names in words.alike(content, apart)]
    return [
        *_heading(content),
        Line(""),
        *_hosts(blocks),
        Line(""),
        *_start_order(content),
        *_findings("WARNINGS", content["warnings"], content),
        *_findings("WAIVED", content["waived"], content),
        *_choices(content["choices"]),
    ]


def text(content: Document, apart: int = APART) -> str:
    return "\n".join(line.text for line in lines(content, apart)) + "\n"


def overview(content: Document) -> list[str]:
    """What is planned, in a few short statements; the page shows them too."""
    cluster, count = content["cluster"], summary(content)
    connector, engine = cluster["connector"], cluster["engine"]
    hardware = cluster["hardware"]
    sides = []
    for kind in ("prefill", "decode"):
        shapes = dict.fromkeys(words.sizes(item) for item in cluster["instances"] if item["kind"] == kind)
        sides.append(f"{count[kind]} {kind} ({', '.join(shapes)})")
    sizes = [_counted(count["hosts"], "host"), *sides, _counted(count["processes"], "process", "processes")]
    if count["devices"]:
        sizes.append(f"{_counted(count['devices'], 'NPU')}{' ' + hardware['generation'] if hardware else ''}")
    router = cluster["router"]
    return [
        f"{engine['kind']} {engine['version']}, mooncake {cluster['mooncake']['version']}, "
        f"model {cluster['model']['served_name']}",
        f"{connector['name']} over {connector['protocol']}: {_SIDES[connector['transfer']]}, "
        f"{connector['binds']} listens",
        ", ".join(sizes),
        f"clients: {router['address']}:{router['port']} on {router['host']}"
        if router
        else "clients: there is no router",
    ]


def place(finding: dict[str, Any], content: Document) -> str:
    source = PurePath(content["cluster"]["source"]).name
    line = finding.get("line")
    return f"{source}{f':{line}' if line else ''} {finding['where']}"


def gathered(choices: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Choices that differ in their place only, as one: prefill[0].kv_port and prefill[1].kv_port."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for choice in choices:
        key = str(choice["where"]).rpartition(".")[2]
        groups.setdefault((key, str(choice["value"]), str(choice["why"])), []).append(str(choice["where"]))
    return [
        {"where": words.listing(where, 3), "value": value, "why": why} for (_key, value, why), where in groups.items()
    ]


def _heading(content: Document) -> Iterator[Line]:
    yield Line(f"PLAN {content['cluster']['name']}", "title")
    for statement in overview(content):
        yield from (Line(f"  {part}") for part in textwrap.wrap(statement, WIDTH - 2))


def _block(content: Document, names: Sequence[str]) -> _Block:
    hosts = [content["hosts"][name] for name in names]
    first = hosts[0]
    head = f"{first['name']}  {first['address']}"
    if len(hosts) > 1:
        head = f"{words.listing(names)}  {first['address']} .. {hosts[-1]['address']}  {len(hosts)} hosts alike"
    rows = []
    for same in zip(*(words.rows(host["processes"]) for host in hosts), strict=True):
        row = same[0]
        rows.append(
            _Row(
                process=words.listing([process["name"] for each in same for process in each], 1),
                role=words.row_role(row),
                devices=words.numbers(device for process in row for device in process["devices"]),
                ports=tuple(words.said(port) for port in words.ports(row, first["address"])),
                unit=_unit(row) if len(hosts) == 1 else "",
            )
        )
    pools = tuple(words.said(port) for port in words.pools(first))
    return _Block(head, tuple(rows), pools)


def _unit(row: Sequence[dict[str, Any]]) -> str:
    """As systemctl takes it; no other instance has a name that goes on after the dash."""
    unit: str = row[0]["unit"]["name"].removesuffix(_UNIT_ENDING)
    return unit if len(row) == 1 else f"'{unit.rpartition('-')[0]}-*'"


def _hosts(blocks: Sequence[_Block]) -> Iterator[Line]:
    rows = [row for block in blocks for row in block.rows]
    # a column that nothing stands in is left out
    wide = {name: min(max((len(getattr(row, name)) for row in rows), default=0), most) for name, most in _MOST.items()}
    wide = {name: max(size, len(name)) for name, size in wide.items() if size}
    taken = sum(size + _GAP for size in wide.values()) + 2
    wide = {name: size for name, size in wide.items() if name != "unit"} | {
        "ports": max(WIDTH - taken, _LEAST_PORTS),
        **({"unit": wide["unit"]} if "unit" in wide else {}),
    }
    yield Line(_cells({name: name.upper() for name in wide}, wide), "dim")
    for block in blocks:
        yield Line(block.head, "host")
        for row in block.rows:
            yield from (Line(part) for part in _row(row, wide))
        if block.pools:
            before = "  drawn from  "
            told = textwrap.wrap("  ".join(block.pools), WIDTH - len(before))
            yield from (Line((before if n == 0 else " " * len(before)) + part, "dim") for n, part in enumerate(told))
        if not block.rows:
            yield Line("  nothing of the plan runs here", "dim")


def _row(row: _Row, wide: dict[str, int]) -> Iterator[str]:
    """One line, or more when the ports need them; what is longer than its column pushes the rest to the right."""
    filled = [""]
    for port in row.ports:
        longer = f"{filled[-1]}  {port}" if filled[-1] else port
        if len(longer) <= wide["ports"]:
            filled[-1] = longer
        else:
            filled.append(port)
    yield _cells({**vars(row), "ports": filled[0]}, wide)
    yield from (_cells({"ports": part}, wide) for part in filled[1:])


def _cells(values: dict[str, Any], wide: dict[str, int]) -> str:
    return "  " + (" " * _GAP).join(f"{values.get(name, ''):<{size}}" for name, size in wide.items()).rstrip()


def _start_order(content: Document) -> Iterator[Line]:
    yield Line("START ORDER, each proven ready before the next", "title")
    for wave in content["start_order"]:
        members = wave["members"]
        hosts = list(dict.fromkeys(host for member in members for host in member["hosts"]))
        if len(members) <= 4 and len(hosts) > 1:
            told = "  ".join(f"{member['name']} ({words.listing(member['hosts'], 4)})" for member in members)
        else:
            told = f"{words.listing([member['name'] for member in members])} on {words.listing(hosts)}"
        yield from _hanging(f"  {wave['wave']} {wave['name']:<8} ", told)


def _findings(title: str, findings: Sequence[dict[str, Any]], content: Document) -> Iterator[Line]:
    if not findings:
        return
    style = "warning" if title == "WARNINGS" else "plain"
    yield Line("")
    yield Line(f"{title} ({len(findings)})", "title")
    for finding in findings:
        yield Line(f"  {place(finding, content)} [{finding['rule']}]", style)
        yield from _hanging("    ", finding["message"])
        if "reason" in finding:
            yield from _hanging("    Waived: ", finding["reason"])
        else:
            yield from _hanging("    Mend: ", finding["fix"])


def _choices(choices: Sequence[dict[str, Any]]) -> Iterator[Line]:
    if not choices:
        return
    yield Line("")
    yield Line(f"CHOSEN BY THE PLAN ({len(choices)}); what topology.yml says wins", "title")
    for choice in gathered(choices):
        yield from _hanging(f"  {choice['where']} = {choice['value']}  ", choice["why"], indent=6)


def _hanging(before: str, told: str, indent: int | None = None) -> Iterator[Line]:
    rest = " " * (len(before) if indent is None else indent)
    parts = textwrap.wrap(told, WIDTH, initial_indent=before, subsequent_indent=rest, break_on_hyphens=False)
    yield from (Line(part) for part in parts or [before.rstrip()])


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def joined(told: Iterable[Line]) -> list[Line]:
    """Neighbours of one style as one line of several: a terminal is written to in fewer calls."""
    found: list[Line] = []
    for line in told:
        if found and found[-1].style == line.style:
            found[-1] = Line(f"{found[-1].text}\n{line.text}", line.style)
        else:
            found.append(line)
    return found
