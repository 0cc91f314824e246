# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks over processes and hosts: external and internal data parallelism, pipeline stages, context parallelism."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.faults import internal
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import (
    ascend,
    option,
    plan,
    ports,
    processes,
)


def external():
    raw = internal()
    raw["engine"]["data_parallel"] = "external"
    return raw


def argv(raw, host, name):
    return processes(raw, host)[name]["unit"]["argv"]


def between(words, first, last):
    return words[words.index(first) : words.index(last)]


def test_internal_head_has_the_api_of_all_ranks():
    head = processes(internal(), "npu3")["d1-0"]
    assert between(head["unit"]["argv"], "--host", "--shutdown-timeout") == [
        *("--host", "192.0.2.33", "--port", "8200", "--tensor-parallel-size", "1"),
        *("--data-parallel-size", "32", "--data-parallel-size-local", "16"),
        *("--data-parallel-address", "192.0.2.33", "--data-parallel-rpc-port", "29550"),
    ]
    assert option(head["unit"]["argv"], "--api-server-count") == "1"
    assert "--headless" not in head["unit"]["argv"]
    assert (head["role"], head["ranks"], head["devices"]) == ("head", list(range(16)), list(range(16)))
    assert head["unit"]["environment"]["ASCEND_RT_VISIBLE_DEVICES"] == ",".join(map(str, range(16)))
    found = ports(head)
    assert (found["api"], found["kv"], found["dp-rpc"]) == ([(8200, 8200)], [(22000, 22015)], [(29550, 29550)])
    assert [line["count"] for line in head["ready"]["lines"]] == [1, 16]


def test_internal_hosts_behind_the_head_are_headless():
    process = processes(internal(), "npu4")["d1-1"]
    words = process["unit"]["argv"]
    assert between(words, "--tensor-parallel-size", "--shutdown-timeout") == [
        *("--tensor-parallel-size", "1", "--data-parallel-size", "32", "--data-parallel-size-local", "16"),
        *("--data-parallel-start-rank", "16", "--headless"),
        *("--data-parallel-address", "192.0.2.33", "--data-parallel-rpc-port", "29550"),
    ]
    assert not {"--host", "--port", "--api-server-count"} & set(words)
    assert (process["role"], process["ranks"]) == ("headless", list(range(16, 32)))
    found = ports(process)
    assert found["kv"] == [(22016, 22031)]
    assert not {"api", "dp-rpc"} & set(found)
    # it serves when the head does
    assert process["ready"]["health"]["url"] == "http://192.0.2.33:8200/health"
    # it has met the head only when its engines are up
    assert [line["count"] for line in process["ready"]["lines"]] == [1, 1, 16]
    assert re.search(
        process["ready"]["lines"][1]["pattern"],
        "init engine (profile, create kv cache, warmup model) took 12.34 seconds",
    )
    assert [port["first"] for port in process["ready"]["ports"]] == [22016]


def test_a_headless_process_of_the_side_that_does_not_bind_listens_nowhere():
    raw = internal()
    raw["connector"]["name"] = "MooncakeConnectorV1"
    process = processes(raw, "npu4")["d1-1"]
    assert process["ready"]["ports"] == []
    assert len(process["ready"]["lines"]) == 2


def test_internal_on_one_host_is_one_process_without_a_number():
    assert list(processes(internal(), "npu2")) == ["p2"]
    assert processes(internal(), "npu2")["p2"]["role"] == "head"


@pytest.mark.parametrize("given", [["--api-server-count", "4"], ["-asc=4"], ["-asc4"]])
def test_the_number_of_api_servers_is_the_operators_and_the_heads(given):
    raw = internal()
    raw["decode"][0]["args"] = [*given, "--enforce-eager"]
    head, headless = processes(raw, "npu3")["d1-0"], processes(raw, "npu4")["d1-1"]
    assert head["ready"]["lines"][0]["count"] == 4
    assert head["unit"]["argv"].count("--api-server-count") == given.count("--api-server-count")
    assert not set(given) & set(headless["unit"]["argv"])
    assert "--enforce-eager" in headless["unit"]["argv"]


