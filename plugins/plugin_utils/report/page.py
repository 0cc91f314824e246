# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as one HTML file to look at, to print and to send: nothing is loaded from anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import EPHEMERAL, MAX_PORT, NODE_PORTS
from ansible_collections.mooncake.pd.plugins.plugin_utils.report import assets, path, table, words
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.document import Document, summary, to_json
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.markup import Markup, joined, tag, whole

# up to so many hosts, instances and kinds of hosts everything lies open; beyond that it can be opened
_OPEN_HOSTS, _OPEN_ROWS, _OPEN_MAPS = 64, 24, 24
_TICKS = range(0, MAX_PORT, 10000)
_SERVICES = ("router", "frontend", "master", "store", "etcd")
_GOLDEN = 0.618034  # steps of this part of a span never come close to each other early


def page(content: Document) -> str:
    name = content["cluster"]["name"]
    sections = [
        ("path", "Path", _path(content)),
        ("hosts", "Hosts", _hosts(content)),
        ("ports", "Ports", _ports(content)),
        ("order", "Start order", _order(content)),
        ("warnings", "Warnings", _warnings(content)),
        ("waived", "Waived", _waived(content)),
        ("choices", "Chosen by the plan", _choices(content)),
    ]
    shown = [(key, title, body) for key, title, body in sections if body]
    return whole(
        f"Plan of {name}",
        assets.STYLE,
        assets.POLICY,
        tag("a", "To the hosts", href="#hosts", class_="skip"),
        _header(content),
        _navigation((key, title) for key, title, _body in shown),
        tag("main", *(tag("section", tag("h2", title, id=key), part) for key, title, part in shown)),
        _footer(content),
        tag("script", Markup(assets.SCRIPT)),
    )


def _header(content: Document) -> Markup:
    count = summary(content)
    chips = sum(_chips(host) for host in content["hosts"].values())
    tiles = [
        (count["hosts"], "hosts"),
        (count["prefill"], "prefill instances"),
        (count["decode"], "decode instances"),
        (count["processes"], "processes"),
        *([(f"{count['devices']} of {chips}", "NPUs used")] if chips else []),
        *([(count["warnings"], "warnings")] if count["warnings"] else []),
        *([(count["waived"], "waived")] if count["waived"] else []),
    ]
    engine, moved = table.overview(content)[:2]
    return tag(
        "header",
        tag("h1", tag("small", "Prefill/decode plan"), content["cluster"]["name"]),
        tag("p", engine),
        tag("p", moved, class_="soft"),
        tag(
            "ul",
            *(tag("li", tag("b", number), tag("span", what), class_=_warned(what)) for number, what in tiles),
            class_="tiles",
        ),
    )


def _warned(what: str) -> str | None:
    return "warned" if what == "warnings" else None


def _navigation(sections: Iterable[tuple[str, str]]) -> Markup:
    field = tag("input", id="filter", type="search", placeholder="host, address, instance, port", autocomplete="off")
    return tag(
        "nav",
        tag(
            "div",
            *(tag("a", title, href=f"#{key}") for key, title in sections),
            # the script shows it: without one it would do nothing
            tag("label", "Filter hosts ( / )", field, hidden=True),
            tag("output", id="found", class_="soft", aria_live="polite", for_="filter"),
        ),
        aria_label="Parts of the plan",
    )


def _footer(content: Document) -> Markup:
    digest = hashlib.sha256(to_json(content).encode()).hexdigest()[:12]
    return tag(
        "footer",
        f"Planned from {content['cluster']['source']} by mooncake.pd; sha256 of plan.json begins with {digest}. "
        "Ports marked *: are bound on all addresses of the host.",
    )


# ---- path


def _path(content: Document) -> Markup:
    instances = content["cluster"]["instances"]
    hues = _hues(content)
    by_instance: dict[str, list[dict[str, Any]]] = {}
    for host in content["hosts"].values():
        for process in host["processes"]:
            by_instance.setdefault(process["instance"], []).append(process)
    rows = [
        tag(
            "tr",
            tag("th", _mark(hues, item["name"], item["kind"]), item["name"], scope="row"),
            tag("td", item["kind"]),
            tag("td", words.sizes(item)),
            tag("td", words.listing(item["hosts"])),
            tag("td", words.listing([url.partition("//")[2] for url in item["api_urls"]], 4), class_="num"),
            tag("td", _listens(by_instance.get(item["name"], ())), class_="num"),
        )
        for item in instances
    ]
    listed = _table(("Instance", "Kind", "Sizes", "Hosts", "API", "Listens for its peers"), rows)
    folded = tag(
        "details",
        tag("summary", "Instances ", tag("span", f"({len(instances)})", class_="soft")),
        listed,
        open=len(instances) <= _OPEN_ROWS,
    )
    drawn = tag(
        "div", path.drawing(content), class_="wide", tabindex="0", role="region", aria_label="Drawing of the path"
    )
    return tag("div", drawn, tag("p", path.sentence(content)), folded, class_="panel")


