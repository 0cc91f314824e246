# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every member of the tables by which rules judge: one that is lost would be a fault that nobody finds."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import (
    BESIDE,
    CONNECTORS,
    NOT_PLANNED,
    TRANSPORT_LINES,
    connectors_of,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm_ascend, vllm_cpu
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import exact
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.rules.ports import check_ports
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.fields import keys
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Host, Instance, Topology
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.faults import dense, hybrid
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import (
    ascend,
    cpu,
    plan,
    ports,
    problems,
    processes,
    rules,
)

PLANNED = {
    "--host": "hosts.<name>.address",
    "--port": "api_port",
    "--served-model-name": "model.served_name",
    "--model": "model.path",
    "--kv-transfer-config": "connector",
    "--tensor-parallel-size": "tp",
    "-tp": "tp",
    "--data-parallel-size": "dp",
    "-dp": "dp",
    "--data-parallel-rank": "dp",
    "-dpn": "dp",
    "--data-parallel-address": "dp",
    "-dpa": "dp",
    "--data-parallel-rpc-port": "dp_rpc_port",
    "-dpp": "dp_rpc_port",
    "--data-parallel-size-local": "dp and hosts",
    "-dpl": "dp and hosts",
    "--data-parallel-start-rank": "dp and hosts",
    "-dpr": "dp and hosts",
    "--headless": "hosts and data_parallel",
    "--pipeline-parallel-size": "pp",
    "-pp": "pp",
    "--prefill-context-parallel-size": "pcp",
    "-pcp": "pcp",
    "--decode-context-parallel-size": "dcp",
    "-dcp": "dcp",
    "--shutdown-timeout": "drain_timeout",
}
UNPLANNED = [
    *("--data-parallel-hybrid-lb", "--data-parallel-external-lb", "--data-parallel-backend", "-dpb", "-dph", "-dpe"),
    *("--data-parallel-multi-port-external-lb", "-dpm", "--data-parallel-supervisor-port", "--nnodes", "-n"),
    *("--node-rank", "-r", "--grpc-port"),
]
REFUSED = [
    *("--", "--api-key", "--config", "--disable-log-stats", "--grpc", "--ssl-ca-certs", "--ssl-cert-reqs"),
    *("--ssl-certfile", "--ssl-ciphers", "--ssl-keyfile", "--uds"),
]


@pytest.mark.parametrize("option", PLANNED)
def test_options_that_the_plan_writes(option):
    (problem,) = problems({**ascend(), "engine_args": [option]})
    assert (problem.rule, problem.fix) == ("planned-argument", f"set {PLANNED[option]} instead.")


@pytest.mark.parametrize("option", UNPLANNED)
def test_options_that_make_another_shape(option):
    (problem,) = problems({**ascend(), "engine_args": [option]})
    assert (problem.rule, problem.fix[:9]) == ("planned-argument", "remove it")


@pytest.mark.parametrize("option", REFUSED)
def test_options_that_break_the_plan(option):
    assert rules({**ascend(), "engine_args": [option]}) == {("refused-argument", "engine_args[0]")}


@pytest.mark.parametrize(
    "option", ["--uvicorn-log", "--log-lev", "--api-server-c", "--shutdown-t", "--ssl-ci", "--nno"]
)
def test_abbreviations_of_all_of_them_are_recognised(option):
    assert rules({**ascend(), "engine_args": [option]}) == {("abbreviated-argument", "engine_args[0]")}


@pytest.mark.parametrize("engine", [vllm_ascend, vllm_cpu])
def test_keys_named_as_the_way_out_exist(engine):
    known = {*keys(Instance), *keys(Topology)}
    for named in [*PLANNED.values(), *engine.PLANNED_VARIABLES.values()]:
        for key in named.split(" and "):
            if key.startswith("hosts.<name>."):
                assert key.removeprefix("hosts.<name>.") in keys(Host)
            else:
                assert key.partition(".")[0] in known


