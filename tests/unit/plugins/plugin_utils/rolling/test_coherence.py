# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which changes let old and new serve together: every entry is pinned, with both sides and with one."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import CONNECTORS
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm, vllm_ascend, vllm_cpu
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.classes import CLASSES, class_of, same_release
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.coherence import coherence
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.planned import instances_of
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import ascend, cpu, plan

PINNED = {
    "refuse": """
        cluster.name model.served_name router.kind router.contract
    """,
    "together": """
        engine.kind engine.version mooncake.version model.path store
        connector.name connector.protocol connector.transfer
        transfer.kv_connector transfer.kv_role transfer.kv_connector_module_path
        transfer.kv_connector_extra_config.prefill transfer.kv_connector_extra_config.decode
        transfer.kv_connector_extra_config.mooncake_protocol transfer.kv_connector_extra_config.use_ascend_direct
        args.--block-size args.--kv-cache-dtype args.--dtype args.--quantization args.--revision args.--hf-overrides
        args.--load-format args.--hf-config-path args.--tokenizer args.--tokenizer-mode args.--tokenizer-revision
        args.--chat-template args.--chat-template-content-format args.--speculative-config args.--spec-tokens
        args.--prefix-caching-hash-algo args.--additional-config.enable_kv_nz
        args.--tensor-parallel-size args.--pipeline-parallel-size args.--prefill-context-parallel-size
        args.--decode-context-parallel-size args.--data-parallel-size
        env.PYTHONHASHSEED env.VLLM_KV_CACHE_LAYOUT env.LD_LIBRARY_PATH env.PYTHONPATH
        env.ASCEND_BUFFER_POOL env.ASCEND_ENABLE_USE_FABRIC_MEM env.ASCEND_GLOBAL_RESOURCE_CONFIG
        env.ASCEND_LOCAL_COMM_RES env.ASCEND_USE_ASYNC_TRANSFER env.ASCEND_USE_SHORT_CONNECTION env.ASCEND_AUTO_CONNECT
        env.MC_FORCE_TCP env.MC_FORCE_HCA env.MC_USE_IPV6
        env.HCCL_INTRA_ROCE_ENABLE env.HCCL_INTRA_PCIE_ENABLE env.HCCL_LOGIC_SUPERPOD_ID
    """,
    "free": """
        transfer.kv_port transfer.engine_id transfer.kv_load_failure_policy
        transfer.kv_connector_extra_config.lookup_rpc_port transfer.kv_connector_extra_config.mooncake_rpc_port
        transfer.kv_connector_extra_config.lookup_async transfer.kv_connector_extra_config.enable_lookup
        transfer.kv_connector_extra_config.load_async
        args.--host args.--port args.--data-parallel-rank args.--data-parallel-address args.--data-parallel-rpc-port
        args.--data-parallel-size-local args.--data-parallel-start-rank args.--headless args.--api-server-count
        args.--max-num-seqs args.--max-num-batched-tokens args.--max-model-len args.--max-logprobs
        args.--gpu-memory-utilization args.--kv-cache-memory-bytes args.--num-gpu-blocks-override args.--swap-space
        args.--cpu-offload-gb args.--shutdown-timeout args.--limit-mm-per-prompt args.--max-num-partial-prefills
        args.--max-long-partial-prefills args.--long-prefill-token-threshold
        args.--enforce-eager args.--compilation-config args.--cudagraph-capture-sizes args.--cuda-graph-sizes
        args.--max-seq-len-to-capture args.--distributed-executor-backend args.--max-parallel-loading-workers
        args.--enable-chunked-prefill args.--enable-prefix-caching args.--async-scheduling args.--scheduling-policy
        args.--seed args.--disable-custom-all-reduce
        args.--additional-config.recompute_scheduler_enable args.--additional-config.multistream_overlap_shared_expert
        args.--additional-config.enable_shared_expert_dp args.--additional-config.finegrained_tp_config
        args.--additional-config.enable_cpu_binding args.--additional-config.eplb_config
        args.--additional-config.ascend_compilation_config args.--additional-config.weight_prefetch_config
        args.--additional-config.dump_config args.--additional-config.dump_config_path
        args.--additional-config.ascend_log_path args.--additional-config.refresh
        args.--tool-call-parser args.--enable-auto-tool-choice args.--reasoning-parser args.--response-role
        args.--generation-config args.--override-generation-config args.--allowed-origins args.--allowed-methods
        args.--allowed-headers args.--return-tokens-as-token-ids args.--enable-prompt-tokens-details
        args.--enable-server-load-tracking
        args.--uvicorn-log-level args.--log-level args.--enable-log-requests args.--disable-log-requests
        args.--max-log-len args.--disable-uvicorn-access-log args.--disable-access-log-for-endpoints
        args.--enable-log-outputs args.--enable-log-deltas args.--disable-fastapi-docs args.--otlp-traces-endpoint
        args.--collect-detailed-traces args.--show-hidden-metrics-for-version args.--kv-cache-metrics
        env.MOONCAKE_CONFIG_PATH env.MC_STORE_CLUSTER_ID env.MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES
        env.MOONCAKE_OFFLOAD_BUCKET_MAX_TOTAL_SIZE env.MOONCAKE_OFFLOAD_BUCKET_EVICTION_POLICY
        env.MC_RPC_TIMEOUT_MS env.MC_RPC_CONNECT_TIMEOUT_MS
        env.VLLM_HOST_IP env.HCCL_IF_IP env.VLLM_MOONCAKE_BOOTSTRAP_PORT
        env.GLOO_SOCKET_IFNAME env.TP_SOCKET_IFNAME env.HCCL_SOCKET_IFNAME env.HCCL_IF_BASE_PORT
        env.HCCL_HOST_SOCKET_PORT_RANGE env.HCCL_NPU_SOCKET_PORT_RANGE env.ASCEND_RT_VISIBLE_DEVICES
        env.HCCL_BUFFSIZE env.HCCL_OP_EXPANSION_MODE
        env.ASCEND_BASE_PORT env.MC_MIN_RPC_PORT env.MC_MAX_RPC_PORT env.MC_MIN_PRC_PORT env.MC_MAX_PRC_PORT
        env.MC_STORE_CLIENT_MIN_PORT env.MC_STORE_CLIENT_MAX_PORT env.VLLM_CPU_KVCACHE_SPACE
        env.OMP_NUM_THREADS env.OMP_PROC_BIND env.VLLM_CPU_OMP_THREADS_BIND env.VLLM_ENABLE_V1_MULTIPROCESSING
        env.VLLM_WORKER_MULTIPROC_METHOD env.PYTORCH_NPU_ALLOC_CONF env.TASK_QUEUE_ENABLE env.CPU_AFFINITY_CONF
        env.LD_PRELOAD
        env.VLLM_LOGGING_LEVEL env.VLLM_LOGGING_PREFIX env.VLLM_LOGGING_CONFIG_PATH env.VLLM_CONFIGURE_LOGGING
        env.VLLM_LOG_STATS_INTERVAL env.PYTHONUNBUFFERED env.MC_LOG_LEVEL env.MC_LOG_DIR env.GLOG_v
        env.GLOG_minloglevel env.GLOG_logtostderr env.ASCEND_GLOBAL_LOG_LEVEL env.ASCEND_SLOG_PRINT_TO_STDOUT
        env.ASCEND_PROCESS_LOG_PATH env.ASCEND_GLOBAL_EVENT_ENABLE env.HCCL_ENTRY_LOG_ENABLE
        env.VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT env.VLLM_NIXL_ABORT_REQUEST_TIMEOUT
        env.VLLM_ASCEND_KVCACHE_DELAY_FREE_TIMEOUT env.VLLM_LLMDD_ABORT_REQUEST_TIMEOUT env.VLLM_RPC_TIMEOUT
        env.VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS env.VLLM_ENGINE_READY_TIMEOUT_S env.VLLM_ENGINE_ITERATION_TIMEOUT_S
        env.ASCEND_CONNECT_TIMEOUT env.ASCEND_TRANSFER_TIMEOUT env.HCCL_CONNECT_TIMEOUT env.HCCL_EXEC_TIMEOUT
        env.HCCL_TRANSFER_TIMEOUT env.HCCL_RDMA_TIMEOUT env.HCCL_RDMA_RETRY_CNT
        env.HF_HUB_OFFLINE env.TRANSFORMERS_OFFLINE env.DO_NOT_TRACK env.VLLM_NO_USAGE_STATS env.VLLM_DO_NOT_TRACK
        env.HF_HOME env.HF_TOKEN env.VLLM_CACHE_ROOT env.TORCHINDUCTOR_CACHE_DIR env.TRITON_CACHE_DIR env.TMPDIR
        env.HOME
    """,
}
EXPECTED = {fact: cls for cls, facts in PINNED.items() for fact in facts.split()}