def test_external_ranks_are_numbered_over_all_hosts():
    raw = external()
    assert list(processes(raw, "npu3")) == [f"d1-{rank}" for rank in range(16)]
    assert list(processes(raw, "npu4")) == [f"d1-{rank}" for rank in range(16, 32)]
    last = processes(raw, "npu4")["d1-31"]
    assert between(last["unit"]["argv"], "--host", "--shutdown-timeout") == [
        *("--host", "192.0.2.34", "--port", "8215", "--tensor-parallel-size", "1"),
        *("--data-parallel-size", "32", "--data-parallel-rank", "31"),
        *("--data-parallel-address", "192.0.2.33", "--data-parallel-rpc-port", "29550"),
    ]
    assert (last["role"], last["ranks"], last["devices"]) == ("rank", [31], [15])
    assert ports(last)["kv"] == [(22031, 22031)]
    assert last["ready"]["health"]["url"] == "http://192.0.2.34:8215/health"
    meeting = [name for host in raw["hosts"] for name, one in processes(raw, host).items() if "dp-rpc" in ports(one)]
    assert meeting == ["p1-0", "p2-0", "d1-0"]


def test_a_given_api_port_counts_on_from_rank_to_rank_on_each_host():
    raw = external()
    raw["prefill"][0]["api_port"] = raw["decode"][0]["api_port"] = 7100
    assert [option(one["unit"]["argv"], "--port") for one in processes(raw, "npu1").values() if one["ranks"]] == [
        "7100",
        "7101",
    ]
    assert option(argv(raw, "npu4", "d1-16"), "--port") == "7100"


def test_one_endpoint_for_each_api():
    assert [len(item["api_urls"]) for item in plan(internal()).instances()] == [1, 1, 1]
    assert [len(item["api_urls"]) for item in plan(external()).instances()] == [2, 2, 32]


def test_groups_have_every_host_of_an_instance():
    groups = plan(internal()).groups()
    assert groups["instance_d1"] == groups["decode"] == ["npu3", "npu4"]
    assert groups["prefill"] == ["npu1", "npu2"]


def test_an_instance_may_run_its_ranks_in_its_own_way():
    raw = external()
    raw["decode"][0]["data_parallel"] = "internal"
    assert list(processes(raw, "npu4")) == ["d1-1"]
    assert [item["shape"]["data_parallel"] for item in plan(raw).instances()] == [
        "external",
        "external",
        "internal",
    ]


def test_pipeline_stages_take_devices_and_ports_and_are_told_to_the_peer():
    raw = ascend()
    raw["prefill"][0] |= {"tp": 4, "dp": 2, "pp": 2}
    second = processes(raw, "npu1")["p1-1"]
    assert option(second["unit"]["argv"], "--pipeline-parallel-size") == "2"
    assert second["devices"] == list(range(8, 16))
    assert ports(second)["kv"] == [(22008, 22015)]
    assert '"prefill":{"dp_size":2,"tp_size":4,"pp_size":2}' in second["unit"]["argv"][-1]


def test_context_parallel_sizes():
    raw = ascend()
    raw["prefill"][0] |= {"tp": 4, "dp": 2, "pcp": 2, "dcp": 4}
    second = processes(raw, "npu1")["p1-1"]
    assert option(second["unit"]["argv"], "--prefill-context-parallel-size") == "2"
    assert option(second["unit"]["argv"], "--decode-context-parallel-size") == "4"
    assert ports(second)["kv"] == [(22008, 22015)]


