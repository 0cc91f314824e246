# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read vLLM's Prometheus metrics and judge by them whether KV was transferred.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

# vllm/v1/metrics/loggers.py@v0.32.0: counter of prompt tokens by where their KV came from.
PROMPT_TOKENS_BY_SOURCE = "vllm:prompt_tokens_by_source_total"
EXTERNAL = "external_kv_transfer"
LOCAL = "local_compute"
# The counters of releases that do not split prompt tokens by source (vllm/v1/metrics/loggers.py@v0.11.0 has them).
PROMPT_TOKENS = "vllm:prompt_tokens_total"
EXTERNAL_HITS = "vllm:external_prefix_cache_hits_total"
RUNNING = "vllm:num_requests_running"
# Also counts a decode's requests whose KV has not come yet (seen with 0.32.0).
WAITING = "vllm:num_requests_waiting"
# Share of the KV cache in use, 0 to 1. The second name is that of releases before 0.10; 0.9 has both.
KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
# Transfers that a decode fetched, and those that failed: vllm/distributed/kv_transfer/kv_connector/v1/nixl/stats.py
# @v0.32.0. MooncakeConnector (stats.py beside it) and vLLM-Ascend's connectors have no such counters.
TRANSFERRED, TRANSFER_FAILED = "vllm:nixl_xfer_time_seconds_count", "vllm:nixl_num_failed_transfers_total"
# prometheus_client's; absent when several API servers share the metrics.
STARTED = "process_start_time_seconds"

_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def samples(text: str) -> Iterator[Tuple[str, Dict[str, str], float]]:
    """Yield (name, labels, value) of every sample in Prometheus' text format."""
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if not match:
            continue
        try:
            value = float(match.group("value"))
        except ValueError:
            continue
        yield match.group("name"), dict(_LABEL.findall(match.group("labels") or "")), value


def prompt_tokens_by_source(text: str) -> Optional[Dict[str, float]]:
    """Sum prompt tokens by source over all engines of the process; None if the metrics do not tell."""
    found: Dict[str, float] = {}
    total = hits = None
    for name, labels, value in samples(text):
        if name == PROMPT_TOKENS_BY_SOURCE:
            source = labels.get("source", "")
            found[source] = found.get(source, 0.0) + value
        elif name == PROMPT_TOKENS:
            total = (total or 0.0) + value
        elif name == EXTERNAL_HITS:
            hits = (hits or 0.0) + value
    if found:
        return found
    if total is not None and hits is not None:
        return {EXTERNAL: hits, LOCAL: total - hits}
    return None


@dataclass(frozen=True)
class Load:
    """What a server has to do now and has done. None: its metrics do not tell."""

    running: Optional[int]
    waiting: Optional[int]
    kv_usage: Optional[float]
    prompt_tokens: Optional[Dict[str, int]]
    transfers: Optional[Dict[str, int]]
    started: Optional[float]


def load(text: str) -> Load:
    """Requests and transfers are summed over the engines of the process; kv_usage is that of the fullest."""
    found: Dict[str, List[float]] = {}
    for name, _labels, value in samples(text):
        if math.isfinite(value):
            found.setdefault(name, []).append(value)

    def total(name: str) -> Optional[int]:
        return int(sum(found[name])) if name in found else None

    usage = next((max(found[name]) for name in KV_USAGE if name in found), None)
    sources = prompt_tokens_by_source(text)
    transferred, failed = total(TRANSFERRED), total(TRANSFER_FAILED)
    return Load(
        running=total(RUNNING),
        waiting=total(WAITING),
        kv_usage=usage,
        prompt_tokens=None if sources is None else {source: int(value) for source, value in sources.items()},
        transfers=None if transferred is None else {"successful": transferred, "failed": failed or 0},
        started=found[STARTED][0] if STARTED in found else None,
    )


def delta(before: Mapping[str, float], after: Mapping[str, float]) -> Dict[str, int]:
    """What was added to each counter; a counter that shrank was restarted and counts from zero."""
    return {
        key: int(value - before.get(key, 0.0)) if value >= before.get(key, 0.0) else int(value)
        for key, value in after.items()
    }


def judge_transfer(prompt_tokens: int, by_decode: Mapping[str, Mapping[str, int]]) -> List[str]:
    """Problems of a proof: prompt_tokens were asked for through the router, by_decode is what the decodes counted."""
    problems = []
    external = sum(counts.get(EXTERNAL, 0) for counts in by_decode.values())
    if external < prompt_tokens:
        problems.append(
            f"only {external} of {prompt_tokens} prompt tokens came to decode as external KV; the rest was recomputed, "
            "or the requests did not go through a decode instance of this plan"
        )
    for name, counts in sorted(by_decode.items()):
        local = counts.get(LOCAL, 0)
        if local > 0:
            problems.append(
                f"decode {name} computed {local} prompt tokens itself (vllm:prompt_tokens_by_source, source {LOCAL}), "
                "though prefill had them: KV did not move"
            )
    return problems