@pytest.mark.parametrize("fact", sorted(EXPECTED))
def test_class(fact: str) -> None:
    kind = class_of(fact, "1.0.0", "2.0.0")
    assert (kind.cls, kind.known) == (EXPECTED[fact], True)
    assert kind.why
    assert kind.source


def test_every_entry_is_pinned() -> None:
    assert set(CLASSES) == set(EXPECTED)


@pytest.mark.parametrize(
    "fact",
    [
        "args.--never-heard-of",
        "args.--additional-config.never_heard_of",
        "env.NEVER_HEARD_OF",
        "transfer.kv_connector_extra_config.never_heard_of",
        "whatever",
    ],
)
def test_what_is_not_known_is_taken_to_concern_both_sides(fact: str) -> None:
    kind = class_of(fact, None, "1")
    assert (kind.cls, kind.known) == ("together", False)


@pytest.mark.parametrize(
    ("fact", "cls"),
    [
        ("args.--compilation-config.cudagraph_mode", "free"),
        ("args.--additional-config.finegrained_tp_config.lmhead_tensor_parallel_size", "free"),
        ("transfer.kv_connector_extra_config.prefill.tp_size", "together"),
        ("transfer.kv_connector_extra_config.connectors[MooncakeConnectorV1].kv_port", "free"),
        (
            "transfer.kv_connector_extra_config.connectors[MooncakeConnectorV1].kv_connector_extra_config.decode.dp_size",
            "together",
        ),
        (
            "transfer.kv_connector_extra_config.connectors[AscendStoreConnector].kv_connector_extra_config.lookup_rpc_port",
            "free",
        ),
    ],
)
def test_the_nearest_entry_decides(fact: str, cls: str) -> None:
    kind = class_of(fact, "1", "2")
    assert (kind.cls, kind.known) == (cls, True)


