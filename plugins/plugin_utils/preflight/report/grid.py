# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet as a grid: a host is a row of cells, one for each family of rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import SEVERITIES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import words
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report.document import Document, families
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.markup import Markup, joined, tag

# a colour is never alone
SYMBOLS = {"error": "\N{MULTIPLICATION X}", "warning": "!", "notice": "i", "good": "\N{CHECK MARK}"}

_LONGEST = 26  # characters of a name where hosts stand close together
_MOST_ROWS = 64  # hosts; more of them stand in columns and close together
_KINDS = ("prefill", "decode", "router", "master", "store", "etcd")
_MEANINGS = {"error": "error", "warning": "warning", "notice": "notice", "good": "nothing found"}

# host -> family -> severity -> how many
Counts = Mapping[str, Mapping[str, Mapping[str, int]]]


@dataclass(frozen=True)
class _Drawn:
    content: Document
    columns: Sequence[str]
    counts: Counts
    anchors: Mapping[str, str]  # host -> where its findings stand
    titles: Mapping[str, str]  # host -> short name; empty where there is room for the names


def grid(content: Document, anchors: Mapping[str, str]) -> Markup:
    dense = len(content["hosts"]) > _MOST_ROWS
    titles = _short(content["hosts"]) if dense else {}
    drawn = _Drawn(content, families(content), counted(content), anchors, titles)
    kinds: dict[str, list[str]] = {}
    for name, host in content["hosts"].items():
        kinds.setdefault(kind(host), []).append(name)
    tables = (
        tag(
            "div",
            tag("h3", f"{title} ", tag("span", f"({len(kinds[title])})", class_="soft")),
            _table(drawn, kinds[title]),
            class_="grid wide",
            tabindex="0",
            role="region",
            aria_label=f"Hosts: {title}",
        )
        for title in sorted(kinds, key=_rank)
    )
    told = f"Cells of a host, from left to right: {', '.join(drawn.columns)}."
    return tag(
        "div",
        _key(),
        tag("p", told, class_="soft") if dense else "",
        tag("div", *tables, class_="grids"),
        class_="panel dense" if dense else "panel",
        style=f"--families:{len(drawn.columns)};--longest:{max(map(len, titles.values()), default=0)}",
    )


def kind(host: Mapping[str, Any]) -> str:
    """What the hosts of a group have in common; the front door belongs to the router."""
    kinds = dict.fromkeys("router" if item == "frontend" else item for item in host["kinds"] if item != "supervisor")
    return words.one_line(" + ".join(sorted(kinds, key=_rank))) or "unused"


def pills(counts: Mapping[str, int]) -> Markup:
    """How many of each severity, the worst first."""
    return joined(
        tag("span", f"{SYMBOLS[severity]} {words.counted(counts[severity], severity)}", class_=f"pill {severity}")
        for severity in SEVERITIES
        if counts.get(severity)
    )


def counted(content: Document) -> Counts:
    found: dict[str, dict[str, dict[str, int]]] = {}
    for group in content["groups"]:
        for finding in group["findings"]:
            if finding["host"] is not None:
                own = found.setdefault(finding["host"], {}).setdefault(group["family"], {})
                own[group["severity"]] = own.get(group["severity"], 0) + 1
    return found


def _short(names: Iterable[str]) -> dict[str, str]:
    """Names without the domain that all of them are in, and without their middle when they are too long still."""
    printed = {name: words.one_line(name) for name in names}
    domains = {name.partition(".")[2] for name in printed.values()}
    found = {}
    for name, shown in printed.items():
        short = shown.partition(".")[0] if len(domains) == 1 else shown
        half = _LONGEST // 2
        found[name] = short if len(short) <= _LONGEST else f"{short[:half]}\N{HORIZONTAL ELLIPSIS}{short[1 - half :]}"
    return found


def _rank(name: str) -> tuple[int, str]:
    first = name.partition(" ")[0]
    return (_KINDS.index(first) if first in _KINDS else len(_KINDS), name)


def _key() -> Markup:
    cells = [
        tag("li", tag("i", symbol, class_=f"cell {severity}", aria_hidden="true"), _MEANINGS[severity])
        for severity, symbol in SYMBOLS.items()
    ]
    cells += [
        tag("li", tag("i", class_="blank"), "not looked at here"),
        tag("li", tag("i", class_="absent"), "nothing is known of the host"),
    ]
    return tag("ul", *cells, class_="key", aria_label="What cells mean")


def _table(drawn: _Drawn, names: Sequence[str]) -> Markup:
    head = tag("tr", *(tag("th", title, scope="col") for title in ("Host", *drawn.columns)))
    rows = []
    for name in names:
        shown = words.one_line(name)
        title = tag("th", drawn.titles.get(name, shown), scope="row", title=shown if drawn.titles else None)
        rows.append(tag("tr", title, *_cells(drawn, name, shown)))
    return tag("table", tag("thead", head), tag("tbody", *rows), class_="fleet")


def _cells(drawn: _Drawn, name: str, shown: str) -> list[Markup]:
    absent = drawn.content["absent"]
    if name in absent:
        reason = words.printable(absent[name])
        hatched = tag("a", href="#absent", class_="absent", title=reason, aria_label=f"{shown}: not looked at")
        return [tag("td", hatched, colspan=len(drawn.columns), class_="gone")]
    looked, own = drawn.content["hosts"][name]["families"], drawn.counts.get(name, {})
    return [
        _cell(f"{shown}, {family}", own[family], drawn.anchors[name])
        if family in own
        else tag("td", tag("span", SYMBOLS["good"], class_="cell good", title=family) if family in looked else "")
        for family in drawn.columns
    ]


def _cell(where: str, counts: Mapping[str, int], anchor: str) -> Markup:
    having = [severity for severity in SEVERITIES if counts.get(severity)]
    told = f"{where}: {', '.join(words.counted(counts[severity], severity) for severity in having)}"
    worst = having[0]
    link = tag("a", SYMBOLS[worst], href=f"#{anchor}", class_=f"cell {worst}", title=told, aria_label=told)
    return tag("td", link)
