# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as a whole: what Ansible is told, and what holds for every topology."""

from __future__ import annotations

import dataclasses
import json
from copy import deepcopy
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils import master, mooncake, problems
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import Connector
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import (
    Host,
    Instance,
    Master,
    Router,
    Topology,
)
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import ascend, complete, cpu, plan

ONE = {
    "shape": {"dp": 1, "tp": 1, "pp": 1, "pcp": 1, "dcp": 1, "data_parallel": "external", "kv_port": None},
}


@pytest.mark.parametrize(
    ("version", "protocol", "steps"),
    [
        ("0.3.11.post1", "ascend", ["ascend"]),
        ("0.3.12", "ascend", ["tcp", "ascend"]),
        ("0.3.9", "rdma", ["tcp", "rdma"]),
        ("0.3.9", "tcp", ["tcp"]),
    ],
)
def test_transfers_are_proven_over_tcp_first_where_it_can_be_forced(version, protocol, steps):
    assert mooncake.proof_protocols(version, protocol) == steps


def test_cluster():
    assert plan(cpu()).cluster() == {
        "name": "lab",
        "source": "topology.yml",
        "engine": {"kind": "vllm_cpu", "version": "0.32.0", "lock": {}, "requires": None},
        "mooncake": {"version": "0.3.13.post1"},
        "model": {"path": "/srv/tiny", "served_name": "tiny"},
        "connector": {
            "name": "MooncakeConnector",
            "protocol": "tcp",
            "transfer": "pull",
            "binds": "prefill",
            "transport_lines": {
                "wanted": "The Mooncake Transfer Engine is using tcp as its protocol",
                "unwanted": r"The Mooncake Transfer Engine is using (?!tcp\b)\w+ as its protocol",
            },
            "proof_protocols": ["tcp"],
        },
        "abort_timeout": 480,
        "drain_timeout": 20,
        "master": {
            "host": "control",
            "address": "192.0.2.10",
            "rpc_port": 17051,
            "metrics_port": 9003,
            "hosts": ["control"],
            "ha": False,
            "leaders": {"192.0.2.10:17051": "http://192.0.2.10:9003"},
            "clients": False,
            "server_address": "192.0.2.10:17051",
            "client_environment": {"MC_RPC_TIMEOUT_MS": "5000", "MC_RPC_CONNECT_TIMEOUT_MS": "1000"},
        },
        "etcd": None,
        "store": None,
        "router": {
            "kind": "vllm_router",
            "contract": "mooncake",
            "host": "control",
            "address": "192.0.2.10",
            "port": 8000,
            "url": "http://192.0.2.10:8000",
            "backends": [
                {"name": "router-a", "address": "127.0.0.1", "port": 18001},
                {"name": "router-b", "address": "127.0.0.1", "port": 18002},
            ],
        },
        "hardware": None,
        "environment": {
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
            "MOONCAKE_PD_ENGINE": "vllm_cpu 0.32.0",
            "MOONCAKE_PD_MOONCAKE": "0.3.13.post1",
            "PYTHONUNBUFFERED": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        },
        "preflight_waivers": [],
        "planned_variables": [
            *("ASCEND_BASE_PORT", "GLOO_SOCKET_IFNAME", "HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_IF_BASE_PORT"),
            *("MC_MAX_PRC_PORT", "MC_MAX_RPC_PORT", "MC_MIN_PRC_PORT", "MC_MIN_RPC_PORT", "MC_STORE_CLIENT_MAX_PORT"),
            *("MC_STORE_CLIENT_MIN_PORT", "MOONCAKE_PD_ENGINE", "MOONCAKE_PD_MOONCAKE", "PYTHONHASHSEED"),
            *("VLLM_API_KEY", "VLLM_HOST_IP", "VLLM_LOGGING_LEVEL", "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"),
            *("VLLM_MOONCAKE_BOOTSTRAP_PORT", "VLLM_PORT"),
        ],
    }


def test_instances():
    assert plan(cpu()).instances() == [
        {
            "name": "p1",
            "kind": "prefill",
            "hosts": ["p1"],
            **ONE,
            "api_urls": ["http://192.0.2.11:8100"],
            "bootstrap_urls": ["http://192.0.2.11:8998"],
        },
        {
            "name": "d1",
            "kind": "decode",
            "hosts": ["d1"],
            **ONE,
            "api_urls": ["http://192.0.2.21:8200"],
            "bootstrap_urls": [],
        },
    ]


def test_an_instance_of_several_ranks_has_several_urls():
    (prefill, decode) = plan(ascend()).instances()
    assert prefill["api_urls"] == ["http://192.0.2.31:8100", "http://192.0.2.31:8104"]
    assert len(decode["api_urls"]) == 4
    assert prefill["bootstrap_urls"] == []


def test_without_router_and_master():
    raw = cpu()
    del raw["router"], raw["master"], raw["hosts"]["control"]
    cluster = plan(raw).cluster()
    assert (cluster["router"], cluster["master"]) == (None, None)


