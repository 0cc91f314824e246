# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.numbers import whole
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.table import (
    ABORT_VARIABLES,
    ENGINE_READY_TIMEOUT,
    MISSPELT,
    POOL_HASH_SEED,
    READERS,
    VARIABLES,
    abort_variable,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.together import check_together
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.values import check_variable
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import version_key

NOW = {"vllm_ascend": "0.26.0rc1", "vllm": "0.26.0", "mooncake": "0.3.13.post1"}
SOME = {"integer": "7", "port": "5000", "mooncake port": "5000", "json": "{}", "buffer pool": "4:8", "presence": "1"}


def at(reader, version):
    return {**NOW, reader: version}


def good_value(name):
    variable = VARIABLES[name]
    if variable.choices:
        return variable.choices[0][1][0]
    return SOME.get(variable.kind, "192.0.2.11")


def rules(findings):
    return [finding.rule for finding in findings]


# name, reader, last release before it is read, first that reads it, last that reads it, first that does not
AGES = [
    ("VLLM_LLMDD_ABORT_REQUEST_TIMEOUT", "vllm_ascend", "0.9.1rc1", "0.9.1rc2", "0.9.1", "0.9.2rc1"),
    ("VLLM_ASCEND_KVCACHE_DELAY_FREE_TIMEOUT", "vllm_ascend", "0.10.0rc1", "0.10.1rc1", "0.10.2rc1", "0.11.0rc0"),
    ("VLLM_NIXL_ABORT_REQUEST_TIMEOUT", "vllm_ascend", "0.10.2rc1", "0.11.0rc0", "0.18.0rc1", "0.18.0"),
    ("VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", "vllm_ascend", "0.18.0rc1", "0.18.0", None, None),
    ("VLLM_ASCEND_ENABLE_NZ", "vllm_ascend", "0.11.0rc0", "0.11.0rc1", "0.26.0rc1", "0.27.1rc1"),
    ("VLLM_ASCEND_ENABLE_MLAPO", "vllm_ascend", "0.10.2rc1", "0.11.0rc0", "0.26.0rc1", "0.27.1rc1"),
    ("VLLM_ASCEND_ENABLE_FUSED_MC2", "vllm_ascend", "0.12.0rc1", "0.13.0rc1", "0.26.0rc1", "0.27.1rc1"),
    ("VLLM_ASCEND_BALANCE_SCHEDULING", "vllm_ascend", "0.12.0rc1", "0.13.0rc1", "0.26.0rc1", "0.27.1rc1"),
    (
        "VLLM_ASCEND_FUSION_OP_TRANSPOSE_KV_CACHE_BY_BLOCK",
        "vllm_ascend",
        "0.14.0rc1",
        "0.15.0rc1",
        "0.26.0rc1",
        "0.27.1rc1",
    ),
    ("VLLM_ASCEND_ENABLE_FLASHCOMM1", "vllm_ascend", "0.11.0rc0", "0.11.0rc1", "0.26.0rc1", "0.27.1rc1"),
    ("MSMONITOR_USE_DAEMON", "vllm_ascend", "0.10.2rc1", "0.11.0rc0", "0.26.0rc1", "0.27.1rc1"),
    ("DYNAMIC_EPLB", "vllm_ascend", "0.11.0", "0.12.0rc1", None, None),
    ("VLLM_ASCEND_ENABLE_BATCH_MEMCPY", "vllm_ascend", "0.18.0", "0.19.1rc1", None, None),
    ("VLLM_ASCEND_ENABLE_CONTEXT_PARALLEL", "vllm_ascend", "0.11.0", "0.12.0rc1", "0.20.2rc1", "0.21.0rc1"),
    ("VLLM_ASCEND_EXTERNAL_DP_LB_ENABLED", "vllm_ascend", "0.9.1rc1", "0.9.1rc2", "0.9.1", "0.9.2rc1"),
    ("PHYSICAL_DEVICES", "vllm_ascend", "0.10.0rc1", "0.10.1rc1", "0.11.0", "0.12.0rc1"),
    ("USE_MULTI_BLOCK_POOL", "vllm_ascend", "0.13.0rc2", "0.13.0rc3", "0.13.0rc3", "0.13.0"),
    ("VLLM_ASCEND_ENABLE_FLASHCOMM", "vllm_ascend", "0.9.1rc3", "0.9.1", "0.11.0rc0", "0.11.0rc1"),
    ("VLLM_ASCEND_ENABLE_DENSE_OPTIMIZE", "vllm_ascend", "0.10.1rc1", "0.10.2rc1", "0.12.0rc1", "0.13.0rc1"),
    ("VLLM_ASCEND_ENABLE_PREFETCH_MLP", "vllm_ascend", "0.10.1rc1", "0.10.2rc1", "0.17.0rc1", "0.18.0rc1"),
    ("VLLM_ASCEND_ENABLE_MATMUL_ALLREDUCE", "vllm_ascend", "0.9.2rc1", "0.10.0rc1", "0.24.0rc1", "0.25.1rc1"),
    ("VLLM_ASCEND_FLASHCOMM2_PARALLEL_SIZE", "vllm_ascend", "0.11.0", "0.12.0rc1", "0.24.0rc1", "0.25.1rc1"),
    ("VLLM_ASCEND_ENABLE_TOPK_TOPP_OPTIMIZATION", "vllm_ascend", "0.9.1", "0.9.2rc1", "0.11.0", "0.12.0rc1"),
    ("VLLM_ASCEND_LLMDD_RPC_PORT", "vllm_ascend", "0.10.0rc1", "0.10.1rc1", "0.11.0", "0.12.0rc1"),
    ("VLLM_LLMDD_RPC_PORT", "vllm_ascend", "0.9.1rc3", "0.9.1", "0.10.0rc1", "0.10.1rc1"),
    ("DISAGGREGATED_PREFILL_RANK_TABLE_PATH", "vllm_ascend", "0.9.1rc3", "0.9.1", "0.11.0", "0.12.0rc1"),
    ("ASCEND_BUFFER_POOL", "vllm_ascend", None, "0.9.1", "0.23.0rc1", "0.23.0"),
    ("VLLM_USE_V1", "vllm", None, "0.9.1", "0.11.0", "0.11.1"),
    ("VLLM_RPC_TIMEOUT", "vllm", None, "0.9.1", "0.22.1", "0.23.0"),
    ("VLLM_ENGINE_READY_TIMEOUT_S", "vllm", "0.13.0", "0.14.0", None, None),
    ("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", "vllm", "0.9.1", "0.9.2", None, None),
    ("MC_FORCE_TCP", "mooncake", None, "0.3.6", None, None),
    ("MC_USE_IPV6", "mooncake", None, "0.3.6", None, None),
    ("MC_LEGACY_RPC_PORT_BINDING", "mooncake", None, "0.3.6", None, None),
    ("MC_DISABLE_METACACHE", "mooncake", None, "0.3.6", None, None),
    ("MC_FORCE_HCA", "mooncake", "0.3.7.post2", "0.3.8", None, None),
    ("MC_STORE_USE_HUGEPAGE", "mooncake", "0.3.8", "0.3.8.post1", None, None),
    ("ASCEND_USE_ASYNC_TRANSFER", "mooncake", "0.3.7.post2", "0.3.8", None, None),
    ("ASCEND_ENABLE_USE_FABRIC_MEM", "mooncake", "0.3.8", "0.3.8.post1", None, None),
    ("ASCEND_BASE_PORT", "mooncake", "0.3.7.post2", "0.3.8", None, None),
    ("MC_MIN_RPC_PORT", "mooncake", "0.3.10.post2", "0.3.11", None, None),
    ("MC_MAX_RPC_PORT", "mooncake", "0.3.10.post2", "0.3.11", None, None),
    ("MC_MIN_PRC_PORT", "mooncake", "0.3.6.post1", "0.3.7", None, None),
    ("MC_MAX_PRC_PORT", "mooncake", "0.3.6.post1", "0.3.7", None, None),
    ("MC_RPC_TIMEOUT_MS", "mooncake", "0.3.11.post1", "0.3.12", None, None),
    ("MC_RPC_CONNECT_TIMEOUT_MS", "mooncake", "0.3.11.post1", "0.3.12", None, None),
    ("MC_STORE_CLIENT_MIN_PORT", "mooncake", "0.3.10.post2", "0.3.11", None, None),
    ("MC_STORE_CLIENT_MAX_PORT", "mooncake", "0.3.10.post2", "0.3.11", None, None),
    ("ASCEND_THREAD_POOL_SIZE", "mooncake", "0.3.8", "0.3.8.post1", None, None),
    ("ASCEND_GLOBAL_RESOURCE_CONFIG", "mooncake", "0.3.8.post1", "0.3.9", None, None),
    ("ASCEND_LOCAL_COMM_RES", "mooncake", "0.3.8.post1", "0.3.9", None, None),
    ("ASCEND_AUTO_CONNECT", "mooncake", "0.3.8.post1", "0.3.9", None, None),
    ("ASCEND_USE_SHORT_CONNECTION", "mooncake", "0.3.7.post2", "0.3.8", None, None),
    ("ASCEND_CONNECT_TIMEOUT", "mooncake", None, "0.3.6", None, None),
    ("ASCEND_TRANSFER_TIMEOUT", "mooncake", None, "0.3.6", None, None),
    ("MC_TCP_BIND_ADDRESS", "mooncake", None, "0.3.6", None, None),
    ("VLLM_HOST_IP", "vllm", None, "0.9.1", None, None),
]


@pytest.mark.parametrize("age", AGES, ids=[age[0] for age in AGES])
def test_the_releases_that_read_it(age):
    name, reader, before, first, last, after = age
    value = good_value(name)
    for version in (first, last or NOW[reader], "99.0" if after is None else first):
        assert check_variable(name, value, at(reader, version)) == []
    if before:
        (found,) = check_variable(name, value, at(reader, before))
        assert (found.rule, found.severity) == ("variable-too-old", "warning")
        assert f"{name} is not read before {READERS[reader]} {first}, and {before} is planned" in found.message
        assert name in ABORT_VARIABLES or f"{READERS[reader]} {first} or later" in found.fix
    if after:
        (found,) = check_variable(name, value, at(reader, after))
        assert (found.rule, found.severity) == ("variable-dead", "warning")
        assert re.match(rf"{name} is .+ since {READERS[reader]} {re.escape(after)}, ", found.message)


def test_every_variable_with_releases_is_pinned():
    assert {age[0] for age in AGES} == {v.name for v in VARIABLES.values() if v.reader in NOW}


@pytest.mark.parametrize(("name", "reader"), [(age[0], age[1]) for age in AGES])
def test_who_reads_it(name, reader):
    assert VARIABLES[name].reader == reader
    others = {other: version for other, version in NOW.items() if other != reader}
    assert check_variable(name, "no such value", others) == []


@pytest.mark.parametrize(
    ("version", "hybrid", "name"),
    [
        ("0.9.1", False, "VLLM_LLMDD_ABORT_REQUEST_TIMEOUT"),
        ("0.10.1rc1", False, "VLLM_ASCEND_KVCACHE_DELAY_FREE_TIMEOUT"),
        ("0.10.2rc1", False, "VLLM_ASCEND_KVCACHE_DELAY_FREE_TIMEOUT"),
        ("0.11.0rc0", False, "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"),
        ("0.11.0", False, "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"),
        ("0.18.0rc1", False, "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"),
        ("0.18.0", False, "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"),
        ("0.20.2rc1", False, "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"),
        ("0.20.2rc1", True, "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"),
        ("0.21.0rc1", True, "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"),
        ("0.22.1rc1", True, "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"),
        ("0.26.0", True, "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"),
    ],
)
def test_abort_variable(version, hybrid, name):
    assert abort_variable(version, "MooncakeHybridConnector" if hybrid else "MooncakeConnectorV1") == name
    assert hybrid or abort_variable(version) == name


def test_all_names_of_the_abort_variable():
    assert ABORT_VARIABLES == (
        "VLLM_LLMDD_ABORT_REQUEST_TIMEOUT",
        "VLLM_ASCEND_KVCACHE_DELAY_FREE_TIMEOUT",
        "VLLM_NIXL_ABORT_REQUEST_TIMEOUT",
        "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT",
    )


def test_an_old_abort_variable_names_its_successor():
    (found,) = check_variable("VLLM_NIXL_ABORT_REQUEST_TIMEOUT", "480", at("vllm_ascend", "0.23.0"))
    assert found.fix == "set abort_timeout; the plan then writes VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT."
    (found,) = check_variable("VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", "480", at("vllm_ascend", "0.11.0"))
    assert found.fix == "set abort_timeout; the plan then writes VLLM_NIXL_ABORT_REQUEST_TIMEOUT."


@pytest.mark.parametrize(
    ("name", "version", "way_out"),
    [
        ("VLLM_ASCEND_ENABLE_NZ", "0.27.1rc1", "weight_nz_mode"),
        ("VLLM_ASCEND_ENABLE_MLAPO", "0.27.1rc1", "enable_mlapo"),
        ("VLLM_ASCEND_ENABLE_FUSED_MC2", "0.27.1rc1", "enable_fused_mc2"),
        ("VLLM_ASCEND_FUSION_OP_TRANSPOSE_KV_CACHE_BY_BLOCK", "0.27.1rc1", "enable_transpose_kv_cache_by_block"),
        ("MSMONITOR_USE_DAEMON", "0.27.1rc1", "msmonitor_use_daemon"),
        ("VLLM_ASCEND_ENABLE_FLASHCOMM1", "0.27.1rc1", "sequence parallelism of vLLM"),
        ("VLLM_ASCEND_ENABLE_FLASHCOMM", "0.11.0", "VLLM_ASCEND_ENABLE_FLASHCOMM1, which is read up to 0.26.0"),
        ("VLLM_ASCEND_ENABLE_CONTEXT_PARALLEL", "0.23.0", "pcp and dcp"),
        ("VLLM_ASCEND_EXTERNAL_DP_LB_ENABLED", "0.23.0", "data_parallel"),
        ("PHYSICAL_DEVICES", "0.23.0", "devices"),
        ("ASCEND_BUFFER_POOL", "0.23.0", "ASCEND_ENABLE_USE_FABRIC_MEM=1 for A3 over HCCS or HCCL_INTRA_ROCE_ENABLE=1"),
        ("VLLM_LLMDD_RPC_PORT", "0.23.0", "kv_port"),
        ("VLLM_RPC_TIMEOUT", "0.23.0", "VLLM_ENGINE_READY_TIMEOUT_S"),
    ],
)
def test_what_to_write_instead(name, version, way_out):
    (found,) = check_variable(name, good_value(name), at(VARIABLES[name].reader, version))
    assert way_out in found.fix


PRESENCE = [
    "MC_FORCE_TCP",
    "MC_FORCE_HCA",
    "MC_USE_IPV6",
    "MC_LEGACY_RPC_PORT_BINDING",
    "MC_DISABLE_METACACHE",
    "MC_STORE_USE_HUGEPAGE",
    "ASCEND_USE_ASYNC_TRANSFER",
    "ASCEND_ENABLE_USE_FABRIC_MEM",
]


@pytest.mark.parametrize("name", PRESENCE)
@pytest.mark.parametrize(
    "value", ["0", "false", "False", "no", "off", "", " ", "n", "f", "none", "disable", "disabled"]
)
def test_presence_only(name, value):
    (found,) = check_variable(name, value, NOW)
    assert (found.rule, found.severity) == ("variable-presence-only", "error")
    assert name in found.message
    assert "leave it out" in found.fix
    assert check_variable(name, "1", NOW) == check_variable(name, "true", NOW) == []


def test_no_other_variable_counts_by_presence():
    assert sorted(v.name for v in VARIABLES.values() if v.kind == "presence") == sorted(PRESENCE)


# name, values that are taken, values that are not, what the way out names
VALUES = [
    ("ASCEND_BASE_PORT", ("1024", "65535"), ("1023", "65536", "x", "-1", ""), "1024 to 65535"),
    ("HCCL_IF_BASE_PORT", ("1024", "65520"), ("1023", "65521", "auto"), "1024 to 65520"),
    ("ASCEND_THREAD_POOL_SIZE", ("1", "16"), ("0", "17", "many"), "1 to 16"),
    ("HCCL_CONNECT_TIMEOUT", ("120", "7200"), ("119", "7201", "0"), "120 to 7200"),
    ("HCCL_EXEC_TIMEOUT", ("0", "2147483647"), ("2147483648", "1.5"), "0 on"),
    ("HCCL_RDMA_TIMEOUT", ("5", "20"), ("4", "21"), "5 to 20"),
    ("HCCL_RDMA_RETRY_CNT", ("1", "7"), ("0", "8"), "1 to 7"),
    ("HCCL_RDMA_TC", ("0", "132", "252"), ("255", "256", "130"), "0 to 255 that is a multiple of 4"),
    ("HCCL_RDMA_SL", ("0", "7"), ("8", "-1"), "0 to 7"),
    ("HCCL_BUFFSIZE", ("1", "2560"), ("0", "200MB"), "1 on"),
    ("ASCEND_CONNECT_TIMEOUT", ("1", "10000"), ("0", "10s"), "1 on"),
    ("ASCEND_TRANSFER_TIMEOUT", ("1", "33064"), ("0", "10s"), "1 on"),
    ("VLLM_ENGINE_READY_TIMEOUT_S", ("1", "7200"), ("0", "2h"), "1 on"),
    ("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", ("1", "30000"), ("0", "x"), "1 on"),
    ("VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", ("1", "480", "2147483647"), ("0", "2147483648"), "1 on"),
    ("HCCL_INTRA_ROCE_ENABLE", ("0", "1"), ("true", "2", ""), "0 or 1"),
    ("HCCL_INTRA_PCIE_ENABLE", ("0", "1"), ("true", "2"), "0 or 1"),
    ("ASCEND_AUTO_CONNECT", ("0", "1"), ("true", "2"), "0 or 1"),
    ("ASCEND_USE_SHORT_CONNECTION", ("0", "1"), ("yes",), "0 or 1"),
    ("TASK_QUEUE_ENABLE", ("0", "1", "2"), ("3", "on"), "0, 1 or 2"),
    ("VLLM_ASCEND_ENABLE_NZ", ("0", "1", "2"), ("3", "true"), "0, 1 or 2"),
    ("VLLM_ASCEND_ENABLE_MLAPO", ("0", "1"), ("2", "true"), "0 or 1"),
    ("VLLM_ASCEND_ENABLE_FLASHCOMM1", ("0", "1"), ("2",), "0 or 1"),
    ("VLLM_ASCEND_BALANCE_SCHEDULING", ("0", "1"), ("2",), "0 or 1"),
    ("VLLM_ASCEND_FUSION_OP_TRANSPOSE_KV_CACHE_BY_BLOCK", ("0", "1"), ("2",), "0 or 1"),
    ("MSMONITOR_USE_DAEMON", ("0", "1"), ("2",), "0 or 1"),
    ("DYNAMIC_EPLB", ("true", "false"), ("1",), "true or false"),
    ("HCCL_IF_IP", ("192.0.2.11", "2001:db8::1"), ("127.0.0.1", "localhost", "0.0.0.0", "::1", "host1"), "address"),
    ("VLLM_HOST_IP", ("192.0.2.11",), ("127.0.1.1", "LOCALHOST", "::"), "address"),
    ("MC_TCP_BIND_ADDRESS", ("192.0.2.11",), ("127.0.0.1", "0.0.0.0"), "address"),
    (
        "HCCL_HOST_SOCKET_PORT_RANGE",
        ("auto", "60000", "60000-60050", "60000,60050-60100, 60150-60160", "1-65535", "6-6"),
        (
            "",
            "x",
            "0-5",
            "60000-65536",
            "60050-60000",
            "60000-60050,60050",
            "60050,60000-60050",
            "60000-60050,60040-60060",
            "60000,",
        ),
        "",
    ),
    ("HCCL_NPU_SOCKET_PORT_RANGE", ("61000-61050",), ("61050-61000",), "60000,60050-60100"),
]


@pytest.mark.parametrize(("name", "good", "bad", "wanted"), VALUES, ids=[case[0] for case in VALUES])
def test_values(name, good, bad, wanted):
    for value in good:
        assert check_variable(name, value, NOW) == []
    for value in bad:
        (found,) = check_variable(name, value, NOW)
        assert (found.rule, found.severity) == ("variable-value", "error")
        assert f"{name} is {value!r}" in found.message
        assert wanted in found.fix


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, int("9" * 18))])
def test_whole_numbers(text, number):
    assert whole(text) == number


