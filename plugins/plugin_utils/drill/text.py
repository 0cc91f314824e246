# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drill for people and for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.judge import GOOD, Row, good

SCHEMA = 1
_TITLES = ("MEASURE", "SEEN", "LIMIT", "")
_DONE = {
    "kill": "SIGKILL to all processes of {unit} on {target}; systemd starts it again",
    "stop": "stop {unit} on {target} for {hold:g} s, then start it",
    "restart": "restart {unit} on {target}",
}


def announced(drill: Mapping[str, Any], cluster: str, go: bool) -> Iterator[str]:
    """What will be done, or would be."""
    yield f"DRILL {drill['name']} of {cluster}{'' if go else ': what would happen'}"
    if drill["strike"]:
        what = _DONE[drill["strike"]["how"]]
        yield "  does     " + what.format(unit=drill["unit"], target=drill["target"], hold=drill["strike"]["hold"])
    else:
        yield "  does     put objects into the KV pool until the master evicts, then remove them"
    for cost in drill["costs"]:
        yield f"  costs    {cost}"
    names = [probe["name"] for probe in drill["probes"]] + (["pool"] if drill["pool"] else [])
    yield f"  watches  from {drill['watcher']}: {', '.join(names) or 'nothing'}"
    for what in drill["unwatched"]:
        yield f"  not      {what}"
    if not go:
        yield "Nothing was changed. To do it: the same command with -e drill_confirm=true, without --check."


def table(found: Sequence[Row]) -> list[tuple[str, bool | None]]:
    """(text, good) of each line; the title is neither."""
    cells = [_TITLES, *[(row.measure, row.seen, row.limit, row.verdict) for row in found]]
    widths = [max(len(line[place]) for line in cells) for place in range(len(_TITLES))]
    lines: list[tuple[str, bool | None]] = []
    for line, row in zip(cells, [None, *found], strict=True):
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        lines.append((text, row.verdict == GOOD if row else None))
        if row and row.why:
            lines.append((f"  {row.why}", False if row.verdict != GOOD else None))
    return lines


def summary(drill: Mapping[str, Any], found: Sequence[Row], cluster: str) -> str:
    kept = sum(row.verdict == GOOD for row in found)
    verdict = "survived, within all limits" if good(found) else "NOT as stated"
    return f"drill {drill['name']} of {cluster}: {verdict} ({kept} of {len(found)})"


def document(drill: Mapping[str, Any], found: Sequence[Row], cluster: str, when: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "cluster": cluster,
        "drill": drill["name"],
        "when": when,
        "good": good(found),
        "target": drill["target"],
        "unit": drill["unit"],
        "watcher": drill["watcher"],
        "limits": dict(drill["limits"]),
        "unwatched": list(drill["unwatched"]),
        "rows": [row.as_dict() for row in found],
    }
