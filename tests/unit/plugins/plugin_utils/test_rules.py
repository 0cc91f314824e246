# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule is seen to speak, at the right place and alone, and to be silent on a topology that keeps it."""

from __future__ import annotations

import re

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.rules.catalogue import RULES
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.faults import FAULTS, dense, hybrid, internal
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import ascend, cpu, problems, rules


@pytest.mark.parametrize("make", [cpu, ascend, hybrid, lambda: ascend("MooncakeLayerwiseConnector"), dense, internal])
def test_good_topologies_have_no_problem(make):
    assert problems(make()) == ()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_alone(name):
    make, change, expected = FAULTS[name]
    raw = make()
    change(raw)
    assert rules(raw) == {expected}


@pytest.mark.parametrize(
    "args",
    [
        ["--model-impl", "transformers", "--config-format", "hf", "--seed=1", "--block-size", "-1"],
        ["--uvicorn-log-level", "info", "--log-level=DEBUG", "--disable-uvicorn-access-log"],
        ["-q", "ascend", "-ep", "-O3", "-cc.mode", "3", "--no-enable-prefix-caching"],
        ["--api-server-count", "2", "--enable-log-requests", "--disable-access-log-for-endpoints", "/health"],
        ["--compilation-config", '{"cudagraph_mode":"FULL_DECODE_ONLY"}', "--enable-expert-parallel"],
    ],
    ids=lambda args: args[0],
)
def test_other_arguments_are_the_operators(args):
    assert problems({**ascend(), "engine_args": args}) == ()


@pytest.mark.parametrize("name", FAULTS)
def test_a_problem_says_what_breaks_and_how_to_mend_it(name):
    make, change, _expected = FAULTS[name]
    raw = make()
    change(raw)
    (problem,) = problems(raw)
    assert RULES[problem.rule].varies or problem.severity == RULES[problem.rule].severity
    assert problem.message.endswith(".")
    assert problem.fix.endswith((".", "?"))
    assert "{" not in problem.message + re.sub(r"\{(name: [^}]*|\"key\": value)\}", "", problem.fix)


def only(raw):
    (problem,) = problems(raw)
    return problem


def test_an_overlap_names_both_claims_both_places_and_a_free_port():
    raw = cpu()
    raw["prefill"].append({"name": "p2", "host": "p1", "bootstrap_port": 8999})
    problem = only(raw)
    assert problem.message == (
        "api 8100 of p2 on p1 overlaps api 8100 of p1 (prefill[0].api_port): "
        "the second to start fails with 'Address already in use' or hangs."
    )
    assert problem.fix == "set prefill[1].api_port to 8101, which is free on p1."


def test_an_overlap_with_a_pool_names_the_process_that_draws_from_it():
    raw = dense()
    raw["engine"]["version"], raw["mooncake"]["version"] = "0.13.0", "0.3.7.post2"
    raw["prefill"][0]["kv_port"] = 28000  # what the documents advise, one too low
    problem = only(raw)
    assert (
        "kv 28000-28007 of p1 on npu1 lies among the ports 20000-28000 that p1 (prefill[0].devices)" in problem.message
    )
    assert problem.fix == "set prefill[0].kv_port to 28001, which is free on npu1."


def test_the_port_that_an_overlap_proposes_is_good():
    raw = ascend()
    raw["prefill"][0] |= {"kv_port": 8094}
    value = int(only(raw).fix.split(" to ")[1].split(",")[0])
    raw["prefill"][0]["kv_port"] = value
    assert problems(raw) == ()


def test_a_key_of_several_hosts_moves_to_what_is_free_on_all_of_them():
    raw = internal()
    raw["engine"]["version"], raw["mooncake"]["version"] = "0.11.0", "0.3.7.post2"
    raw["decode"][0]["kv_port"] = 30200  # as the documentation of 0.11.0 writes it
    problem = next(problem for problem in problems(raw) if problem.rule == "port-in-pool")
    assert problem.fix == "set decode[0].kv_port to 19968, which is free on npu3 and npu4."
    raw["decode"][0]["kv_port"] = 19968
    assert problems(raw) == ()


def test_advice_for_two_keys_can_be_followed_at_once():
    raw = dense()
    raw["prefill"].append({"name": "p2", "host": "npu1", "tp": 8, "devices": list(range(8, 16))})
    for instance in raw["prefill"]:
        instance["kv_port"] = 20001
    found = [problem.fix.split(",")[0] for problem in problems(raw)]
    assert found == [
        "set prefill[0].kv_port to 19992",
        "set prefill[1].kv_port to 19984",
        "set prefill[1].kv_port to 19984",
    ]


