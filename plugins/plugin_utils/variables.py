# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment variables: who reads them, in which releases, and which values work."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise

from ansible_collections.mooncake.pd.plugins.plugin_utils import mooncake
from ansible_collections.mooncake.pd.plugins.plugin_utils.numbers import whole
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import EPHEMERAL, MAX_PORT
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least, value_at

Releases = Mapping[str, str]  # who reads -> the release in force


@dataclass(frozen=True)
class Finding:
    rule: str
    severity: str  # error | warning
    message: str
    fix: str
    source: str


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


_WITH_RELEASES = ("vllm_ascend", "vllm", "mooncake")
_NOBODY = "none"
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
# Seconds: vllm_ascend/envs.py@v0.9.1 and @v0.10.1rc1; then vllm/envs.py of the vLLM in question, @v0.11.0 and @v0.12.0
_ABORT_DEFAULTS = (("0.0", 120), ("0.10.1rc1", 250), ("0.11.0rc0", 120), ("0.12.0rc1", 480))
ABORT_VARIABLES = tuple(name for _since, name in _ABORT)

# ValidatePortRange of config.cpp; before, any port would do
_PORTS_VALIDATED_SINCE = "0.3.11"
# platform.py of vLLM-Ascend at the tags
_BALANCE_REFUSED_SINCE = "0.18.0"

# vllm/envs.py@v0.14.0 to @v0.32.0: seconds that the API server waits for its engines
ENGINE_READY_TIMEOUT = ("VLLM_ENGINE_READY_TIMEOUT_S", 600)
# docs/source/user_guide/feature_guide/kv_pool.md@182b75ea of vLLM-Ascend: the same on all nodes of a pool
POOL_HASH_SEED = ("PYTHONHASHSEED", "0")

# A longer HCCL_EXEC_TIMEOUT, and 0, count as this when the algorithms run as AIV (hiascend CANN 8.5.0 envvar 0078).
_AIV_EXEC_TIMEOUT = 1091
# hiascend CANN 8.5.0 envvar 0091: the least time of a retry is 4.096 us * 2 ** HCCL_RDMA_TIMEOUT
_RDMA_TIMEOUT, _RDMA_RETRIES = 20, 7

_ENVS = "vllm_ascend/envs.py at the tags"
_ENVS_GONE = "vllm_ascend/envs.py at the tags, gone in the source package of 0.27.1rc1"
_VLLM_ENVS = "vllm/envs.py in the source packages"
_HIASCEND = "hiascend.com CANN 8.5.0 environment variables"
_EI0001 = "HCCL user guide, FAQ EI0001"
_CONFIG = "mooncake-transfer-engine/src/config.cpp"
_DIRECT = "mooncake-transfer-engine/src/transport/ascend_transport/ascend_direct_transport"
_STORE = "mooncake-store/src/real_client.cpp"
_OLD_TRANSPORT = "mooncake-transfer-engine/src/transport/ascend_transport/hccl_transport"