def test_a_companion_makes_a_multi_connector():
    raw = ascend()
    raw["connector"]["also"] = [
        {"name": "AscendStoreConnector", "side": "prefill", "extra_config": {"backend": "memcache"}},
        {"name": "UCMConnector", "side": "prefill"},
    ]
    raw["prefill"][0] |= {"devices": [8, *range(1, 8)], "kv_load_failure_policy": "fail"}
    text = argv(raw, "npu1", "p1-0")[-1]
    assert text == (
        '{"kv_connector":"MultiConnector","kv_role":"kv_producer","kv_load_failure_policy":"fail",'
        '"kv_connector_extra_config":{"connectors":['
        '{"kv_connector":"MooncakeConnectorV1","kv_role":"kv_producer","kv_port":22256,'
        '"kv_connector_extra_config":{"prefill":{"dp_size":2,"tp_size":4},"decode":{"dp_size":4,"tp_size":2}}},'
        '{"kv_connector":"AscendStoreConnector","kv_role":"kv_producer",'
        '"kv_connector_extra_config":{"backend":"memcache","lookup_rpc_port":"1"}},'
        '{"kv_connector":"UCMConnector","kv_role":"kv_both","kv_connector_extra_config":{}}]}}'
    )
    assert "MultiConnector" not in argv(raw, "npu2", "d1-0")[-1]


def test_pools_hash_alike_on_all_hosts():
    raw = ascend()
    raw["connector"]["also"] = [{"name": "AscendStoreConnector", "extra_config": {"backend": "memcache"}}]
    assert processes(raw, "npu2")["d1-0"]["unit"]["environment"]["PYTHONHASHSEED"] == "0"
    assert "PYTHONHASHSEED" not in processes(ascend(), "npu2")["d1-0"]["unit"]["environment"]


def test_extra_config_goes_beside_the_sizes():
    raw = ascend()
    raw["connector"]["extra_config"] = {"prefill": {"pp_layer_partition": "30,31"}, "tls_config": {}}
    assert (
        '"kv_connector_extra_config":{"tls_config":{},'
        '"prefill":{"pp_layer_partition":"30,31","dp_size":2,"tp_size":4},"decode":{"dp_size":4,"tp_size":2}}'
    ) in argv(raw, "npu1", "p1-0")[-1]


@pytest.mark.parametrize(
    ("version", "told"), [("0.10.1rc1", False), ("0.10.2rc1", True), ("0.11.0rc0", True), ("0.11.0rc1", False)]
)
def test_releases_that_have_to_be_told_use_the_ascend_transport(version, told):
    raw = ascend()
    raw["engine"]["version"], raw["mooncake"]["version"] = version, "0.3.7.post2"
    assert ('"use_ascend_direct":true' in argv(raw, "npu1", "p1-0")[-1]) is told


@pytest.mark.parametrize(("version", "module", "engine_id"), [("0.11.0", True, True), ("0.12.0rc1", False, False)])
def test_old_releases_have_an_id_of_their_own_and_layerwise_its_module(version, module, engine_id):
    raw = ascend("MooncakeLayerwiseConnector")
    raw["engine"]["version"], raw["mooncake"]["version"] = version, "0.3.7.post2"
    text = argv(raw, "npu1", "p1-0")[-1]
    name = '"kv_connector_module_path":"vllm_ascend.distributed.mooncake_layerwise_connector"'
    assert (name in text) is module
    assert ('"engine_id":"p1"' in text) is engine_id


def test_ports_were_counted_anew_on_each_host_once():
    raw = external()
    raw["connector"]["name"] = "MooncakeConnectorV1"
    raw["prefill"] = [{"name": "p1", "hosts": ["npu1", "npu2"], "dp": 4, "tp": 8}]
    raw["mooncake"]["version"] = "0.3.7.post2"
    raw["engine"]["version"] = "0.11.0rc0"
    assert ports(processes(raw, "npu2")["p1-2"])["kv"] == [(61000, 61007)]
    raw["engine"]["version"] = "0.11.0rc1"
    assert ports(processes(raw, "npu2")["p1-2"])["kv"] == [(61016, 61023)]


