# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shapes of config.json that tests change one thing in. Only what the arithmetic reads is there."""

from __future__ import annotations

from typing import Any

Raw = dict[str, Any]


def dense(layers: int = 80, heads: int = 64, kv_heads: int = 8, head: int = 128, **more: Any) -> Raw:
    """Grouped-query attention; head_dim is derived."""
    return {
        **{"model_type": "llama", "torch_dtype": "float16", "hidden_size": heads * head},
        **{"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads},
        **more,
    }


def latent(**more: Any) -> Raw:
    return {
        **{"model_type": "deepseek_v3", "torch_dtype": "bfloat16", "hidden_size": 7168, "num_hidden_layers": 61},
        **{"num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
        **{"qk_nope_head_dim": 128, "v_head_dim": 128},
        **more,
    }


def windowed(**more: Any) -> Raw:
    """Every second layer keeps the newest 128 tokens."""
    kinds = ["sliding_attention", "full_attention"] * 12
    return {**dense(24, 64, 8, 64), "head_dim": 64, "sliding_window": 128, "layer_types": kinds, **more}


def stateful(**more: Any) -> Raw:
    """Three of four layers keep a state instead of tokens, and the config tells it by an interval."""
    return {**dense(48, 16, 2, 256), "full_attention_interval": 4, "linear_num_key_heads": 16, **more}
