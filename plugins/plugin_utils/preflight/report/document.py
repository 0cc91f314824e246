# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict as one JSON document, grouped by what to do. Text, JUnit and page are drawn from it and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import FAMILIES, SEVERITIES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.verdict import Finding, Verdict

SCHEMA = 1  # goes up when a key is renamed, removed or means something else
COUNTED = {"error": "errors", "warning": "warnings", "notice": "notices"}

Document = dict[str, Any]


def document(verdict: Verdict) -> Document:
    """The only date in it is when the facts were seen: the same verdict is the same document."""
    hosts = _hosts(verdict)
    rank = _family_rank(verdict)
    severities = Counter(finding.severity for finding in verdict.findings)
    return {
        "schema": SCHEMA,
        "cluster": verdict.cluster,
        "topology": verdict.topology,
        "seen": _moment(verdict.seen),
        "summary": {
            "hosts": len(hosts),
            "looked_at": sum(bool(host["families"]) for host in hosts.values()),
            "absent": len(verdict.absent),
            **{COUNTED[severity]: severities[severity] for severity in SEVERITIES},
            "waived": len(verdict.waived),
            "families": sorted(verdict.families, key=rank),
        },
        "groups": _groups([(finding, None) for finding in verdict.findings], list(hosts), rank),
        "hosts": hosts,
        "absent": dict(verdict.absent),
        "waived": _groups([(item.finding, item.reason) for item in verdict.waived], list(hosts), rank),
        "rules": [{"rule": rule, "family": family, "about": about} for rule, family, about in verdict.rules],
    }


def _moment(seen: float | None) -> str | None:
    return None if seen is None else f"{datetime.fromtimestamp(seen, timezone.utc):%Y-%m-%d %H:%M} UTC"


def to_json(content: Document) -> str:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    # halves of surrogate pairs, out of bytes that were no UTF-8: \udcff is an escape of JSON too
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def clean(content: Document) -> bool:
    """Something was looked at, nothing was left out, and there is nothing to mend."""
    count = content["summary"]
    return bool(count["looked_at"] and content["rules"]) and not (
        count["absent"] or count["errors"] or count["warnings"]
    )


def families(content: Document) -> list[str]:
    """Those that were judged, then those that something was found in all the same."""
    found = (group["family"] for group in content["groups"])
    return list(dict.fromkeys([*content["summary"]["families"], *found]))


def _hosts(verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Counter[str]] = {}
    for finding in verdict.findings:
        if finding.host is not None:
            found.setdefault(finding.host, Counter())[finding.severity] += 1
    names = dict.fromkeys([*verdict.kinds, *verdict.hosts, *verdict.absent, *found])
    return {
        name: {
            "kinds": list(verdict.kinds.get(name, ())),
            "families": [] if name in verdict.absent else list(verdict.hosts.get(name, ())),
            **{COUNTED[severity]: found.get(name, Counter())[severity] for severity in SEVERITIES},
        }
        for name in names
    }


def _family_rank(verdict: Verdict) -> Callable[[str], int]:
    order = list(dict.fromkeys([*FAMILIES, *verdict.families]))
    ranks = {family: number for number, family in enumerate(order)}
    return lambda family: ranks.get(family, len(ranks))


def _groups(
    findings: Iterable[tuple[Finding, str | None]], fleet: Sequence[str], rank: Callable[[str], int]
) -> list[dict[str, Any]]:
    """One for each way out of each rule, its findings in the order of the hosts; a waived one has the reason too."""
    order: dict[str | None, int] = {None: -1, **{name: number for number, name in enumerate(fleet)}}
    found: dict[tuple[str, str, str, str | None], list[Finding]] = {}
    for finding, reason in sorted(findings, key=lambda item: order.get(item[0].host, len(fleet))):
        found.setdefault((finding.rule, finding.severity, finding.fix, reason), []).append(finding)
    groups = [_group(members, key[-1]) for key, members in found.items()]
    return sorted(groups, key=lambda group: _worst_first(group, len(fleet), rank))


def _group(members: Sequence[Finding], reason: str | None) -> dict[str, Any]:
    first = members[0]
    return {
        "rule": first.rule,
        "family": first.family,
        "severity": first.severity,
        "about": first.about,
        "why": first.why,
        "fix": first.fix,
        "source": first.source,
        **({} if reason is None else {"reason": reason}),
        "hosts": list(dict.fromkeys(finding.host for finding in members if finding.host is not None)),
        "findings": [{"host": finding.host, "what": finding.what, "evidence": finding.evidence} for finding in members],
    }


def _worst_first(group: Mapping[str, Any], fleet: int, rank: Callable[[str], int]) -> tuple[Any, ...]:
    everywhere = any(finding["host"] is None for finding in group["findings"])
    hosts = fleet if everywhere else len(group["hosts"])
    return (SEVERITIES.index(group["severity"]), -hosts, rank(group["family"]), group["rule"], group["fix"])