@pytest.mark.parametrize("text", ["", "-1", "1.0", "1e3", " 1", "¹", "٣", "9" * 19, "9" * 5000])
def test_no_whole_numbers(text):
    assert whole(text) is None
    assert rules(check_variable("HCCL_RDMA_SL", text, NOW)) == ["variable-value"]
    assert check_together({"MC_MIN_RPC_PORT": text, "ASCEND_TRANSFER_TIMEOUT": text}, NOW) == []


def test_no_worker_is_told_as_such():
    (found,) = check_variable("ASCEND_THREAD_POOL_SIZE", "0", NOW)
    assert "no worker" in found.message
    assert "no worker" not in check_variable("ASCEND_THREAD_POOL_SIZE", "17", NOW)[0].message


def test_a_fused_mc2_of_two_ended():
    name = "VLLM_ASCEND_ENABLE_FUSED_MC2"
    for version in ("0.13.0rc1", "0.23.0"):
        assert check_variable(name, "2", at("vllm_ascend", version)) == []
        assert rules(check_variable(name, "3", at("vllm_ascend", version))) == ["variable-value"]
    (found,) = check_variable(name, "2", at("vllm_ascend", "0.24.0rc1"))
    assert found.fix == "write 0 or 1."
    assert check_variable(name, "1", at("vllm_ascend", "0.24.0rc1")) == []


