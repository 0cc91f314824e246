# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models whose KV does not follow from the sizes in their config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_DIFFERS = "says that layers differ in heads or sizes"
_HYBRID = "mixes kinds of layers in a way that is not read here"
# Key that has a value -> why. Names as vllm/transformers_utils/model_arch_config_convertor.py and
# vllm/config/model.py@v0.32.0 and the configurations of transformers have them.
_KEYS = {
    "index_topk": "has an indexer for sparse attention, whose cache beside the KV is in a format of the engine",
    "compress_ratios": "compresses several tokens into one state",
    "num_kv_shared_layers": "lets layers share KV",
    "cla_share_factor": "lets layers share KV",
    "is_encoder_decoder": "is an encoder and a decoder, with KV of the encoder for every sequence",
    "cross_attention_layers": "has layers that keep KV of pictures or sound instead of text",
    **dict.fromkeys(("global_head_dim", "num_global_key_value_heads"), _DIFFERS),
    **dict.fromkeys(("swa_num_key_value_heads", "swa_head_dim", "attention_other_setting"), _DIFFERS),
    **dict.fromkeys(("per_layer_config", "block_configs"), _DIFFERS),
    **dict.fromkeys(("hybrid_override_pattern", "attn_type_list", "attn_layer_period"), _HYBRID),
    **dict.fromkeys(("linear_attn_config", "layer_group_size"), _HYBRID),
}
# Model types for which vLLM 0.32.0 keeps one latent a token, and nothing beside it; of others with kv_lora_rank it
# keeps keys and values in full, or more than the latent.
LATENT = ("deepseek_v2", "deepseek_v3", "deepseek_mtp", "glm4_moe_lite", "kimi_k2", "pangu_ultra_moe")
SPARSE = ("deepseek_v32", "glm_moe_dsa")  # a latent, and the cache of their indexer


def reasons(config: Mapping[str, Any]) -> Iterator[str]:
    for name, why in _KEYS.items():
        if config.get(name):
            yield f"{name} in the config: the model {why}"
    if config.get("kv_lora_rank") and config.get("model_type") not in (*LATENT, *SPARSE):
        kind = config.get("model_type")
        yield f"it has a kv_lora_rank, but whether the engine keeps only the latent of a {kind} is not known here"
    if not config.get("kv_lora_rank") and config.get("v_head_dim") not in (None, config.get("head_dim")):
        yield "v_head_dim in the config: its values have another size than its keys, and engines store that in two ways"
