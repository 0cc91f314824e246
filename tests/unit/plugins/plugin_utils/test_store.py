# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV pool: what workers are told of it, the nodes that bring memory, and what both take of a host."""

from __future__ import annotations

import json

import pytest

from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.faults import npu_store, store
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import (
    plan,
    ports,
    problems,
    processes,
)

GIB = 1 << 30


def config(process):
    (file,) = process["unit"]["files"]
    assert process["unit"]["environment"]["MOONCAKE_CONFIG_PATH"] == file["path"]
    return json.loads(file["content"])


def transfer(process):
    argv = process["unit"]["argv"]
    return json.loads(argv[argv.index("--kv-transfer-config") + 1])


def test_the_topologies_of_these_tests_are_good():
    assert (problems(store()), problems(npu_store())) == ((), ())


def test_configuration_of_a_worker_of_vllm():
    told = config(processes(store(), "p1")["p1"])
    assert told == {
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": "192.0.2.10:17051",
        "protocol": "tcp",
        "device_name": "",
        "global_segment_size": 4 * GIB,
        "local_buffer_size": GIB,
        "mode": "embedded",
        "enable_offload": True,
    }


def test_workers_without_a_segment_say_that_others_bring_it():
    raw = store()
    raw["store"] |= {"segment_size": 0, "decode": {"segment_size": "1GiB", "buffer_size": "256MiB"}}
    prefill, decode = config(processes(raw, "p1")["p1"]), config(processes(raw, "d1")["d1"])
    assert (prefill["mode"], prefill["global_segment_size"], prefill["local_buffer_size"]) == (
        "standalone-store",
        0,
        GIB,
    )
    assert (decode["mode"], decode["global_segment_size"], decode["local_buffer_size"]) == ("embedded", GIB, GIB // 4)


def test_configuration_of_a_worker_of_vllm_ascend():
    raw = npu_store()
    assert config(processes(raw, "npu1")["p1-0"]) == {
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": "192.0.2.31:17051",
        "protocol": "ascend",
        "device_name": "",
        "global_segment_size": 2 * GIB,
        "local_buffer_size": GIB,
    }
    raw["store"]["ssd"] = {"path": "/data/kv", "quota": "100GiB"}
    process = processes(raw, "npu1")["p1-0"]
    assert (config(process)["enable_ssd_offload"], config(process)["ssd_offload_path"]) == (True, "/data/kv")
    environment = process["unit"]["environment"]
    assert environment["MOONCAKE_OFFLOAD_BUCKET_MAX_TOTAL_SIZE"] == str(100 * GIB)
    # four workers of a rank, each with segment, buffer and what the disk needs
    assert process["pool"] == {
        "memory": 4 * (3 * GIB + (1280 << 20) + (32 << 20)),
        "disk": {"path": "/data/kv", "quota": 400 * GIB},
    }
    argv = processes(raw, "npu1")["master"]["unit"]["argv"]
    assert "--enable_offload=true" in argv


def test_fabric_memory_needs_no_buffer():
    raw = npu_store()
    raw["engine_environment"] = {"ASCEND_ENABLE_USE_FABRIC_MEM": "1"}
    assert processes(raw, "npu1")["p1-0"]["pool"] == {"memory": 4 * 2 * GIB, "disk": None}


def test_old_releases_are_told_their_own_address():
    raw = npu_store()
    raw["engine"]["version"], raw["mooncake"]["version"] = "0.11.0", "0.3.7.post2"
    raw["connector"]["also"] = [{"name": "MooncakeConnectorStoreV1"}]
    raw["prefill"][0] |= {"dp": 1, "tp": 8}
    raw["decode"][0] |= {"dp": 1, "tp": 8}
    raw["model"]["features"] = ["dense"]
    told = config(processes(raw, "npu2")["d1"])
    assert (told["local_hostname"], told["use_ascend_direct"]) == ("192.0.2.32", True)


def test_only_the_side_that_has_the_connector_is_told():
    raw = store()
    raw["connector"]["also"][0]["side"] = "prefill"
    decode = processes(raw, "d1")["d1"]
    assert "files" not in decode["unit"]
    assert "pool" not in decode
    assert "MOONCAKE_CONFIG_PATH" not in decode["unit"]["environment"]
    assert transfer(decode)["kv_connector"] == "MooncakeConnector"
    assert "store-client" not in {claim["purpose"] for claim in plan(raw).hostvars("d1")["pd_host"]["pools"]}
    assert plan(raw).cluster()["store"]["sides"] == ["prefill"]


def test_another_content_is_another_path_and_so_another_unit():
    raw = store()
    before = processes(raw, "p1")["p1"]["unit"]["environment"]["MOONCAKE_CONFIG_PATH"]
    raw["store"]["segment_size"] = "5GiB"
    after = processes(raw, "p1")["p1"]["unit"]["environment"]["MOONCAKE_CONFIG_PATH"]
    assert before != after
    assert before.startswith("/etc/mooncake-pd/pool/mooncake-")


@pytest.mark.parametrize(("side", "role"), [("p1", "kv_producer"), ("d1", "kv_consumer")])
def test_vllm_has_the_store_behind_the_connector_that_moves(side, role):
    told = transfer(processes(store(), side)[side])
    moves, keeps = told["kv_connector_extra_config"]["connectors"]
    assert (told["kv_connector"], told["kv_role"]) == ("MultiConnector", role)
    assert (moves["kv_connector"], moves["kv_role"]) == ("MooncakeConnector", role)
    assert (keeps["kv_connector"], keeps["kv_role"]) == ("MooncakeStoreConnector", role)


def test_instances_on_one_host_look_keys_up_by_sockets_of_their_own():
    raw = store()
    raw["prefill"].append({"name": "p2", "host": "p1", "api_port": 8101, "bootstrap_port": 8999})
    own = processes(raw, "p1")
    keeps = [transfer(own[name])["kv_connector_extra_config"]["connectors"][1] for name in ("p1", "p2")]
    assert [item["kv_connector_extra_config"]["lookup_rpc_port"] for item in keeps] == ["8100", "8101"]


def test_the_policy_of_a_failed_load_stands_outside():
    raw = store()
    raw["decode"][0]["kv_load_failure_policy"] = "recompute"
    told = transfer(processes(raw, "d1")["d1"])
    assert told["kv_load_failure_policy"] == "recompute"
    assert "kv_load_failure_policy" not in told["kv_connector_extra_config"]["connectors"][0]


def test_all_hash_alike_unless_the_operator_says_how():
    raw = store()
    assert processes(raw, "p1")["p1"]["unit"]["environment"]["PYTHONHASHSEED"] == "0"
    raw["engine_environment"] = {"PYTHONHASHSEED": "7"}
    shared = plan(raw).cluster()["environment"]
    assert shared["PYTHONHASHSEED"] == "7"
    assert processes(raw, "p1")["p1"]["unit"]["environment"]["PYTHONHASHSEED"] == "7"


def test_a_store_node():
    node = processes(store(), "s1")["store"]
    assert node["unit"]["argv"] == [
        "mooncake_client",
        "--host=192.0.2.41",
        "--port=17052",
        "--metadata_server=P2PHANDSHAKE",
        "--master_server_address=192.0.2.10:17051",
        "--protocol=tcp",
        f"--global_segment_size={32 * GIB}",
        "--enable_offload=true",
    ]
    assert node["unit"]["environment"] == {
        "MC_RPC_CONNECT_TIMEOUT_MS": "1000",
        "MOONCAKE_OFFLOAD_BUCKET_EVICTION_POLICY": "lru",
        "MOONCAKE_OFFLOAD_BUCKET_MAX_TOTAL_SIZE": str(1024 * GIB),
        "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH": "/data/kv",
        "MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES": str(1024 * GIB),
        "MOONCAKE_PD_MOONCAKE": "0.3.13.post1",
    }
    assert ports(node)["store-rpc"] == [(17052, 17052)]
    assert node["pool"] == {
        "memory": 32 * GIB + (1312 << 20),
        "disk": {"path": "/data/kv", "quota": 1024 * GIB},
    }
    (line,) = node["ready"]["lines"]
    assert line["pattern"] == r"Starting real client service on 192.0.2.41:17052\b"
    assert node["ready"]["health"] is None
    assert plan(store()).groups()["store"] == ["s1"]


def test_the_host_of_a_node_draws_ports_as_any_client_and_is_asked_for_its_disk():
    planned = plan(store()).hostvars("s1")["pd_host"]
    assert [item["purpose"] for item in planned["pools"]] == ["transfer-rpc", "store-client"]
    assert planned["files"] == [{"path": "/data/kv", "purpose": "ssd"}]
    # what the plan writes itself is not asked for on a host
    assert [item["purpose"] for item in plan(store()).hostvars("p1")["pd_host"]["files"]] == ["model"]


def test_a_container_has_what_all_engines_of_its_host_need():
    """mooncake.json is of one process: units mounts it. The disk of a node beside engines is none of theirs."""
    raw = npu_store()
    raw["store"]["ssd"] = {"path": "/data/kv", "quota": "100GiB"}
    assert plan(raw).hostvars("npu1")["pd_host"]["mounts"] == {
        "files": ["/srv/moe", "/srv/moe/config.json"],
        "folders": ["/data/kv"],
    }
    raw = store()
    raw["store"]["nodes"][0]["host"] = "p1"
    planned = plan(raw).hostvars("p1")["pd_host"]
    assert {"path": "/data/kv", "purpose": "ssd"} in planned["files"]
    assert planned["mounts"] == {"files": ["/srv/tiny", "/srv/tiny/config.json"], "folders": []}
    assert plan(store()).hostvars("s1")["pd_host"]["mounts"] == {"files": [], "folders": []}


def test_ways_that_preflight_tries():
    peers = {host: set(plan(store()).hostvars(host)["pd_host"]["peers"]) for host in ("p1", "d1", "s1")}
    assert "s1" in peers["p1"] & peers["d1"]
    assert peers["s1"] == {"p1", "d1", "control"}


def test_clients_of_several_masters_are_told_of_etcd():
    raw = store()
    raw["master"] = {"hosts": ["control", "p1"], "cluster_id": "lab"}
    raw["etcd"] = {"endpoints": ["192.0.2.77:2379"]}
    prefill = processes(raw, "p1")["p1"]
    assert config(prefill)["master_server_address"] == "etcd://192.0.2.77:2379"
    assert prefill["unit"]["environment"]["MC_STORE_CLUSTER_ID"] == "lab"
    assert processes(raw, "s1")["store"]["unit"]["environment"]["MC_STORE_CLUSTER_ID"] == "lab"


def limits(process):
    environment = process["unit"]["environment"]
    return environment.get("MC_RPC_TIMEOUT_MS"), environment.get("MC_RPC_CONNECT_TIMEOUT_MS")


def test_a_master_that_is_lost_does_not_hold_its_clients_up():
    raw = store()
    raw["store"]["nodes"][0].pop("ssd")
    assert limits(processes(raw, "p1")["p1"]) == limits(processes(raw, "s1")["store"]) == ("5000", "1000")
    raw["prefill"][0]["environment"] = {"MC_RPC_TIMEOUT_MS": "700"}
    raw["store"]["environment"] = {"MC_RPC_CONNECT_TIMEOUT_MS": "800"}
    assert limits(processes(raw, "p1")["p1"]) == ("700", "1000")
    assert limits(processes(raw, "d1")["d1"]) == ("5000", "1000")
    assert limits(processes(raw, "s1")["store"]) == ("5000", "800")


def test_what_comes_from_a_disk_of_others_may_take_its_time():
    assert limits(processes(store(), "p1")["p1"]) == (None, "1000")


def test_older_releases_read_no_limit():
    raw = store()
    raw["store"]["nodes"][0].pop("ssd")
    raw["mooncake"]["version"] = "0.3.11.post1"
    assert limits(processes(raw, "p1")["p1"]) == limits(processes(raw, "s1")["store"]) == (None, None)


def test_what_others_are_told():
    assert plan(store()).cluster()["store"] == {
        "metadata_server": "P2PHANDSHAKE",
        "server_address": "192.0.2.10:17051",
        "environment": {"MC_RPC_CONNECT_TIMEOUT_MS": "1000"},
        "protocol": "tcp",
        "devices": [],
        "fallback": "",
        "nodes": [{"host": "s1", "port": 17052, "bytes": 32 * GIB}],
        "bytes": 40 * GIB,
        "sides": ["prefill", "decode"],
    }


def test_rdma_is_proven_for_nodes_too():
    raw = store()
    raw["connector"]["protocol"] = "rdma"
    raw["store"]["devices"] = ["mlx5_0", "mlx5_1"]
    assert "Found 0 HCAs" in plan(raw).cluster()["store"]["fallback"]
    node = processes(raw, "s1")["store"]["unit"]["argv"]
    assert {"--protocol=rdma", "--device_names=mlx5_0,mlx5_1"} <= set(node)
    assert config(processes(raw, "p1")["p1"])["device_name"] == "mlx5_0,mlx5_1"


@pytest.mark.parametrize("value", ["4 apples", True, 1.5, "-1"])
def test_a_size_is_a_number_of_bytes(value):
    raw = store()
    raw["store"]["segment_size"] = value
    assert [(problem.rule, problem.where) for problem in problems(raw)][:1] == [("schema-type", "store.segment_size")]


@pytest.mark.parametrize(
    ("value", "size"), [("4GB", 4 * GIB), ("512 MiB", GIB // 2), (4096, 4096), ("1.5GiB", 3 * GIB // 2)]
)
def test_sizes(value, size):
    raw = store()
    raw["store"]["segment_size"] = value
    assert config(processes(raw, "p1")["p1"])["global_segment_size"] == size


def test_a_node_of_no_bytes_is_refused():
    raw = store()
    raw["store"]["nodes"][0]["segment_size"] = 0
    assert ("schema-range", "store.nodes[0].segment_size") in [(one.rule, one.where) for one in problems(raw)]
