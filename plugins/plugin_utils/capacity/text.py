# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capacity of a plan as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.figures import Figure

# style -> lines of it; what the styles look like is the caller's
TITLE, PLAIN, DIM, WARNING = "title", "plain", "dim", "warning"
Line = tuple[str, str]
_ASKS = ": name "
_POOL = (
    ("bytes", "pool"),
    ("usable", "up to the watermark"),
    ("tokens", "tokens that fit"),
    ("sequences", "sequences that fit"),
    ("new_bytes", "new KV"),
    ("kept_least", "kept at least"),
    ("kept_most", "kept at most"),
)


def lines(content: Mapping[str, Any]) -> Iterator[Line]:
    model, why = content["model"], _Reasons()
    yield f"KV capacity of {content['cluster']}, {content['source']}", TITLE
    layers = ", ".join(f"{count} {kind}" for kind, count in model["layers"].items()) or "not told"
    yield f"  model    {model['attention']}, layers: {layers}, KV heads: {model['kv_heads']}", PLAIN
    yield f"  token    {why.text(content['token'])}", PLAIN
    if content["sequence"]["length"]:
        yield f"  sequence {content['sequence']['length']:,} tokens: {why.text(content['sequence']['bytes'])}", PLAIN
    yield from _instances(content["instances"], why)
    pool = content["pool"]
    high = pool["watermark"]["high"]
    yield f"Pool, watermark {'UNKNOWN' if high is None else f'{high:g}'} ({pool['watermark']['source']})", TITLE
    for segment in pool["segments"]:
        each = Figure(segment["bytes"], "bytes").text()
        yield f"  {segment['owner']}: {segment['processes']} segments of {each}", DIM
    for key, title in _POOL:
        yield f"  {title.ljust(20)} {why.text(pool[key])}", PLAIN
    for mark, reason in enumerate(why.found, 1):
        yield f"[{mark}] {reason}", DIM
    if any(_ASKS in reason for reason in why.found):
        yield "What has to be named is an option of capacity_report, and with capacity.yml -e capacity_OPTION=...", DIM
    for note in content["notes"]:
        yield f"note: {note}", DIM
    for item in pool["advice"]:
        yield f"{item['about']}: {item['message']} Mend: {item['fix']}", WARNING


class _Reasons:
    """Each reason once, below the table."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def text(self, figure: Mapping[str, Any]) -> str:
        shown = Figure(figure["value"], figure["unit"]).text()
        reasons = str(figure["unknown"]).split("; ") if figure["unknown"] else []
        self.found += [reason for reason in reasons if reason not in self.found]
        return " ".join([shown, *(f"[{self.found.index(reason) + 1}]" for reason in reasons)])


_TITLES = (
    "INSTANCE",
    "KIND",
    "SHAPE",
    "WORKERS",
    "HEADS",
    "COPIES",
    "TOKEN, WORKER",
    "TOKEN, RANK",
    "TOKENS IN ENGINE",
)


def _instances(instances: list[dict[str, Any]], why: _Reasons) -> Iterator[Line]:
    rows = [_TITLES, *(_row(item, why) for item in instances)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_TITLES))]
    for number, row in enumerate(rows):
        text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield text.rstrip(), PLAIN if number else TITLE


def _row(item: Mapping[str, Any], why: _Reasons) -> tuple[str, ...]:
    shape = item["shape"]
    sizes = " ".join(f"{size} {shape[size]}" for size in ("dp", "tp", "pp", "pcp", "dcp") if shape[size] > 1)
    heads, copies = ("-" if shape[key] is None else str(shape[key]) for key in ("heads", "copies"))
    return (
        *(item["name"], item["kind"], sizes or "tp 1", str(shape["workers"]), heads, copies),
        *(why.text(shape["worker"]), why.text(shape["rank"]), why.text(item["tokens"])),
    )
