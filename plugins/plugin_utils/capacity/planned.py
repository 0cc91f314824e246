# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan says about KV: the instances, and the segments that they bring into a pool."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import asked, dtypes, figures, shards, sizes
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import Faults, shown
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.figures import Figure, unknown
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.pool import Segment, total
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.shards import Shape
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.watermark import FLAGS
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import joins_store, pools
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm
from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Instance

# wins over the file that MOONCAKE_CONFIG_PATH names (mooncake_backend.py of vllm-ascend@182b75ea)
_SEGMENT = "MOONCAKE_GLOBAL_SEGMENT_SIZE"


@dataclass(frozen=True)
class Server:
    """An instance, as far as its KV goes."""

    name: str
    kind: str
    where: str
    shape: Shape
    dtype: str
    kv_cache_dtype: str
    max_length: int | None  # --max-model-len
    memory: int | None  # --kv-cache-memory-bytes, of each worker
    drafts: bool  # speculation keeps KV of draft layers, too
    unknown: tuple[str, ...]


def servers(plan: Plan, override: str | None, faults: Faults) -> list[Server]:
    """override: the format of the KV, where a quantized checkpoint decides it and not an option."""
    return [_server(plan, instance, override, faults) for instance in plan.topology.instances]


def _server(plan: Plan, instance: Instance, override: str | None, faults: Faults) -> Server:
    source, where = plan.topology.source, instance.where
    given = vllm.options(vllm.arguments(plan.topology, instance))
    environment = {**plan.topology.engine_environment, **instance.environment}
    raw = {size: getattr(instance, size) for size in shards.SIZES}
    kept = override or given.get("--kv-cache-dtype", dtypes.AUTO)
    disabled = environment.get("VLLM_MLA_DISABLE", "0") not in ("", "0")
    return Server(
        name=instance.name,
        kind=instance.kind,
        where=where,
        shape=shards.read_shape(raw, source, faults, environment.get(shards.PARTITION, "")),
        dtype=asked.one_of(source, f"{where} --dtype", given.get("--dtype", dtypes.AUTO), dtypes.DTYPES, faults),
        kv_cache_dtype=asked.one_of(source, f"{where} --kv-cache-dtype", kept, dtypes.CACHE_DTYPES, faults),
        max_length=sizes.count(given.get("--max-model-len", "")),
        memory=sizes.count(given.get("--kv-cache-memory-bytes", "")),
        drafts=any(name in given for name in ("--speculative-config", "-sc")),
        unknown=("VLLM_MLA_DISABLE is set, so the engine keeps more than the latent",) if disabled else (),
    )


def segments(plan: Plan, options: Mapping[str, Any], faults: Faults) -> tuple[list[Segment], Figure]:
    """Each worker of an instance with a store connector brings one; and the pool that they make together.

    What the operator says wins: pool_bytes for all of it, segment_bytes for each worker of the contributors.
    """
    whole = asked.read_size(options, "pool_bytes", faults)
    each = asked.read_size(options, "segment_bytes", faults)
    chosen = options.get("contributors")
    names = [instance.name for instance in plan.topology.instances]
    for name in chosen or ():
        if name not in names:
            message = f"names {name}, which is no instance of {plan.topology.name}."
            faults.add(asked.OPTIONS, "contributors", "instance", message, f"choose from {', '.join(names)}.")
    if whole and each:
        message = "is given beside pool_bytes, which is the sum already."
        faults.add(asked.OPTIONS, "segment_bytes", "size-twice", message, "give one of them.")
    if whole:
        return [], Figure(whole, figures.BYTES)
    bringing = [instance for instance in plan.topology.instances if _contributes(plan, instance, chosen, each)]
    store = plan.topology.store
    nodes = [Segment(f"store on {node.host}", 1, node.segment_size) for node in store.nodes] if store else []
    found, untold = ([] if each or chosen else nodes), []
    for instance in bringing:
        own = each or _planned(plan, instance, faults)
        if own is not None:
            if own:
                found.append(Segment(instance.name, _shape(instance).workers, own))
        else:
            untold.append(instance.name)
    if untold:
        file = "stands in the file that MOONCAKE_CONFIG_PATH names"
        why = f"the size of the segments of {', '.join(untold)} {file}: name segment_bytes or pool_bytes"
        return found, unknown(figures.BYTES, why)
    return found, total(found, "the plan has no KV pool: name pool_bytes, or segment_bytes of each worker")


def _contributes(plan: Plan, instance: Instance, chosen: Any, each: int | None) -> bool:
    if chosen:
        return instance.name in chosen
    if joins_store(plan.topology, instance.kind):
        return True
    return bool(each) and not any(pools(item) for item in plan.topology.connector.also)


def _planned(plan: Plan, instance: Instance, faults: Faults) -> int | None:
    store = plan.topology.store
    if store and joins_store(plan.topology, instance.kind):
        return store.segment(instance.kind)
    value = {**plan.topology.engine_environment, **instance.environment}.get(_SEGMENT)
    if value is None:
        return None
    found = sizes.size(value)
    if found is None:
        source, message = plan.topology.source, f"is {shown(value)}, no number of bytes above 0."
        faults.add(source, f"{instance.where} {_SEGMENT}", "size", message, asked.SIZE)
    return found


def _shape(instance: Instance) -> Shape:
    return Shape(**{size: getattr(instance, size) for size in shards.SIZES})


def master_flags(plan: Plan, faults: Faults) -> dict[str, float]:
    """Shares that the plan starts the master with, by the options that they stand for."""
    found = {}
    for processes in plan.processes.values():
        for process in processes:
            for name, value in _flags(process.argv) if process.kind == "master" else ():
                if name not in FLAGS:
                    continue
                if re.fullmatch(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", value):
                    found[FLAGS[name]] = float(value)
                else:
                    message = f"is {shown(value)}, no share."
                    faults.add(plan.topology.source, f"{process.where} --{name}", "number", message, "write 0.9.")
    return found


def _flags(argv: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """As gflags takes them: one or two dashes, the value behind = or as the next word."""
    for place, word in enumerate(argv):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-"):
            yield name, value if equals else "".join(argv[place + 1 : place + 2])