@pytest.mark.parametrize(
    "name", ["MC_MIN_RPC_PORT", "MC_MAX_PRC_PORT", "MC_STORE_CLIENT_MIN_PORT", "MC_STORE_CLIENT_MAX_PORT"]
)
def test_ports_that_mooncake_rejects(name):
    for value in ("1024", "32767", "61000", "65535"):
        assert check_variable(name, value, at("mooncake", "0.3.11")) == []
    for value in ("1023", "32768", "60999", "65536", "x", ""):
        (found,) = check_variable(name, value, at("mooncake", "0.3.11"))
        assert (found.rule, found.severity) == ("variable-value", "error")
        assert "default ports" in found.message
        assert found.fix == "write a port from 1024 to 32767 or from 61000 to 65535."


def test_before_mooncake_took_every_port():
    for value in ("1", "40000", "65535"):
        assert check_variable("MC_MIN_PRC_PORT", value, at("mooncake", "0.3.10.post2")) == []
    for value in ("0", "65536", "x"):
        assert rules(check_variable("MC_MIN_PRC_PORT", value, at("mooncake", "0.3.10.post2"))) == ["variable-value"]


@pytest.mark.parametrize("name", ["ASCEND_GLOBAL_RESOURCE_CONFIG", "ASCEND_LOCAL_COMM_RES"])
def test_json(name):
    assert check_variable(name, '{"version": "1.3"}', NOW) == []
    for value in ("{version: 1.3}", "[]", "", "1"):
        (found,) = check_variable(name, value, NOW)
        assert (found.rule, found.severity) == ("variable-json", "error")


