# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capacity of a whole plan: its instances, and the pool that they share."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import asked, dtypes, figures, planned
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.cache import Cache
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.config import read_model
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.estimate import describe, spread_out
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import Faults
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.figures import Figure, combine, unknown
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.model import Model
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.planned import Server
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.pool import Load, pool
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.shards import Shards, shards
from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan

SCHEMA = 1


def capacity(plan: Plan, config: Any, source: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """source: where the config was read. CapacityError with every problem of the config, the plan and the options."""
    faults = Faults()
    model = read_model(config, source, faults)
    override = options.get("kv_cache_dtype")
    if override is not None:
        asked.one_of(asked.OPTIONS, "kv_cache_dtype", override, dtypes.CACHE_DTYPES, faults)
        override = override if override in dtypes.CACHE_DTYPES else None
    serving = planned.servers(plan, override, faults)
    load = asked.read_load(options, faults)
    given = {name: value for name, value in options.items() if value is not None}
    started = planned.master_flags(plan, faults)
    mark = asked.read_watermark({**started, **given}, plan.topology.mooncake.version, faults)
    if "watermark" in started and "watermark" not in given:
        mark = replace(mark, source="the plan starts the master with it")
    segments, size = planned.segments(plan, options, faults)
    spread = [_spread(model, server, plan.topology.source, faults) for server in serving]
    faults.raise_all()
    if model is None:  # never: then there is a fault, raised above
        raise AssertionError
    caches = [Cache(model, server.dtype, server.kv_cache_dtype, server.unknown) for server in serving]
    shared = _shared(caches)
    told = describe(shared, load)
    return {
        "schema": SCHEMA,
        "cluster": plan.topology.name,
        "source": source,
        **told,
        "notes": [*told["notes"], *_notes(serving, load)],
        "instances": [
            _instance(server, cache, part) for server, cache, part in zip(serving, caches, spread, strict=True)
        ],
        "pool": pool(size, segments, shared.pooled, load, mark),
    }


def to_json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


def _spread(model: Model | None, server: Server, source: str, faults: Faults) -> Shards | None:
    return shards(model, server.shape, source, faults, f"{server.where}.") if model and model.layers else None


def _shared(caches: list[Cache]) -> Cache:
    """What all instances have in common; a pool has no one size of a token when they keep KV in different formats."""
    first = caches[0]
    if any(cache.element != first.element for cache in caches):
        return replace(first, unknown=("instances keep KV in different formats (dtype, kv_cache_dtype)",))
    return first


def _instance(server: Server, cache: Cache, spread: Shards | None) -> dict[str, Any]:
    told = spread_out(cache, server.shape, spread)
    worker = unknown(figures.BYTES_PER_TOKEN, *cache.model.unknown) if spread is None else cache.worker(spread)
    if cache.model.states:
        worker = unknown(figures.BYTES_PER_TOKEN, cache.model.states)
    memory = (
        unknown(figures.BYTES, "the engine measures what is free, unless --kv-cache-memory-bytes names it")
        if server.memory is None
        else Figure(server.memory, figures.BYTES)
    )
    ranks = server.shape.dp
    return {
        "name": server.name,
        "kind": server.kind,
        "max_length": server.max_length,
        "shape": told,
        "memory": memory.as_dict(),
        "tokens": combine(figures.TOKENS, lambda room, each: int(room // each) * ranks, memory, worker).as_dict(),
    }


def _notes(serving: list[Server], load: Load) -> Iterator[str]:
    for server in serving:
        if load.length and server.max_length and load.length > server.max_length:
            yield f"{server.name} takes {server.max_length} tokens at most, which is less than length {load.length}."
    if any(server.drafts for server in serving):
        yield "Speculation is on; KV of draft layers is not counted."
