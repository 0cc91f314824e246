# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which changes let old and new instances serve together, as data.

FREE concerns one instance only. TOGETHER has to be the same on both sides of a transfer, so that an old prefill and a
new decode must never meet. REFUSE is seen by clients or routers, whichever instance serves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import version_key

FREE, TOGETHER, REFUSE = "free", "together", "refuse"
ORDER = (FREE, TOGETHER, REFUSE)


@dataclass(frozen=True)
class Kind:
    """What follows when a fact changes. decide: from the value before and after, where it depends on them."""

    cls: str
    why: str
    source: str
    known: bool = True
    decide: Callable[[Any, Any], str] | None = None


def same_release(before: Any, after: Any, numbers: int) -> bool:
    """Whether two releases have the first numbers in common and neither is one before the release."""
    try:
        keys = [version_key(str(version)) for version in (before, after)]
    except ValueError:
        return False
    (first, phase, _count), (second, other, _number) = keys
    return phase >= 0 and other >= 0 and _padded(first, numbers) == _padded(second, numbers)


def _padded(release: tuple[int, ...], numbers: int) -> tuple[int, ...]:
    return (*release, *(0,) * numbers)[:numbers]


def _engine(before: Any, after: Any) -> str:
    return FREE if same_release(before, after, 2) else TOGETHER


def _mooncake(before: Any, after: Any) -> str:
    return FREE if same_release(before, after, 3) else TOGETHER


_ASCEND_RULES = "documentation of vLLM-Ascend, PD disaggregation: the same release, model and block size on both sides"
_CONNECTOR = "mooncake_connector.py at the tags of vLLM-Ascend and vLLM"
_METADATA = "mooncake_connector.py at the tags of vLLM-Ascend: peers are told the shapes of both sides"
_ARGUMENTS = "vllm/engine/arg_utils.py in the source packages of vLLM"
_CLI = "vllm/entrypoints/openai/cli_args.py in the source packages of vLLM"
_ENVS = "vllm/envs.py in the source packages of vLLM"
_PROXIES = "the request contract of the proxies: a peer's address and ports travel with each request"
_HCCL = "hiascend.com CANN 8.5.0 environment variables"
_DIRECT = "ascend_direct_transport and transfer_executor_base of Mooncake at 3b5a594"


def _all(names: Iterable[str], kind: Kind) -> dict[str, Kind]:
    return dict.fromkeys(names, kind)


def _arguments(names: str, cls: str, why: str, source: str = _ARGUMENTS) -> dict[str, Kind]:
    return _all((f"args.--{name}" for name in names.split()), Kind(cls, why, source))


def _variables(names: str, cls: str, why: str, source: str) -> dict[str, Kind]:
    return _all((f"env.{name}" for name in names.split()), Kind(cls, why, source))


_LAYOUT = "prefill writes KV that decode reads as it stands"
_WEIGHTS = "KV of one model means nothing to another"
_SHAPE = "both sides deal out KV heads and ports by the shapes of both"
_TOKENS = "both sides count the tokens of a prompt themselves, and the counts have to agree"
_OWN = "only the instance itself reads it"
_LIMIT = "it is a limit of the one instance"
_OUTPUT = "it shapes the answer or the API, not the KV"
_PLACE = "peers are told it with each request"
_LOG = "it is about logs"
_SPEED = "it is about how the one instance computes, not about what it sends"
_TRANSPORT = "it decides how transfers run, and both ends have to run the same"
_TIME = "it is how long the one instance waits"