_NO_PORTS = "so Mooncake draws from its default ports"
_FLAG = (("0.0", ("0", "1")),)
_MOST = 2**31 - 1


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
            f"{_CONFIG}@3b5a594",
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
            f"{_CONFIG}@3b5a594",
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
            f"{_DIRECT}@v0.3.8 and @3b5a594",
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
        # --- Mooncake: ports
        Variable(
            "ASCEND_BASE_PORT",
            "mooncake",
            f"{_DIRECT}@v0.3.8",
            effect=_NO_PORTS,
            since="0.3.8",
            kind="port",
            limits=(1024, MAX_PORT),
        ),
        Variable(
            "MC_MIN_RPC_PORT", "mooncake", f"{_CONFIG}@v0.3.11", effect=_NO_PORTS, since="0.3.11", kind="mooncake port"
        ),
        Variable(
            "MC_MAX_RPC_PORT", "mooncake", f"{_CONFIG}@v0.3.11", effect=_NO_PORTS, since="0.3.11", kind="mooncake port"
        ),
        Variable(
            "MC_MIN_PRC_PORT", "mooncake", f"{_CONFIG}@v0.3.7", effect=_NO_PORTS, since="0.3.7", kind="mooncake port"
        ),
        Variable(
            "MC_MAX_PRC_PORT", "mooncake", f"{_CONFIG}@v0.3.7", effect=_NO_PORTS, since="0.3.7", kind="mooncake port"
        ),
        Variable(
            "MC_STORE_CLIENT_MIN_PORT",
            "mooncake",
            f"{_STORE}@v0.3.11",
            effect=_NO_PORTS,
            since="0.3.11",
            kind="mooncake port",
        ),
        Variable(
            "MC_STORE_CLIENT_MAX_PORT",
            "mooncake",
            f"{_STORE}@v0.3.11",
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
            f"{_DIRECT}/slice_dispatcher.cpp@3b5a594",
            effect="so it has its 8 workers",
            since="0.3.8.post1",
            kind="integer",
            limits=(1, 16),
        ),
        Variable(
            "ASCEND_GLOBAL_RESOURCE_CONFIG", "mooncake", f"{_DIRECT}/utils.cpp@3b5a594", since="0.3.9", kind="json"
        ),
        Variable("ASCEND_LOCAL_COMM_RES", "mooncake", f"{_DIRECT}@v0.3.9", since="0.3.9", kind="json"),
        Variable("ASCEND_AUTO_CONNECT", "mooncake", f"{_DIRECT}@v0.3.9", since="0.3.9", choices=_FLAG),
        Variable("ASCEND_USE_SHORT_CONNECTION", "mooncake", f"{_DIRECT}@v0.3.8", since="0.3.8", choices=_FLAG),
        Variable("ASCEND_CONNECT_TIMEOUT", "mooncake", f"{_DIRECT}@v0.3.6", kind="integer"),
        # vllm_ascend/distributed/kv_transfer/utils/utils.py passes it through int()
        Variable("ASCEND_TRANSFER_TIMEOUT", "mooncake", f"{_DIRECT}@v0.3.6", kind="integer"),
        Variable(
            "ASCEND_TRANSPORT_PRINT",
            _NOBODY,
            f"{_OLD_TRANSPORT} only, at v0.3.6 and 3b5a594",
            effect="only the HCCL transport of Mooncake reads it, and no connector uses that",
        ),
        Variable(
            "ASCEND_A3_ENABLE",
            _NOBODY,
            "vLLM-Ascend and Mooncake at all tags",
            effect="neither vLLM-Ascend nor Mooncake reads it",
        ),
        Variable(
            "ASCEND_AGGREGATE_ENABLE",
            _NOBODY,
            "vLLM-Ascend and Mooncake at all tags",
            effect="neither vLLM-Ascend nor Mooncake reads it",
        ),
        # --- HCCL and torch_npu
        Variable("HCCL_IF_IP", "hccl", _EI0001, kind="address"),
        Variable("HCCL_IF_BASE_PORT", "hccl", f"{_HIASCEND} 0074", kind="port", limits=(1024, 65520)),
        Variable("HCCL_HOST_SOCKET_PORT_RANGE", "hccl", f"{_HIASCEND} 0143", kind="port ranges"),
        Variable("HCCL_NPU_SOCKET_PORT_RANGE", "hccl", f"{_HIASCEND} 0144", kind="port ranges"),
        Variable("HCCL_CONNECT_TIMEOUT", "hccl", _EI0001, kind="integer", limits=(120, 7200)),
        Variable("HCCL_EXEC_TIMEOUT", "hccl", f"{_HIASCEND} 0078", kind="integer", limits=(0, _MOST)),
        # up to 24 on older products
        Variable("HCCL_RDMA_TIMEOUT", "hccl", f"{_HIASCEND} 0091 (A2, A3)", kind="integer", limits=(5, 20)),
        Variable("HCCL_RDMA_RETRY_CNT", "hccl", _EI0001, kind="integer", limits=(1, 7)),
        Variable("HCCL_RDMA_TC", "hccl", _EI0001, kind="integer", limits=(0, 255), step=4),
        Variable("HCCL_RDMA_SL", "hccl", _EI0001, kind="integer", limits=(0, 7)),
        Variable("HCCL_BUFFSIZE", "hccl", _EI0001, kind="integer", limits=(1, _MOST)),
        Variable("HCCL_INTRA_ROCE_ENABLE", "hccl", _EI0001, choices=_FLAG),
        Variable("HCCL_INTRA_PCIE_ENABLE", "hccl", _EI0001, choices=_FLAG),
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
_CLOSE = 0.93
_FAMILIES = ("VLLM_ASCEND_", "VLLM_MOONCAKE_", "VLLM_NIXL_", "MC_", "ASCEND_", "HCCL_")
# they are read, and look like one of the others
_ALSO_READ = ("VLLM_ASCEND_LLMDD_RPC_IP", "VLLM_NIXL_SIDE_CHANNEL_PORT", "VLLM_ASCEND_MLA_PA")

PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
_OFF = ("", "0", "false", "no", "off", "n", "f", "none", "disable", "disabled")


def abort_variable(version: str, connector: str = "") -> str:
    """Where a release of vLLM-Ascend looks for the time after which prefill frees KV that nobody fetched."""
    return value_at(_ABORT_HYBRID if connector == "MooncakeHybridConnector" else _ABORT, version)


def abort_default(version: str) -> int:
    """That time in seconds when nobody sets it."""
    return value_at(_ABORT_DEFAULTS, version)


def check_variable(name: str, value: str, releases: Releases) -> list[Finding]:
    """What is wrong with a variable in these releases."""
    special = _SPECIAL.get(name.lower() if name.lower() in PROXIES else name)
    if special:
        return special(name, value)
    variable = VARIABLES.get(name)
    if not variable:
        return _check_spelling(name)
    if variable.reader == _NOBODY:
        message = f"{name} has no effect: {variable.effect}."
        return [Finding("variable-dead", "warning", message, variable.instead, variable.source)]
    version = releases.get(variable.reader)
    if variable.reader in _WITH_RELEASES and version is None:
        return []
    return (_check_age(variable, version, releases) if version else []) or _check_value(variable, value, releases)


def check_together(environment: Mapping[str, str], releases: Releases) -> list[Finding]:
    """What is wrong with variables that are right one by one."""
    return [finding for check in _TOGETHER for finding in check(environment, releases)]


def _check_proxy(name: str, value: str) -> list[Finding]:
    if not value:
        return []
    return [
        Finding(
            "proxy-variable",
            "warning",
            f"{name} sends requests between the hosts of the plan through a proxy, which does not know them: health "
            "checks, metadata and KV requests end with 403 or 503.",
            "leave it out; or name every address of the plan in no_proxy, one by one: not every client knows "
            "networks and patterns there.",
            "Mooncake troubleshooting guide; sglang#9155",
        )
    ]


def _check_vllm_port(name: str, value: str) -> list[Finding]:
    source = "vllm/envs.py@v0.32.0, vllm/utils/network_utils.py@v0.32.0; vllm#50025"
    if whole(value) is None:
        kubernetes = " Kubernetes sets it so for a service named vllm." if "://" in value else ""
        message = f"{name} is {value!r}, which is no number: vLLM ends with an error.{kubernetes}"
        return [Finding("variable-value", "error", message, "leave it out.", source)]
    message = (
        f"{name} makes every process of vLLM look upwards from {value} for ports, so that processes of one host take "
        "each other's, and those that the plan gave away."
    )
    return [Finding("variable-ports", "warning", message, "leave it out.", source)]


def _check_hash_seed(name: str, value: str) -> list[Finding]:
    # object.c and pylifecycle.c of CPython: random, or a number that fits 32 bits
    number = whole(value)
    if number is not None and number < 2**32:
        return []
    what = "lets every process name KV blocks differently, so that a pool finds nothing"
    if value != "random":
        what = "ends every Python process at its start"
    return [
        Finding(
            "variable-value",
            "error",
            f"{name} is {value!r}, which {what}.",
            f"write {POOL_HASH_SEED[1]}, the same on all hosts.",
            "kv_pool.md@182b75ea of vLLM-Ascend; Python documentation",
        )
    ]