def test_what_changes_in_one_process_of_a_group_changes_all_of_it():
    before, raw = processes(internal(), "npu4")["d1-1"], internal()
    raw["hosts"]["npu3"]["interface"] = "eth2"
    after = processes(raw, "npu4")["d1-1"]
    assert before["unit"] != after["unit"]
    assert processes(internal(), "npu1")["p1"]["unit"] == processes(raw, "npu1")["p1"]["unit"]
    assert "MOONCAKE_PD_GROUP" not in processes(raw, "npu1")["p1"]["unit"]["environment"]


def test_the_engine_id_stands_outside_of_a_multi_connector():
    raw = ascend()
    raw["connector"]["also"] = [{"name": "UCMConnector"}]
    raw["prefill"][0]["engine_id"] = "7"
    config = json.loads(argv(raw, "npu1", "p1-0")[-1])
    assert config["engine_id"] == "7"
    assert all("engine_id" not in inner for inner in config["kv_connector_extra_config"]["connectors"])


@pytest.mark.parametrize(
    ("version", "name", "key"),
    [
        ("0.11.0", "MooncakeConnectorStoreV1", "mooncake_rpc_port"),
        ("0.12.0rc1", "AscendStoreConnector", "lookup_rpc_port"),
    ],
)
def test_pools_look_keys_up_by_the_name_of_the_release(version, name, key):
    raw = ascend()
    raw["engine"]["version"], raw["mooncake"]["version"] = version, "0.3.7.post2"
    raw["connector"]["also"] = [{"name": name}]
    raw["engine_environment"] = {"MOONCAKE_CONFIG_PATH": "/etc/mooncake.json"}
    raw["master"] = {"host": "npu1"}
    raw["prefill"][0] |= {"dp": 1, "tp": 8}
    raw["decode"][0] |= {"dp": 1, "tp": 8}
    inner = json.loads(argv(raw, "npu1", "p1")[-1])["kv_connector_extra_config"]["connectors"][1]
    assert inner["kv_connector_extra_config"][key] == "0"


def test_clients_of_the_store_draw_ports_too():
    raw = ascend()
    assert "store-client" not in ports(processes(raw, "npu1")["p1-0"])
    raw["connector"]["also"] = [{"name": "AscendStoreConnector", "side": "prefill"}]
    raw["engine_environment"] = {"MOONCAKE_CONFIG_PATH": "/etc/mooncake.json"}
    raw["master"] = {"host": "npu2"}
    assert ports(processes(raw, "npu1")["p1-0"])["store-client"] == [(12300, 14300)]
    assert "store-client" not in ports(processes(raw, "npu2")["d1-0"])
    raw["engine_environment"] |= {"MC_STORE_CLIENT_MIN_PORT": "12400", "MC_STORE_CLIENT_MAX_PORT": "12500"}
    assert ports(processes(raw, "npu1")["p1-0"])["store-client"] == [(12400, 12500)]


@pytest.mark.parametrize(
    ("variables", "spans"),
    [
        ({"HCCL_IF_BASE_PORT": "55000"}, [(55000, 55015)]),
        (
            {"HCCL_IF_BASE_PORT": "55000", "HCCL_HOST_SOCKET_PORT_RANGE": "61000,61050-61100"},
            [(61000, 61000), (61050, 61100)],
        ),
        ({"HCCL_HOST_SOCKET_PORT_RANGE": "auto"}, [(60000, 60015)]),
    ],
)
def test_ports_of_hccl(variables, spans):
    raw = ascend()
    raw["engine_environment"] = variables
    assert ports(processes(raw, "npu1")["p1-0"])["hccl"] == spans


def test_the_seed_of_a_pool_is_the_operators_when_given():
    raw = ascend()
    raw["connector"]["also"] = [{"name": "AscendStoreConnector", "extra_config": {"backend": "memcache"}}]
    raw["engine_environment"] = {"PYTHONHASHSEED": "5"}
    assert processes(raw, "npu2")["d1-0"]["unit"]["environment"]["PYTHONHASHSEED"] == "5"
