# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status as text for one screen: a line for each instance, then what is wrong."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import names
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report.words import counted, one_line
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.table import WIDTH, Line
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.document import Document
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.problem import ERROR, age

# Styles of lines: title | good | bad | notice | plain | dim
APART = 12  # with more instances than this, those that are alike are shown as one
MOST_ROWS = 24
MOST_PROBLEMS = 12  # groups of them
FILE = "status.json"

_GAP = 2
_SAME = 3  # different sentences of a group that are shown
_WIDEST = 24  # names and hosts
_COLUMNS = {
    "instance": "INSTANCE",
    "kind": "KIND",
    "hosts": "HOSTS",
    "up": "UP",
    "health": "HEALTH",
    "router": "ROUTER",
    "version": "VERSION",
    "load": "RUN/WAIT",
    "kv": "KV",
    "tokens": "KV IN",
    "since": "UP FOR",
    "plan": "PLAN",
}
_SERVICES = {
    "instance": "SERVICE",
    "kind": "KIND",
    "hosts": "HOST",
    "up": "STATE",
    "health": "HEALTH",
    "since": "UP FOR",
    "plan": "PLAN",
}

Row = dict[str, str]


def lines(content: Document, every: bool = False) -> list[Line]:
    return [
        _head(content),
        *_instances(content, every),
        *_services(content),
        *_left_out(content),
        *_problems([each for each in content["problems"] if each["severity"] == ERROR], "WRONG", "bad"),
        *_problems([each for each in content["problems"] if each["severity"] != ERROR], "WORTH KNOWING", "notice"),
    ]


def text(content: Document, every: bool = False) -> str:
    return "\n".join(line.text for line in lines(content, every)) + "\n"


def conclusion(content: Document) -> str:
    count = content["summary"]
    if not content["instances"] and not content["services"]:
        return "nothing was looked at"
    judged = counted(count["judged"], "instance")
    if content["ok"]:
        return f"{judged} as planned and healthy"
    return f"{count['as_planned']} of {judged} as planned and healthy, {counted(count['errors'], 'problem')}"


def _head(content: Document) -> Line:
    seen = content["seen"].replace("T", " ").replace("Z", " UTC")
    style = "title" if content["ok"] else "bad"
    return Line(f"STATUS {one_line(content['cluster'])}: {conclusion(content)}; seen {seen}", style)


def _instances(content: Document, every: bool) -> Iterator[Line]:
    told = content["instances"]
    rows: list[tuple[Row, str]] = []
    for group in _groups(told, every):
        rows.append((_row(group, content["now"]), "good" if group[0]["ok"] else "bad"))
    more = 0 if every else max(0, len(rows) - MOST_ROWS)
    yield from _table(rows[: len(rows) - more], _COLUMNS)
    if more:
        yield Line(f"  and {more} more: see {FILE}, or all with -e status_all=true", "dim")


def _groups(told: Sequence[dict[str, Any]], every: bool) -> list[list[dict[str, Any]]]:
    """Where there are many, those that look alike as one, and those that are well at the end."""
    if every or len(told) <= APART:
        return [[item] for item in told]
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for item in told:
        look = tuple(item[key] for key in ("ok", "kind", "health", "in_router", "version", "plan"))
        alike.setdefault((*look, item["up"] == item["planned"]), []).append(item)
    return sorted(alike.values(), key=lambda group: bool(group[0]["ok"]))


def _row(group: Sequence[dict[str, Any]], now: float) -> Row:
    first = group[0]
    planned = sum(item["planned"] for item in group)
    up = _sum(group, "up")
    running, waiting = _sum(group, "running"), _sum(group, "waiting")
    usage = [item["kv_usage"] for item in group]
    return {
        "instance": _short(item["name"] for item in group),
        "kind": first["kind"],
        "hosts": _short(host for item in group for host in item["hosts"]),
        "up": f"{_or(up)}/{planned}",
        "health": first["health"],
        "router": first["in_router"] or "",
        "version": one_line(first["version"] or ""),
        "load": "" if running is None and waiting is None else f"{_or(running)}/{_or(waiting)}",
        "kv": "" if None in usage else f"{max(usage):.0%}",
        "tokens": _tokens(group),
        "since": _since([item["since"] for item in group], _sum(group, "restarts"), now),
        "plan": f"{len(group)} {first['plan']}" if len(group) > 1 else first["plan"],
    }