@pytest.mark.parametrize(
    ("name", "release"), [("VLLM_LLMDD_RPC_PORT", "0.9.1"), ("VLLM_ASCEND_LLMDD_RPC_PORT", "0.11.0")]
)
def test_ports_of_old(name, release):
    for value in ("1", "65535"):
        assert check_variable(name, value, at("vllm_ascend", release)) == []
    for value in ("0", "65536", "x"):
        assert rules(check_variable(name, value, at("vllm_ascend", release))) == ["variable-value"]


def test_buffer_pool_of_old():
    old = at("vllm_ascend", "0.22.1rc1")
    assert check_variable("ASCEND_BUFFER_POOL", "4:8", old) == []
    for value in ("4", "4:8MB", "4:8:1", ""):
        assert rules(check_variable("ASCEND_BUFFER_POOL", value, old)) == ["variable-value"]


@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "ftp_proxy", "ALL_PROXY"])
def test_proxies(name):
    (found,) = check_variable(name, "http://192.0.2.1:3128", {})
    assert (found.rule, found.severity) == ("proxy-variable", "warning")
    assert name in found.message
    assert check_variable(name, "", {}) == []
    assert check_variable("no_proxy", "192.0.2.11", {}) == []


def test_vllm_port():
    (found,) = check_variable("VLLM_PORT", "5000", NOW)
    assert (found.rule, found.severity) == ("variable-ports", "warning")
    assert "upwards from 5000" in found.message
    (found,) = check_variable("VLLM_PORT", "tcp://192.0.2.1:8000", NOW)
    assert (found.rule, found.severity) == ("variable-value", "error")
    assert "Kubernetes" in found.message
    assert "Kubernetes" not in check_variable("VLLM_PORT", "x", NOW)[0].message


