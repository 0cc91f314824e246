# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM plugin: lets a store stand beside MooncakeConnector, as a KV pool wants it.

As soon as KV has moved, one line takes the API server down (multi_connector.py:128 of vLLM v0.32.0,
vllm-project/vllm#43828): MultiConnector hands on the statistics of each connector and asserts that each has metrics of
Prometheus, which MooncakeConnector has not. Its statistics are left out here; those of others are counted as before.

It is no part of mooncake_pd_vllm_cpu.py, so that an environment without it still serves a cluster without a pool.
"""

from __future__ import annotations

from typing import Any


def observe_those_with_metrics(self: Any, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
    """In place of MultiKVConnectorPromMetrics.observe()."""
    for name, stats in transfer_stats_data.items():
        if name in self._prom_metrics:
            self._prom_metrics[name].observe(stats, engine_idx)


def register() -> None:
    """Entry point: called by vLLM in every process before the engine is built."""
    # Only here: this module is also read where there is no vLLM yet, as when it is built.
    import torch  # noqa: PLC0415
    from vllm.platforms import current_platform  # noqa: PLC0415

    if not current_platform.is_cpu() or torch.accelerator.is_available():
        return
    from vllm.distributed.kv_transfer.kv_connector.v1 import multi_connector  # noqa: PLC0415

    multi_connector.MultiKVConnectorPromMetrics.observe = observe_those_with_metrics