def _check_spelling(name: str) -> list[Finding]:
    meant = MISSPELT.get(name)
    if not meant:
        if not name.startswith(_FAMILIES) or name in _ALSO_READ:
            return []
        meant = next(iter(get_close_matches(name, VARIABLES, n=1, cutoff=_CLOSE)), None)
    if not meant:
        return []
    return [
        Finding(
            "variable-unknown-spelling",
            "warning",
            f"{name} is read by nobody.",
            f"did you mean {meant}?",
            VARIABLES[meant].source,
        )
    ]


def _check_age(variable: Variable, version: str, releases: Releases) -> list[Finding]:
    reader = READERS[variable.reader]
    if variable.until and at_least(version, variable.until):
        return [
            Finding(
                "variable-dead",
                "warning",
                f"{variable.name} {variable.gone} since {reader} {variable.until}, {variable.effect}.",
                _way_out(variable, releases) or variable.instead,
                variable.source,
            )
        ]
    if variable.since and not at_least(version, variable.since):
        return [
            Finding(
                "variable-too-old",
                "warning",
                f"{variable.name} is not read before {reader} {variable.since}, and {version} is planned"
                f"{_after(variable)}.",
                _way_out(variable, releases) or f"leave it out, or use {reader} {variable.since} or later.",
                variable.source,
            )
        ]
    return []


def _after(variable: Variable) -> str:
    return f", {variable.effect}" if variable.effect.startswith("so ") else ""


def _way_out(variable: Variable, releases: Releases) -> str:
    """For the time that the plan writes itself."""
    if variable.name not in ABORT_VARIABLES:
        return ""
    return f"set abort_timeout; the plan then writes {abort_variable(releases[variable.reader])}."


