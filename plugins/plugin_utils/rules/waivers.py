# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator knows better and takes responsibility for."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.rules.catalogue import RULES
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.fields import suggestion
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Topology


def apply_waivers(topology: Topology, report: Report) -> None:
    """After all other rules: what is waived is told apart and no longer stops the plan."""
    for waiver in topology.waive:
        rule = RULES.get(waiver.rule)
        if rule is None:
            report.error(
                "waiver-unknown",
                f"{waiver.place}.rule",
                f"{waiver.rule} is no rule, so nothing would be waived.",
                suggestion(waiver.rule, RULES) or "write the id that a report shows in brackets.",
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