def test_hash_seed():
    assert POOL_HASH_SEED == ("PYTHONHASHSEED", "0")
    for value in ("0", "4294967295"):
        assert check_variable("PYTHONHASHSEED", value, NOW) == []
    for value, effect in (("random", "pool"), ("4294967296", "ends"), ("x", "ends"), ("", "ends"), ("-1", "ends")):
        (found,) = check_variable("PYTHONHASHSEED", value, NOW)
        assert (found.rule, found.severity) == ("variable-value", "error")
        assert effect in found.message


def test_engine_ready_timeout():
    assert ENGINE_READY_TIMEOUT == ("VLLM_ENGINE_READY_TIMEOUT_S", 600)


def test_npu_ports_by_themselves():
    (found,) = check_variable("HCCL_NPU_SOCKET_PORT_RANGE", "auto", NOW)
    assert (found.rule, found.severity) == ("npu-port-auto", "warning")
    assert "16666" in found.message


@pytest.mark.parametrize("name", ["ASCEND_TRANSPORT_PRINT", "ASCEND_A3_ENABLE", "ASCEND_AGGREGATE_ENABLE"])
def test_read_by_nobody(name):
    (found,) = check_variable(name, "1", {})
    assert (found.rule, found.severity) == ("variable-dead", "warning")
    assert f"{name} has no effect" in found.message
    assert found.fix == "leave it out."


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *MISSPELT.items(),
        ("ASCEND_USE_FABRIC_MEM", "ASCEND_ENABLE_USE_FABRIC_MEM"),
        ("HCCL_BUFFSIZ", "HCCL_BUFFSIZE"),
        ("VLLM_ASCEND_BALANCE_SCHEDULNG", "VLLM_ASCEND_BALANCE_SCHEDULING"),
        ("MC_MAX_RCP_PORT", "MC_MAX_RPC_PORT"),
        ("ASCEND_CONECT_TIMEOUT", "ASCEND_CONNECT_TIMEOUT"),
        ("VLLM_MOONCAKE_ABORT_REQUEST_TIMOUT", "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"),
        ("VLLM_NIXL_ABORT_REQUEST_TIMOUT", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"),
    ],
)
def test_spelling(name, meant):
    (found,) = check_variable(name, "1", NOW)
    assert (found.rule, found.severity) == ("variable-unknown-spelling", "warning")
    assert found.fix == f"did you mean {meant}?"