CLASSES: Mapping[str, Kind] = {
    # --- seen from outside
    "cluster.name": Kind(
        REFUSE, "units, reports and passports carry it: it would be another cluster", "this collection"
    ),
    "model.served_name": Kind(
        REFUSE,
        "clients ask for the model by it, and routers pass it on: half of the requests would get 404",
        "vllm/entrypoints/openai/serving_models.py of vLLM",
    ),
    "router.kind": Kind(
        REFUSE, "both routers would have to change at once", "vllm-router 0.1.17 and the proxies of vLLM-Ascend"
    ),
    "router.contract": Kind(
        REFUSE,
        "a router speaks one request contract to all instances",
        "vllm-router 0.1.17 (--kv-connector) and the proxies of vLLM-Ascend",
    ),
    # --- releases
    "engine.kind": Kind(TOGETHER, "the engines share no connector", _CONNECTOR),
    "engine.version": Kind(
        TOGETHER,
        "minor releases, and those before a release, change what connectors tell each other; both sides need the same",
        f"{_ASCEND_RULES}; {_CONNECTOR}",
        decide=_engine,
    ),
    # The version constant that Mooncake compares has stayed the same through all releases, so it refuses no peer. A
    # client of 0.3.11.post1 does not get on with a master of 0.3.13.post1 all the same (tried).
    "mooncake.version": Kind(
        TOGETHER,
        "releases before 1.0 change segment descriptors and messages with the third number, and no check tells",
        "Mooncake 0.3.11.post1 against 0.3.13.post1; kvcache-ai/Mooncake#979, #2579",
        decide=_mooncake,
    ),
    # --- the model
    "model.path": Kind(TOGETHER, _WEIGHTS, f"{_ASCEND_RULES}; tried with vLLM 0.32.0: decode answers something else"),
    **_arguments("quantization revision hf-overrides load-format hf-config-path", TOGETHER, _WEIGHTS, _ASCEND_RULES),
    **_arguments(
        "tokenizer tokenizer-mode tokenizer-revision chat-template chat-template-content-format", TOGETHER, _TOKENS
    ),
    # --- what KV looks like
    **_arguments("block-size kv-cache-dtype dtype", TOGETHER, _LAYOUT, _ASCEND_RULES),
    **_arguments(
        "speculative-config spec-tokens",
        TOGETHER,
        "a drafting model has KV of its own, and hybrid models need the same number of tokens on both sides",
        "documentation of vLLM-Ascend, PD disaggregation, parameter notes",
    ),
    **_arguments("prefix-caching-hash-algo", TOGETHER, "both sides find blocks by the same hash"),
    **_variables(
        "PYTHONHASHSEED",
        TOGETHER,
        "block hashes of both sides come out the same only with the same seed",
        "docs/source/user_guide/feature_guide/kv_pool.md of vLLM-Ascend",
    ),
    **_variables(
        "MOONCAKE_CONFIG_PATH MC_STORE_CLUSTER_ID MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES "
        "MOONCAKE_OFFLOAD_BUCKET_MAX_TOTAL_SIZE MOONCAKE_OFFLOAD_BUCKET_EVICTION_POLICY MC_RPC_TIMEOUT_MS "
        "MC_RPC_CONNECT_TIMEOUT_MS",
        FREE,
        "KV goes from prefill to decode beside the pool, and a worker that does not find it there computes it",
        "vllm/distributed/mooncake_store.py@v0.32.0; mooncake_backend.py of vLLM-Ascend@v0.23.0",
    ),
    **_variables("VLLM_KV_CACHE_LAYOUT", TOGETHER, _LAYOUT, _ENVS),
    "args.--additional-config.enable_kv_nz": Kind(TOGETHER, _LAYOUT, "vllm_ascend/ascend_config.py at the tags"),
    # --- shapes
    **_arguments(
        "tensor-parallel-size pipeline-parallel-size prefill-context-parallel-size decode-context-parallel-size "
        "data-parallel-size",
        TOGETHER,
        _SHAPE,
        f"{_METADATA}; tp of prefill has to be a multiple of tp of decode",
    ),
    # --- the connector
    "connector.name": Kind(TOGETHER, "connectors do not speak with others", _CONNECTOR),
    "connector.protocol": Kind(TOGETHER, _TRANSPORT, _CONNECTOR),
    "connector.transfer": Kind(TOGETHER, "one side would wait for what the other never sends", _CONNECTOR),
    "transfer.kv_connector": Kind(TOGETHER, "connectors do not speak with others", _CONNECTOR),
    "transfer.kv_role": Kind(TOGETHER, "it says which side of a transfer the instance is", _CONNECTOR),
    "transfer.kv_connector_module_path": Kind(TOGETHER, "it names another connector", _CONNECTOR),
    "transfer.kv_connector_extra_config.prefill": Kind(TOGETHER, _SHAPE, _METADATA),
    "transfer.kv_connector_extra_config.decode": Kind(TOGETHER, _SHAPE, _METADATA),
    "transfer.kv_connector_extra_config.mooncake_protocol": Kind(TOGETHER, _TRANSPORT, _CONNECTOR),
    "transfer.kv_connector_extra_config.use_ascend_direct": Kind(TOGETHER, _TRANSPORT, "vllm-ascend#4866"),
    "transfer.kv_port": Kind(FREE, _PLACE, _PROXIES),
    "transfer.engine_id": Kind(FREE, _PLACE, _PROXIES),
    "transfer.kv_load_failure_policy": Kind(
        FREE,
        "it is what decode does when a transfer failed",
        "vllm/config/kv_transfer.py in the source packages of vLLM",
    ),
    **_all(
        (f"transfer.kv_connector_extra_config.{key}" for key in ("lookup_rpc_port", "mooncake_rpc_port")),
        Kind(FREE, "processes of one instance find each other by it", "pool_scheduler.py@182b75ea of vLLM-Ascend"),
    ),
    **_all(
        (f"transfer.kv_connector_extra_config.{key}" for key in ("lookup_async", "enable_lookup", "load_async")),
        Kind(FREE, "it is how an instance looks into the pool", "store/scheduler.py@v0.32.0 of vLLM"),
    ),
    **_variables(
        "ASCEND_BUFFER_POOL ASCEND_ENABLE_USE_FABRIC_MEM ASCEND_GLOBAL_RESOURCE_CONFIG ASCEND_LOCAL_COMM_RES "
        "ASCEND_USE_ASYNC_TRANSFER ASCEND_USE_SHORT_CONNECTION ASCEND_AUTO_CONNECT "
        "MC_FORCE_TCP MC_FORCE_HCA MC_USE_IPV6",
        TOGETHER,
        _TRANSPORT,
        _DIRECT,
    ),
    **_variables("HCCL_INTRA_ROCE_ENABLE HCCL_INTRA_PCIE_ENABLE HCCL_LOGIC_SUPERPOD_ID", TOGETHER, _TRANSPORT, _HCCL),
    **_variables(
        "LD_LIBRARY_PATH PYTHONPATH", TOGETHER, "other libraries may be loaded, another Mooncake among them", _ENVS
    ),
    "store": Kind(TOGETHER, "KV in a store is of use only where both sides have it", _CONNECTOR),
    # --- where an instance is found
    **_arguments(
        "host port data-parallel-rank data-parallel-address data-parallel-rpc-port data-parallel-size-local "
        "data-parallel-start-rank headless api-server-count uvicorn-log-level",
        FREE,
        _PLACE,
        _PROXIES,
    ),
    **_variables("VLLM_HOST_IP HCCL_IF_IP VLLM_MOONCAKE_BOOTSTRAP_PORT", FREE, _PLACE, _PROXIES),
    **_variables(
        "GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME HCCL_SOCKET_IFNAME HCCL_IF_BASE_PORT HCCL_HOST_SOCKET_PORT_RANGE "
        "HCCL_NPU_SOCKET_PORT_RANGE ASCEND_RT_VISIBLE_DEVICES HCCL_BUFFSIZE HCCL_OP_EXPANSION_MODE",
        FREE,
        "ranks of the one instance meet by it",
        _HCCL,
    ),
    **_variables(
        "ASCEND_BASE_PORT MC_MIN_RPC_PORT MC_MAX_RPC_PORT MC_MIN_PRC_PORT MC_MAX_PRC_PORT MC_STORE_CLIENT_MIN_PORT "
        "MC_STORE_CLIENT_MAX_PORT",
        FREE,
        _PLACE,
        _DIRECT,
    ),
    # --- limits and memory
    **_arguments(
        "max-num-seqs max-num-batched-tokens max-model-len max-logprobs gpu-memory-utilization kv-cache-memory-bytes "
        "num-gpu-blocks-override swap-space cpu-offload-gb shutdown-timeout limit-mm-per-prompt "
        "max-num-partial-prefills max-long-partial-prefills long-prefill-token-threshold",
        FREE,
        _LIMIT,
    ),
    **_variables("VLLM_CPU_KVCACHE_SPACE", FREE, _LIMIT, _ENVS),
    # --- how it computes
    **_arguments(
        "enforce-eager compilation-config cudagraph-capture-sizes cuda-graph-sizes max-seq-len-to-capture "
        "distributed-executor-backend max-parallel-loading-workers enable-chunked-prefill enable-prefix-caching "
        "async-scheduling scheduling-policy seed disable-custom-all-reduce",
        FREE,
        _SPEED,
    ),
    **_all(
        (
            f"args.--additional-config.{key}"
            for key in (
                *("recompute_scheduler_enable", "multistream_overlap_shared_expert", "enable_shared_expert_dp"),
                *("finegrained_tp_config", "enable_cpu_binding", "eplb_config", "ascend_compilation_config"),
                *("weight_prefetch_config", "dump_config", "dump_config_path", "ascend_log_path", "refresh"),
            )
        ),
        Kind(FREE, _SPEED, "vllm_ascend/ascend_config.py at the tags"),
    ),
    **_variables(
        "OMP_NUM_THREADS OMP_PROC_BIND VLLM_CPU_OMP_THREADS_BIND VLLM_ENABLE_V1_MULTIPROCESSING "
        "VLLM_WORKER_MULTIPROC_METHOD PYTORCH_NPU_ALLOC_CONF TASK_QUEUE_ENABLE CPU_AFFINITY_CONF LD_PRELOAD",
        FREE,
        _SPEED,
        _ENVS,
    ),
    # --- API and answers
    **_arguments(
        "tool-call-parser enable-auto-tool-choice reasoning-parser response-role generation-config "
        "override-generation-config allowed-origins allowed-methods allowed-headers return-tokens-as-token-ids "
        "enable-prompt-tokens-details enable-server-load-tracking",
        FREE,
        _OUTPUT,
        _CLI,
    ),
    # --- logs
    **_arguments(
        "log-level enable-log-requests disable-log-requests max-log-len disable-uvicorn-access-log "
        "disable-access-log-for-endpoints enable-log-outputs enable-log-deltas disable-fastapi-docs "
        "otlp-traces-endpoint collect-detailed-traces show-hidden-metrics-for-version kv-cache-metrics",
        FREE,
        _LOG,
        _CLI,
    ),
    **_variables(
        "VLLM_LOGGING_LEVEL VLLM_LOGGING_PREFIX VLLM_LOGGING_CONFIG_PATH VLLM_CONFIGURE_LOGGING "
        "VLLM_LOG_STATS_INTERVAL PYTHONUNBUFFERED MC_LOG_LEVEL MC_LOG_DIR GLOG_v GLOG_minloglevel GLOG_logtostderr "
        "ASCEND_GLOBAL_LOG_LEVEL "
        "ASCEND_SLOG_PRINT_TO_STDOUT ASCEND_PROCESS_LOG_PATH ASCEND_GLOBAL_EVENT_ENABLE HCCL_ENTRY_LOG_ENABLE",
        FREE,
        _LOG,
        f"{_ENVS}; {_HCCL}",
    ),
    # --- times
    **_variables(
        "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT VLLM_NIXL_ABORT_REQUEST_TIMEOUT VLLM_ASCEND_KVCACHE_DELAY_FREE_TIMEOUT "
        "VLLM_LLMDD_ABORT_REQUEST_TIMEOUT VLLM_RPC_TIMEOUT VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS "
        "VLLM_ENGINE_READY_TIMEOUT_S VLLM_ENGINE_ITERATION_TIMEOUT_S",
        FREE,
        _TIME,
        _ENVS,
    ),
    **_variables(
        "ASCEND_CONNECT_TIMEOUT ASCEND_TRANSFER_TIMEOUT HCCL_CONNECT_TIMEOUT HCCL_EXEC_TIMEOUT HCCL_TRANSFER_TIMEOUT "
        "HCCL_RDMA_TIMEOUT HCCL_RDMA_RETRY_CNT",
        FREE,
        _TIME,
        f"{_DIRECT}; {_HCCL}",
    ),
    # --- what keeps it off the net
    **_variables(
        "HF_HUB_OFFLINE TRANSFORMERS_OFFLINE DO_NOT_TRACK VLLM_NO_USAGE_STATS VLLM_DO_NOT_TRACK HF_HOME HF_TOKEN "
        "VLLM_CACHE_ROOT TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR TMPDIR HOME",
        FREE,
        _OWN,
        _ENVS,
    ),
}

