# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment variables: who reads them, and in which releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import MAX_PORT
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import value_at

Releases = Mapping[str, str]  # who reads -> the release in force


@dataclass(frozen=True)
class Variable:
    name: str
    reader: str  # vllm_ascend | vllm | mooncake, whose releases differ | hccl | torch_npu | none
    source: str
    effect: str = (
        "so it decides nothing"  # what follows when it is not read, or what a presence-only variable switches on
    )
    since: str | None = None  # first release of the reader that reads it
    until: str | None = None  # first release of the reader that no longer reads it
    kind: str = "text"  # one of _KINDS
    limits: tuple[int, int] | None = None
    step: int = 1  # an integer has to be a multiple of it
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (first release, values)
    instead: str = "leave it out."  # the way out when it is not read
    gone: str = "is not read"  # what happened at until


NOBODY = "none"
READERS = {
    "vllm_ascend": "vLLM-Ascend",
    "vllm": "vLLM",
    "mooncake": "Mooncake",
    "hccl": "HCCL",
    "torch_npu": "torch_npu",
}

# How long prefill keeps KV that nobody fetched (MooncakeConnector at the tags of vLLM-Ascend; in 0.9.1 the
# LLMDataDistCMgrConnector). Only this side has such a timer.
_ABORT = (
    ("0.9.1rc2", "VLLM_LLMDD_ABORT_REQUEST_TIMEOUT"),
    ("0.10.1rc1", "VLLM_ASCEND_KVCACHE_DELAY_FREE_TIMEOUT"),
    ("0.11.0rc0", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"),
    ("0.18.0", "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"),
)
# mooncake_hybrid_connector.py@v0.20.2rc1 and @v0.21.0rc1 still have the old name
_ABORT_HYBRID = (("0.0", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"), ("0.22.1rc1", "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"))
ABORT_VARIABLES = tuple(name for _since, name in _ABORT)

# vllm/envs.py@v0.14.0 to @v0.32.0: seconds that the API server waits for its engines
ENGINE_READY_TIMEOUT = ("VLLM_ENGINE_READY_TIMEOUT_S", 600)
# docs/source/user_guide/feature_guide/kv_pool.md@182b75ea of vLLM-Ascend: the same on all nodes of a pool
POOL_HASH_SEED = ("PYTHONHASHSEED", "0")

_ENVS = "vllm_ascend/envs.py at the tags"
_ENVS_GONE = "vllm_ascend/envs.py at the tags, gone in the source package of 0.27.1rc1"
_VLLM_ENVS = "vllm/envs.py in the source packages"
HIASCEND = "hiascend.com CANN 8.5.0 environment variables"
EI0001 = "HCCL user guide, FAQ EI0001"
CONFIG = "mooncake-transfer-engine/src/config.cpp"
DIRECT = "mooncake-transfer-engine/src/transport/ascend_transport/ascend_direct_transport"
STORE = "mooncake-store/src/real_client.cpp"
_OLD_TRANSPORT = "mooncake-transfer-engine/src/transport/ascend_transport/hccl_transport"

_NO_PORTS = "so Mooncake draws from its default ports"
_FLAG = (("0.0", ("0", "1")),)
MOST = 2**31 - 1


def _additional(key: str) -> str:
    return f"write {key} into --additional-config."


def _abort(place: int, source: str, until: str | None = None) -> Variable:
    (since, name), following = _ABORT[place], _ABORT[place + 1 :]
    return Variable(
        name,
        "vllm_ascend",
        source,
        effect="so KV that nobody fetched is freed after the default time",
        since=since,
        until=until or next((release for release, _name in following), None),
        kind="integer",
    )


VARIABLES = {
    variable.name: variable
    for variable in (
        # --- the time after which prefill frees KV
        _abort(0, "llmdatadist_c_mgr_connector.py@v0.9.1", "0.9.2rc1"),
        _abort(1, "mooncake_connector.py@v0.10.1rc1 and @v0.11.0rc0"),
        _abort(2, "mooncake_connector.py@v0.11.0rc0 and @v0.18.0"),
        _abort(3, "mooncake_connector.py@v0.18.0"),
        # --- vLLM-Ascend
        Variable(
            "VLLM_ASCEND_ENABLE_NZ",
            "vllm_ascend",
            _ENVS_GONE,
            since="0.11.0rc1",
            until="0.27.1rc1",
            choices=(("0.0", ("0", "1", "2")),),
            instead=_additional("weight_nz_mode"),
        ),
        Variable(
            "VLLM_ASCEND_ENABLE_MLAPO",
            "vllm_ascend",
            _ENVS_GONE,
            since="0.11.0rc0",
            until="0.27.1rc1",
            choices=_FLAG,
            instead=_additional("enable_mlapo"),
        ),
        Variable(
            "VLLM_ASCEND_ENABLE_FUSED_MC2",
            "vllm_ascend",
            f"{_ENVS_GONE}; ascend_config.py@v0.24.0rc1 asserts 0 or 1",
            since="0.13.0rc1",
            until="0.27.1rc1",
            choices=(("0.0", ("0", "1", "2")), ("0.24.0rc1", ("0", "1"))),
            instead=_additional("enable_fused_mc2"),
        ),
        Variable(
            "VLLM_ASCEND_BALANCE_SCHEDULING",
            "vllm_ascend",
            _ENVS_GONE,
            since="0.13.0rc1",
            until="0.27.1rc1",
            choices=_FLAG,
            instead="leave it out: instances that only prefill or only decode cannot balance.",
        ),
        Variable(
            "VLLM_ASCEND_FUSION_OP_TRANSPOSE_KV_CACHE_BY_BLOCK",
            "vllm_ascend",
            _ENVS_GONE,
            since="0.15.0rc1",
            until="0.27.1rc1",
            choices=_FLAG,
            instead=_additional("enable_transpose_kv_cache_by_block"),
        ),
        Variable(
            "VLLM_ASCEND_ENABLE_FLASHCOMM1",
            "vllm_ascend",
            "ascend_config.py of 0.26.0rc1 and 0.27.1rc1",
            effect="which asks for the sequence parallelism of vLLM instead",
            since="0.11.0rc1",
            until="0.27.1rc1",
            choices=_FLAG,
            instead="use the sequence parallelism of vLLM.",
            gone="is deprecated",
        ),
        Variable(
            "MSMONITOR_USE_DAEMON",
            "vllm_ascend",
            _ENVS_GONE,
            since="0.11.0rc0",
            until="0.27.1rc1",
            choices=_FLAG,
            instead=_additional("msmonitor_use_daemon"),
        ),
        Variable("DYNAMIC_EPLB", "vllm_ascend", _ENVS, since="0.12.0rc1", choices=(("0.0", ("true", "false")),)),
        Variable("VLLM_ASCEND_ENABLE_BATCH_MEMCPY", "vllm_ascend", _ENVS, since="0.19.1rc1"),
        Variable(
            "VLLM_ASCEND_ENABLE_CONTEXT_PARALLEL",
            "vllm_ascend",
            _ENVS,
            since="0.12.0rc1",
            until="0.21.0rc1",
            instead="leave it out; pcp and dcp of the instances decide.",
        ),
        Variable(
            "VLLM_ASCEND_EXTERNAL_DP_LB_ENABLED",
            "vllm_ascend",
            _ENVS,
            since="0.9.1rc2",
            until="0.9.2rc1",
            instead="leave it out; data_parallel of the instances decides.",
        ),
        Variable(
            "PHYSICAL_DEVICES",
            "vllm_ascend",
            _ENVS,
            since="0.10.1rc1",
            until="0.12.0rc1",
            instead="leave it out; devices of the instances decide.",
        ),
        Variable("USE_MULTI_BLOCK_POOL", "vllm_ascend", _ENVS, since="0.13.0rc3", until="0.13.0"),
        Variable(
            "VLLM_ASCEND_ENABLE_FLASHCOMM",
            "vllm_ascend",
            _ENVS,
            since="0.9.1",
            until="0.11.0rc1",
            instead="write VLLM_ASCEND_ENABLE_FLASHCOMM1, which is read up to 0.26.0.",
        ),
        Variable("VLLM_ASCEND_ENABLE_DENSE_OPTIMIZE", "vllm_ascend", _ENVS, since="0.10.2rc1", until="0.13.0rc1"),
        Variable(
            "VLLM_ASCEND_ENABLE_PREFETCH_MLP",
            "vllm_ascend",
            f"{_ENVS}; weight_prefetch_config is gone in 0.24.0rc1",
            since="0.10.2rc1",
            until="0.18.0rc1",
        ),
        Variable("VLLM_ASCEND_ENABLE_MATMUL_ALLREDUCE", "vllm_ascend", _ENVS, since="0.10.0rc1", until="0.25.1rc1"),
        Variable("VLLM_ASCEND_FLASHCOMM2_PARALLEL_SIZE", "vllm_ascend", _ENVS, since="0.12.0rc1", until="0.25.1rc1"),
        Variable(
            "VLLM_ASCEND_ENABLE_TOPK_TOPP_OPTIMIZATION", "vllm_ascend", _ENVS, since="0.9.2rc1", until="0.12.0rc1"
        ),
        Variable(
            "VLLM_ASCEND_LLMDD_RPC_PORT",
            "vllm_ascend",
            _ENVS,
            since="0.10.1rc1",
            until="0.12.0rc1",
            kind="port",
            instead="leave it out; kv_port of the instances decides.",
        ),
        Variable(
            "VLLM_LLMDD_RPC_PORT",
            "vllm_ascend",
            _ENVS,
            since="0.9.1",
            until="0.10.1rc1",
            kind="port",
            instead="leave it out; kv_port of the instances decides.",
        ),
        Variable(
            "DISAGGREGATED_PREFILL_RANK_TABLE_PATH",
            "vllm_ascend",
            _ENVS,
            effect="because the connectors of Mooncake know no rank table",
            since="0.9.1",
            until="0.12.0rc1",
        ),
        # Mooncake hands it on to ADXL in every release
        Variable(
            "ASCEND_BUFFER_POOL",
            "vllm_ascend",
            "kv_pool.md@v0.23.0 of vLLM-Ascend, vllm-ascend#13834",
            effect="so transfers run in a way that nobody tests",
            until="0.23.0",
            kind="buffer pool",
            instead="write ASCEND_ENABLE_USE_FABRIC_MEM=1 for A3 over HCCS or HCCL_INTRA_ROCE_ENABLE=1 for RoCE.",
            gone="is not supported",
        ),
        # --- vLLM
        Variable("VLLM_USE_V1", "vllm", f"{_VLLM_ENVS} (vllm#28204)", until="0.11.1", choices=_FLAG),
        Variable(
            "VLLM_RPC_TIMEOUT",
            "vllm",
            _VLLM_ENVS,
            until="0.23.0",
            kind="integer",
            instead=f"leave it out; {ENGINE_READY_TIMEOUT[0]} is the time for a start.",
        ),
        Variable(
            ENGINE_READY_TIMEOUT[0],
            "vllm",
            _VLLM_ENVS,
            effect="so a start has the time that this vLLM fixes",
            since="0.14.0",
            kind="integer",
        ),
        Variable("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", "vllm", _VLLM_ENVS, since="0.9.2", kind="integer"),
        Variable("VLLM_HOST_IP", "vllm", _VLLM_ENVS, kind="address"),
        # --- Mooncake: any value switches them on
        Variable(
            "MC_FORCE_TCP",
            "mooncake",
            "transfer_engine_impl.cpp@3b5a594",
            effect="makes every transfer use TCP and no other network",
            kind="presence",
        ),
        Variable(
            "MC_FORCE_HCA",
            "mooncake",
            "transfer_engine_impl.cpp@v0.3.8 and @3b5a594",
            effect="makes it install RDMA whether or not there is an adapter",
            since="0.3.8",
            kind="presence",
        ),
        Variable(
            "MC_USE_IPV6",
            "mooncake",
            f"{CONFIG}@3b5a594",
            effect="makes it speak IPv6",
            kind="presence",
        ),
        Variable(
            "MC_LEGACY_RPC_PORT_BINDING",
            "mooncake",
            "transfer_engine_impl.cpp@3b5a594",
            effect="binds the port of the local name instead of a free one",
            kind="presence",
        ),
        Variable(
            "MC_DISABLE_METACACHE",
            "mooncake",
            f"{CONFIG}@3b5a594",
            effect="asks the metadata server anew for every transfer",
            kind="presence",
        ),
        Variable(
            "MC_STORE_USE_HUGEPAGE",
            "mooncake",
            "mooncake-store/include/utils.h@v0.3.8.post1 and @3b5a594",
            effect="takes the memory of the store from huge pages",
            since="0.3.8.post1",
            kind="presence",
        ),
        Variable(
            "ASCEND_USE_ASYNC_TRANSFER",
            "mooncake",
            f"{DIRECT}@v0.3.8 and @3b5a594",
            effect="makes transfers asynchronous, which needs CANN 8.5",
            since="0.3.8",
            kind="presence",
        ),
        Variable(
            "ASCEND_ENABLE_USE_FABRIC_MEM",
            "mooncake",
            "mooncake-store/src/client_service.cpp@v0.3.8.post1 and @3b5a594",
            effect="takes the memory of the store from the fabric",
            since="0.3.8.post1",
            kind="presence",
        ),
        # --- Mooncake: how long a client of the store waits for a master
        *(
            Variable(
                name,
                "mooncake",
                "mooncake-store/include/master_client.h@v0.3.12",
                effect="so each call may take 30 seconds",
                since="0.3.12",
                kind="integer",
                limits=(-1, MOST),  # a negative one is none
            )
            for name in ("MC_RPC_TIMEOUT_MS", "MC_RPC_CONNECT_TIMEOUT_MS")
        ),
        # --- Mooncake: ports
        Variable(
            "ASCEND_BASE_PORT",
            "mooncake",
            f"{DIRECT}@v0.3.8",
            effect=_NO_PORTS,
            since="0.3.8",
            kind="port",
            limits=(1024, MAX_PORT),
        ),
        Variable(
            "MC_MIN_RPC_PORT", "mooncake", f"{CONFIG}@v0.3.11", effect=_NO_PORTS, since="0.3.11", kind="mooncake port"
        ),
        Variable(
            "MC_MAX_RPC_PORT", "mooncake", f"{CONFIG}@v0.3.11", effect=_NO_PORTS, since="0.3.11", kind="mooncake port"
        ),
        Variable(
            "MC_MIN_PRC_PORT", "mooncake", f"{CONFIG}@v0.3.7", effect=_NO_PORTS, since="0.3.7", kind="mooncake port"
        ),
        Variable(
            "MC_MAX_PRC_PORT", "mooncake", f"{CONFIG}@v0.3.7", effect=_NO_PORTS, since="0.3.7", kind="mooncake port"
        ),
        Variable(
            "MC_STORE_CLIENT_MIN_PORT",
            "mooncake",
            f"{STORE}@v0.3.11",
            effect=_NO_PORTS,
            since="0.3.11",
            kind="mooncake port",
        ),
        Variable(
            "MC_STORE_CLIENT_MAX_PORT",
            "mooncake",
            f"{STORE}@v0.3.11",
            effect=_NO_PORTS,
            since="0.3.11",
            kind="mooncake port",
        ),
        Variable("MC_TCP_BIND_ADDRESS", "mooncake", "transfer_engine_impl.cpp@3b5a594", kind="address"),
        # --- Mooncake: AscendDirectTransport
        # 0 is taken, and then there is no worker and nothing is ever transferred
        Variable(
            "ASCEND_THREAD_POOL_SIZE",
            "mooncake",
            f"{DIRECT}/slice_dispatcher.cpp@3b5a594",
            effect="so it has its 8 workers",
            since="0.3.8.post1",
            kind="integer",
            limits=(1, 16),
        ),
        Variable(
            "ASCEND_GLOBAL_RESOURCE_CONFIG", "mooncake", f"{DIRECT}/utils.cpp@3b5a594", since="0.3.9", kind="json"
        ),
        Variable("ASCEND_LOCAL_COMM_RES", "mooncake", f"{DIRECT}@v0.3.9", since="0.3.9", kind="json"),
        Variable("ASCEND_AUTO_CONNECT", "mooncake", f"{DIRECT}@v0.3.9", since="0.3.9", choices=_FLAG),
        Variable("ASCEND_USE_SHORT_CONNECTION", "mooncake", f"{DIRECT}@v0.3.8", since="0.3.8", choices=_FLAG),
        Variable("ASCEND_CONNECT_TIMEOUT", "mooncake", f"{DIRECT}@v0.3.6", kind="integer"),
        # vllm_ascend/distributed/kv_transfer/utils/utils.py passes it through int()
        Variable("ASCEND_TRANSFER_TIMEOUT", "mooncake", f"{DIRECT}@v0.3.6", kind="integer"),
        Variable(
            "ASCEND_TRANSPORT_PRINT",
            NOBODY,
            f"{_OLD_TRANSPORT} only, at v0.3.6 and 3b5a594",
            effect="only the HCCL transport of Mooncake reads it, and no connector uses that",
        ),
        Variable(
            "ASCEND_A3_ENABLE",
            NOBODY,
            "vLLM-Ascend and Mooncake at all tags",
            effect="neither vLLM-Ascend nor Mooncake reads it",
        ),
        Variable(
            "ASCEND_AGGREGATE_ENABLE",
            NOBODY,
            "vLLM-Ascend and Mooncake at all tags",
            effect="neither vLLM-Ascend nor Mooncake reads it",
        ),
        # --- HCCL and torch_npu
        Variable("HCCL_IF_IP", "hccl", EI0001, kind="address"),
        Variable("HCCL_IF_BASE_PORT", "hccl", f"{HIASCEND} 0074", kind="port", limits=(1024, 65520)),
        Variable("HCCL_HOST_SOCKET_PORT_RANGE", "hccl", f"{HIASCEND} 0143", kind="port ranges"),
        Variable("HCCL_NPU_SOCKET_PORT_RANGE", "hccl", f"{HIASCEND} 0144", kind="port ranges"),
        Variable("HCCL_CONNECT_TIMEOUT", "hccl", EI0001, kind="integer", limits=(120, 7200)),
        Variable("HCCL_EXEC_TIMEOUT", "hccl", f"{HIASCEND} 0078", kind="integer", limits=(0, MOST)),
        # up to 24 on older products
        Variable("HCCL_RDMA_TIMEOUT", "hccl", f"{HIASCEND} 0091 (A2, A3)", kind="integer", limits=(5, 20)),
        Variable("HCCL_RDMA_RETRY_CNT", "hccl", EI0001, kind="integer", limits=(1, 7)),
        Variable("HCCL_RDMA_TC", "hccl", EI0001, kind="integer", limits=(0, 255), step=4),
        Variable("HCCL_RDMA_SL", "hccl", EI0001, kind="integer", limits=(0, 7)),
        Variable("HCCL_BUFFSIZE", "hccl", EI0001, kind="integer", limits=(1, MOST)),
        Variable("HCCL_INTRA_ROCE_ENABLE", "hccl", EI0001, choices=_FLAG),
        Variable("HCCL_INTRA_PCIE_ENABLE", "hccl", EI0001, choices=_FLAG),
        Variable(
            "TASK_QUEUE_ENABLE",
            "torch_npu",
            "hiascend.com MindStudio 8.3.0, pipeline optimisation",
            choices=(("0.0", ("0", "1", "2")),),
        ),
    )
}

# Names that nobody reads -> what was meant.
MISSPELT = {
    # not in Mooncake at any tag
    "ASCEND_USE_FABRIC_MEM": "ASCEND_ENABLE_USE_FABRIC_MEM",
    "ASCEND_ENABLE_FABRIC_MEM": "ASCEND_ENABLE_USE_FABRIC_MEM",
    "MC_MIN_PORT": "MC_MIN_RPC_PORT",
    "MC_MAX_PORT": "MC_MAX_RPC_PORT",
}


def abort_variable(version: str, connector: str = "") -> str:
    """Where a release of vLLM-Ascend looks for the time after which prefill frees KV that nobody fetched."""
    return value_at(_ABORT_HYBRID if connector == "MooncakeHybridConnector" else _ABORT, version)