def test_variables_of_the_interface_name_its_key():
    raw = ascend()
    raw["prefill"][0]["environment"] = {"HCCL_SOCKET_IFNAME": "eth2"}
    (problem,) = problems(raw)
    assert problem.fix == "remove it and set hosts.npu1.interface instead."


SAID = {
    "tcp": (
        "The Mooncake Transfer Engine is using tcp as its protocol.",
        "The Mooncake Transfer Engine is using rdma as its protocol.",
    ),
    "rdma": (
        "The Mooncake Transfer Engine is using rdma as its protocol.",
        "No RDMA devices found, check your device installation",
    ),
    "ascend": (
        "Success to initialize adxl engine:192.0.2.1:20001 with device_id:0",
        "TcpTransport: listen on port 15914",
    ),
}


@pytest.mark.parametrize("protocol", ["tcp", "rdma", "ascend"])
def test_lines_about_the_transport(protocol):
    lines, (good, bad) = TRANSPORT_LINES[protocol], SAID[protocol]
    assert set(lines) == {"wanted", "unwanted"}
    assert re.search(lines["wanted"], good)
    assert not re.search(lines["unwanted"], good)
    assert re.search(lines["unwanted"], bad)
    assert not re.search(lines["wanted"], bad)


@pytest.mark.parametrize("line", ["Found 0 HCAs", "TcpTransport: listen on port 15914"])
def test_rdma_that_fell_back(line):
    assert re.search(TRANSPORT_LINES["rdma"]["unwanted"], line)


def test_ascend_that_failed():
    assert re.search(TRANSPORT_LINES["ascend"]["unwanted"], "Failed to initialize AdxlEngine, status: 503900")


def test_connectors_beside():
    assert {
        name: (item.since, item.gone, item.only, item.lookup_port, item.both_roles) for name, item in BESIDE.items()
    } == {
        "AscendStoreConnector": ("0.12.0rc1", None, None, True, False),
        "MooncakeConnectorStoreV1": ("0.11.0rc0", None, None, True, False),
        "UCMConnector": ("0.13.0", None, None, False, True),
        "LMCacheAscendConnector": ("0.17.0rc1", "0.26.0rc1", None, False, False),
        "SimpleCPUOffloadConnector": ("0.21.0rc1", None, None, False, False),
        "RecomputeCPUOffloadConnector": ("0.23.0rc1", None, "decode", False, False),
        "OffloadingConnector": ("0.26.0rc1", None, None, False, False),
        "MooncakeStoreConnector": ("0.32.0", None, None, True, False),
    }
    assert {item.engine for name, item in BESIDE.items() if name != "MooncakeStoreConnector"} == {"vllm_ascend"}
    assert BESIDE["MooncakeStoreConnector"].engine == "vllm_cpu"


def test_stages_of_a_hybrid_prefill_have_ports():
    raw = hybrid()
    raw["prefill"][0] |= {"pp": 2}
    assert [ports(one)["kv"] for name, one in processes(raw, "npu1").items() if name.startswith("p1")] == [
        [(22000, 22007)],
        [(22008, 22015)],
    ]


@pytest.mark.parametrize("option", ["--block-size", "--kv-cache-dtype", "--dtype", "--quantization"])
def test_options_on_which_both_sides_agree(option):
    raw = ascend()
    raw["decode"][0]["args"] = [option, "x"]
    assert rules(raw) == {("option-differs", "decode[0].args")}
    raw["prefill"][0]["args"] = [f"{option}=x"]
    assert rules(raw) == set()