@pytest.mark.parametrize(
    "name",
    [
        "VLLM_ASCEND_LLMDD_RPC_IP",
        "VLLM_NIXL_SIDE_CHANNEL_PORT",
        "VLLM_ASCEND_MLA_PA",
        "HCCL_SOCKET_IFNAME",
        "MC_GID_INDEX",
        "MC_STORE_CLIENT_METRIC",
        "ASCEND_RT_VISIBLE_DEVICES",
        "OMP_NUM_THREADS",
        "LD_PRELOAD",
        "TASK_QUEUE_ENABL",
    ],
)
def test_other_variables_are_left_alone(name):
    assert check_variable(name, "whatever", NOW) == []


@given(st.text(), st.text())
def test_any_text_can_be_checked(name, value):
    check_variable(name, value, NOW)
    check_together({name: value, "ASCEND_TRANSFER_TIMEOUT": value, "HCCL_EXEC_TIMEOUT": value}, NOW)


@given(st.sampled_from(sorted(VARIABLES)), st.text())
def test_any_value_can_be_checked(name, value):
    check_variable(name, value, NOW)
    check_together({name: value}, NOW)


def test_every_finding_is_a_sentence_with_a_way_out():
    for name in VARIABLES:
        for version in ("0.9.1", "0.26.0"):
            for found in check_variable(name, "%", {"vllm_ascend": version, "vllm": version, "mooncake": "0.3.12"}):
                assert found.message.endswith(".")
                assert found.fix.endswith(".")
                assert found.source


