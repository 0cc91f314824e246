# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The master, the routers and what stands in front of them."""

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import (
    ascend,
    cpu,
    plan,
    ports,
    processes,
)


def test_master():
    process = processes(cpu(), "control")["master"]
    assert process["unit"] == {
        "name": "mooncake-pd-master.service",
        "description": "Mooncake master of lab",
        "argv": [
            *("mooncake_master", "--rpc_address=192.0.2.10", "--rpc_port=17051"),
            *("--metrics_host=192.0.2.10", "--metrics_port=9003"),
        ],
        "environment": {"MOONCAKE_PD_MOONCAKE": "0.3.13.post1"},
        "timeout_stop": 30,
    }
    assert process["ready"] == {
        "name": "master",
        "unit": "mooncake-pd-master.service",
        "lines": [],
        "ports": [
            {"purpose": "master-rpc", "address": "192.0.2.10", "first": 17051, "last": 17051},
            {"purpose": "master-metrics", "address": "192.0.2.10", "first": 9003, "last": 9003},
        ],
        "health": {"url": "http://192.0.2.10:9003/health", "json": {"service_ready": True}},
    }


@pytest.mark.parametrize(
    ("version", "address", "json"),
    [("0.3.9", "0.0.0.0", {}), ("0.3.12.post1", "0.0.0.0", {"service_ready": True})],
)
def test_an_older_master_knows_less(version, address, json):
    raw = cpu()
    raw["mooncake"]["version"] = version
    process = processes(raw, "control")["master"]
    assert not [word for word in process["unit"]["argv"] if "metrics_host" in word]
    assert process["claims"]["ports"][1]["address"] == address
    assert process["ready"]["health"]["json"] == json


def two_of_each():
    raw = cpu()
    raw["hosts"] |= {"p2": {"address": "192.0.2.12"}, "d2": {"address": "192.0.2.22"}}
    raw["prefill"].append({"name": "p2", "host": "p2", "bootstrap_port": 8999})
    raw["decode"].append({"name": "d2", "host": "d2", "api_port": 8201})
    return raw


def test_routers_of_the_bootstrap_contract():
    found = processes(two_of_each(), "control")
    assert list(found) == ["master", "router-a", "router-b", "router"]
    assert found["router-a"]["unit"]["argv"] == [
        *("vllm-router", "--host", "127.0.0.1", "--port", "18001"),
        *("--prometheus-host", "127.0.0.1", "--prometheus-port", "19001"),
        *("--vllm-pd-disaggregation", "--kv-connector", "mooncake", "--policy", "round_robin"),
        *("--health-check-interval-secs", "1", "--health-check-timeout-secs", "2"),
        *("--health-failure-threshold", "2", "--health-success-threshold", "1"),
        *("--worker-startup-check-interval", "1"),
        *("--prefill", "http://192.0.2.11:8100", "8998", "--prefill", "http://192.0.2.12:8100", "8999"),
        *("--decode", "http://192.0.2.21:8200", "--decode", "http://192.0.2.22:8201"),
    ]
    assert ports(found["router-b"]) == {"router": [(18002, 18002)], "router-metrics": [(19002, 19002)]}
    assert {claim["address"] for claim in found["router-b"]["claims"]["ports"]} == {"127.0.0.1"}
    assert found["router-b"]["ready"]["health"]["url"] == "http://127.0.0.1:18002/readiness"
    assert found["router-b"]["kind"] == "router"


def test_routers_of_the_nixl_contract_know_every_rank_and_no_bootstrap():
    argv = processes(ascend(), "npu1")["router-a"]["unit"]["argv"]
    assert argv[argv.index("--kv-connector") + 1] == "nixl"
    assert argv[argv.index("--prefill") :] == [
        *("--prefill", "http://192.0.2.31:8100", "--prefill", "http://192.0.2.31:8104"),
        *("--decode", "http://192.0.2.32:8200", "--decode", "http://192.0.2.32:8202"),
        *("--decode", "http://192.0.2.32:8204", "--decode", "http://192.0.2.32:8206"),
    ]


def test_layerwise_proxies_listen_where_decode_can_post():
    raw = ascend("MooncakeLayerwiseConnector")
    process = processes(raw, "npu1")["router-b"]
    assert process["unit"]["argv"] == [
        *("python3", "load_balance_proxy_layerwise_server_example.py", "--host", "192.0.2.31", "--port", "18002"),
        *("--prefiller-hosts", "192.0.2.31", "192.0.2.31", "--prefiller-ports", "8100", "8104"),
        *("--decoder-hosts", "192.0.2.32", "192.0.2.32", "192.0.2.32", "192.0.2.32"),
        *("--decoder-ports", "8200", "8202", "8204", "8206"),
    ]
    assert ports(process) == {"router": [(18002, 18002)]}
    assert process["ready"]["health"]["url"] == "http://192.0.2.31:18002/healthcheck"
    router = plan(raw).cluster()["router"]
    assert (router["kind"], router["contract"]) == ("ascend_layerwise", "layerwise")
    assert router["backends"][0] == {"name": "router-a", "address": "192.0.2.31", "port": 18001}


@pytest.mark.parametrize("make", [cpu, ascend])
def test_a_stop_takes_as_long_as_an_engine_may_drain(make, monkeypatch):
    monkeypatch.setattr(vllm, "STOP_MARGIN", 40)
    raw = {**make(), "drain_timeout": 100}
    found = [process for host in raw["hosts"] for process in processes(raw, host).values()]
    assert {process["unit"]["timeout_stop"] for process in found if process["kind"] != "master"} == {140}


def test_front_door():
    process = processes(cpu(), "control")["router"]
    assert process["kind"] == "frontend"
    assert process["unit"]["name"] == "mooncake-pd-router.service"
    assert process["unit"]["argv"] == []
    assert ports(process) == {"frontend": [(8000, 8000)]}
    assert process["ready"]["health"] == {"url": "http://192.0.2.10:8000/health", "json": {}}
