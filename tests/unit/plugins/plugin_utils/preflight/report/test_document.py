# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import document, page, text
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.verdict import Verdict
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight.report import verdicts

SUMMARY = {
    **{"hosts": 12, "looked_at": 11, "absent": 1, "errors": 14, "warnings": 1, "notices": 1, "waived": 1},
    "families": list(verdicts.FAMILIES),
}


def test_shape() -> None:
    content = document.document(verdicts.small())
    assert list(content) == [
        *("schema", "cluster", "topology", "seen", "summary"),
        *("groups", "hosts", "absent", "waived", "rules"),
    ]
    assert content["seen"] is None
    assert (content["schema"], content["cluster"], content["topology"]) == (1, "qwen", "/etc/pd/topology.yml")
    assert content["summary"] == SUMMARY
    assert content["absent"] == {"npu9": "ssh: no route to host"}
    assert content["rules"][0] == {"rule": "memlock-low", "family": "host", "about": "units may lock memory"}


def test_groups_are_what_is_done_in_one_way_worst_first() -> None:
    groups = document.document(verdicts.small())["groups"]
    told = [(group["severity"], group["rule"], len(group["findings"])) for group in groups]
    assert told == [
        ("error", "tls-differs", 1),  # of the fleet, which is all hosts
        ("error", "link-down", 8),
        ("error", "memlock-low", 4),
        ("error", "peer-filtered", 1),
        ("warning", "swap-on", 1),
        ("notice", "governor-slow", 1),
    ]
    lock = groups[2]
    assert lock["hosts"] == ["npu1", "npu2", "npu3", "npu5"]
    assert lock["findings"][0] == {
        **{"host": "npu1", "what": "units may lock 64 KiB of memory only", "evidence": "memlock 65531"}
    }
    assert groups[0]["hosts"] == []
    assert groups[0]["findings"][0]["host"] is None


def test_one_rule_with_two_ways_out_or_two_severities_is_several_groups() -> None:
    findings = (
        verdicts.finding("swap-on", "npu1", fix="one"),
        verdicts.finding("swap-on", "npu2", fix="two"),
        verdicts.finding("swap-on", "npu3", "warning", fix="one"),
        verdicts.finding("swap-on", "npu1", fix="one", what="again"),
    )
    groups = document.document(verdicts.verdict(findings=findings))["groups"]
    assert [(group["severity"], group["fix"], group["hosts"], len(group["findings"])) for group in groups] == [
        ("error", "one", ["npu1"], 2),
        ("error", "two", ["npu2"], 1),
        ("warning", "one", ["npu3"], 1),
    ]


def test_no_warning_stands_before_an_error() -> None:
    many = (verdicts.finding("swap-on", f"npu{n}", "warning") for n in range(1, 9))
    findings = (*many, verdicts.finding("port-taken", "npu9"))
    groups = document.document(verdicts.verdict(12, findings=findings))["groups"]
    assert [group["severity"] for group in groups] == ["error", "warning"]


def test_groups_of_as_many_hosts_stand_in_the_order_of_families() -> None:
    rules = ("gid-missing", "link-down", "port-taken", "peer-filtered", "swap-on")
    findings = tuple(verdicts.finding(rule, "npu1") for rule in rules)
    groups = document.document(verdicts.verdict(findings=findings))["groups"]
    assert [group["family"] for group in groups] == list(verdicts.FAMILIES)


def test_hosts_of_a_group_stand_in_the_order_of_the_plan() -> None:
    findings = tuple(verdicts.finding("swap-on", f"npu{n}") for n in (1, 10, 2))
    (group,) = document.document(verdicts.verdict(12, findings=findings))["groups"]
    assert group["hosts"] == ["npu1", "npu2", "npu10"]


def test_hosts_tell_what_was_found_on_them() -> None:
    hosts = document.document(verdicts.small())["hosts"]
    assert hosts["npu1"] == {
        **{"kinds": ["prefill"], "families": list(verdicts.FAMILIES)},
        **{"errors": 2, "warnings": 0, "notices": 1},
    }
    assert hosts["npu9"]["families"] == []
    assert hosts["front"]["families"] == ["host", "network", "ports"]


def test_an_absent_host_counts_as_not_looked_at_whatever_came_from_it() -> None:
    content = document.document(verdicts.verdict(absent={"npu1": "it hangs"}))
    assert content["hosts"]["npu1"]["families"] == []
    assert content["summary"]["looked_at"] == 3


def test_waived_ones_are_groups_with_a_reason_and_count_nowhere_else() -> None:
    content = document.document(verdicts.small())
    (group,) = content["waived"]
    assert (group["rule"], group["hosts"], group["reason"]) == ("gid-missing", ["npu4"], "the card is a spare")
    assert "gid-missing" not in [group["rule"] for group in content["groups"]]
    assert content["hosts"]["npu4"]["errors"] == 1


@pytest.mark.parametrize("verdict", [verdicts.small(), verdicts.hostile(), verdicts.clean()])
def test_json_is_the_document_and_can_be_written(verdict: Verdict) -> None:
    content = document.document(verdict)
    text = document.to_json(content)
    assert json.loads(text.encode("utf-8")) == content
    assert text == document.to_json(document.document(verdict))


@pytest.mark.parametrize(
    ("verdict", "clean"),
    [
        (verdicts.clean(), True),
        (verdicts.verdict(findings=(verdicts.finding("swap-on", "npu1", "notice"),)), True),
        (verdicts.verdict(findings=(verdicts.finding("swap-on", "npu1", "warning"),)), False),
        (verdicts.verdict(findings=(verdicts.finding("swap-on", None),)), False),
        (verdicts.verdict(absent={"npu1": "it hangs"}), False),
        (verdicts.verdict(hosts={}), False),
        (verdicts.verdict(rules=()), False),
    ],
)
def test_what_is_not_known_is_not_clean(verdict: Verdict, clean: bool) -> None:
    assert document.clean(document.document(verdict)) is clean


def test_the_moment_of_the_look_is_told_in_all_reports() -> None:
    content = document.document(dataclasses.replace(verdicts.small(), seen=1796007240.5))
    assert content["seen"] == "2026-11-30 02:54 UTC"
    assert "seen 2026-11-30 02:54 UTC" in text.text(content)
    assert "Seen 2026-11-30 02:54 UTC." in page.page(content)