@pytest.mark.parametrize(
    ("environment", "version", "wrong"),
    [
        ({"MC_MIN_RPC_PORT": "16000", "MC_MAX_RPC_PORT": "15999"}, "0.3.11", "16000 to 15999"),
        ({"MC_MIN_RPC_PORT": "16000", "MC_MAX_RPC_PORT": "16000"}, "0.3.11", None),
        ({"MC_MIN_RPC_PORT": "17001"}, "0.3.11", "17001 to 17000"),
        ({"MC_MAX_PRC_PORT": "14999"}, "0.3.9", "15000 to 14999"),
        ({"MC_STORE_CLIENT_MIN_PORT": "14301"}, "0.3.11", "14301 to 14300"),
        ({"MC_STORE_CLIENT_MIN_PORT": "14300"}, "0.3.11", None),
        ({"MC_STORE_CLIENT_MAX_PORT": "12299"}, "0.3.11", "12300 to 12299"),
        ({"MC_STORE_CLIENT_MAX_PORT": "12300"}, "0.3.11", None),
    ],
)
def test_ranges(environment, version, wrong):
    found = check_together(environment, at("mooncake", version))
    assert rules(found) == (["variable-range"] if wrong else [])
    assert not wrong or (wrong in found[0].message and found[0].severity == "error")
    assert check_together(environment, {}) == []


@pytest.mark.parametrize(
    ("other", "version", "excluded"),
    [
        ("ASCEND_USE_ASYNC_TRANSFER", "0.3.7.post2", False),
        ("ASCEND_USE_ASYNC_TRANSFER", "0.3.8", True),
        ("ASCEND_USE_ASYNC_TRANSFER", "0.3.13", True),
        ("ASCEND_ENABLE_USE_FABRIC_MEM", "0.3.8", False),
        ("ASCEND_ENABLE_USE_FABRIC_MEM", "0.3.8.post1", True),
        ("ASCEND_ENABLE_USE_FABRIC_MEM", "0.3.10", True),
        ("ASCEND_ENABLE_USE_FABRIC_MEM", "0.3.10.post1", False),
        ("MC_FORCE_TCP", "0.3.9", False),
    ],
)
def test_buffer_pool_and_others(other, version, excluded):
    found = check_together({"ASCEND_BUFFER_POOL": "4:8", other: "0"}, at("mooncake", version))
    assert rules(found) == (["variables-exclude"] if excluded else [])
    assert not excluded or (other in found[0].message and found[0].severity == "error")
    assert check_together({"ASCEND_BUFFER_POOL": "0:0", other: "1"}, at("mooncake", version)) == []
    assert check_together({"ASCEND_BUFFER_POOL": "4:8", other: "1"}, {}) == []