def _listens(processes: Iterable[dict[str, Any]]) -> str:
    found: dict[str, list[words.Span]] = {}
    for process in processes:
        for claim in process["claims"]["ports"]:
            if claim["purpose"] in path.LISTENING:
                found.setdefault(claim["purpose"], []).append((claim["first"], claim["last"]))
    return "  ".join(f"{purpose} {words.spans(ranges)}" for purpose, ranges in found.items())


# ---- hosts


def _hosts(content: Document) -> Markup:
    hues = _hues(content)
    groups: dict[str, list[Markup]] = {}
    for host in content["hosts"].values():
        serving = (item["kind"] for item in host["processes"] if item["kind"] != "supervisor")
        kinds = dict.fromkeys("router" if kind == "frontend" else kind for kind in serving)
        groups.setdefault(" + ".join(kinds) or "unused", []).append(_host(host, hues))
    if len(content["hosts"]) <= _OPEN_HOSTS:
        cards = [card for group in groups.values() for card in group]
        return joined([_legend(content, hues), tag("div", *cards, class_="hosts")])
    folded = (
        tag(
            "details",
            tag("summary", f"{kinds} ", tag("span", f"({len(cards)})", class_="soft")),
            tag("div", *cards, class_="hosts"),
            class_="group",
        )
        for kinds, cards in groups.items()
    )
    return joined([_legend(content, hues), *folded])


def _legend(content: Document, hues: Mapping[str, int]) -> Markup:
    instances = content["cluster"]["instances"]
    if len(instances) > _OPEN_ROWS:
        return tag("p", "A colour is an instance; its name stands on it.", class_="soft")
    items = [
        tag("li", _mark(hues, item["name"], item["kind"]), f"{item['name']} ", tag("span", item["kind"], class_="soft"))
        for item in instances
    ]
    return tag("ul", *items, class_="legend", aria_label="Colours of the instances")


def _host(host: dict[str, Any], hues: Mapping[str, int]) -> Markup:
    find = [host["name"], host["address"]]
    rows = []
    for row in words.rows(host["processes"]):
        exact = words.ports(row, host["address"])
        devices = words.numbers(device for process in row for device in process["devices"])
        names = [process["name"] for process in row]
        find += [*names, words.row_role(row), *(words.said(port) for port in exact)]
        rows.append(
            tag(
                "li",
                tag("b", _mark(hues, row[0]["instance"], row[0]["kind"]), words.listing(names, 1)),
                tag("span", words.row_role(row)),
                tag("span", f"NPU {devices}", class_="soft") if devices else "",
                _port_list(exact),
                title=words.listing([process["unit"]["name"] for process in row]),
            )
        )
    pools = words.pools(host)
    drawn = tag("div", "draws at random from ", _port_list(pools), class_="pools") if pools else ""
    return tag(
        "article",
        tag("header", tag("h3", host["name"]), tag("span", host["address"], class_="mono soft")),
        _cells(host, hues),
        tag("ul", *rows, class_="processes") if rows else tag("p", "Nothing of the plan runs here.", class_="soft"),
        drawn,
        class_="host",
        data_find=" ".join(find).lower(),
    )


def _chips(host: dict[str, Any]) -> int:
    """The NPUs of a host; when the file does not tell, those that can be seen to be there."""
    highest = max((device for item in host["processes"] for device in item["devices"]), default=-1)
    return max(host["chips"] or 0, highest + 1)