@pytest.mark.parametrize(
    ("fact", "before", "after", "cls"),
    [
        ("engine.version", "0.32.0", "0.32.1", "free"),
        ("engine.version", "0.23.0", "0.23.0.post1", "free"),
        ("engine.version", "0.32.0", "0.33.0", "together"),
        ("engine.version", "0.32.0", "1.32.0", "together"),
        ("engine.version", "0.11.0rc1", "0.11.0", "together"),
        ("engine.version", "0.11.0", "0.11.1rc1", "together"),
        ("engine.version", "main", "0.11.0", "together"),
        ("mooncake.version", "0.3.13", "0.3.13.post1", "free"),
        ("mooncake.version", "0.3.12", "0.3.13", "together"),
        ("mooncake.version", "0.3.13rc1", "0.3.13", "together"),
    ],
)
def test_releases(fact: str, before: str, after: str, cls: str) -> None:
    assert class_of(fact, before, after).cls == cls


def test_a_store_has_one_master_for_old_and_new() -> None:
    assert class_of("mooncake.version", "0.3.13", "0.3.13.post1", store=True).cls == "refuse"


def test_where_the_planner_knows_of_other_ports_releases_do_not_meet() -> None:
    """Numbering and module of a connector change at releases; two around such a one are never alike."""
    for connector in CONNECTORS:
        for since, _value in (*connector.numberings[1:], *connector.modules[1:]):
            before = f"0.{int(since.split('.')[1]) - 1}.0"
            assert not same_release(before, since, 2), (connector.name, since)
            assert not same_release(since.split("rc")[0], since, 2), (connector.name, since)


