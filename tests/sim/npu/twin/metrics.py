# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters of an engine and Prometheus' text of them: vllm/v1/metrics/loggers.py@v0.32.0."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

LOCAL, CACHE, EXTERNAL = "local_compute", "local_cache_hit", "external_kv_transfer"
_REASONS = ("stop", "length", "abort", "error", "repetition")

# name, type, help, key of the counter; names of counters as the client library writes them
_PLAIN = (
    ("vllm:num_requests_running", "gauge", "Requests that are computed.", "running"),
    ("vllm:num_requests_waiting", "gauge", "Requests that wait.", "waiting"),
    ("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use.", "usage"),
    ("vllm:prefix_cache_queries_total", "counter", "Tokens looked up in the own cache.", "queries"),
    ("vllm:prefix_cache_hits_total", "counter", "Tokens found in the own cache.", "hits"),
    ("vllm:external_prefix_cache_queries_total", "counter", "Tokens looked up elsewhere.", "external_queries"),
    ("vllm:external_prefix_cache_hits_total", "counter", "Tokens found elsewhere.", "external_hits"),
    ("vllm:num_preemptions_total", "counter", "Preemptions.", "preemptions"),
    ("vllm:prompt_tokens_total", "counter", "Prompt tokens.", "prompt_tokens"),
    ("vllm:generation_tokens_total", "counter", "Generated tokens.", "generation_tokens"),
)
# vllm/v1/metrics/loggers.py has it in 0.32.0 and not in 0.11.0; the release between was not checked
BY_SOURCE_SINCE = "0.16.0"


class Stats:
    """Counters of one engine. `snapshot` is what a head knows of an engine elsewhere."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: Counter[str] = Counter()

    def add(self, **values: float) -> None:
        with self._lock:
            for name, value in values.items():
                self._values[name] += value  # type: ignore[assignment]

    def source(self, external: int, local: int) -> None:
        self.add(**{EXTERNAL: external, LOCAL: local, "prompt_tokens": external + local})

    def snapshot(self, usage: float) -> dict[str, float]:
        with self._lock:
            return {**self._values, "usage": usage}


def render(engines: Mapping[int, Mapping[str, float]], model: str, by_source: bool) -> str:
    lines = []

    def metric(name: str, kind: str, text: str, rows: Iterable[tuple[int, Mapping[str, Any], float]]) -> None:
        lines.append(f"# HELP {name} {text}")
        lines.append(f"# TYPE {name} {kind}")
        for engine, labels, value in rows:
            every = {"engine": str(engine), **labels, "model_name": model}
            shown = ",".join(f'{key}="{every[key]}"' for key in sorted(every))
            lines.append(f"{name}{{{shown}}} {float(value)}")

    for name, kind, text, key in _PLAIN:
        metric(name, kind, text, ((e, {}, values.get(key, 0)) for e, values in engines.items()))
    if by_source:
        metric(
            "vllm:prompt_tokens_by_source_total",
            "counter",
            "Prompt tokens by where their KV came from.",
            (
                (e, {"source": source}, values.get(source, 0))
                for e, values in engines.items()
                for source in (LOCAL, CACHE, EXTERNAL)
            ),
        )
    metric(
        "vllm:request_success_total",
        "counter",
        "Requests that ended.",
        (
            (e, {"finished_reason": reason}, values.get(f"finished_{reason}", 0))
            for e, values in engines.items()
            for reason in _REASONS
        ),
    )
    return "\n".join(lines) + "\n"
