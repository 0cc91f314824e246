# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the plan and the facts of all hosts to the verdict. Pure."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.catalogue import RULES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Fleet, Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import FAMILIES, Found, Rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.verdict import Finding, Verdict, Waived

# key of the facts -> families of rules that look at it
PROBES = {
    "host": ("host", "network"),
    "ports": ("ports",),
    "npu": ("npu",),
    "hccn": ("npu",),
    "rdma": ("rdma",),
}


def judge(
    cluster: Mapping[str, Any],
    plans: Mapping[str, Mapping[str, Any]],
    facts: Mapping[str, Mapping[str, Any]],
    absent: Mapping[str, str] | None = None,
    families: Collection[str] = FAMILIES,
) -> Verdict:
    """plans: pd_host by host. facts: of the hosts that were looked at. absent: why the others were not."""
    families = [family for family in FAMILIES if family in families and _needs(family, cluster)]
    hosts = {name: Host(name, plans[name], cluster, found) for name, found in facts.items() if name in plans}
    fleet = Fleet(cluster, hosts, absent or {})
    judged = [rule for rule in RULES.values() if rule.family in families]
    findings = sorted(
        (_finding(rule, found, host) for rule in judged for host, found in _apply(rule, fleet)), key=_order
    )
    kept, waived = _waive(findings, cluster.get("preflight_waivers") or ())
    return Verdict(
        cluster=cluster["name"],
        topology=cluster["source"],
        families=tuple(families),
        hosts={name: _looked_at(facts.get(name, {}), families) for name in plans},
        seen=_seen(hosts.values()),
        absent=dict(absent or {}),
        findings=tuple(kept),
        waived=tuple(waived),
        rules=tuple((rule.id, rule.family, rule.about) for rule in judged),
        kinds={name: tuple(dict.fromkeys(item["kind"] for item in plan["processes"])) for name, plan in plans.items()},
    )


def _seen(hosts: Iterable[Host]) -> float | None:
    times = [host.fact("host.clock.controller.received") for host in hosts]
    return max((time for time in times if isinstance(time, (int, float))), default=None)


def _needs(family: str, cluster: Mapping[str, Any]) -> bool:
    """Whether the plan has anything of it."""
    if family == "npu":
        return bool(cluster["engine"]["kind"] == "vllm_ascend")
    return family != "rdma" or bool(cluster["connector"]["protocol"] == "rdma")


def _apply(rule: Rule, fleet: Fleet) -> Iterator[tuple[str | None, Found]]:
    if rule.over is Fleet:
        yield from ((found.host, found) for found in _asked(rule, fleet))
        return
    for host in fleet:
        yield from ((host.name, found) for found in _asked(rule, host))


def _asked(rule: Rule, about: Any) -> Iterator[Found]:
    """What a rule finds. Facts that it cannot make sense of must not take the findings of all others away."""
    try:
        yield from rule.check(about)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        yield Found(
            what="this could not be judged, for the facts are not as the rule expects them",
            evidence=f"{type(error).__name__}: {error} ({PurePath(where.filename).name}:{where.lineno})",
            fix="look at it by hand, and report it with facts.json: it is a fault of this collection.",
            severity="error",
        )


def _finding(rule: Rule, found: Found, host: str | None) -> Finding:
    return Finding(
        rule=rule.id,
        family=rule.family,
        severity=found.severity or rule.severity,
        host=host,
        what=found.what,
        evidence=found.evidence,
        fix=found.fix,
        about=rule.about,
        why=rule.why,
        source=rule.source,
        where=found.where,
    )


def _order(finding: Finding) -> tuple[str, str, str]:
    return (finding.rule, finding.host or "", finding.what)


def _looked_at(facts: Mapping[str, Any], families: Collection[str]) -> tuple[str, ...]:
    seen = {family for probe in facts for family in PROBES.get(probe, ())}
    return tuple(family for family in FAMILIES if family in seen and family in families)


def _waive(findings: Iterable[Finding], waivers: Iterable[Mapping[str, Any]]) -> tuple[list[Finding], list[Waived]]:
    kept: list[Finding] = []
    waived: list[Waived] = []
    accepted = list(waivers)
    for finding in findings:
        reason = next((item["reason"] for item in accepted if _covers(item, finding)), None)
        if reason is None:
            kept.append(finding)
        else:
            waived.append(Waived(finding, reason))
    return kept, waived


def _covers(waiver: Mapping[str, Any], finding: Finding) -> bool:
    fact = waiver.get("fact")
    return (
        waiver["rule"] == finding.rule
        and waiver.get("host") in (None, finding.host)
        and (fact is None or finding.where == fact or finding.where.startswith(f"{fact}."))
    )
