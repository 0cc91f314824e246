# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator knows better and takes responsibility for."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.catalogue import RULES as PREFLIGHT
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.rules.catalogue import RULES
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.fields import suggestion
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Topology, Waiver

UNKNOWN = "-unknown"  # the end of the names of rules about facts that could not be found out


def apply_waivers(topology: Topology, report: Report) -> None:
    """After all other rules: what is waived is told apart and no longer stops the plan."""
    for waiver in topology.waive:
        if waiver.rule in PREFLIGHT:
            _check_preflight(waiver, topology, report)
            continue
        rule = RULES.get(waiver.rule)
        if rule is None:
            report.error(
                "waiver-unknown",
                f"{waiver.place}.rule",
                f"{waiver.rule} is no rule, so nothing would be waived.",
                suggestion(waiver.rule, (*RULES, *PREFLIGHT)) or "write the id that a report shows in brackets.",
            )
        elif waiver.host:
            report.error(
                "waiver-host",
                f"{waiver.place}.host",
                f"{waiver.rule} is about keys of the file and not about hosts.",
                "write where: KEY, or leave it out to waive the rule everywhere.",
            )
        elif not rule.waivable:
            report.error(
                "waiver-refused",
                f"{waiver.place}.rule",
                f"{waiver.rule} cannot be waived: {rule.about}, so there would be no plan that could run.",
                "mend what the rule finds.",
            )
        elif not report.waive(waiver.rule, waiver.where, waiver.reason):
            elsewhere = [problem.where for problem in report.found if problem.rule == waiver.rule]
            report.warning(
                "waiver-unused",
                waiver.place,
                f"{waiver.rule} finds nothing{f' at {waiver.where}' if waiver.where else ''}"
                f"{', but at ' + ', '.join(elsewhere[:3]) if elsewhere else ' any more'}.",
                "correct where." if elsewhere else "remove the waiver, so that it does not hide a later finding.",
            )


def _check_preflight(waiver: Waiver, topology: Topology, report: Report) -> None:
    """What it finds is known when the hosts have been looked at; then its waivers are applied."""
    if waiver.host and waiver.host not in topology.hosts:
        report.error(
            "waiver-host",
            f"{waiver.place}.host",
            f"{waiver.host} is no host of the file, so nothing would be waived.",
            suggestion(waiver.host, topology.hosts) or "write a host of this file, or leave host out.",
        )
    unknown = waiver.rule.endswith(UNKNOWN)
    if unknown and not waiver.where:
        report.error(
            "waiver-host",
            waiver.place,
            f"{waiver.rule} can be about any fact, and what is not known today hides what is not known tomorrow.",
            "write where: the fact as the report names it before 'is unknown', such as where: tools.git.version.",
        )
    elif waiver.where and not unknown:
        report.error(
            "waiver-host",
            f"{waiver.place}.where",
            f"{waiver.rule} is about hosts and not about keys of the file, so nothing would be waived.",
            "write host: NAME, or leave it out to waive the rule on all hosts.",
        )
