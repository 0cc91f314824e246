# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capacity of one model in one shape, from its config alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import asked, dtypes, figures
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.cache import Cache
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.config import read_model
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import Faults
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.figures import Figure, combine, unknown
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.pool import Load, pool
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.shards import Shape, Shards, read_shape, shards

CONFIG = "config.json"


def estimate(config: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """CapacityError with every problem when the config or an option is none."""
    faults = Faults()
    model = read_model(config, CONFIG, faults)
    shape = read_shape(options, asked.OPTIONS, faults)
    spread = shards(model, shape, asked.OPTIONS, faults) if model and model.layers else None
    load = asked.read_load(options, faults)
    size = asked.read_size(options, "pool_bytes", faults)
    mark = asked.read_watermark(options, options.get("mooncake_version"), faults)
    dtype = asked.read_choice(options, "dtype", dtypes.DTYPES, faults)
    kv_cache_dtype = asked.read_choice(options, "kv_cache_dtype", dtypes.CACHE_DTYPES, faults)
    faults.raise_all()
    if model is None:  # never: then there is a fault, raised above
        raise AssertionError
    cache = Cache(model, dtype, kv_cache_dtype)
    bytes_of_pool = Figure(size, figures.BYTES) if size else unknown(figures.BYTES, "the size of the pool is not given")
    return {
        **describe(cache, load),
        "shape": spread_out(cache, shape, spread),
        "pool": pool(bytes_of_pool, (), cache.pooled, load, mark),
    }


def describe(cache: Cache, load: Load) -> dict[str, Any]:
    """What holds for every instance that serves the model."""
    why = "length is not given"
    whole = unknown(figures.BYTES, why) if load.length is None else cache.sequence(load.length)
    return {
        "model": cache.model.as_dict(),
        "kv_cache": {"dtype": cache.kv_cache_dtype, "element": cache.element.as_dict()},
        "token": cache.token.as_dict(),
        "sequence": {"length": load.length, "bytes": whole.as_dict()},
        "notes": list(cache.notes()),
    }


def spread_out(cache: Cache, shape: Shape, spread: Shards | None) -> dict[str, Any]:
    told: dict[str, Any] = shape.as_dict() | {"workers": shape.workers}
    if spread is None:
        untold = unknown(figures.BYTES_PER_TOKEN, *cache.model.unknown).as_dict()
        return {**told, "heads": None, "copies": None, "worker": untold, "stages": [], "rank": untold}
    stages = [
        combine(figures.BYTES_PER_TOKEN, lambda element, stage=stage: spread.per_stage(element)[stage], cache.element)
        for stage in range(shape.pp)
    ]
    held = combine(figures.BYTES_PER_TOKEN, lambda token: token * spread.copies, cache.token)
    return {
        **told,
        **spread.as_dict(),
        "worker": cache.worker(spread).as_dict(),
        "stages": [stage.as_dict() for stage in stages],
        "rank": held.as_dict(),
    }
