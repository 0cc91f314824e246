# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts a host tries to reach before anything runs, and which files have to be there."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.peers import to_try
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.faults import store
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import ascend, cpu, plan


def host(raw: dict[str, Any], name: str) -> dict[str, Any]:
    return plan(raw).hostvars(name)["pd_host"]


def named(raw: dict[str, Any], name: str) -> list[str]:
    return host(raw, name)["peers"]


def large(prefill: int, decode: int) -> dict[str, Any]:
    raw = ascend()
    raw["hosts"] = {
        f"h{number}": {"address": f"10.0.{number // 200}.{number % 200 + 1}"} for number in range(prefill + decode)
    }
    names = list(raw["hosts"])
    raw["prefill"] = [{"name": f"p{n}", "host": name, "tp": 8} for n, name in enumerate(names[:prefill])]
    raw["decode"] = [{"name": f"d{n}", "host": name, "tp": 8} for n, name in enumerate(names[prefill:])]
    raw["router"] = {"host": names[0]}
    return raw


def test_prefill_and_decode_try_each_other_and_the_router_tries_both():
    raw = cpu()
    assert named(raw, "p1") == ["d1", "control"]  # the master is there
    assert named(raw, "d1") == ["p1", "control"]
    assert named(raw, "control") == ["p1", "d1"]


def test_every_purpose_is_tried_at_its_first_and_last_port_and_loopback_ports_are_not():
    assert named(ascend(), "npu2") == ["npu1"]
    peer = to_try(host(ascend(), "npu1"))
    assert (peer["name"], peer["address"]) == ("npu1", "192.0.2.31")
    ports = peer["ports"]
    assert (ports["api"], ports["kv"]) == ([8100, 8104], [22000, 22007])
    # whoever draws from a range may come upon either end of it
    assert (ports["transfer-rpc"], ports["transfer-adxl"]) == ([15000, 17000], [20000, 20800])
    # one port is no list
    assert ports == {purpose: port for purpose, port in ports.items() if isinstance(port, int) or port[0] < port[1]}
    assert any(isinstance(port, int) for port in to_try(host(cpu(), "p1"))["ports"].values())
    tried = {number for port in ports.values() for number in ([port] if isinstance(port, int) else port)}
    assert not tried & {8000, 18001, 18002, 19001, 19002}  # those of clients and of the router itself


def test_ports_on_loopback_are_not_tried():
    planned = host(cpu(), "p1")
    (claim, *_others) = planned["processes"][0]["claims"]["ports"]
    assert claim["purpose"] in to_try(planned)["ports"]
    claim["address"] = "127.0.0.1"
    assert claim["purpose"] not in to_try(planned)["ports"]


def test_masters_try_each_other_and_the_clients_port_of_etcd():
    raw = cpu()
    raw["hosts"] |= {f"m{number}": {"address": f"192.0.2.{100 + number}"} for number in (1, 2, 3)}
    raw["master"], raw["etcd"] = {"hosts": ["m1", "m2"]}, {"hosts": ["m3"]}
    assert named(raw, "m1") == ["m2", "m3"]
    assert to_try(host(raw, "m3"), host(raw, "m1"))["ports"] == {"etcd-client": 2379}
    # who is neither a master nor a member may be shut out
    assert to_try(host(raw, "m3"), host(raw, "p1"))["ports"] == {}
    assert to_try(host(raw, "m2"), host(raw, "m1"))["ports"] == {"master-rpc": 17051, "master-metrics": 9003}


def test_clients_of_the_store_try_the_clients_port_of_etcd_where_it_names_the_leader():
    raw = store()
    raw["hosts"] |= {f"m{number}": {"address": f"192.0.2.{100 + number}"} for number in (1, 2, 3)}
    raw["etcd"] = {"hosts": ["m3"]}
    node = raw["store"]["nodes"][0]["host"]
    for name in ("p1", "d1", node):
        assert "m3" not in named(raw, name)  # one master is found without it
    raw["master"] = {"hosts": ["m1", "m2"]}
    for name in ("p1", "d1", node):
        assert {"m1", "m2", "m3"} <= set(named(raw, name))
        assert to_try(host(raw, "m3"), host(raw, name))["ports"] == {"etcd-client": 2379}


def test_a_host_that_runs_nothing_has_no_ports():
    assert to_try({**host(cpu(), "p1"), "processes": [], "pools": []})["ports"] == {}


def test_a_headless_host_tries_its_head():
    raw = large(1, 4)
    raw["decode"] = [{"name": "d0", "hosts": ["h1", "h2", "h3", "h4"], "dp": 4, "tp": 8, "data_parallel": "internal"}]
    assert named(raw, "h3") == ["h0", "h1"]
    assert named(raw, "h1") == ["h0"]


def test_partners_are_few_in_a_large_fleet():
    raw = large(40, 100)
    assert named(raw, "h5") == [f"h{number}" for number in (40, 43, 55, 103)]


def test_a_host_is_not_counted_among_its_own_partners():
    raw = large(4, 1)  # the first has the router, too
    assert named(raw, "h0") == ["h4", "h1", "h2", "h3"]


@given(st.integers(1, 30), st.integers(1, 30))
@settings(max_examples=25)
def test_everybody_is_tried_by_somebody_and_nobody_by_itself(prefill, decode):
    built = plan(large(prefill, decode))
    tried = {name: set(built.hostvars(name)["pd_host"]["peers"]) for name in built.topology.hosts}
    assert all(name not in peers for name, peers in tried.items())
    assert max(map(len, tried.values())) <= 12
    assert all(tried.values())


def test_files_are_those_that_the_topology_names():
    raw = ascend()
    raw["engine_environment"] = {
        "LD_PRELOAD": "/usr/lib64/libjemalloc.so.2 /opt/b.so",
        "LD_LIBRARY_PATH": "/opt/a:$X:/opt/b",
    }
    assert [(entry["path"], entry["purpose"]) for entry in host(raw, "npu2")["files"]] == [
        ("/srv/moe/config.json", "model"),
        ("/usr/lib64/libjemalloc.so.2", "preload"),
        ("/opt/b.so", "preload"),
        ("/opt/a", "library"),
        ("/opt/b", "library"),
    ]


def test_a_host_without_an_engine_needs_no_model():
    assert host(cpu(), "control")["files"] == []


def test_interface_generation_and_chips_are_told():
    raw = ascend()
    raw["hardware"] = {"generation": "A2"}
    raw["hosts"]["npu2"]["chips"] = 12
    told = [{key: host(raw, name)[key] for key in ("interface", "generation", "chips")} for name in ("npu1", "npu2")]
    assert told == [
        {"interface": "eth1", "generation": "A2", "chips": 8},
        {"interface": None, "generation": "A2", "chips": 12},
    ]
