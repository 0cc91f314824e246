# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ranks a process runs, and how it meets the others: vllm/entrypoints/cli/serve.py and engine/arg_utils.py."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

from .ports import Sizes
from .state import since
from .transfer_config import Refused

INTERNAL, EXTERNAL, HYBRID = "internal", "external", "hybrid"


@dataclass(frozen=True)
class Shape:
    sizes: Sizes
    dp: int
    start: int  # first global rank of this process
    local: int  # ranks of this process
    mode: str  # who balances: internal, external, hybrid
    headless: bool
    api_servers: int
    address: str | None  # of rank 0's host
    rpc_port: int

    @property
    def ranks(self) -> range:
        return range(self.start, self.start + self.local)

    @property
    def alone(self) -> bool:
        """No other process belongs to the group: ranks meet over a Unix socket, so the RPC port stays free."""
        return self.local == self.dp

    @property
    def is_head(self) -> bool:
        return self.start == 0 and not self.headless


def of(args: Namespace, vllm: str, moe: bool) -> Shape:
    sizes = Sizes(
        args.tensor_parallel_size, args.pipeline_parallel_size, getattr(args, "prefill_context_parallel_size", 1)
    )
    dp, local, rank = args.data_parallel_size, args.data_parallel_size_local, args.data_parallel_rank
    start = args.data_parallel_start_rank
    if min(sizes.tp, sizes.pp, sizes.pcp, dp) < 1:
        raise Refused("ValueError", "parallel sizes must be at least 1")
    if local is not None and local > dp:
        text = f"data_parallel_size_local ({local}) cannot be greater than data_parallel_size ({dp})"
        raise Refused("ValueError", text)
    external = rank is not None or bool(getattr(args, "data_parallel_external_lb", False))
    given = start is not None if since(vllm, "0.15.0") else bool(start)  # 0 was no start rank before: not checked
    hybrid = bool(args.data_parallel_hybrid_lb) or (given and local is not None and not external)
    if external and (args.data_parallel_hybrid_lb or given):
        raise Refused(
            "ValueError",
            "Cannot use more than one data parallel load balancing mode. Choose one of: "
            "--data-parallel-multi-port-external-lb, --data-parallel-external-lb (or --data-parallel-rank), "
            "--data-parallel-hybrid-lb (or --data-parallel-start-rank).",
        )
    if args.headless:
        _check_headless(args, vllm)
        hybrid = False
    if external:
        _check_external(args, vllm, moe)
        local, start = 1, rank
    local, start = dp if local is None else local, start or 0
    if args.headless and local < 1:
        raise Refused("ValueError", "data_parallel_size_local must be > 0 in headless mode")
    if start + local > dp:
        raise Refused("ValueError", f"ranks {start} to {start + local - 1} do not fit into data_parallel_size ({dp})")
    mode = HYBRID if hybrid and local < dp else INTERNAL
    if external or (hybrid and local == 1):
        mode = EXTERNAL
    return Shape(
        sizes=sizes,
        dp=dp,
        start=start,
        local=local,
        mode=mode,
        headless=args.headless,
        api_servers=_api_servers(args, vllm, 1 if external else local if given else dp),
        address=args.data_parallel_address,
        rpc_port=args.data_parallel_rpc_port,
    )


def _check_headless(args: Namespace, vllm: str) -> None:
    asked = args.api_server_count
    if asked is not None and asked > 0 and since(vllm, "0.15.0"):
        raise Refused(
            "ValueError",
            f"--api-server-count={asked} cannot be used with --headless (no API servers are started in headless mode).",
        )
    if (asked or 0) > 1:
        raise Refused("ValueError", "api_server_count can't be set in headless mode")
    if args.data_parallel_hybrid_lb:
        raise Refused("ValueError", "data_parallel_hybrid_lb is not applicable in headless mode")


def _check_external(args: Namespace, vllm: str, moe: bool) -> None:
    dp, rank, local = args.data_parallel_size, args.data_parallel_rank, args.data_parallel_size_local
    invalid = "Invalid data-parallel launch options: "
    if rank is None:
        text = invalid + "`--data-parallel-external-lb` requires a data-parallel rank."
    elif local not in (None, 1):
        text = invalid + (
            f"an external data-parallel rank requires `--data-parallel-size-local 1`; got {local}. Set it to 1 or omit "
            "it."
        )
    elif not 0 <= rank < dp:
        text = f"data_parallel_rank ({rank}) must be in the range [0, {dp})"
    elif dp > 1 and not moe and since(vllm, "0.20.0"):  # first release: not checked
        text = (
            "Non-MoE models do not support external data parallel mode. For external load balancing, launch "
            "independent vLLM instances without --data-parallel-* arguments."
        )
    else:
        return
    raise Refused("ValueError", text)


def _api_servers(args: Namespace, vllm: str, default: int) -> int:
    if args.headless:
        return 0
    if args.api_server_count is not None:
        return int(args.api_server_count)
    # 0.15.1 prints "Defaulting api_server_count to data_parallel_size"; before it the default was 1
    return default if since(vllm, "0.15.0") else 1