@pytest.mark.parametrize(
    ("roce", "pcie", "wrong"), [("1", "1", True), ("1", "0", False), ("0", "1", False), ("0", "0", False)]
)
def test_links_inside_of_a_host(roce, pcie, wrong):
    found = check_together({"HCCL_INTRA_ROCE_ENABLE": roce, "HCCL_INTRA_PCIE_ENABLE": pcie}, {})
    assert [(f.rule, f.severity) for f in found] == ([("variables-exclude", "error")] if wrong else [])
    assert check_together({"HCCL_INTRA_ROCE_ENABLE": roce}, {}) == []


@pytest.mark.parametrize(
    ("environment", "needed"),
    [
        ({"ASCEND_TRANSFER_TIMEOUT": "30064"}, None),  # 4.096 us * 2 ** 20 * 7
        ({"ASCEND_TRANSFER_TIMEOUT": "30063"}, 30064),
        ({"ASCEND_TRANSFER_TIMEOUT": "10000", "HCCL_RDMA_TIMEOUT": "18"}, None),
        ({"ASCEND_TRANSFER_TIMEOUT": "7515", "HCCL_RDMA_TIMEOUT": "18"}, 7516),
        ({"ASCEND_TRANSFER_TIMEOUT": "4294", "HCCL_RDMA_RETRY_CNT": "1"}, None),
        ({"ASCEND_TRANSFER_TIMEOUT": "4293", "HCCL_RDMA_RETRY_CNT": "1"}, 4294),
        ({"ASCEND_TRANSFER_TIMEOUT": "x"}, None),
        ({"HCCL_RDMA_TIMEOUT": "5"}, None),
        ({"ASCEND_TRANSFER_TIMEOUT": "68719", "HCCL_RDMA_TIMEOUT": "24", "HCCL_RDMA_RETRY_CNT": "1"}, None),
        ({"ASCEND_TRANSFER_TIMEOUT": "68718", "HCCL_RDMA_TIMEOUT": "99999", "HCCL_RDMA_RETRY_CNT": "1"}, 68719),
    ],
)
def test_transfer_timeout(environment, needed):
    found = check_together(environment, NOW)
    assert [(f.rule, f.severity) for f in found] == ([("transfer-timeout-short", "warning")] if needed else [])
    assert not needed or f"trying for {needed} ms" in found[0].message


@pytest.mark.parametrize(
    ("value", "mode", "capped"),
    [
        ("1", "AIV", False),
        ("1091", "AIV", False),
        ("1092", "AIV", True),
        ("0", "AIV", True),
        ("3600", "AI_CPU", False),
        ("x", "AIV", False),
    ],
)
def test_exec_timeout(value, mode, capped):
    found = check_together({"HCCL_EXEC_TIMEOUT": value, "HCCL_OP_EXPANSION_MODE": mode}, NOW)
    assert [(f.rule, f.severity) for f in found] == ([("exec-timeout-capped", "warning")] if capped else [])
    assert not capped or "1091" in found[0].message
    assert check_together({"HCCL_EXEC_TIMEOUT": value}, NOW) == []


@pytest.mark.parametrize(
    ("version", "value", "refused"),
    [
        ("0.18.0rc1", "1", False),
        ("0.18.0", "1", True),
        ("0.18.0", "0", False),
        ("0.26.0", "1", True),
        ("0.27.1rc1", "1", False),
    ],
)
def test_balance_scheduling(version, value, refused):
    found = check_together({"VLLM_ASCEND_BALANCE_SCHEDULING": value}, at("vllm_ascend", version))
    assert [(f.rule, f.severity) for f in found] == ([("variable-value", "error")] if refused else [])
    assert check_together({"VLLM_ASCEND_BALANCE_SCHEDULING": value}, {"vllm": "0.26.0"}) == []


def test_no_span_is_empty():
    for variable in VARIABLES.values():
        if variable.since and variable.until:
            assert version_key(variable.since) < version_key(variable.until)
