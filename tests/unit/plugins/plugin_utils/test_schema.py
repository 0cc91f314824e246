# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import datetime

import pytest
import yaml

from ansible_collections.mooncake.pd.plugins.plugin_utils.lines import line_map
from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import build_plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Host, Instance, read_topology
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import cpu, plan, problems, rules


def change(path, value):
    """A topology in which one value is another one; None takes the key out."""
    raw = cpu()
    *way, last = path
    place = raw
    for step in way:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return raw


CASES = [
    (["name"], None, "schema-required", "name"),
    (["engine"], None, "schema-required", "engine"),
    (["engine", "kind"], "vllm", "schema-choice", "engine.kind"),
    (["engine", "version"], 0.32, "schema-type", "engine.version"),
    (["mooncake", "version"], "main", "version-invalid", "mooncake.version"),
    (["model", "path"], " ", "schema-type", "model.path"),
    (["prefill", 0, "host"], None, "schema-required", "prefill[0].host"),
    (["prefill", 0, "api_prot"], 8100, "schema-unknown-key", "prefill[0].api_prot"),
    (["prefil"], [], "schema-unknown-key", "prefil"),
    (["prefill", 0, "api_port"], "8100", "schema-type", "prefill[0].api_port"),
    (["prefill", 0, "api_port"], True, "schema-type", "prefill[0].api_port"),
    (["prefill", 0, "api_port"], 0, "schema-range", "prefill[0].api_port"),
    (["prefill", 0, "api_port"], 65536, "port-out-of-range", "prefill[0].api_port"),
    (["prefill", 0, "tp"], 0, "schema-range", "prefill[0].tp"),
    (["prefill", 0, "args"], "--seed 1", "schema-type", "prefill[0].args"),
    (["prefill", 0, "args"], ["--seed", False], "schema-type", "prefill[0].args"),
    (["prefill", 0, "environment"], ["A=1"], "schema-type", "prefill[0].environment"),
    (["prefill", 0, "environment"], {"A": True}, "schema-type", "prefill[0].environment"),
    (["prefill", 0, "kv_load_failure_policy"], "retry", "schema-choice", "prefill[0].kv_load_failure_policy"),
    (["prefill"], {"p1": {}}, "schema-type", "prefill"),
    (["prefill", 0], "p1", "schema-type", "prefill[0]"),
    (["hosts"], ["p1"], "schema-type", "hosts"),
    (["hosts", "p1"], {}, "schema-required", "hosts.p1.address"),
    (["hosts", "p1", "address"], "p1.example", "address-invalid", "hosts.p1.address"),
    (["hosts", "p1", "address"], "0.0.0.0", "address-invalid", "hosts.p1.address"),
    (["hosts", "p1", "vars"], "x", "schema-type", "hosts.p1.vars"),
    (["hosts", "p1", "vars"], {1: "x"}, "schema-type", "hosts.p1.vars"),
    (["hosts", "p1", "vars"], {None: "x"}, "schema-type", "hosts.p1.vars"),
    (["hosts", 1], {"address": "192.0.2.99"}, "schema-type", "hosts.1"),
    (["hosts", None], {"address": "192.0.2.99"}, "schema-type", "hosts.None"),
    (["hosts", False], {"address": "192.0.2.99"}, "schema-type", "hosts.False"),
    (["engine_environment"], {None: "1"}, "schema-type", "engine_environment"),
    (["engine_environment"], {1: "1"}, "schema-type", "engine_environment"),
    (["drain_timeout"], -1, "schema-range", "drain_timeout"),
    (["router", "backend_ports"], 18001, "schema-type", "router.backend_ports"),
    (["router"], "control", "schema-type", "router"),
    (["prefill", 0, "tp"], 1025, "schema-range", "prefill[0].tp"),
    (["engine", "version"], float("nan"), "schema-type", "engine.version"),
    (["engine", "version"], "\u0660.\u0661.\u0660", "version-invalid", "engine.version"),
    (["engine", "version"], "1" * 5000, "version-invalid", "engine.version"),
    (["connector", "extra_config"], {"a": datetime.date(2026, 1, 2)}, "schema-type", "connector.extra_config"),
    (["connector", "extra_config"], {"a": [{"b": {1, 2}}]}, "schema-type", "connector.extra_config"),
    (["connector", "extra_config"], {"a": {1: "x"}}, "schema-type", "connector.extra_config"),
]


@pytest.mark.parametrize(("path", "value", "rule", "where"), CASES)
def test_each_fault_is_reported_alone(path, value, rule, where):
    assert rules(change(path, value)) == {(rule, where)}


def test_the_topology_itself_has_no_fault():
    assert problems(cpu()) == ()


