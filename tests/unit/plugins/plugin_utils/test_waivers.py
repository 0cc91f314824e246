# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator accepts no longer stops the plan, but stays in every report."""

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import ascend, plan, rules

REASON = "no Kubernetes on these hosts"


def nodeport(where=None, rule="port-in-nodeport-range"):
    raw = ascend()
    raw["prefill"][0]["kv_port"] = 30000
    waiver = {"rule": rule, "reason": REASON}
    raw["waive"] = [{**waiver, "where": where} if where else waiver]
    return raw


@pytest.mark.parametrize("where", [None, "prefill", "prefill[0]", "prefill[0].kv_port"])
def test_a_waived_warning_is_told_with_its_reason(where):
    built = plan(nodeport(where))
    assert built.warnings == ()
    (waived,) = [item.as_dict() for item in built.waived]
    assert (waived["rule"], waived["where"], waived["reason"]) == (
        "port-in-nodeport-range",
        "prefill[0].kv_port",
        REASON,
    )


@pytest.mark.parametrize("where", ["decode", "prefill[1]", "prefill[0].kv", "kv_port"])
def test_a_waiver_for_another_place_waives_nothing(where):
    assert rules(nodeport(where)) == {("port-in-nodeport-range", "prefill[0].kv_port"), ("waiver-unused", "waive[0]")}


def test_an_error_that_leaves_a_plan_can_be_waived():
    raw = ascend()
    raw["prefill"][0]["kv_port"] = 20100
    assert rules(raw) == {("port-in-pool", "prefill[0].kv_port")}
    raw["waive"] = [{"rule": "port-in-pool", "reason": "tried for a year"}]
    assert [item.problem.severity for item in plan(raw).waived] == ["error"]


def test_waived_findings_stand_in_the_report_of_a_plan_that_fails():
    raw = nodeport()
    raw["decode"][0]["tp"] = 3
    with pytest.raises(PlanError, match=r"waived: .*\[port-in-nodeport-range\].* Waived: no Kubernetes on these hosts"):
        plan(raw)


def test_a_waiver_needs_a_reason():
    raw = nodeport()
    del raw["waive"][0]["reason"]
    assert ("schema-required", "waive[0].reason") in rules(raw)


def test_a_rule_about_keys_is_not_waived_for_a_host():
    raw = nodeport()
    raw["waive"][0]["host"] = "npu1"
    assert ("waiver-host", "waive[0].host") in rules(raw)


@pytest.mark.parametrize("host", [None, "npu2"])
def test_waivers_of_preflight_go_to_whoever_looks_at_the_hosts(host):
    raw = ascend()
    waiver = {"rule": "selinux-enforcing", "reason": REASON}
    raw["waive"] = [{**waiver, "host": host} if host else waiver]
    built = plan(raw)
    assert built.warnings == ()
    assert built.cluster()["preflight_waivers"] == [{**waiver, "host": host, "fact": None}]


def test_what_is_unknown_is_waived_fact_by_fact():
    raw = ascend()
    raw["waive"] = [{"rule": "npu-unknown", "reason": REASON}]
    assert rules(raw) == {("waiver-host", "waive[0]")}
    raw["waive"][0]["where"] = "firmware"
    assert plan(raw).cluster()["preflight_waivers"] == [
        {"rule": "npu-unknown", "reason": REASON, "host": None, "fact": "firmware"}
    ]
