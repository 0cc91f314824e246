# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which layers of a model keep KV, and of how many tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import CORRECT, Faults, shown
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.model import FULL, MAYBE, STATE, WINDOW, Layer

Found = tuple[tuple[Layer, ...], str]  # layers, or why they cannot be told

# Names in layer_types (transformers) and layers_block_type (vllm/config/model.py@v0.32.0); for a window, the key with
# its size.
_FULL = ("full_attention", "attention", "global_attention")
_WINDOWS = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
_STATES = ("linear_attention", "mamba", "mamba2", "recurrent", "conv")
# Where only every so many-th layer is a full one: transformers' configurations of Qwen3-Next and Gemma 3.
_INTERVALS = {"full_attention_interval": "linear_attention", "sliding_window_pattern": "sliding_attention"}
# keys that only models with states have
_STATE_KEYS = ("mamba_", "ssm_", "linear_")


def read_layers(config: Mapping[str, Any], count: int, source: str, faults: Faults) -> Found:
    for name in ("layer_types", "layers_block_type"):
        if config.get(name) is not None:
            return _listed(config, name, count, source, faults)
    for name, other in _INTERVALS.items():
        if config.get(name) is not None:
            every = faults.number(source, name, config[name]) or 1
            kinds = ["full_attention" if (place + 1) % every == 0 else other for place in range(count)]
            return _typed(config, kinds, name, source, faults)
    states = [name for name, value in config.items() if str(name).startswith(_STATE_KEYS) and value]
    if states:
        return (), f"{states[0]} tells of layers that keep a state, and there is no layer_types that tells which"
    window = config.get("sliding_window")
    if window is None or config.get("use_sliding_window") is False:
        return (Layer(FULL),) * count, ""
    size = faults.number(source, "sliding_window", window)
    return (Layer(MAYBE, size or 0),) * count, ""


def _listed(config: Mapping[str, Any], name: str, count: int, source: str, faults: Faults) -> Found:
    """It may be longer than the model is: some list the layers of a draft, too."""
    kinds = config[name]
    if not isinstance(kinds, (list, tuple)) or len(kinds) < count:
        message = f"has to be a list with an entry for each of the {count} layers, not {shown(kinds)}."
        faults.add(source, name, "config-layers", message, CORRECT)
        return (), ""
    return _typed(config, list(kinds)[:count], name, source, faults)


def _typed(config: Mapping[str, Any], kinds: list[Any], name: str, source: str, faults: Faults) -> Found:
    windows: dict[Any, int] = {}
    for kind in dict.fromkeys(str(kind) for kind in kinds):
        if kind in _WINDOWS:
            windows[kind] = faults.whole(source, config, (_WINDOWS[kind],)) or 0
        elif kind not in (*_FULL, *_STATES):
            return (), f"{name} names layers of kind {kind}, and what those keep is not known here"
    return tuple(_layer(str(kind), windows) for kind in kinds), ""


def _layer(kind: str, windows: Mapping[str, int]) -> Layer:
    if kind in windows:
        return Layer(WINDOW, windows[kind])
    return Layer(FULL if kind in _FULL else STATE)