@pytest.mark.parametrize("raw", [None, [], "x", {}])
def test_what_is_no_topology_is_reported(raw):
    with pytest.raises(PlanError):
        build_plan(read_topology(raw))


def test_an_optional_section_may_be_left_empty():
    raw = {**cpu(), "master": None, "engine_args": None}
    assert plan(raw).cluster()["master"] is None
    assert plan(raw).topology.engine_args == ()


def test_a_host_named_by_a_number_is_told_to_be_quoted():
    raw = change(["hosts"], {1: {"address": "192.0.2.11"}, "d1": {"address": "192.0.2.21"}})
    del raw["router"], raw["master"]
    raw["prefill"][0]["host"] = 1
    found = {problem.where: problem for problem in problems(raw)}
    assert set(found) == {"hosts.1", "prefill[0].host"}
    assert found["hosts.1"].message == "stands under the number 1, but a name has to be text."
    assert "in quotes" in found["hosts.1"].fix
    raw["hosts"]["1"], raw["prefill"][0]["host"] = raw["hosts"].pop(1), "1"
    assert problems(raw) == ()


@pytest.mark.parametrize("key", [None, 1, True, 1.5])
def test_a_key_that_is_no_text_is_reported(key):
    raw = cpu()
    raw[key] = raw["engine"][key] = raw["prefill"][0][key] = 1
    assert rules(raw) == {("schema-unknown-key", f"{at}{key}") for at in ("", "engine.", "prefill[0].")}


def test_a_wrong_key_gets_a_suggestion():
    (problem,) = problems(change(["prefill", 0, "api_prot"], 1))
    assert problem.fix == "did you mean api_port?"
    (problem,) = problems(change(["prefill", 0, "colour"], 1))
    assert problem.fix.startswith("prefill[0] takes name, host, hosts, ")


def test_numbers_become_text_where_a_program_reads_them():
    raw = change(["engine_environment"], {"OMP_NUM_THREADS": 1})
    raw["engine_args"] = ["--seed", 1]
    topology = plan(raw).topology
    assert topology.engine_environment == {"OMP_NUM_THREADS": "1"}
    assert topology.engine_args == ("--seed", "1")


def test_an_entry_knows_where_it_stands():
    topology = plan(cpu()).topology
    assert isinstance(topology.hosts["p1"], Host)
    assert topology.hosts["p1"].where == "hosts.p1"
    assert isinstance(topology.decode[0], Instance)
    assert (topology.decode[0].where, topology.decode[0].kind) == ("decode[0]", "decode")


def test_a_faulty_entry_does_not_bring_complaints_about_its_absence():
    raw = cpu()
    del raw["hosts"]["p1"]["address"]
    del raw["decode"][0]["name"]
    assert rules(raw) == {("schema-required", "hosts.p1.address"), ("schema-required", "decode[0].name")}


def test_a_version_without_quotes_does_not_hide_what_else_is_wrong():
    raw = change(["engine", "version"], 0.32)
    raw["prefill"][0]["host"] = "p9"
    assert rules(raw) == {("schema-type", "engine.version"), ("host-unknown", "prefill[0].host")}


def test_all_faults_come_in_one_report_with_their_lines():
    text = """\
plugin: mooncake.pd.topology
name: lab
engine: {kind: vllm_cpu, version: "0.32.0"}
connector: {name: MooncakeConnector}
mooncake: {version: "0.3.13.post1"}
model: {path: /srv/tiny, served_name: tiny}
hosts:
  p1: {address: 192.0.2.11}
prefill:
  - name: p1
    host: p1
  - name: p2
    hots: p1
decode:
  - name: d1
    host: p1
    api_port: 8100
"""
    lines, twice = line_map(text)
    with pytest.raises(PlanError) as caught:
        build_plan(read_topology(yaml.safe_load(text), "/etc/lab/topology.yml", lines, twice))
    report = str(caught.value).splitlines()
    assert report[0] == "/etc/lab/topology.yml cannot be planned, 3 problems:"
    assert report[1].startswith("  topology.yml:12 prefill[1].host: [schema-required] is required: ")
    assert report[2].startswith("  topology.yml:13 prefill[1].hots: [schema-unknown-key] ")
    assert report[3].startswith(
        "  topology.yml:17 decode[0].api_port: [port-overlap] api 8100 of d1 on p1 overlaps api 8100"
    )
    assert report[3].endswith("Mend: set decode[0].api_port to 8101, which is free on p1.")


def test_a_key_written_twice_is_an_error():
    reading = read_topology(cpu(), "topology.yml", {"hosts.p1": 4}, ["hosts.p1"])
    with pytest.raises(PlanError, match=r"topology.yml:4 hosts.p1: \[yaml-duplicate-key\]"):
        build_plan(reading)
