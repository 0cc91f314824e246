# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment variables that are right one by one and wrong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ansible_collections.mooncake.pd.plugins.plugin_utils import mooncake
from ansible_collections.mooncake.pd.plugins.plugin_utils.findings import Finding
from ansible_collections.mooncake.pd.plugins.plugin_utils.numbers import whole
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.table import (
    CONFIG,
    DIRECT,
    EI0001,
    HIASCEND,
    STORE,
    VARIABLES,
    Releases,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

# platform.py of vLLM-Ascend at the tags
_BALANCE_REFUSED_SINCE = "0.18.0"

# A longer HCCL_EXEC_TIMEOUT, and 0, count as this when the algorithms run as AIV (hiascend CANN 8.5.0 envvar 0078).
_AIV_EXEC_TIMEOUT = 1091
# hiascend CANN 8.5.0 envvar 0091: the least time of a retry is 4.096 us * 2 ** HCCL_RDMA_TIMEOUT
_RDMA_TIMEOUT, _RDMA_RETRIES = 20, 7


def check_together(environment: Mapping[str, str], releases: Releases) -> list[Finding]:
    """What is wrong with variables that are right one by one."""
    return [finding for check in _TOGETHER for finding in check(environment, releases)]


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    value = whole(environment.get(name, ""))
    return default if value is None else value


def _ranges_in_order(environment: Mapping[str, str], releases: Releases) -> list[Finding]:
    version = releases.get("mooncake")
    if version is None:
        return []
    found = []
    # what is no number is told elsewhere
    rpc, store = mooncake.rpc_span(version, environment), mooncake.store_span(environment)
    for what, (first, last), source in (
        ("MC_MIN_RPC_PORT to MC_MAX_RPC_PORT", rpc, CONFIG),
        ("MC_STORE_CLIENT_MIN_PORT to MC_STORE_CLIENT_MAX_PORT", store, STORE),
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
            ("ASCEND_USE_ASYNC_TRANSFER", "0.3.8", None, f"{DIRECT}@v0.3.8 and @3b5a594"),
            ("ASCEND_ENABLE_USE_FABRIC_MEM", "0.3.8.post1", "0.3.10.post1", f"{DIRECT}@v0.3.9"),
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
            EI0001,
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
            f"{HIASCEND} 0078",
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