@pytest.mark.parametrize(
    "known",
    [vllm.ENVIRONMENT, vllm_cpu.PLANNED_VARIABLES, vllm_ascend.PLANNED_VARIABLES, vllm_ascend.INTERFACE_VARIABLES],
)
def test_all_that_the_plan_writes_is_known(known: Any) -> None:
    unknown = [name for name in known if not class_of(f"env.{name}", "1", "2").known]
    assert [name for name in unknown if not name.startswith("MOONCAKE_PD_")] == []
    options = [name for name in vllm.PLANNED_ARGUMENTS if name.startswith("--")]
    own = ("--model", "--served-model-name", "--kv-transfer-config")
    assert [name for name in options if name not in own and not class_of(f"args.{name}", "1", "2").known] == []


# ---- plans compared


def facts(raw: dict[str, Any]) -> list[dict[str, Any]]:
    built = plan(raw)
    hosts = {name: built.hostvars(name)["pd_host"] for name in built.topology.hosts}
    return instances_of(built.cluster(), built.instances(), hosts)


def compared(before: dict[str, Any], after: dict[str, Any], old: tuple[str, ...] | None = None) -> Any:
    planned = facts(after)
    proven = {item["name"]: item["facts"] for item in facts(before)}
    return coherence(planned, proven, old if old is not None else [item["name"] for item in planned], "last.json")


def changed(found: Any) -> list[tuple[str, str]]:
    return [(change.fact, change.cls) for change in found.changes]


def test_a_limit_is_free() -> None:
    found = compared(cpu(), {**cpu(), "engine_args": ["--max-num-seqs", "8"]})
    assert found.verdict == "free"
    assert changed(found) == [("args.--max-num-seqs", "free")]
    (change,) = found.changes
    assert (change.before, change.after, change.kinds) == (None, "8", ("prefill", "decode"))


def test_a_release_has_to_be_the_same_on_both_sides() -> None:
    found = compared(ascend(), {**ascend(), "engine": {"kind": "vllm_ascend", "version": "0.22.1rc1"}})
    assert found.verdict == "together"
    assert ("engine.version", "together") in changed(found)


def test_an_option_of_the_connector_is_named_by_its_key() -> None:
    before = {**ascend(), "connector": {"name": "MooncakeConnectorV1", "extra_config": {"transfer_backend": "a"}}}
    after = {**ascend(), "connector": {"name": "MooncakeConnectorV1", "extra_config": {"transfer_backend": "b"}}}
    found = compared(before, after)
    assert changed(found) == [("transfer.kv_connector_extra_config.transfer_backend", "together")]
    assert not found.changes[0].kind.known
    assert "taken as such because it is not known" in found.changes[0].text()


def test_another_name_of_the_model_is_refused() -> None:
    after = {**cpu(), "model": {**cpu()["model"], "served_name": "else"}}
    found = compared(cpu(), after)
    assert (found.verdict, changed(found)) == ("refuse", [("model.served_name", "refuse")])
    assert [change.fact for change in found.worst()] == ["model.served_name"]


def test_what_does_not_run_something_else_does_not_count() -> None:
    after = {**cpu(), "model": {**cpu()["model"], "served_name": "else"}}
    assert compared(cpu(), after, old=()).verdict == "none"


def test_one_side_only() -> None:
    after = cpu()
    for item in after["prefill"]:
        item["args"] = [*item.get("args", ()), "--never-heard-of"]
    names = [item["name"] for item in after["prefill"]]
    found = compared(cpu(), after, old=tuple(names))
    assert (found.verdict, changed(found)) == ("free", [("args.--never-heard-of", "together")])
    for item in after["decode"]:
        item["args"] = ["--unheard-of"]
    assert compared(cpu(), after).verdict == "together"


def test_the_same_change_of_several_is_one() -> None:
    after = cpu()
    after["engine_environment"] = {"MC_FORCE_TCP": "1"}
    (change,) = compared(cpu(), after).changes
    assert change.instances == tuple(item["name"] for item in facts(after))