def _cells(host: dict[str, Any], hues: Mapping[str, int]) -> Markup:
    owner: dict[int, tuple[dict[str, Any], str]] = {}
    for process in host["processes"]:
        devices, ranks = process["devices"], process["ranks"]
        each = max(len(devices) // max(len(ranks), 1), 1)
        for index, device in enumerate(devices):
            owner[device] = (process, f"r{ranks[min(index // each, len(ranks) - 1)]}" if ranks else "")
    cells = []
    for chip in range(_chips(host)):
        if chip not in owner:
            cells.append(tag("li", tag("i", chip), tag("span", "free"), class_="chip free"))
            continue
        process, rank = owner[chip]
        told = [process["name"], process["kind"], *([f"DP rank {rank[1:]}"] if rank else [])]
        told += [words.said(port) for port in words.ports([process], host["address"])]
        cells.append(
            tag(
                "li",
                tag("i", chip),
                tag("b", rank),
                tag("span", process["instance"]),
                class_=f"chip used {process['kind']}",
                style=f"--h:{hues[process['instance']]}",
                title=f"NPU {chip}: {', '.join(told)}",
            )
        )
    return tag("ol", *cells, class_="chips", aria_label=f"NPUs of {host['name']}") if cells else Markup()


def _port_list(ports: Sequence[tuple[str, str, list[words.Span]]]) -> Markup:
    told = (tag("span", tag("em", purpose), f" {before}{words.spans(ranges)}") for purpose, before, ranges in ports)
    return tag("span", *told, class_="ports")


# ---- ports


@dataclass(frozen=True)
class _Claimed:
    who: str
    kind: str  # of the process, or pool
    purpose: str
    before: str
    ranges: tuple[words.Span, ...]
    hue: int


def _ports(content: Document) -> Markup:
    groups = words.alike(content, 0)
    hues = _hues(content)
    told = tag(
        "p",
        "Hosts whose ports are the same share one map. Solid: the process takes every port. Hatched: it takes some at "
        "random.",
        class_="soft",
    )
    maps = [_map(content, names, hues) for names in groups]
    more = maps[_OPEN_MAPS:]
    rest = tag("details", tag("summary", f"{len(more)} more"), _maps(more)) if more else ""
    return joined([told, _maps(maps[:_OPEN_MAPS]), rest])


def _maps(maps: Sequence[Markup]) -> Markup:
    # where the bands lie on the scale
    bands = f"--n0:{_at(NODE_PORTS[0])};--n1:{_at(NODE_PORTS[1])};--e0:{_at(EPHEMERAL[0])};--e1:{_at(EPHEMERAL[1])}"
    head = tag(
        "tr",
        *(tag("th", title, scope="col") for title in ("Who", "What for", "Ports")),
        tag("th", _scale(), scope="col", class_="scale"),
    )
    drawn = tag("table", tag("thead", head), *maps, class_="map", style=bands)
    return tag("div", drawn, class_="panel wide", tabindex="0", role="region", aria_label="Map of the ports")


def _map(content: Document, names: Sequence[str], hues: Mapping[str, int]) -> Markup:
    rows = [
        tag(
            "tr",
            tag("th", item.who, scope="row"),
            tag("td", item.purpose),
            tag("td", f"{item.before}{words.spans(item.ranges)}", _flags(item), class_="num"),
            tag("td", _rail(item), class_="scale"),
        )
        for item in _claimed(content["hosts"][names[0]], hues, single=len(names) == 1)
    ]
    many = tag("span", f" ({len(names)} hosts)", class_="soft") if len(names) > 1 else ""
    title = tag("tr", tag("th", words.listing(names), many, colspan=4, scope="rowgroup"), class_="class")
    return tag("tbody", title, *rows) if rows else Markup()


def _claimed(host: dict[str, Any], hues: Mapping[str, int], single: bool) -> list[_Claimed]:
    """One row for each purpose of an instance or a service, then the pools of the host."""
    owners: dict[str, list[dict[str, Any]]] = {}
    for process in host["processes"]:
        owners.setdefault(process["instance"] or process["name"], []).append(process)
    rows = []
    for name, processes in owners.items():
        kind = processes[0]["kind"]
        hue = hues.get(name, 0) if single else {"prefill": path.PREFILL_HUE}.get(kind, path.DECODE_HUE)
        for purpose, before, ranges in words.ports(processes, host["address"]):
            rows.append(_Claimed(name if single else kind, kind, purpose, before, tuple(ranges), hue))
    for purpose, before, ranges in words.pools(host):
        rows.append(_Claimed("any of", "pool", purpose, before, tuple(ranges), 0))
    return rows


def _flags(item: _Claimed) -> Markup:
    bands = (("NodePort", NODE_PORTS), ("ephemeral", EPHEMERAL))
    named = [
        name
        for name, (low, high) in bands
        if item.kind != "pool" and any(first <= high and low <= last for first, last in item.ranges)
    ]
    return joined(tag("span", name, class_="flag") for name in named)


def _rail(item: _Claimed) -> Markup:
    kind = "pool" if item.kind == "pool" else "service" if item.kind in _SERVICES else None
    bars = (
        tag("i", class_=kind, style=f"left:{_at(first)};width:{_at(last + 1 - first)};--h:{item.hue}")
        for first, last in item.ranges
    )
    return tag("div", *bars, class_="rail", aria_hidden="true")


def _scale() -> Markup:
    ticks = [tag("span", tick, style=f"left:{_at(tick)}") for tick in _TICKS]
    ticks.append(tag("span", MAX_PORT, style="left:100%", class_="end"))
    node, kernel = NODE_PORTS, EPHEMERAL
    bands = [
        # its own band is too narrow for its name
        tag("b", "NodePort", class_="before", style=f"right:{_at(MAX_PORT + 1 - node[0])}"),
        tag("b", class_="nodeport", style=f"left:{_at(node[0])};width:{_at(node[1] + 1 - node[0])}"),
        tag("b", "ephemeral", class_="kernel", style=f"left:{_at(kernel[0])};width:{_at(kernel[1] + 1 - kernel[0])}"),
    ]
    return tag("div", *bands, *ticks, class_="ticks")


def _at(port: int) -> str:
    return f"{port * 100 / (MAX_PORT + 1):.3f}%"


# ---- order and findings


def _order(content: Document) -> Markup:
    items = [
        tag(
            "li",
            tag("h3", f"{wave['wave']} {wave['name']}"),
            *(
                tag("div", member["name"], tag("span", f" on {words.listing(member['hosts'])}", class_="soft"))
                for member in wave["members"][:_OPEN_ROWS]
            ),
            tag("div", f"and {len(wave['members']) - _OPEN_ROWS} more") if len(wave["members"]) > _OPEN_ROWS else "",
        )
        for wave in content["start_order"]
    ]
    told = tag("p", "What stands together starts together, and is proven ready before the next begins.", class_="soft")
    return joined([told, tag("ol", *items, class_="waves")])


def _warnings(content: Document) -> Markup:
    if not content["warnings"]:
        return tag("p", "None.")
    return joined(_finding(item, content, "Mend", item["fix"], "finding warned") for item in content["warnings"])


def _waived(content: Document) -> Markup:
    return joined(_finding(item, content, "Waived", item["reason"], "finding") for item in content["waived"])


def _finding(item: dict[str, Any], content: Document, title: str, told: str, kind: str) -> Markup:
    return tag(
        "div",
        tag("h3", tag("code", table.place(item, content)), tag("span", f" {item['rule']}", class_="soft")),
        tag("p", item["message"]),
        tag("p", tag("b", f"{title}: "), told),
        class_=kind,
    )


def _choices(content: Document) -> Markup:
    if not content["choices"]:
        return Markup()
    rows = [
        tag(
            "tr",
            tag("th", tag("code", choice["where"]), scope="row"),
            tag("td", choice["value"], class_="num"),
            tag("td", choice["why"]),
        )
        for choice in table.gathered(content["choices"])
    ]
    told = tag("p", "Keys that topology.yml leaves out. What it says wins.", class_="soft")
    return tag("div", told, _table(("Key", "Value", "Why"), rows), class_="panel wide")


# ---- parts


def _table(titles: Sequence[str], rows: Sequence[Markup]) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", title, scope="col") for title in titles)))
    return tag("div", tag("table", head, tag("tbody", *rows)), class_="wide")


def _hues(content: Document) -> dict[str, int]:
    """Colours of the instances: prefill from green to violet, decode from magenta to yellow."""
    hues: dict[str, int] = {}
    for kind, first, width in (("prefill", path.PREFILL_HUE, 90), ("decode", path.DECODE_HUE, 80)):
        names = [item["name"] for item in content["cluster"]["instances"] if item["kind"] == kind]
        for number, name in enumerate(names):
            away = (number * _GOLDEN + 0.5) % 1 - 0.5
            hues[name] = round(first + width * away) % 360
    return hues


def _mark(hues: Mapping[str, int], instance: str | None, kind: str) -> Markup:
    if instance is None:
        return tag("span", class_="mark service")
    return tag("span", class_=f"mark {kind}", style=f"--h:{hues.get(instance, 0)}")