def _check_value(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    check = _check_choice if variable.choices else _KINDS.get(variable.kind)
    return check(variable, value, releases) if check else []


def _wrong(variable: Variable, value: str, wanted: str, what: str = "", rule: str = "variable-value") -> list[Finding]:
    reader = READERS[variable.reader]
    consequence = what or f"{reader} refuses or ignores any other value"
    return [
        Finding(rule, "error", f"{variable.name} is {value!r}: {consequence}.", f"write {wanted}.", variable.source)
    ]


def _check_presence(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    if value.strip().lower() not in _OFF:
        return []
    return [
        Finding(
            "variable-presence-only",
            "error",
            f"{variable.name} counts as soon as it is set, whatever its value: {value!r} {variable.effect}.",
            "leave it out; write 1 when you mean it.",
            variable.source,
        )
    ]


def _check_integer(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    low, high = variable.limits or (1, _MOST)
    number = whole(value)
    if number is not None and low <= number <= high and number % variable.step == 0:
        return []
    wanted = f"a number from {low} to {high}" if high < _MOST else f"a number from {low} on"
    if variable.step > 1:
        wanted += f" that is a multiple of {variable.step}"
    if variable.name == "ASCEND_THREAD_POOL_SIZE" and number == 0:
        return _wrong(variable, value, wanted, "Mooncake starts no worker then, and no transfer ever ends")
    return _wrong(variable, value, wanted)


def _check_port(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    low, high = variable.limits or (1, MAX_PORT)
    number = whole(value)
    if number is not None and low <= number <= high:
        return []
    return _wrong(variable, value, f"a port from {low} to {high}")


def _check_mooncake_port(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    """ValidatePortRange looks at the ends only and falls back to the default range (config.cpp@v0.3.11)."""
    port = whole(value) or 0
    if not at_least(releases["mooncake"], _PORTS_VALIDATED_SINCE):
        return [] if 0 < port <= MAX_PORT else _wrong(variable, value, f"a port from 1 to {MAX_PORT}")
    if 1024 <= port <= MAX_PORT and not EPHEMERAL[0] <= port <= EPHEMERAL[1]:
        return []
    return _wrong(
        variable,
        value,
        f"a port from 1024 to {EPHEMERAL[0] - 1} or from {EPHEMERAL[1] + 1} to {MAX_PORT}",
        "Mooncake takes no such end of a range, warns, and draws from its default ports, which the plan did not expect",
    )


def _check_choice(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    values = value_at(variable.choices, releases.get(variable.reader, "0.0"))
    if value in values:
        return []
    return _wrong(variable, value, f"{', '.join(values[:-1])} or {values[-1]}")


def _check_json(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    try:
        known = json.loads(value)
    except ValueError:
        known = None
    if isinstance(known, dict):
        return []
    return _wrong(
        variable,
        value,
        "an object of JSON, names in double quotes",
        "Mooncake hands on what is no JSON, and the engine for transfers does not start",
        "variable-json",
    )


def _check_buffer_pool(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    if re.fullmatch(r"[0-9]+:[0-9]+", value):
        return []
    return _wrong(variable, value, "the number of buffers and their size in MB, such as 4:8")


def _check_address(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    what = "peers on other hosts cannot reach it"
    wanted = "the address of the host, or leave it to the plan"
    if value.lower() == "localhost":
        return _wrong(variable, value, wanted, what)
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return _wrong(variable, value, wanted, "it is no address")
    return _wrong(variable, value, wanted, what) if address.is_loopback or address.is_unspecified else []


def _check_port_ranges(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    if value == "auto":
        return _auto(variable)
    spans = []
    for part in value.split(","):
        match = re.fullmatch(r" *([0-9]{1,5})(?:-([0-9]{1,5}))? *", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= MAX_PORT:
            return _wrong(variable, value, "ports and ranges such as 60000,60050-60100")
        spans.append((first, last))
    if any(following[0] <= span[1] for span, following in pairwise(sorted(spans))):
        return _wrong(variable, value, "ranges that do not overlap")
    return []


def _auto(variable: Variable) -> list[Finding]:
    if variable.name != "HCCL_NPU_SOCKET_PORT_RANGE":
        return []
    return [
        Finding(
            "npu-port-auto",
            "warning",
            f"{variable.name} is auto: the NPU listens on a random port, but a peer that knows it by a rank table, as "
            "ADXL does, connects to 16666 and times out. With instances that share NPUs it helped all the same.",
            "give every instance NPUs of its own and leave it out; or give the instances ranges that do not overlap.",
            "HIXL FAQ, scenario 5; against it vllm-ascend#4725",
        )
    ]


_SPECIAL: dict[str, Callable[[str, str], list[Finding]]] = {
    **dict.fromkeys(PROXIES, _check_proxy),
    "VLLM_PORT": _check_vllm_port,
    POOL_HASH_SEED[0]: _check_hash_seed,
}

_KINDS: dict[str, Callable[[Variable, str, Releases], list[Finding]]] = {
    "presence": _check_presence,
    "integer": _check_integer,
    "port": _check_port,
    "mooncake port": _check_mooncake_port,
    "port ranges": _check_port_ranges,
    "json": _check_json,
    "buffer pool": _check_buffer_pool,
    "address": _check_address,
}


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    value = whole(environment.get(name, ""))
    return default if value is None else value


def _ranges_in_order(environment: Mapping[str, str], releases: Releases) -> list[Finding]:
    version = releases.get("mooncake")
    if version is None:
        return []
    found = []
    # what is no number is told elsewhere
    rpc = mooncake.rpc_span(version, environment)
    # real_client.cpp@v0.3.11; the default is 12300 to 14300
    store = (
        _number(environment, "MC_STORE_CLIENT_MIN_PORT", 12300),
        _number(environment, "MC_STORE_CLIENT_MAX_PORT", 14300),
    )
    for what, (first, last), source in (
        ("MC_MIN_RPC_PORT to MC_MAX_RPC_PORT", rpc, _CONFIG),
        ("MC_STORE_CLIENT_MIN_PORT to MC_STORE_CLIENT_MAX_PORT", store, _STORE),
    ):
        if first > last:
            found.append(
                Finding(
                    "variable-range",
                    "error",
                    f"{what} is {first} to {last}, which is no range: Mooncake draws from ports that nobody expects.",
                    "set both, the lower one first.",
                    source,
                )
            )
    return found


def _buffer_pool(environment: Mapping[str, str], releases: Releases) -> list[Finding]:
    version = releases.get("mooncake")
    if version is None or environment.get("ASCEND_BUFFER_POOL", "0:0") == "0:0":
        return []
    # initEngines and InitAdxlEngine of ascend_direct_transport at the tags
    others = [
        (name, source)
        for name, since, until, source in (
            ("ASCEND_USE_ASYNC_TRANSFER", "0.3.8", None, f"{_DIRECT}@v0.3.8 and @3b5a594"),
            ("ASCEND_ENABLE_USE_FABRIC_MEM", "0.3.8.post1", "0.3.10.post1", f"{_DIRECT}@v0.3.9"),
        )
        if name in environment and at_least(version, since) and not (until and at_least(version, until))
    ]
    return [
        Finding(
            "variables-exclude",
            "error",
            f"ASCEND_BUFFER_POOL and {name} exclude each other: the engine for transfers does not start with both.",
            "leave ASCEND_BUFFER_POOL out.",
            source,
        )
        for name, source in others
    ]


def _intra_links(environment: Mapping[str, str], releases: Releases) -> list[Finding]:
    if not environment.get("HCCL_INTRA_ROCE_ENABLE") == environment.get("HCCL_INTRA_PCIE_ENABLE") == "1":
        return []
    return [
        Finding(
            "variables-exclude",
            "error",
            "HCCL_INTRA_ROCE_ENABLE and HCCL_INTRA_PCIE_ENABLE are both 1: HCCL does not start (EI0001).",
            "set one of them to 0.",
            _EI0001,
        )
    ]


def _transfer_time(environment: Mapping[str, str], releases: Releases) -> list[Finding]:
    """get_transfer_timeout_value of vLLM-Ascend derives the time from the two others, unless it is set."""
    given = whole(environment.get("ASCEND_TRANSFER_TIMEOUT", ""))
    if given is None:
        return []
    exponent = _number(environment, "HCCL_RDMA_TIMEOUT", _RDMA_TIMEOUT)
    retries = _number(environment, "HCCL_RDMA_RETRY_CNT", _RDMA_RETRIES)
    # an exponent that is no good is told elsewhere
    needed = 4096 * 2 ** min(exponent, 24) * retries // 1_000_000
    if given >= needed:
        return []
    return [
        Finding(
            "transfer-timeout-short",
            "warning",
            f"ASCEND_TRANSFER_TIMEOUT gives up after {given} ms, but the network goes on trying for {needed} ms "
            f"(HCCL_RDMA_TIMEOUT {exponent}, HCCL_RDMA_RETRY_CNT {retries}).",
            "leave it out, and vLLM-Ascend works it out; or lower the two others.",
            "vllm_ascend/distributed/kv_transfer/utils/utils.py@182b75ea; ascend_direct_transport.md of Mooncake",
        )
    ]


def _exec_time(environment: Mapping[str, str], releases: Releases) -> list[Finding]:
    given = whole(environment.get("HCCL_EXEC_TIMEOUT", ""))
    if environment.get("HCCL_OP_EXPANSION_MODE") != "AIV" or given is None:
        return []
    if 0 < given <= _AIV_EXEC_TIMEOUT:
        return []
    return [
        Finding(
            "exec-timeout-capped",
            "warning",
            f"HCCL_EXEC_TIMEOUT is {given}, which counts as {_AIV_EXEC_TIMEOUT} with HCCL_OP_EXPANSION_MODE AIV.",
            f"write at most {_AIV_EXEC_TIMEOUT}.",
            f"{_HIASCEND} 0078",
        )
    ]


def _balance(environment: Mapping[str, str], releases: Releases) -> list[Finding]:
    version = releases.get("vllm_ascend")
    name = "VLLM_ASCEND_BALANCE_SCHEDULING"
    if version is None or environment.get(name, "0") in ("0", ""):
        return []
    until = VARIABLES[name].until or ""
    if not at_least(version, _BALANCE_REFUSED_SINCE) or at_least(version, until):
        return []
    return [
        Finding(
            "variable-value",
            "error",
            f"{name} ends the start of every instance that only prefills or only decodes, since vLLM-Ascend "
            f"{_BALANCE_REFUSED_SINCE}.",
            "leave it out.",
            "vllm_ascend/platform.py@v0.18.0 and @182b75ea",
        )
    ]


_TOGETHER: tuple[Callable[[Mapping[str, str], Releases], list[Finding]], ...] = (
    _ranges_in_order,
    _buffer_pool,
    _intra_links,
    _transfer_time,
    _exec_time,
    _balance,
)
