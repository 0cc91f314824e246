# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When Mooncake's master begins to evict, and what speaks for another watermark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.figures import Figure, duration
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import value_at

# mooncake-store/include/types.h at v0.3.9, v0.3.11, v0.3.11.post1, v0.3.12 and v0.3.12.post1. There the share that one
# pass evicts is 0.05 everywhere.
_HIGH = (("0.0", 0.95), ("0.3.12", 0.90))
_LEASE_SECONDS = (("0.0", 5), ("0.3.12", 10))
EVICTED = 0.05
# flag of the master -> option here
FLAGS = {
    "eviction_high_watermark_ratio": "watermark",
    "eviction_ratio": "eviction_ratio",
    "default_kv_lease_ttl": "lease_ms",
}
# the default since 0.3.12, and what vLLM-Ascend's guide of its KV pool starts the master with
START = 0.90


@dataclass(frozen=True)
class Watermark:
    high: float | None  # share of the pool from which on the master evicts
    evicted: float  # share that one pass evicts at least
    lease: float | None  # seconds for which what was read cannot be evicted
    source: str

    def as_dict(self) -> dict[str, Any]:
        return {"high": self.high, "evicted": self.evicted, "source": self.source}


def lease_seconds(mooncake: str) -> int:
    """default_kv_lease_ttl of a release."""
    return value_at(_LEASE_SECONDS, mooncake)


def watermark(
    high: float | None, evicted: float | None, mooncake: str | None, lease_ms: float | None = None
) -> Watermark:
    """Of what is given, else the defaults of a release of Mooncake; without one nobody knows."""
    lease: float | None = lease_seconds(mooncake) if mooncake else None
    if lease_ms is not None:
        lease = lease_ms / 1000
    taken = EVICTED if evicted is None else evicted
    if high is not None:
        return Watermark(high, taken, lease, "given")
    if mooncake:
        return Watermark(value_at(_HIGH, mooncake), taken, lease, f"default of Mooncake {mooncake}")
    return Watermark(None, taken, lease, "neither a watermark nor a release of Mooncake is given")


def advice(mark: Watermark, pool: Figure, rate: Figure) -> Iterator[dict[str, str]]:
    """rate: bytes a second that come new."""
    if mark.high is None:
        return
    if mark.high >= 1:
        # MasterService::EvictionThreadFunc and conf/master.yaml of mooncake-store@3b5a594
        message = f"At {mark.high:g} the master evicts only after a put has failed, and what failed is not kept."
        yield _advice(message, f"set --eviction_high_watermark_ratio={START:g}.")
        return
    if mark.high > START:
        # docs/source/deployment/integrations/sglang/hicache-integration-v1.md@3b5a594
        message = (
            f"{mark.high:g} leaves {1 - mark.high:.0%} free, and fragmentation lets puts fail before all of it is used."
        )
        fix = f"start with {START:g}, and lower it while master_put_start_alloc_failures_total rises."
        yield _advice(message, fix)
    if pool.value and rate.value and mark.lease:
        free = pool.value * (1 - mark.high) / rate.value
        if free < mark.lease:
            fits = 1 - mark.lease * rate.value / pool.value
            message = (
                f"What is free above the watermark fills in {duration(free)}, and what was read is leased for "
                f"{mark.lease:g} s and cannot be evicted meanwhile: puts can fail."
            )
            lower = f"set --eviction_high_watermark_ratio={fits:.2f} or lower"
            yield _advice(message, f"{lower}, or enlarge the pool." if fits > mark.evicted else "enlarge the pool.")


def _advice(message: str, fix: str) -> dict[str, str]:
    return {"about": "watermark", "message": message, "fix": fix}
