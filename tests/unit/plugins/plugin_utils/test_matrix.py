# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every documented topology is planned as its document lays it out, or refused for the reason that it has.

What is expected stands in matrix/*.yml as the documents print it; nothing here asks the planner for its own formulas.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from typing import Any
from unittest.mock import ANY

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan, build_plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError, Problem
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import read_topology
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.matrix.rows import (
    GROUP_KEYS,
    KEYS,
    Group,
    Raw,
    Row,
    load,
)

ROWS = load()
PLANNED = [row for row in ROWS if "unplanned" not in row.said]
SOUND = [row for row in PLANNED if "errors" not in row.said or "mended" in row.said]
# one for each document or configuration: guides, models, earlier releases, CI with internal and with external DP
DOCUMENTS = {"A": 22, "B": 21, "C": 5, "D": 8, "E": 55}


def rows(some: list[Row]) -> Any:
    return pytest.mark.parametrize("row", some, ids=lambda row: row.label)


def found(raw: Raw) -> tuple[Problem, ...]:
    try:
        return build_plan(read_topology(raw)).warnings
    except PlanError as error:
        return error.problems


def planned(row: Row) -> Plan:
    return build_plan(read_topology(row.mended_raw()))


def processes(plan: Plan, group: Group, host: str) -> list[Raw]:
    return [item for item in plan.hostvars(host)["pd_host"]["processes"] if item["instance"] == group.name]


def claimed(process: Raw, purpose: str) -> list[int]:
    spans = [(c["first"], c["last"]) for c in process["claims"]["ports"] if c["purpose"] == purpose]
    return [port for first, last in spans for port in range(first, last + 1)]


def options(process: Raw) -> dict[str, str]:
    argv = process["unit"]["argv"]
    return {word: argv[index + 1] for index, word in enumerate(argv[:-1]) if word.startswith("--")}


def transfer(process: Raw) -> Raw:
    return dict(json.loads(options(process)["--kv-transfer-config"]))


def test_every_document_is_accounted_for():
    numbers = {row.said["id"] for row in ROWS}
    assert numbers == {f"{letter}{number}" for letter, last in DOCUMENTS.items() for number in range(1, last + 1)}
    assert [label for label, times in Counter(row.label for row in ROWS).items() if times > 1] == []


@rows(ROWS)
def test_every_key_is_one(row):
    assert set(row.said) <= KEYS
    assert [set(group.said) - GROUP_KEYS for group in row.groups] == [set() for _group in row.groups]


@rows(ROWS)
def test_what_is_wrong_has_a_reason(row):
    for severity in ("errors", "warnings"):
        for rule in row.said.get(severity) or ():
            assert row.said.get("defect") or row.defects.get(rule), rule
    assert ("errors" in row.said) >= ("mended" in row.said)
    assert bool(row.groups) != ("unplanned" in row.said)


@rows(SOUND)
def test_the_rows_name_the_ports_of_the_side_that_listens(row):
    side = "decode" if row.said["connector"] == "MooncakeLayerwiseConnector" else "prefill"
    assert {group.kind for group in row.groups if "listen" in group.said} == {side}


@rows(PLANNED)
def test_what_the_document_gets_wrong_is_reported(row):
    problems = {
        severity: {(p.rule, p.where) for p in found(row.raw()) if p.severity == severity}
        for severity in ("error", "warning")
    }
    assert problems == {"error": row.problems("errors"), "warning": row.problems("warnings")}


SUGGESTED = re.compile(r"set (\w+)\[(\d+)\]\.(\w+) to (\d+),")
CLASHING = [row for row in PLANNED if any(rule.startswith("port") for rule in row.said.get("errors") or ())]


def follow(raw: Raw, problem: Problem) -> Raw:
    side, index, key, value = SUGGESTED.search(problem.fix).groups()
    mended = copy.deepcopy(raw)
    mended[side][int(index)][key] = int(value)
    return mended


def errors(raw: Raw) -> list[Problem]:
    return [problem for problem in found(raw) if problem.severity == "error"]


@rows(CLASHING)
def test_a_suggested_port_is_clear_on_every_host(row):
    for problem in errors(row.raw()):
        assert problem.where not in {other.where for other in errors(follow(row.raw(), problem))}


@rows(CLASHING)
def test_the_suggestions_lead_to_a_plan(row):
    raw, rounds = row.raw(), 0
    while (left := errors(raw)) and rounds < 3:
        for problem in left:
            raw = follow(raw, problem)
        rounds += 1
    assert left == []


@rows(SOUND)
def test_ranks_and_devices(row):
    plan = planned(row)
    for group in row.groups:
        internal = row.said["data_parallel"] == "internal"
        for host, ranks in zip(group.hosts, group.ranks, strict=True):
            running = processes(plan, group, host)
            assert [item["ranks"] for item in running] == ([ranks] if internal else [[rank] for rank in ranks])
            width = len(ranks) * group.width if internal else group.width
            for index, item in enumerate(running):
                assert item["devices"] == group.devices[index * width : (index + 1) * width]
                assert item["unit"]["environment"]["ASCEND_RT_VISIBLE_DEVICES"] == ",".join(map(str, item["devices"]))


@rows(SOUND)
def test_kv_ports(row):
    plan = planned(row)
    for group in row.groups:
        for host, ports in zip(group.hosts, group.listen(row.moved(group)), strict=True):
            assert [port for item in processes(plan, group, host) for port in claimed(item, "kv")] == ports


@rows(SOUND)
def test_endpoints(row):
    plan = planned(row)
    for group in row.groups:
        if group.api:
            pairs = [(host, port) for host, ports in zip(group.hosts, group.api, strict=True) for port in ports]
            assert [(f"n{item.address.rpartition('.')[2]}", item.port) for item in plan.endpoints[group.name]] == pairs
            for host, ports in zip(group.hosts, group.api, strict=True):
                assert [port for item in processes(plan, group, host) for port in claimed(item, "api")] == ports


@rows(SOUND)
def test_where_ranks_meet(row):
    """All ranks of a group are told the host of rank 0 and one port, which only that host opens."""
    plan = planned(row)
    for group in row.groups:
        port = row.mended(group, "dp_rpc_port") or group.said.get("rpc")
        internal = row.said["data_parallel"] == "internal"
        for number, (host, ranks) in enumerate(zip(group.hosts, group.ranks, strict=True)):
            for position, item in enumerate(processes(plan, group, host)):
                given = options(item)
                if group.said["dp"] == 1:
                    assert "--data-parallel-address" not in given
                    assert claimed(item, "dp-rpc") == []
                    continue
                assert given["--data-parallel-size"] == str(group.said["dp"])
                assert given["--data-parallel-address"] == f"192.0.2.{group.hosts[0][1:]}"
                if port:
                    assert given["--data-parallel-rpc-port"] == str(port)
                    assert claimed(item, "dp-rpc") == ([port] if (number, position) == (0, 0) else [])
                assert ("--headless" in item["unit"]["argv"]) == (internal and number > 0)
                if internal:
                    assert given["--data-parallel-size-local"] == str(len(ranks))
                    assert given.get("--data-parallel-start-rank", "0") == str(ranks[0])
                else:
                    assert given["--data-parallel-rank"] == str(ranks[position])


@rows(SOUND)
def test_what_peers_are_told(row):
    plan = planned(row)
    sizes = {}
    for kind in ("prefill", "decode"):
        said = row.side(kind)[0].said
        sizes[kind] = {"dp_size": said["dp"], "tp_size": said["tp"]} | ({"pp_size": said["pp"]} if "pp" in said else {})
    connector = (row.said.get("mended") or {}).get("connector.name", row.said["connector"])
    more = row.said.get("extra_config", {})
    for group in row.groups:
        role = {"prefill": "kv_producer", "decode": "kv_consumer"}[group.kind]
        for host in group.hosts:
            for item in processes(plan, group, host):
                config = transfer(item)
                assert config["kv_role"] == role
                beside = [extra for extra in row.said.get("also", ()) if extra["side"] in ("both", group.kind)]
                if beside:
                    assert config["kv_connector"] == "MultiConnector"
                    main, *others = config["kv_connector_extra_config"]["connectors"]
                    assert [other["kv_connector"] for other in others] == [extra["name"] for extra in beside]
                    for other, extra in zip(others, beside, strict=True):
                        # the plan adds the number by which a pool's processes find each other
                        assert {"lookup_rpc_port": ANY, **extra["extra_config"]} == {
                            "lookup_rpc_port": ANY,
                            **other["kv_connector_extra_config"],
                        }
                else:
                    main = config
                assert (main["kv_connector"], main["kv_role"]) == (connector, role)
                told = main["kv_connector_extra_config"]
                assert {kind: told.get(kind) for kind in sizes} == sizes
                assert {key: value for key, value in told.items() if key not in sizes} == more
                if "kv" in group.said:
                    assert int(main["kv_port"]) == group.said["kv"] + row.moved(group)
                if "engine_id" in group.said:
                    assert config["engine_id"] == group.said["engine_id"]
                assert main.get("kv_connector_module_path") == row.said.get("module_path")
                assert config.get("kv_load_failure_policy") == row.said.get("kv_load_failure_policy")
