# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict as text for a terminal: what to do, worst first, in as many lines as are still read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import SEVERITIES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import words
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report.conclusion import conclusion
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report.document import COUNTED, Document
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.table import Line

# Styles of lines: title | error | warning | notice | good | plain | dim
MOST_LINES = 120
MOST_NOTICES = 5  # groups of them; more are counted only
PAGE = "preflight.html"

_TEXTS = (5, 2)  # different texts of a group that are shown; the lower number when groups would not fit
_MOST_ABSENT = 5  # reasons
_MOST_WAIVED = 5
_MOST_LEFT = 12  # rules that are named though their groups are left out

_Block = list[Line]


def lines(content: Document) -> list[Line]:
    head = [*_head(content), *_absent(content)]
    tail = [*_waived(content), Line(""), Line(*conclusion(content, "the above"))]
    shown, counted = _to_show(content)
    room = MOST_LINES - len(head) - len(tail) - 3  # what is left out, what is only counted
    blocks: list[_Block] = []
    for most in _TEXTS:
        blocks = [[Line(""), *_block(group, most)] for group in shown]
        if sum(map(len, blocks)) <= room:
            break
    fitting = _fitting(blocks, room)
    return [
        *head,
        *(line for block in blocks[:fitting] for line in block),
        *_left_out(shown[fitting:]),
        *([Line(counted, "dim")] if counted else []),
        *tail,
    ]


def text(content: Document) -> str:
    return "\n".join(line.text for line in lines(content)) + "\n"


def _fitting(blocks: Sequence[_Block], room: int) -> int:
    for number, block in enumerate(blocks):
        room -= len(block)
        if room < 0:
            return number
    return len(blocks)


def _to_show(content: Document) -> tuple[list[dict[str, Any]], str]:
    """Groups that are shown, and what is said of the notices when they are not among them."""
    notices = [group for group in content["groups"] if group["severity"] == "notice"]
    if len(notices) <= MOST_NOTICES:
        return content["groups"], ""
    rest = [group for group in content["groups"] if group["severity"] != "notice"]
    count = content["summary"]["notices"]
    return rest, f"{words.counted(count, 'notice')} in {len(notices)} groups, worth knowing: see {PAGE}"


def _head(content: Document) -> Iterator[Line]:
    count = content["summary"]
    told = [words.counted(count["hosts"], "host")]
    if count["absent"]:
        told.append(f"{count['absent']} of them not looked at")
    for severity in SEVERITIES:
        groups = sum(group["severity"] == severity for group in content["groups"])
        number = count[COUNTED[severity]]
        if number or severity != "notice":
            many = f" in {words.counted(groups, 'group')}" if number > groups and severity != "notice" else ""
            told.append(words.counted(number, severity) + many)
    if count["waived"]:
        told.append(f"{count['waived']} waived")
    cluster = words.one_line(content["cluster"])
    yield Line(f"preflight of {cluster}: {', '.join(told)}; nothing was changed", "title")
    judged = ", ".join(count["families"]) or "nothing"
    yield Line(
        f"  {words.counted(len(content['rules']), 'rule')} about {judged}; "
        f"facts of {words.counted(count['looked_at'], 'host')}"
        + (f", seen {content['seen']}" if content["seen"] else ""),
        "dim",
    )


def _absent(content: Document) -> Iterator[Line]:
    """Those that no rule tells of."""
    told = {host for group in content["groups"] for host in group["hosts"]}
    reasons: dict[str, list[str]] = {}
    for host, reason in content["absent"].items():
        if host not in told:
            reasons.setdefault(reason, []).append(host)
    if not reasons:
        return
    yield Line("")
    for reason, hosts in _most(reasons, _MOST_ABSENT):
        yield Line(f"NOT LOOKED AT {words.where(hosts)}: {words.one_line(reason, words.EVIDENCE)}", "error")
    if len(reasons) > _MOST_ABSENT:
        more = sum(len(hosts) for _reason, hosts in _most(reasons)[_MOST_ABSENT:])
        yield Line(f"NOT LOOKED AT {words.counted(more, 'more host')}: see {PAGE}", "error")


def _most(reasons: dict[str, list[str]], number: int | None = None) -> list[tuple[str, list[str]]]:
    return sorted(reasons.items(), key=lambda item: -len(item[1]))[:number]


def _block(group: dict[str, Any], most: int) -> Iterator[Line]:
    findings = group["findings"]
    texts = words.by_what(findings)
    hosts = [finding["host"] for finding in findings]
    head = f"{group['severity'].upper()} [{group['rule']}] {words.where(hosts)}"
    if len(group["hosts"]) > 1:
        head += f" ({len(group['hosts'])} hosts)"
    if len(texts) == 1:
        yield Line(f"{head}: {words.one_line(texts[0][0])}", group["severity"])
    else:
        yield Line(head, group["severity"])
        for what, saying in texts[:most]:
            yield Line(f"  {words.where((item['host'] for item in saying), 60)}: {words.one_line(what)}")
        if len(texts) > most:
            yield Line(f"  and {len(texts) - most} more: see {PAGE}", "dim")
    yield from _seen(texts[0][1], alone=len(set(hosts)) == 1)
    if group["why"]:
        yield Line(f"  Why: {words.one_line(group['why'])}")
    if group["fix"]:
        yield Line(f"  Mend: {words.one_line(group['fix'])}", "good")


def _seen(findings: Sequence[dict[str, Any]], alone: bool) -> Iterator[Line]:
    """One piece of evidence stands for all."""
    told = next((item for item in findings if item["evidence"].strip()), None)
    if told:
        on = "" if alone or told["host"] is None else f" on {words.one_line(told['host'])}"
        yield Line(f"  Seen{on}: {words.one_line(told['evidence'], words.EVIDENCE)}", "dim")


def _left_out(groups: Sequence[dict[str, Any]]) -> Iterator[Line]:
    if not groups:
        return
    severities = Counter(group["severity"] for group in groups)
    kinds = ", ".join(f"{COUNTED[key]}: {severities[key]}" for key in SEVERITIES if severities[key])
    rules = list(dict.fromkeys(group["rule"] for group in groups))
    named = ", ".join(rules[:_MOST_LEFT]) + (", ..." if len(rules) > _MOST_LEFT else "")
    yield Line("")
    yield Line(
        f"{words.counted(len(groups), 'more group')} left out here ({kinds}): {named}: see {PAGE}",
        groups[0]["severity"],
    )


def _waived(content: Document) -> Iterator[Line]:
    groups = content["waived"]
    if not groups:
        return
    yield Line("")
    for group in groups[:_MOST_WAIVED]:
        hosts = words.where(finding["host"] for finding in group["findings"])
        first, many = words.one_line(group["findings"][0]["what"]), len(group["findings"])
        what = first if many == 1 else f"{first} and {many - 1} more"
        said = (
            f"WAIVED {group['severity']} [{group['rule']}] {hosts}: {what}. Reason: {words.one_line(group['reason'])}"
        )
        yield Line(said, "dim")
    if len(groups) > _MOST_WAIVED:
        yield Line(f"WAIVED {len(groups) - _MOST_WAIVED} more: see {PAGE}", "dim")
