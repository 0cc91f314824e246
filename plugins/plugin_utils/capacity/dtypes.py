# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes of numbers in a KV cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.figures import Figure, unknown
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.model import Model

AUTO = "auto"
PER_ELEMENT = "bytes/element"
# vllm/config/model.py and utils/torch_utils.py@v0.32.0
_MODEL = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
_CACHE = {**_MODEL, **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8"), 1)}
DTYPES = (AUTO, *_MODEL)
# CacheDType of vllm/config/cache.py@v0.32.0: scales or packed numbers stand beside the values, and how many of them
# depends on the attention backend
PACKED = (
    *("fp8_ds_mla", "nvfp4_ds_mla", "nvfp4", "nvfp4_4over6", "ultraquant_4bit"),
    *("int4_per_token_head", "int8_per_token_head", "fp8_per_token_head"),
    *("turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc"),
)
CACHE_DTYPES = (AUTO, *_CACHE, *PACKED)


def element(model: Model, dtype: str, kv_cache_dtype: str) -> Figure:
    """Bytes of one number that is kept."""
    if kv_cache_dtype in PACKED:
        why = f"with kv_cache_dtype {kv_cache_dtype} the engine packs numbers and scales as its attention backend wants"
        return unknown(PER_ELEMENT, why)
    if kv_cache_dtype != AUTO:
        return Figure(_CACHE[kv_cache_dtype], PER_ELEMENT)
    if model.cache_scheme:
        why = f"the checkpoint has a KV format of its own ({model.cache_scheme}), and what auto makes of it is the "
        return unknown(PER_ELEMENT, f"{why}engine's: name kv_cache_dtype")
    if dtype != AUTO:
        return Figure(_MODEL[dtype], PER_ELEMENT)
    if model.dtype is None:
        why = "the config has neither dtype nor torch_dtype, so the engine looks into the weights: name dtype"
        return unknown(PER_ELEMENT, why)
    # _resolve_auto_dtype of vllm/config/model.py@v0.32.0: auto serves a checkpoint of float32 in 16 bits
    return Figure(min(_MODEL[model.dtype], 2), PER_ELEMENT)


def own_scheme(config: Mapping[str, Any]) -> str:
    """The KV format that a quantized checkpoint names, as ModelOpt and compressed-tensors write it."""
    quantization = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(quantization, Mapping):
        return ""
    inner = quantization.get("quantization")
    for place in (quantization, inner if isinstance(inner, Mapping) else {}):
        for name in ("kv_cache_scheme", "kv_cache_quant_algo"):
            if place.get(name):
                return name
    return ""


def model_dtype(value: Any) -> str | None:
    """bfloat16 of torch.bfloat16; None of what is no floating-point format that a model is served in."""
    name = str(value).removeprefix("torch.")
    return name if name in _MODEL else None
