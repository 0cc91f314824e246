# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the config.json of a model to what decides its KV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import dtypes, unknowable
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import COMPLETE, CORRECT, Faults, shown
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.layers import read_layers
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.model import Model

# where models of several kinds of input have that of their text
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
# one meaning, several names: vllm/transformers_utils/model_arch_config_convertor.py@v0.32.0 and attribute maps of
# transformers
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_HEAD_SIZE = ("head_dim", "hidden_size_per_head", "kv_channels")


def read_model(config: Any, source: str, faults: Faults) -> Model | None:
    """None when something is wrong with it, which faults then tell."""
    if not isinstance(config, Mapping) or not config:
        message = f"has to be the object of a config.json, not {shown(config)}."
        faults.add(source, "(whole file)", "config-object", message, COMPLETE)
        return None
    text = _text_part(config)
    known = len(faults.found)
    count = faults.whole(source, text, _LAYERS)
    heads = faults.whole(source, text, _HEADS)
    latent = bool(text.get("kv_lora_rank"))
    kv_heads = 1 if latent else _kv_heads(text, heads, source, faults)
    elements = _latent(text, source, faults) if latent else _key_and_value(text, heads, source, faults)
    layers, untold = read_layers(text, count, source, faults) if count else ((), "")
    dtype = _dtype(config, text, source, faults)
    if len(faults.found) > known or heads is None or elements is None:
        return None
    reasons = [*unknowable.reasons(text), *([untold] if untold else [])]
    if kv_heads is None:
        reasons.append("layers have different numbers of KV heads")
    return Model(
        layers=layers,
        latent=latent,
        query_heads=heads,
        kv_heads=kv_heads or 1,
        elements=elements,
        dtype=dtype,
        cache_scheme=dtypes.own_scheme(config) or dtypes.own_scheme(text),
        unknown=tuple(reasons),
    )


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for _depth in range(3):  # Qwen-Omni has it two levels down
        inner = next((config[name] for name in _NESTED if isinstance(config.get(name), Mapping)), None)
        if inner is None:
            break
        config = inner
    return config


def _kv_heads(text: Mapping[str, Any], heads: int | None, source: str, faults: Faults) -> int | None:
    """None when there is no one number."""
    inner = text.get("attn_config")
    given = {**text, **({"num_kv_heads": inner.get("kv_n_heads")} if isinstance(inner, Mapping) else {})}
    name = next((key for key in _KV_HEADS if given.get(key) is not None), None)
    if isinstance(given.get(name or ""), (list, tuple)):
        return None
    # Falcon of the first kind and GPT-BigCode write no number
    if text.get("multi_query") and not text.get("new_decoder_architecture"):
        return 1
    if name is None:
        return heads
    number = faults.number(source, name, given[name])
    if number and heads and heads % number:
        message = f"is {number}, which does not divide the {heads} attention heads."
        faults.add(source, name, "config-heads", message, CORRECT)
    return number


def _key_and_value(text: Mapping[str, Any], heads: int | None, source: str, faults: Faults) -> int | None:
    name = next((key for key in _HEAD_SIZE if text.get(key)), None)  # some write 0 for "to be derived"
    if name is not None:
        given = faults.number(source, name, text[name])
        return 2 * given if given else None
    hidden = faults.whole(source, text, _HIDDEN)
    if hidden and heads and hidden % heads:
        message = f"is {hidden}, which the {heads} attention heads do not divide, and there is no head_dim."
        faults.add(source, "hidden_size", "config-heads", message, COMPLETE)
    return 2 * (hidden // heads) if hidden and heads else None


def _latent(text: Mapping[str, Any], source: str, faults: Faults) -> int | None:
    """The latent and the key for the positions; both are one for all heads, and serve as key and as value."""
    rank = faults.whole(source, text, ("kv_lora_rank",))
    rope = faults.whole(source, text, ("qk_rope_head_dim",), least=0)
    return None if rank is None or rope is None else rank + rope


def _dtype(config: Mapping[str, Any], text: Mapping[str, Any], source: str, faults: Faults) -> str | None:
    """The outer one wins, as in vLLM; None when none is told."""
    for place in (config, text):
        for name in ("dtype", "torch_dtype"):
            value = place.get(name)
            if value is None:
                continue
            known = dtypes.model_dtype(value)
            if known is None:
                message = f"is {shown(value)}, and models are served in {', '.join(dtypes.DTYPES[1:])}."
                faults.add(source, name, "config-dtype", message, CORRECT)
            return known
    return None