def _tokens(group: Sequence[dict[str, Any]]) -> str:
    """What decode took over from prefill, and what it had to compute itself though prefill had it."""
    external, local = _sum(group, "external_tokens"), _sum(group, "local_tokens")
    if group[0]["kind"] != "decode" or external is None:
        return ""
    return _large(external) + (f" ({_large(local)} own)" if local else "")


def _services(content: Document) -> Iterator[Line]:
    rows = []
    for service in content["services"]:
        # there is one on every host of a group, and what it is for shows in the instances
        if service["kind"] == "supervisor" and service["ok"]:
            continue
        row = {
            "instance": one_line(service["name"]),
            "kind": service["kind"],
            "hosts": one_line(service["host"]),
            "up": service["state"] + (f", {service['role']}" if service["role"] else ""),
            "health": service["health"] or "",
            "since": _since(
                [service["since"]], 0 if service["kind"] == "router" else service["restarts"], content["now"]
            ),
            "plan": service["plan"],
        }
        rows.append((row, "good" if service["ok"] else "bad"))
    if rows and content["instances"]:
        yield Line("")
    yield from _table(rows, _SERVICES)


def _left_out(content: Document) -> Iterator[Line]:
    if content["left_out"]:
        yield Line(f"  not looked at (--limit): {names.shortened(content['left_out'])}", "dim")


def _table(rows: Sequence[tuple[Row, str]], columns: dict[str, str]) -> Iterator[Line]:
    """A column that nothing stands in is left out."""
    wide = {key: max((len(row[key]) for row, _style in rows), default=0) for key in columns}
    wide = {key: max(size, len(columns[key])) for key, size in wide.items() if size}
    if not wide:
        return
    yield Line(_cells({key: columns[key] for key in wide}, wide), "dim")
    for row, style in rows:
        yield Line(_cells(row, wide), style)


def _cells(row: Row, wide: dict[str, int]) -> str:
    return ("  " + (" " * _GAP).join(f"{row[key]:<{size}}" for key, size in wide.items())).rstrip()


def _problems(found: Sequence[dict[str, Any]], title: str, style: str) -> Iterator[Line]:
    if not found:
        return
    yield Line("")
    yield Line(f"{title} ({len(found)})", "title")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in found:
        groups.setdefault((each["rule"], _pattern(each)), []).append(each)
    for group in list(groups.values())[:MOST_PROBLEMS]:
        for each in group[:_SAME]:
            yield from _hanging(f"  [{each['rule']}] ", one_line(each["what"]), style, 4)
        if len(group) > _SAME:
            rest = names.shortened(list(dict.fromkeys(each["name"] for each in group[_SAME:])))
            yield Line(f"    and {len(group) - _SAME} more: {rest}", "dim")
        yield from _hanging("    Mend: ", one_line(group[0]["fix"]), "plain", 10)
    if len(groups) > MOST_PROBLEMS:
        yield Line(f"  and {counted(len(groups) - MOST_PROBLEMS, 'more group')}: see {FILE}", "dim")


def _pattern(each: dict[str, Any]) -> str:
    """The way out without the names in it: one that is told for the first is as good for the others."""
    told: str = each["fix"]
    for name in (each["name"], each["host"] or each["name"]):
        told = told.replace(name, "")
    return told


def _hanging(before: str, told: str, style: str, indent: int) -> Iterator[Line]:
    parts = textwrap.wrap(told, WIDTH, initial_indent=before, subsequent_indent=" " * indent, break_on_hyphens=False)
    yield from (Line(part, style) for part in parts)


def _short(found: Iterable[str]) -> str:
    return names.shortened([one_line(name) for name in dict.fromkeys(found)], _WIDEST)


def _sum(group: Iterable[dict[str, Any]], key: str) -> int | None:
    values = [item[key] for item in group]
    return None if None in values else sum(values)


def _or(value: int | None) -> str:
    return "?" if value is None else str(value)


def _since(moments: Sequence[float | None], restarts: int | None, now: float) -> str:
    known = [moment for moment in moments if moment is not None]
    told = age(now - max(known)) if known and len(known) == len(moments) else ""
    return f"{told} ({counted(restarts, 'restart')})".lstrip() if restarts else told


def _large(count: int) -> str:
    for letter, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= 10 * size:
            return f"{count // size}{letter}"
    return str(count)
