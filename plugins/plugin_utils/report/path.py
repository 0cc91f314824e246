# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The path of a request and of its KV as a drawing: who asks whom, who listens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.report import words
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.document import Document
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.markup import Markup, joined, tag

PREFILL_HUE, DECODE_HUE = 210, 28
LISTENING = ("kv", "bootstrap")  # purposes of the ports at which the side that binds is asked for KV

_HEIGHT = 292
_LONGEST = 54  # signs of a line of text, more would leave its box


def sentence(content: Document) -> str:
    connector = content["cluster"]["connector"]
    ports = listening(content)
    where = f" on {ports}" if ports else ""
    moved = (
        f"Decode pulls KV from prefill: it connects to prefill, which listens{where}."
        if connector["transfer"] == "pull"
        else f"Prefill pushes KV to decode layer by layer: it connects to decode, which listens{where}."
    )
    router = content["cluster"]["router"]
    if router is None:
        return f"{moved} There is no router in the plan, so clients have no front door."
    asked = (
        "the proxy asks decode, decode reports to the proxy, and the proxy then asks prefill"
        if router["contract"] == "layerwise"
        else "the router asks prefill first and decode after it"
    )
    return f"A client asks {router['address']}:{router['port']}; {asked}. {moved}"


def listening(content: Document) -> str:
    """Where the side that binds is asked for KV."""
    binds = content["cluster"]["connector"]["binds"]
    found: dict[str, list[tuple[int, int]]] = {}
    for process in _processes(content, binds):
        for claim in process["claims"]["ports"]:
            if claim["purpose"] in LISTENING:
                found.setdefault(claim["purpose"], []).append((claim["first"], claim["last"]))
    return ", ".join(f"{purpose} {words.spans(ranges)}" for purpose, ranges in found.items())


def drawing(content: Document) -> Markup:
    cluster = content["cluster"]
    router, master = cluster["router"], cluster["master"]
    parts: list[object] = []
    if router:
        layerwise = router["contract"] == "layerwise"
        backends = [f"{item['name']} {item['address']}:{item['port']}" for item in router["backends"]]
        parts += [
            _box((10, 110, 110, 60), "Clients", ["OpenAI API"]),
            _box((170, 110, 190, 60), "Front door, HAProxy", [f"{router['address']}:{router['port']}"]),
            _box(
                (410, 92, 230, 96),
                "Layerwise proxy" if layerwise else "vllm-router",
                [*backends, f"on {router['host']}"],
            ),
            *_arrow("flow", [(120, 140), (168, 140)]),
            *_arrow("flow", [(360, 140), (408, 140)]),
        ]
        if layerwise:
            parts += [
                *_arrow("flow", [(640, 165), (738, 225)], "1 request", (646, 208)),
                *_arrow("flow", [(740, 246), (560, 246), (560, 186)], "2 wants its KV", (568, 262)),
                *_arrow("flow", [(640, 115), (738, 55)], "3 prompt", (650, 70)),
            ]
        else:
            parts += [
                *_arrow("flow", [(640, 115), (738, 55)], "1 prompt", (648, 70)),
                *_arrow("flow", [(640, 165), (738, 225)], "2 answer", (648, 218)),
            ]
    if master:
        told = [f"{master['address']}:{master['rpc_port']}", f"on {master['host']}, for a KV store"]
        if master.get("ha"):
            told = [f"one of {len(master['hosts'])}, by etcd", f"port {master['rpc_port']}, for a KV store"]
        parts.append(_box((170, 206, 210, 74), "Mooncake master", told))
    parts += [*_side(content, "prefill", 8), *_side(content, "decode", 194), *_transfer(content)]
    left = 0 if router or master else 730
    width = 1180 - left
    return tag(
        "svg",
        tag("title", "Path of a request and of its KV"),
        tag("desc", sentence(content)),
        *parts,
        class_="path",
        viewBox=f"{left} 0 {width} {_HEIGHT}",
        style=f"max-width:{round(width * 1.2)}px;min-width:{round(width * 0.72)}px",
        role="img",
    )


def _side(content: Document, kind: str, top: int) -> list[Markup]:
    instances = [item for item in content["cluster"]["instances"] if item["kind"] == kind]
    shapes = dict.fromkeys(words.sizes(item) for item in instances)
    api = [
        (claim["first"], claim["last"])
        for process in _processes(content, kind)
        for claim in process["claims"]["ports"]
        if claim["purpose"] == "api"
    ]
    told = [words.listing([item["name"] for item in instances], 3), f"API {words.spans(api)}"]
    if kind == content["cluster"]["connector"]["binds"] and listening(content):
        told.append(f"listens: {listening(content)}")
    hue = PREFILL_HUE if kind == "prefill" else DECODE_HUE
    title = f"{kind.capitalize()} x {len(instances)}, {', '.join(shapes)}"
    return [_box((740, top, 430, 92), title, told, side=f"--h:{hue}")]


def _transfer(content: Document) -> list[Markup]:
    connector = content["cluster"]["connector"]
    puller, asked = ("decode", "prefill") if connector["transfer"] == "pull" else ("prefill", "decode")
    up = asked == "prefill"
    verb = "pulls" if connector["transfer"] == "pull" else "pushes"
    return [
        *_arrow("kv", [(780, 98), (780, 191)], size=16),
        *_arrow("call", [(820, 193), (820, 101)] if up else [(820, 98), (820, 191)]),
        _text(842, 126, f"KV over {connector['protocol']}", "name"),
        _text(842, 145, connector["name"], "fine"),
        _text(842, 164, f"{puller} {verb}: it connects (dashed), {asked} listens", "soft"),
    ]


def _processes(content: Document, kind: str) -> list[dict[str, Any]]:
    return [item for host in content["hosts"].values() for item in host["processes"] if item["kind"] == kind]


def _box(area: tuple[int, int, int, int], title: str, told: Sequence[str], side: str | None = None) -> Markup:
    x, y, width, height = area
    lines = [_text(x + 12, y + 22, title, "name")]
    lines += [_text(x + 12, y + 42 + 19 * number, line, "fine") for number, line in enumerate(told)]
    box = tag("rect", x=x, y=y, width=width, height=height, rx=8, class_="side" if side else None, style=side)
    return joined([box, *lines])


def _text(x: int, y: int, told: str, kind: str) -> Markup:
    short = told if len(told) <= _LONGEST else f"{told[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
    return tag("text", short, x=x, y=y, class_=kind)


def _arrow(
    kind: str,
    points: Sequence[tuple[int, int]],
    label: str = "",
    at: tuple[int, int] = (0, 0),
    size: int = 8,
) -> list[Markup]:
    """A line through the points with a tip at the last one."""
    (x0, y0), (x1, y1) = points[-2:]
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    tip = {"flow": "tip", "kv": "kvtip", "call": "calltip"}[kind]
    left = (x1 - ux * size - uy * size / 2, y1 - uy * size + ux * size / 2)
    right = (x1 - ux * size + uy * size / 2, y1 - uy * size - ux * size / 2)
    ends = [*points[:-1], (x1 - ux * size / 2, y1 - uy * size / 2)]
    drawn = [
        tag("path", d="M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in ends), class_=kind),
        tag("path", d="M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in ((x1, y1), left, right)) + " Z", class_=tip),
    ]
    return [*drawn, _text(*at, label, "soft")] if label else drawn
