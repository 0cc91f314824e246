# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict as one HTML file to look at, to print and to send: nothing is loaded from anywhere."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import SEVERITIES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import assets, words
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report.conclusion import conclusion
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report.document import (
    COUNTED,
    Document,
    to_json,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report.grid import SYMBOLS, grid, kind, pills
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.assets import POLICY
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.markup import Markup, joined, tag, whole

# up to so many groups and hosts lie open; beyond that they can be opened
_OPEN_GROUPS, _OPEN_HOSTS = 12, 16
_MOST_TEXTS = 5
# characters of evidence: of one finding, and at least and about how many of all hosts together
_MOST_EVIDENCE, _LEAST_EVIDENCE, _ALL_EVIDENCE = 2000, 120, 750_000
_WIDEST = 10**9  # all hosts are named
_LINK = re.compile(r"(https://[^\s<>\"']+[^\s<>\"'.,;:)\]])")


def page(content: Document) -> str:
    anchors = _anchors(content)
    sections = [
        ("fleet", "Fleet", grid(content, anchors)),
        ("absent", "Not looked at", _absent(content)),
        ("mend", "To mend", _groups(content)),
        ("hosts", "Hosts", _hosts(content, anchors)),
        ("waived", "Waived", _waived(content)),
        ("rules", "Rules", _rules(content)),
    ]
    shown = [(key, title, body) for key, title, body in sections if body]
    cluster = words.printable(content["cluster"])
    return whole(
        f"Preflight of {cluster}",
        assets.STYLE,
        POLICY,
        tag("a", "To what to mend", href="#mend", class_="skip"),
        _header(content, cluster),
        _navigation([(key, title) for key, title, _body in shown]),
        tag("main", *(tag("section", tag("h2", title, id=key), part) for key, title, part in shown)),
        _footer(content),
        tag("script", Markup(assets.SCRIPT)),
    )


def _header(content: Document, cluster: str) -> Markup:
    count = content["summary"]
    looked = (
        str(count["hosts"]) if count["looked_at"] == count["hosts"] else f"{count['looked_at']} of {count['hosts']}"
    )
    tiles: list[tuple[str, str, str | None]] = [(looked, "hosts looked at", None)]
    if count["absent"]:
        tiles.append((str(count["absent"]), "not looked at", "warning"))
    tiles += [
        (f"{SYMBOLS[severity]} {count[COUNTED[severity]]}", COUNTED[severity], severity)
        for severity in SEVERITIES
        if count[COUNTED[severity]]
    ]
    if count["waived"]:
        tiles.append((str(count["waived"]), "waived", None))
    tiles.append((str(len(content["rules"])), "rules asked", None))
    said, severity = conclusion(content, "what stands below")
    seen = f"Seen {content['seen']}. " if content["seen"] else ""
    return tag(
        "header",
        tag("h1", tag("small", "Preflight"), cluster),
        tag(
            "ul",
            *(tag("li", tag("b", number), tag("span", what), class_=own) for number, what, own in tiles),
            class_="tiles",
        ),
        tag("p", f"{seen}{said}", class_=f"said {severity}"),
    )


def _navigation(sections: Sequence[tuple[str, str]]) -> Markup:
    field = tag("input", id="filter", type="search", placeholder="host, rule, word", autocomplete="off")
    return tag(
        "nav",
        tag(
            "div",
            *(tag("a", title, href=f"#{key}") for key, title in sections),
            # the script shows it: without one it would do nothing
            tag("label", "Filter ( / )", field, hidden=True),
            tag("output", id="found", class_="soft", aria_live="polite", for_="filter"),
        ),
        aria_label="Parts of the report",
    )


def _absent(content: Document) -> Markup:
    reasons: dict[str, list[str]] = {}
    for host, reason in content["absent"].items():
        reasons.setdefault(reason, []).append(host)
    return joined(
        tag(
            "div",
            tag("p", tag("b", words.where(hosts, _WIDEST))),
            tag("pre", words.printable(reason), class_="raw"),
            class_="group warning",
            data_find=_find(hosts),
        )
        for reason, hosts in reasons.items()
    )


# ---- what to do


def _groups(content: Document) -> Markup:
    groups = content["groups"]
    if not groups:
        return tag("p", "Nothing was found.")
    opened = len(groups) <= _OPEN_GROUPS
    told = tag("p", "What is mended in one way stands together, the worst first.", class_="soft")
    return joined([told, *(_group(group, f"g{number}", opened) for number, group in enumerate(groups))])


def _waived(content: Document) -> Markup:
    return joined(_group(group, f"w{number}", False) for number, group in enumerate(content["waived"]))


def _group(group: dict[str, Any], anchor: str, opened: bool) -> Markup:
    severity, waived = group["severity"], "reason" in group
    everywhere = any(finding["host"] is None for finding in group["findings"])
    many = "the fleet" if everywhere else words.counted(len(group["hosts"]), "host")
    return tag(
        "details",
        tag(
            "summary",
            tag("span", "waived", class_="pill") if waived else "",
            tag("span", f"{SYMBOLS[severity]} {severity}", class_="pill" if waived else f"pill {severity}"),
            " ",
            tag("code", group["rule"]),
            tag("span", f"{many} \N{MIDDLE DOT} {words.printable(group['about'])}", class_="soft"),
        ),
        tag("dl", *(part for title, told in _parts(group) for part in (tag("dt", title), tag("dd", told))), id=anchor),
        class_="group" if waived else f"group {severity}",
        open=opened,
        data_find=_find(group["hosts"]),
    )


def _parts(group: dict[str, Any]) -> Iterator[tuple[str, Markup]]:
    texts = words.by_what(group["findings"])
    if len(texts) > 1:
        yield "Hosts", joined([words.where((finding["host"] for finding in group["findings"]), _WIDEST)])
    found = [_text(what, findings) for what, findings in texts]
    more = found[_MOST_TEXTS:]
    folded = tag("details", tag("summary", f"and {len(more)} more"), tag("ul", *more)) if more else ""
    yield "Found", joined([tag("ul", *found[:_MOST_TEXTS]), folded])
    seen = next((finding for finding in group["findings"] if finding["evidence"].strip()), None)
    if seen:
        on = tag("b", words.one_line(seen["host"])) if seen["host"] and len(group["hosts"]) > 1 else ""
        yield "Seen", joined([on, _evidence(seen["evidence"])])
    if group["why"]:
        yield "Why", joined([words.printable(group["why"])])
    if "reason" in group:
        yield "Waived", tag("b", words.printable(group["reason"]))
    if group["fix"]:
        copy = tag("button", "Copy", type="button", hidden=True)
        yield "Mend", tag("div", tag("pre", words.printable(group["fix"])), copy, class_="fix")
    if group["source"]:
        yield "Source", _linked(group["source"])


def _text(what: str, findings: Sequence[dict[str, Any]]) -> Markup:
    hosts = words.where((finding["host"] for finding in findings), _WIDEST)
    return tag("li", tag("b", hosts), f": {words.printable(what)}")


def _evidence(text: str, most: int = _MOST_EVIDENCE) -> Markup:
    told = words.printable(text.strip("\n"))
    cut = told if len(told) <= most else f"{told[:most]} ..."
    return tag("pre", cut, class_="raw")


def _linked(text: str) -> Markup:
    """Addresses in it are links when they are https; anything else stays text."""
    parts = _LINK.split(words.printable(text))
    return joined(
        tag("a", part, href=part, rel="noreferrer noopener") if number % 2 else part
        for number, part in enumerate(parts)
    )


# ---- hosts


def _hosts(content: Document, anchors: Mapping[str, str]) -> Markup:
    found: dict[str, list[tuple[int, dict[str, Any], dict[str, Any]]]] = {name: [] for name in anchors}
    for number, group in enumerate(content["groups"]):
        for finding in group["findings"]:
            if finding["host"] is not None:
                found[finding["host"]].append((number, group, finding))
    most = max(_LEAST_EVIDENCE, min(_MOST_EVIDENCE, _ALL_EVIDENCE // max(sum(map(len, found.values())), 1)))
    parts = [
        _host(name, content["hosts"][name], anchor, [_found(*item, most) for item in found[name]], len(anchors))
        for name, anchor in anchors.items()
    ]
    quiet = [name for name, host in content["hosts"].items() if name not in anchors and host["families"]]
    if quiet:
        told = f"Nothing was found on {words.counted(len(quiet), 'host')}: "
        parts.append(tag("p", told, tag("b", words.where(quiet, _WIDEST)), class_="soft"))
    return joined(parts)


def _found(number: int, group: dict[str, Any], finding: dict[str, Any], most: int) -> Markup:
    severity = group["severity"]
    return tag(
        "li",
        tag("span", SYMBOLS[severity], class_=f"pill {severity}", title=severity),
        tag("a", tag("code", group["rule"]), href=f"#g{number}"),
        f" {words.printable(finding['what'])}",
        _evidence(finding["evidence"], most) if finding["evidence"].strip() else "",
    )


def _host(name: str, host: dict[str, Any], anchor: str, found: Sequence[Markup], hosts: int) -> Markup:
    counts = {severity: host[COUNTED[severity]] for severity in SEVERITIES}
    worst = next(severity for severity in SEVERITIES if counts[severity])
    head = tag("summary", words.printable(name), tag("span", f" {kind(host)}", class_="soft"), pills(counts))
    # a browser opens what is closed when the address names something in it
    body = tag("ul", *found, id=anchor)
    return tag("details", head, body, class_=f"one {worst}", open=hosts <= _OPEN_HOSTS)


def _anchors(content: Document) -> dict[str, str]:
    """Where the findings of a host stand; the hosts that have some, the worst first."""
    names = content["hosts"]
    having = [name for name in names if any(names[name][COUNTED[severity]] for severity in SEVERITIES)]
    having.sort(key=lambda name: tuple(-names[name][COUNTED[severity]] for severity in SEVERITIES))
    number = {name: index for index, name in enumerate(names)}
    return {name: f"h{number[name]}" for name in having}


# ---- the rest


def _rules(content: Document) -> Markup:
    worst: dict[str, str] = {}
    for group in reversed(content["groups"]):
        worst[group["rule"]] = group["severity"]
    waived = {group["rule"] for group in content["waived"]}
    rows = []
    for item in content["rules"]:
        state = worst.get(item["rule"]) or ("waived" if item["rule"] in waived else "good")
        said = f"{SYMBOLS.get(state, '')} {'nothing found' if state == 'good' else state}"
        rows.append(
            tag(
                "tr",
                tag("td", tag("span", said, class_=f"pill {state}")),
                tag("td", item["family"]),
                tag("th", tag("code", item["rule"]), scope="row"),
                tag("td", words.printable(item["about"])),
            )
        )
    head = tag("tr", *(tag("th", title, scope="col") for title in ("State", "Family", "Rule", "What has to hold")))
    if not rows:
        return Markup()
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    return tag("div", table, class_="panel wide", tabindex="0", role="region", aria_label="Rules that were asked")


def _find(hosts: Sequence[str]) -> str:
    """What the filter finds it by besides its text, in which hosts are shortened."""
    return " ".join(words.one_line(host) for host in hosts)


def _footer(content: Document) -> Markup:
    digest = hashlib.sha256(to_json(content).encode()).hexdigest()[:12]
    return tag(
        "footer",
        f"Looked at for {words.printable(content['topology'])} by mooncake.pd; nothing was changed on any host. "
        f"sha256 of preflight.json begins with {digest}.",
    )
