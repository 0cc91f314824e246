# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the KV of one token is spread over the workers of an instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import Faults
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.figures import Number
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.model import STATE, Model

SIZES = ("tp", "pp", "pcp", "dcp", "dp")
PARTITION = "VLLM_PP_LAYER_PARTITION"


@dataclass(frozen=True)
class Shape:
    tp: int = 1
    pp: int = 1
    pcp: int = 1
    dcp: int = 1
    dp: int = 1
    partition: tuple[int, ...] = field(default=())  # layers of each pipeline stage, when somebody says so

    @property
    def workers(self) -> int:
        return self.tp * self.pp * self.pcp * self.dp

    def as_dict(self) -> dict[str, int]:
        return {size: getattr(self, size) for size in SIZES}


@dataclass(frozen=True)
class Shards:
    """Elements that workers keep of one token. The ranks of context parallelism take turns, so a worker's is a mean."""

    heads: int  # KV heads of a worker
    copies: int  # how often the KV of a token is there within one data-parallel rank
    stages: tuple[Fraction, ...]  # elements of a worker of each pipeline stage
    distinct: int  # elements of the token, each counted once

    def per_worker(self, element: Number) -> Number:
        """Bytes of the fullest worker, which is the one that runs out first."""
        return max(self.per_stage(element))

    def per_stage(self, element: Number) -> list[Number]:
        return [number(elements * Fraction(element)) for elements in self.stages]

    def as_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key in ("heads", "copies")}


def shards(model: Model, shape: Shape, source: str, faults: Faults, where: str = "") -> Shards | None:
    """None when the engine would refuse the sizes, which faults then tell."""
    known = len(faults.found)
    heads, replicas = _heads(model, shape, source, faults, where)
    if replicas % shape.dcp:
        message = (
            f"is {shape.dcp}, but it has to divide the {replicas} copies of each KV head that tp {shape.tp} makes."
        )
        faults.add(source, f"{where}dcp", "shape-dcp", message, "choose a divisor of tp / KV heads, or 1.")
    counts = stages(len(model.layers), shape, source, faults, where)
    if len(faults.found) > known:
        return None
    share = Fraction(heads * model.elements, shape.dcp * shape.pcp)
    ends = [sum(counts[: stage + 1]) for stage in range(len(counts))]
    keeping = [
        sum(layer.kind != STATE for layer in model.layers[end - count : end])
        for end, count in zip(ends, counts, strict=True)
    ]
    return Shards(
        heads=heads,
        copies=replicas // shape.dcp,
        stages=tuple(share * layers for layers in keeping),
        distinct=sum(keeping) * model.kv_heads * model.elements,
    )


def _heads(model: Model, shape: Shape, source: str, faults: Faults, where: str) -> tuple[int, int]:
    """KV heads of a worker, and how many workers have the same (vllm/config/model.py@v0.32.0, get_num_kv_heads)."""
    if model.query_heads % shape.tp:
        message = f"is {shape.tp}, which does not divide the {model.query_heads} attention heads."
        faults.add(source, f"{where}tp", "shape-tp", message, "choose a divisor, the engine refuses others.")
        return 1, 1
    if model.kv_heads % shape.tp == 0:
        return model.kv_heads // shape.tp, 1
    if shape.tp % model.kv_heads:
        message = f"is {shape.tp}, and neither it nor the {model.kv_heads} KV heads are a multiple of the other."
        faults.add(
            source, f"{where}tp", "shape-tp", message, "choose a divisor or a multiple, the engine refuses others."
        )
        return 1, 1
    return 1, shape.tp // model.kv_heads


def stages(layers: int, shape: Shape, source: str, faults: Faults, where: str = "") -> tuple[int, ...]:
    """Layers of each pipeline stage: what does not divide goes to the stages before the last (get_pp_indices of
    vllm/distributed/utils.py@v0.32.0)."""
    if shape.partition:
        if len(shape.partition) != shape.pp or sum(shape.partition) != layers:
            told = ",".join(str(count) for count in shape.partition)
            message = f"is {told}, which is not {layers} layers in {shape.pp} stages."
            faults.add(
                source, f"{where}{PARTITION}", "shape-pp", message, "name the layers of each stage, or leave it out."
            )
        return shape.partition
    if layers and shape.pp > layers:
        message = f"is {shape.pp}, more than the {layers} layers of the model."
        faults.add(source, f"{where}pp", "shape-pp", message, "choose a smaller one.")
    counts = [layers // shape.pp] * shape.pp
    for place in range(2, layers % shape.pp + 2):
        counts[-place] += 1
    return tuple(counts)


def read_shape(raw: Mapping[str, Any], source: str, faults: Faults, partition: str = "") -> Shape:
    sizes = {
        size: faults.number(source, size, raw.get(size, 1), fix="write the number that the engine is started with.")
        or 1
        for size in SIZES
    }
    parts = partition.split(",") if partition else []
    if not all(part.strip().isdigit() for part in parts):
        message = f"is {partition!r}, no list of numbers."
        faults.add(source, PARTITION, "shape-pp", message, "write the layers of each stage as 20,22, or leave it out.")
        parts = []
    return Shape(**sizes, partition=tuple(int(part) for part in parts))


def number(value: Fraction) -> Number:
    return int(value) if value.denominator == 1 else float(value)