def test_advice_for_a_default_counts_as_the_key_will_when_it_is_given():
    """By default the ranks' ports lie apart as their devices do; given, they follow each other."""
    raw = internal()
    raw["engine"]["data_parallel"] = "external"
    raw["prefill"][0] |= {"dp": 2, "tp": 4, "devices": list(range(8)), "api_port": 8208}
    raw["prefill"][1] |= {"dp": 2, "tp": 4}
    raw["decode"] = [{"name": "d1", "host": "npu1", "dp": 2, "tp": 4, "devices": list(range(8, 16))}]
    problem = next(problem for problem in problems(raw) if problem.rule == "port-overlap")
    place, _to, value = problem.fix.removeprefix("set ").partition(" to ")
    assert place == "decode[0].api_port"
    raw["decode"][0]["api_port"] = int(value.split(",")[0])
    assert not [problem for problem in problems(raw) if problem.rule == "port-overlap"]


def test_a_range_is_told_as_a_whole():
    raw = ascend()
    raw["prefill"][0]["kv_port"] = 30000
    assert only(raw).message.startswith("kv 30000-30007 lies in 30000-32767")


def test_values_with_spaces_are_no_glued_arguments():
    raw = {
        **ascend(),
        "engine_args": ['--compilation-config={"a": 1}', "--chat-template", "a b", "--reasoning-parser=x y"],
    }
    assert rules(raw) == set()


def test_advice_never_repeats_what_stands_there():
    raw = ascend()
    raw["prefill"][0] |= {"api_port": 7100, "kv_port": 7095}
    for problem in problems(raw):
        assert "api_port to 7100" not in problem.fix
        assert "kv_port to 7095" not in problem.fix


def test_a_port_out_of_a_tutorial_is_told_as_such():
    raw = ascend()
    raw["prefill"][0]["kv_port"] = 20001
    assert only(raw).message.endswith("'Address already in use'. Tutorials write 20001 all the same.")


def test_instances_on_a_host_publish_events_on_ports_of_their_own():
    raw = dense()
    raw["prefill"].append({"name": "p2", "host": "npu1", "tp": 8, "devices": list(range(8, 16))})
    raw["engine_args"] = ["--kv-events-config", '{"enable_kv_cache_events":true,"endpoint":"tcp://*:5557"}']
    assert rules(raw) == {("port-overlap", "prefill[1].args")}
    raw["prefill"][1]["args"] = ["--kv-events-config", '{"enable_kv_cache_events":true,"endpoint":"tcp://*:5558"}']
    assert rules(raw) == set()
    raw["engine_args"] = ["--kv-events-config", '{"enable_kv_cache_events":false}']
    del raw["prefill"][1]["args"]
    assert rules(raw) == set()


def test_ports_of_different_addresses_or_hosts_do_not_meet():
    raw = cpu()
    raw["router"] |= {"port": 18001}  # HAProxy has the host's address, the router processes 127.0.0.1
    raw["prefill"][0]["api_port"] = 8200
    assert problems(raw) == ()


def test_the_side_that_does_not_bind_claims_no_kv_ports():
    raw = dense()
    raw["decode"][0]["kv_port"] = 8200
    assert problems(raw) == ()


def test_a_lone_host_may_be_its_own_loopback():
    raw = cpu()
    raw["hosts"] = {"all_in_one": {"address": "127.0.0.1"}}
    for place in (*raw["prefill"], *raw["decode"], raw["router"], raw["master"]):
        place["host"] = "all_in_one"
    assert problems(raw) == ()


def test_upstream_takes_sizes_either_way_round():
    raw = cpu()
    raw["decode"][0]["tp"] = 2
    assert problems(raw) == ()


def test_unknown_names_bring_a_suggestion():
    raw = cpu()
    raw["connector"]["name"] = "MooncakeConnecter"
    assert only(raw).fix == "did you mean MooncakeConnector?"
    raw = cpu()
    raw["prefill"][0]["host"] = "p11"
    assert only(raw).fix == "did you mean p1?"


def test_warnings_alone_do_not_stop_the_plan_but_come_with_errors():
    raw = cpu()
    raw["master"]["rpc_port"] = 50051
    assert {problem.severity for problem in problems(raw)} == {"warning"}
    raw["prefill"][0]["dp"] = 2
    assert {problem.severity for problem in problems(raw)} == {"warning", "error"}