VARIABLES = {
    "HCCL_INTRA_ROCE_ENABLE": ("1", "error"),
    "HCCL_INTRA_PCIE_ENABLE": ("1", "error"),
    "ASCEND_CONNECT_TIMEOUT": ("20000", "warning"),
    "ASCEND_TRANSFER_TIMEOUT": ("40000", "warning"),
    "HCCL_CONNECT_TIMEOUT": ("1200", "warning"),
    "HCCL_RDMA_TIMEOUT": ("19", "warning"),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_on_which_both_ends_agree(name):
    value, severity = VARIABLES[name]
    raw = ascend()
    raw["prefill"][0]["environment"] = {name: value}
    (problem,) = problems(raw)
    assert (problem.rule, problem.severity, problem.where) == ("variable-differs", severity, "decode[0].environment")
    raw["engine_environment"] = {name: value}
    assert rules(raw) == set()


@pytest.mark.parametrize(
    "name", ["all", "ungrouped", "pd", "engine", "prefill", "decode", "router", "master", "etcd", "instance_p1"]
)
def test_names_that_hosts_cannot_have(name):
    raw = ascend()
    raw["hosts"] = {name if host == "npu2" else host: entry for host, entry in raw["hosts"].items()}
    raw["decode"][0]["host"] = name
    assert rules(raw) == {("host-name", f"hosts.{name}")}


@pytest.mark.parametrize("port", [20001, 20002, 20050, 23010, 30000, 30100, 30200, 36000])
def test_ports_out_of_tutorials(port):
    raw = ascend()
    raw["engine"]["version"], raw["mooncake"]["version"] = "0.13.0", "0.3.7.post2"
    raw["prefill"] = [{"name": "p1", "host": "npu1", "tp": 8, "dp": 2, "kv_port": port}]
    raw["decode"][0] |= {"tp": 8, "dp": 2}
    found = [problem for problem in problems(raw) if problem.rule == "port-in-pool"]
    assert found[0].message.endswith(f"Tutorials write {port} all the same.")


def test_a_model_is_a_mixture_of_experts_by_its_arguments_too():
    raw = ascend()
    del raw["model"]["features"]
    assert {rule for rule, _where in rules(raw)} == {"dense-dp-unsure"}
    assert rules({**raw, "engine_args": ["--enable-expert-parallel"]}) == set()


@pytest.mark.parametrize(("prefill", "decode", "found"), [(2, 1, True), (1, 2, True), (2, 2, False), (4, 2, False)])
def test_context_parallelism_on_both_sides(prefill, decode, found):
    raw = ascend()
    raw["model"]["features"] = ["moe", "sparse"]
    raw["prefill"][0]["dcp"], raw["decode"][0]["dcp"] = prefill, decode
    assert (("shape-dcp-sides", "decode[0].dcp") in rules(raw)) is found


def test_what_only_npus_read_is_no_business_of_the_cpu():
    raw = cpu()
    raw["engine_environment"] = {"VLLM_ASCEND_ENABLE_NZ": "9"}
    assert rules(raw) == set()


def test_a_dead_option_for_all_is_told_where_it_stands():
    assert rules({**cpu(), "engine_args": ["--device", "cpu"]}) == {("option-dead", "engine_args")}


def test_a_key_without_effect_is_told_once():
    raw = cpu()
    raw["prefill"][0]["dp_rpc_port"] = 12321
    assert rules(raw) == {("key-without-effect", "prefill[0].dp_rpc_port")}


def test_events_are_replayed_on_a_port_too():
    raw = dense()
    raw["engine_args"] = [
        "--kv-events-config",
        '{"enable_kv_cache_events":true,"endpoint":"tcp://192.0.2.31:5557","replay_endpoint":"tcp://*:5600"}',
    ]
    raw["prefill"][0]["api_port"] = 5600
    assert rules(raw) == {("port-overlap", "prefill[0].args")}


def test_an_engine_on_cpu_is_one_rank():
    process = processes(cpu(), "p1")["p1"]
    assert (process["role"], process["ranks"], process["devices"]) == ("rank", [0], [])


@pytest.mark.parametrize(("version", "told"), [("0.3.12", False), ("0.3.13", True)])
def test_masters_that_keep_their_metrics_to_one_address(version, told):
    raw = cpu()
    raw["mooncake"]["version"] = version
    argv = processes(raw, "control")["master"]["unit"]["argv"]
    assert ("--metrics_host=192.0.2.10" in argv) is told


def test_advice_stays_above_the_ports_of_root():
    raw = dense()
    raw["prefill"][0]["api_port"] = raw["router"]["port"] = 1024
    (problem,) = problems(raw)
    assert problem.fix.startswith("set router.port to 1025,")


IN_A_STORE = (
    "keeps KV in a store and does not move it from prefill to decode: decode looks there once, does not wait for what "
    "prefill still writes, and computes the prompt again. Name a connector that moves KV, and this one in "
    "connector.also."
)
WHY_NOT = {
    "AscendStoreConnector": IN_A_STORE,
    "MooncakeConnectorStoreV1": IN_A_STORE,
    "UCMConnector": IN_A_STORE,
    "LMCacheAscendConnector": IN_A_STORE,
    "SimpleCPUOffloadConnector": IN_A_STORE,
    "RecomputeCPUOffloadConnector": IN_A_STORE,
    "OffloadingConnector": IN_A_STORE,
    "MooncakeStoreConnector": IN_A_STORE,
    "LLMDataDistCMgrConnector": "moves KV by rank tables and left vLLM-Ascend with 0.12.0rc1.",
    "SfaRemoteD2HConnector": "moves KV through memfabric, not through Mooncake.",
    "MultiConnector": "is written by the plan when connector.also names more connectors.",
}


@pytest.mark.parametrize("name", WHY_NOT)
def test_connectors_that_are_not_planned_and_why(name):
    (problem,) = problems(ascend(name))
    assert (problem.rule, problem.severity, problem.where) == ("connector-unknown", "error", "connector.name")
    assert problem.message == f"{name} is no connector that can be planned for vllm_ascend. It {WHY_NOT[name]}"
    raw = cpu()
    raw["connector"]["name"] = name
    (problem,) = problems(raw)
    why = f" It {IN_A_STORE}" if name == "MooncakeStoreConnector" else ""
    assert problem.message == f"{name} is no connector that can be planned for vllm_cpu.{why}"


def test_all_connectors_that_are_not_planned():
    assert set(NOT_PLANNED) == set(WHY_NOT)


@pytest.mark.parametrize(
    ("name", "version", "where"),
    [
        ("MooncakeConnector", "0.11.0rc0", "engine.version"),
        ("MooncakeConnector", "0.11.0rc1", None),
        ("MooncakeConnector", "0.11.0", None),
        ("MooncakeConnector", "0.12.0rc1", "connector.name"),
        ("MooncakeConnectorV1", "0.10.0rc1", "engine.version"),
        ("MooncakeConnectorV1", "0.10.1rc1", None),
        ("MooncakeHybridConnector", "0.20.0rc1", "engine.version"),
        ("MooncakeHybridConnector", "0.20.2rc1", None),
        ("MooncakeLayerwiseConnector", "0.11.0rc0", "engine.version"),
        ("MooncakeLayerwiseConnector", "0.11.0rc1", None),
    ],
)
def test_releases_that_have_a_connector(name, version, where):
    raw = ascend(name)
    raw["engine"]["version"] = version
    assert [place for rule, place in rules(raw) if rule == "connector-version"] == ([where] if where else [])


@pytest.mark.parametrize(("version", "there"), [("0.31.0", False), ("0.32.0", True)])
def test_releases_of_vllm_that_have_its_connector(version, there):
    raw = cpu()
    raw["engine"]["version"] = version
    assert (("connector-version", "engine.version") in rules(raw)) is not there


NUMBERINGS = {
    "MooncakeConnectorV1": [
        ("0.10.1rc1", ("tp",), False),
        ("0.11.0rc0", ("tp",), False),
        ("0.11.0rc1", ("tp",), True),
        ("0.11.0", ("tp",), True),
        ("0.12.0rc1", ("tp", "pp", "pcp"), True),
        ("0.26.0", ("tp", "pp", "pcp"), True),
    ],
    "MooncakeConnector": [("0.11.0rc1", ("tp",), True), ("0.11.0", ("tp",), True)],
    "MooncakeHybridConnector": [("0.20.2rc1", ("tp", "pp"), True), ("0.26.0", ("tp", "pp"), True)],
    "MooncakeLayerwiseConnector": [
        ("0.11.0rc1", ("tp",), True),
        ("0.12.0rc1", ("tp",), True),
        ("0.20.2rc1", ("tp",), True),
        ("0.21.0rc1", ("tp", "pcp"), True),
        ("0.26.0", ("tp", "pcp"), True),
    ],
}


def test_how_connectors_number_their_ports():
    found = {
        connector.name: [
            (version, connector.numbering(version).counts, connector.numbering(version).global_ranks)
            for version, _counts, _global in NUMBERINGS[connector.name]
        ]
        for connector in CONNECTORS
        if connector.engine == "vllm_ascend"
    }
    assert found == NUMBERINGS


MODULES = {
    ("MooncakeConnectorV1", "0.11.0"): None,
    ("MooncakeConnector", "0.11.0rc1"): "vllm_ascend.distributed.mooncake_connector",
    ("MooncakeConnector", "0.11.0"): "vllm_ascend.distributed.mooncake_connector",
    ("MooncakeHybridConnector", "0.20.2rc1"): None,
    ("MooncakeLayerwiseConnector", "0.11.0rc1"): "vllm_ascend.distributed.mooncake_layerwise_connector",
    ("MooncakeLayerwiseConnector", "0.11.0"): "vllm_ascend.distributed.mooncake_layerwise_connector",
    ("MooncakeLayerwiseConnector", "0.12.0rc1"): None,
    ("MooncakeLayerwiseConnector", "0.26.0"): None,
}


def test_connectors_that_are_reached_by_a_module():
    known = connectors_of("vllm_ascend")
    assert {(name, version): known[name].module(version) for name, version in MODULES} == MODULES


def test_protocols_of_connectors():
    assert {(item.engine, item.name): item.protocols for item in CONNECTORS} == {
        ("vllm_cpu", "MooncakeConnector"): ("tcp", "rdma"),
        ("vllm_ascend", "MooncakeConnectorV1"): ("ascend",),
        ("vllm_ascend", "MooncakeConnector"): ("ascend",),
        ("vllm_ascend", "MooncakeHybridConnector"): ("ascend",),
        ("vllm_ascend", "MooncakeLayerwiseConnector"): ("ascend",),
    }


@pytest.mark.parametrize(
    ("port", "rule"),
    [
        (29999, None),
        (30000, "port-in-nodeport-range"),
        (32767, "port-in-nodeport-range"),
        (32768, "port-in-ephemeral-range"),
        (60999, "port-in-ephemeral-range"),
        (61000, None),
    ],
)
def test_bounds_of_ranges_that_others_take_from(port, rule):
    raw = cpu()
    raw["prefill"][0]["api_port"] = port
    assert [(item.rule, item.severity, item.where) for item in problems(raw)] == (
        [(rule, "warning", "prefill[0].api_port")] if rule else []
    )


@pytest.mark.parametrize(
    ("ranges", "told"),
    [
        ([(29990, 2), (29990, 12), (29995, 3)], "29990-30001"),
        ([(29998, 4), (29999, 3), (30001, 1)], "29998-30001"),
    ],
)
def test_a_key_is_told_about_once_by_the_range_that_goes_farthest(ranges, told):
    """And by the first of those that go as far."""
    process = plan(cpu()).processes["p1"][0]
    report = Report("topology.yml")
    claims = [exact("kv", "192.0.2.11", first, "prefill[0].kv_port", size=size) for first, size in ranges]
    check_ports([replace(process, host=claim.text(), claims=(claim,)) for claim in claims], report)
    (problem,) = report.found
    assert problem.message.startswith(f"kv {told} lies in 30000-32767")


@pytest.mark.parametrize(("base", "beyond"), [(64735, False), (64736, True)])
def test_ports_that_are_drawn_may_reach_the_last_one(base, beyond):
    """Eight devices draw from 100 each, and the port after them counts."""
    raw = ascend()
    raw["engine_environment"] = {"ASCEND_BASE_PORT": str(base)}
    assert rules(raw) == (
        {("port-out-of-range", "prefill[0].devices"), ("port-out-of-range", "decode[0].devices")} if beyond else set()
    )