def test_warnings_travel_with_the_plan():
    raw = cpu()
    raw["master"]["rpc_port"] = 50051
    (warning,) = plan(raw).warnings
    assert (warning.rule, warning.where) == ("port-in-ephemeral-range", "master.rpc_port")
    assert set(warning.as_dict()) == {"rule", "where", "message", "fix"}


def test_groups():
    raw = cpu()
    raw["decode"].append({"name": "d2", "host": "d1", "api_port": 8201})
    del raw["master"]
    assert plan(raw).groups() == {
        "pd": ["control", "p1", "d1"],
        "engine": ["p1", "d1"],
        "prefill": ["p1"],
        "decode": ["d1"],
        "router": ["control"],
        "master": [],
        "etcd": [],
        "store": [],
        "instance_p1": ["p1"],
        "instance_d1": ["d1"],
        "instance_d2": ["d1"],
    }


def test_host():
    hostvars = plan(cpu()).hostvars("d1")
    assert hostvars["ansible_host"] == "192.0.2.21"
    assert (hostvars["pd_host"]["name"], hostvars["pd_host"]["address"]) == ("d1", "192.0.2.21")
    assert hostvars["pd_host"]["pools"] == [{"purpose": "transfer-rpc", "first": 15000, "last": 17000}]
    (process,) = hostvars["pd_host"]["processes"]
    assert set(process) == {
        *("name", "kind", "instance", "supervises", "where", "role", "ranks", "devices", "unit", "claims", "ready")
    }


def test_pools_of_a_host_are_those_of_its_processes_together():
    assert plan(ascend()).hostvars("npu1")["pd_host"]["pools"] == [
        {"purpose": "transfer-adxl", "first": 20000, "last": 20800},
        {"purpose": "transfer-rpc", "first": 15000, "last": 17000},
        {"purpose": "hccl", "first": 60000, "last": 60015},
    ]


@pytest.mark.parametrize("make", [cpu, ascend])
def test_what_engines_share_is_told_once(make):
    """The unit's own variables over the shared ones are the whole environment, also where an instance differs."""
    raw = make()
    raw["engine_environment"] = {"SOME": "1", "OTHER": "2"}
    raw["decode"][0]["environment"] = {"SOME": "3"}
    built = plan(raw)
    shared = built.cluster()["environment"]
    assert (shared["SOME"], shared["OTHER"]) == ("1", "2")
    for host in raw["hosts"]:
        told = built.hostvars(host)["pd_host"]["processes"]
        for process, whole in zip(told, complete(built, host), strict=True):
            own = process["unit"]["environment"]
            if process["kind"] in ("prefill", "decode"):
                assert {**shared, **own} == whole["unit"]["environment"]
                assert ("OTHER" in own, "SOME" in own) == (False, process["kind"] == "decode")
            else:
                assert own == whole["unit"]["environment"]


@pytest.mark.parametrize(
    ("make", "section", "version", "kinds"),
    [
        (cpu, "engine", "0.33.0", {"prefill", "decode"}),
        (cpu, "mooncake", "0.3.14", {"prefill", "decode", "master"}),
        (ascend, "engine", "0.23.1", {"prefill", "decode"}),
        (ascend, "mooncake", "0.3.12", {"prefill", "decode"}),
    ],
)
def test_an_upgrade_is_another_unit_for_what_runs_it(make, section, version, kinds):
    raw = make()
    before = plan(raw)
    raw[section]["version"] = version
    after = plan(raw)
    changed = {
        new["kind"]
        for host in raw["hosts"]
        for old, new in zip(*(complete(found, host) for found in (before, after)), strict=True)
        if old["unit"] != new["unit"]
    }
    assert changed == kinds


def test_versions_are_told_as_packages_spell_them():
    raw = cpu()
    raw["engine"]["version"], raw["mooncake"]["version"] = "v0.32.0", "v0.3.13-post1"
    assert plan(raw).cluster() == plan(cpu()).cluster()
    assert plan(raw).hostvars("p1") == plan(cpu()).hostvars("p1")


@pytest.mark.parametrize("section", [Connector, Instance, Master, Router, Host, Topology])
def test_everything_in_a_topology_is_read_somewhere(section):
    code = "".join(path.read_text() for path in Path(problems.__file__).parent.rglob("*.py"))
    properties = [name for name, value in vars(section).items() if isinstance(value, property)]
    names = [*(field.name for field in dataclasses.fields(section)), *properties]
    # what is passed on to a program by its own name is read by a table of these names
    assert [name for name in names if f".{name}" not in code and name not in ("plugin", *master.FLAGS)] == []


PORT = st.integers(8000, 8012)


@st.composite
def cpu_topologies(draw):
    raw = cpu()
    hosts = [f"n{index}" for index in range(draw(st.integers(1, 3)))]
    raw["hosts"] = {name: {"address": f"192.0.2.{index + 1}"} for index, name in enumerate(hosts)}
    some = st.sampled_from(hosts)
    raw["prefill"] = [
        {"name": f"p{index}", "host": draw(some), "api_port": draw(PORT), "bootstrap_port": draw(PORT)}
        for index in range(draw(st.integers(1, 3)))
    ]
    raw["decode"] = [
        {"name": f"d{index}", "host": draw(some), "api_port": draw(PORT)} for index in range(draw(st.integers(1, 3)))
    ]
    raw["router"] = {"host": draw(some), "port": draw(PORT), "backend_ports": [draw(PORT), 18002]}
    place = {"host": draw(some)}
    if draw(st.booleans()):
        raw["etcd"] = {"hosts": [draw(some)]}
        place = {"hosts": hosts}
    raw["master"] = {**place, "rpc_port": draw(PORT), "metrics_port": draw(PORT)}
    if "host" in place and draw(st.booleans()):
        raw["master"] |= {"enable_http_metadata_server": True, "http_metadata_server_port": draw(PORT)}
    return raw


