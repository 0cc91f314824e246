# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements between hosts: what they are beside the last good ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SCHEMA = 1
GOOD, WORSE, NEW, CHANGED, UNMEASURED, ABSENT = "good", "worse", "new", "changed", "not measured", "not there"

Measured = Mapping[
    str, Any
]  # {pair, source, peer, results: [{plane, tool, bandwidth, latency, settings, problem, optional}]}


@dataclass(frozen=True)
class Limits:
    """What is worse than the last good run."""

    bandwidth: float = 0.20  # lower by this part
    latency: float = 0.50  # higher by this part


@dataclass(frozen=True)
class Row:
    """One tool between two hosts."""

    pair: str
    plane: str
    tool: str
    bandwidth: float | None
    latency: float | None
    last_bandwidth: float | None
    last_latency: float | None
    state: str
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def pair_name(source: str, peer: str) -> str:
    return f"{source}-{peer}"


def compare(pairs: Iterable[Measured], last: Mapping[str, Any] | None, limits: Limits) -> list[Row]:
    """Every figure beside that of the last good run, which is {pairs: {name: measured}} or nothing."""
    before = (last or {}).get("pairs") or {}
    return [
        _row(pair["pair"], result, _same(before.get(pair["pair"]), result), limits)
        for pair in pairs
        for result in pair["results"]
    ]


def _same(pair: Measured | None, result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    key = (result["plane"], result["tool"])
    return next((item for item in (pair or {}).get("results", ()) if (item["plane"], item["tool"]) == key), None)


def _row(pair: str, result: Mapping[str, Any], last: Mapping[str, Any] | None, limits: Limits) -> Row:
    before = last if last is not None and last["settings"] == result["settings"] else {}
    state, why = _state(result, before, limits)
    if state == NEW and last is not None:
        state, why = CHANGED, "measured with other sizes than the last good run"
    return Row(
        pair=pair,
        plane=result["plane"],
        tool=result["tool"],
        bandwidth=result["bandwidth"],
        latency=result["latency"],
        last_bandwidth=before.get("bandwidth"),
        last_latency=before.get("latency"),
        state=state,
        why=why,
    )


def _state(result: Mapping[str, Any], before: Mapping[str, Any], limits: Limits) -> tuple[str, str]:
    if result["problem"]:
        return (ABSENT if result["optional"] else UNMEASURED), result["problem"]
    if result["bandwidth"] is None and result["latency"] is None:
        return UNMEASURED, "it told no figure"
    if not before:
        return NEW, ""
    worse = list(_worse(result, before, limits))
    return (WORSE, "; ".join(worse)) if worse else (GOOD, "")


def _worse(result: Mapping[str, Any], before: Mapping[str, Any], limits: Limits) -> Iterator[str]:
    for key, sign, limit in (("bandwidth", -1, limits.bandwidth), ("latency", 1, limits.latency)):
        now, then = result[key], before.get(key)
        if now is None and then is not None:
            yield f"{key} is missing"
        elif now is not None and then and sign * (now - then) / then > limit:
            yield f"{key} {'lower' if sign < 0 else 'higher'} by {abs(now - then) / then:.0%}"


def failures(rows: Sequence[Row], strict: bool) -> list[str]:
    """What a run fails for."""
    states = (UNMEASURED, WORSE) if strict else (UNMEASURED,)
    return [f"{row.pair} {row.plane} ({row.tool}): {row.why}" for row in rows if row.state in states]


def new_last_good(
    pairs: Sequence[Measured], rows: Sequence[Row], last: Mapping[str, Any] | None, run: str, accept: bool
) -> dict[str, Any]:
    """Figures that are good replace those of before; others, and those that were not measured now, stay."""
    states = (GOOD, NEW, CHANGED, WORSE) if accept else (GOOD, NEW, CHANGED)
    good = {(row.pair, row.plane, row.tool) for row in rows if row.state in states}
    kept = dict((last or {}).get("pairs") or {})
    for pair in pairs:
        name = pair["pair"]
        results = {(item["plane"], item["tool"]): item for item in kept.get(name, {}).get("results", ())}
        for result in pair["results"]:
            if (name, result["plane"], result["tool"]) in good:
                results[result["plane"], result["tool"]] = {**result, "run": run}
        if results:
            kept[name] = {**pair, "results": [results[key] for key in sorted(results)]}
    return {"schema": SCHEMA, "pairs": dict(sorted(kept.items()))}


def npu_result(pings: Sequence[Mapping[str, Any]], unknown: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The network of the NPUs, from pings of hccn_info: the median of the times, and what did not answer."""
    times = sorted(ping["time"] / 1000 for ping in pings if ping["ok"] and ping["time"] is not None)
    lost = sorted({ping["chip"] for ping in pings if not ping["ok"]})
    untold = [item["why"] for item in unknown if not times or item["what"].startswith("pings")]
    problem = ""
    if lost:
        problem = f"NPU {', '.join(map(str, lost))}: no answer to a ping"
    elif untold or not times:
        problem = untold[0] if untold else "no NPU was pinged"
    return {
        "plane": "npu",
        "tool": "hccn_tool",
        "bandwidth": None,
        "latency": None if problem else times[len(times) // 2],
        "settings": {"npus": len(pings)},
        "problem": problem,
        "optional": False,
    }


# ---- for people

_TITLES = ("PAIR", "PLANE", "TOOL", "BANDWIDTH", "LAST", "LATENCY", "LAST", "")


def table(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(text, state) of each line; the first is the title."""
    cells = [_TITLES, *[_cells(row) for row in rows]]
    widths = [max(len(line[place]) for line in cells) for place in range(len(_TITLES))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return list(zip(lines, ["title", *[row.state for row in rows]], strict=True))


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.pair,
        row.plane,
        row.tool,
        rate(row.bandwidth),
        rate(row.last_bandwidth),
        duration(row.latency),
        duration(row.last_latency),
        row.state + (f": {row.why}" if row.why else ""),
    )


def rate(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e9:.2f} GB/s" if value >= 1e8 else f"{value / 1e6:.2f} MB/s"


def duration(value: float | None) -> str:
    return "-" if value is None else f"{value * 1e3:.2f} ms" if value >= 1e-3 else f"{value * 1e6:.1f} us"