UNKNOWN = Kind(TOGETHER, "nothing is known about it, so it may concern both sides", "no entry", known=False)
# a companion's own settings follow those of the connector that moves KV
_INNER = re.compile(r"\.kv_connector_extra_config\.connectors\[\w+\]")
_STORE_RELEASE = Kind(
    REFUSE,
    "the master and every client of Mooncake's store need the same release (RPC call failed: invalid rpc arg)",
    "client 0.3.11.post1 against master 0.3.13.post1; kvcache-ai/Mooncake#979, #2579",
)


def class_of(fact: str, before: Any, after: Any, store: bool = False) -> Kind:
    """What follows when a fact changes. store: whether a pool in Mooncake's store is planned or runs."""
    if fact == "mooncake.version" and store:
        return _STORE_RELEASE
    kind = _entry(fact)
    if kind.decide and kind.decide(before, after) != kind.cls:
        return Kind(FREE, "releases that differ in the last place only serve together", kind.source)
    return kind


def _entry(fact: str) -> Kind:
    """The entry of a fact, or of the nearest one around it: --compilation-config decides for the keys below it."""
    name = _INNER.sub("", fact)
    while name:
        if name in CLASSES:
            return CLASSES[name]
        name = name.rpartition(".")[0]
    return UNKNOWN