@st.composite
def ascend_topologies(draw):
    raw = ascend(draw(st.sampled_from(["MooncakeConnectorV1", "MooncakeLayerwiseConnector"])))
    raw["router"] |= {"backend_ports": [18001, 18002], "metrics_ports": [19001, 19002], "port": 8000}
    raw["mooncake"]["version"] = draw(st.sampled_from(["0.3.7.post2", "0.3.11.post1"]))
    tp, dp = draw(st.sampled_from([(1, 1), (2, 2), (4, 1)]))
    kv_port = st.integers(20000, 22000) | st.integers(28000, 28020)
    for kind, tp_of_side in (("prefill", tp), ("decode", 1)):
        raw[kind] = [
            {
                "name": f"{kind[0]}{index}",
                "host": draw(st.sampled_from(["npu1", "npu2"])),
                "tp": tp_of_side,
                "dp": dp,
                "devices": [20 * (kind == "decode") + 4 * index + rank for rank in range(tp_of_side * dp)],
                "api_port": draw(PORT),
                "kv_port": draw(kv_port),
                "dp_rpc_port": draw(PORT),
            }
            for index in range(draw(st.integers(1, 3)))
        ]
    return raw


def taken(claims):
    """Whether a port of one claim can be needed by another one: counted out port by port."""
    for one, other in combinations(claims, 2):
        if one["kind"] == other["kind"] == "pool":
            continue
        same_address = one["address"] == other["address"] or "0.0.0.0" in (one["address"], other["address"])
        if same_address and set(range(one["first"], one["last"] + 1)) & set(range(other["first"], other["last"] + 1)):
            return True
    return False


def outcome(raw):
    try:
        return plan(raw)
    except PlanError as error:
        return error


def claims_of(found, host):
    return [claim for process in complete(found, host) for claim in process["claims"]["ports"]]


@settings(max_examples=150)
@given(cpu_topologies() | ascend_topologies())
def test_a_plan_never_gives_a_port_twice(raw):
    found = outcome(raw)
    if isinstance(found, PlanError):
        assert {problem.rule for problem in found.problems if problem.severity == "error"} <= {
            "port-overlap",
            "port-in-pool",
        }
    else:
        assert not [host for host in raw["hosts"] if taken(claims_of(found, host))]


@settings(max_examples=100)
@given(cpu_topologies() | ascend_topologies())
def test_an_overlap_is_mended_by_doing_what_the_report_says(raw):
    for _try in range(30):
        found = outcome(raw)
        if not isinstance(found, PlanError):
            return
        errors = [problem for problem in found.problems if problem.severity == "error"]
        # others wait for this one
        problem = next(problem for problem in errors if problem.fix.startswith("set "))
        place, _to, value = problem.fix.removeprefix("set ").partition(" to ")
        put(raw, place, int(value.split(",")[0]))
    raise AssertionError("the advice does not lead to a plan")


def put(raw, place, value):
    *way, last = place.replace("[", ".").replace("]", "").split(".")
    for step in way:
        raw = raw[int(step) if step.isdigit() else step]
    raw[int(last) if last.isdigit() else last] = value


def everything(found):
    hosts = found.topology.hosts
    return json.dumps([found.cluster(), found.groups(), {host: found.hostvars(host) for host in hosts}])


@settings(max_examples=50)
@given(cpu_topologies() | ascend_topologies())
def test_the_same_topology_gives_the_same_plan(raw):
    first, second = outcome(deepcopy(raw)), outcome(deepcopy(raw))
    if isinstance(first, PlanError):
        assert str(first) == str(second)
    else:
        assert everything(first) == everything(second)


@settings(max_examples=50)
@given(cpu_topologies(), st.sampled_from(["prefill", "decode"]))
def test_one_more_instance_moves_nothing_that_is_there(raw, kind):
    before = outcome(raw)
    if isinstance(before, PlanError):
        return
    more = deepcopy(raw)
    added = {"name": "added", "host": "n0", "api_port": 8500}
    more[kind].append({**added, "bootstrap_port": 8501} if kind == "prefill" else added)
    after = plan(more)
    for host in raw["hosts"]:
        old = before.hostvars(host)["pd_host"]["processes"]
        new = [process for process in after.hostvars(host)["pd_host"]["processes"] if process["name"] != "added"]
        # the routers learn of it, everything else stays as it is
        assert [process for process in new if process["kind"] != "router"] == [
            process for process in old if process["kind"] != "router"
        ]
        assert [process["claims"] for process in new] == [process["claims"] for process in old]
