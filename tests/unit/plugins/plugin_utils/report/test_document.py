# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from ansible_collections.mooncake.pd.plugins.plugin_utils.report import document
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils import topologies
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.report import documents


def test_document_of_a_plan_has_all_of_it() -> None:
    plan = topologies.plan(topologies.ascend())
    content = document.document(plan)
    assert list(content) == ["schema", "cluster", "hosts", "start_order", "warnings", "waived", "choices"]
    assert list(content["hosts"]) == list(plan.topology.hosts)
    for name, host in content["hosts"].items():
        assert {**host, "chips": None} == {**plan.hostvars(name)["pd_host"], "chips": None}
    assert content["cluster"] == {**plan.cluster(), "instances": plan.instances()}
    assert content["choices"] == [choice.as_dict() for choice in plan.choices] != []


def test_warnings_name_their_line() -> None:
    raw = topologies.cpu()
    raw["hosts"]["spare"] = {"address": "192.0.2.99"}
    (warning,) = document.document(topologies.plan(raw))["warnings"]
    assert warning.keys() == {"rule", "where", "message", "fix", "line"}
    assert warning["where"] == "hosts.spare"


def test_start_order_has_every_process_once() -> None:
    for raw in (topologies.cpu(), topologies.ascend(), topologies.ascend("MooncakeLayerwiseConnector")):
        content = document.document(topologies.plan(raw))
        started = [
            name for wave in content["start_order"] for member in wave["members"] for name in member["processes"]
        ]
        planned = [process["name"] for host in content["hosts"].values() for process in host["processes"]]
        assert sorted(started) == sorted(planned)


def test_hosts_of_an_instance_start_together_and_waves_follow_each_other() -> None:
    waves = documents.small()["start_order"]
    assert [(wave["wave"], wave["name"]) for wave in waves] == [
        (1, "master"),
        (2, "prefill"),
        (3, "decode"),
        (4, "router"),
    ]
    assert waves[1]["members"] == [{"name": "p1", "hosts": ["npu1", "npu2"], "processes": ["p1-0", "p1-1"]}]
    assert [member["name"] for member in waves[3]["members"]] == ["router-a", "router-b", "router"]
    assert [wave["name"] for wave in documents.large(4)["start_order"]] == ["prefill", "decode"]


def test_a_host_with_several_processes_of_an_instance_is_named_once() -> None:
    ranks = [documents.engine(f"d1-{rank}", "decode", "192.0.2.1", [rank], [rank]) for rank in (0, 1)]
    (wave,) = documents.document([documents.host("npu1", "192.0.2.1", ranks)], [])["start_order"]
    assert wave["members"] == [{"name": "d1", "hosts": ["npu1"], "processes": ["d1-0", "d1-1"]}]


def test_json_is_the_document_in_its_order() -> None:
    content = documents.small()
    text = document.to_json(content)
    assert json.loads(text) == content
    assert list(json.loads(text)["hosts"]) == ["npu1", "npu2", "npu3"]
    assert text.endswith("}\n")


def test_summary_counts() -> None:
    assert document.summary(documents.small()) == {
        **{"hosts": 3, "processes": 7, "prefill": 1, "decode": 1, "devices": 20},
        **{"warnings": 1, "waived": 1, "choices": 2},
    }
