# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tokens, KV and text, all computed from the prompt, so that prefill and decode agree without a model."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_WORDS = (
    *("amber", "bridge", "cedar", "delta", "ember", "forest", "garden", "harbor", "island", "jungle"),
    *("kettle", "lantern", "meadow", "nectar", "ocean", "pepper", "quartz", "river", "silver", "timber"),
    *("umber", "valley", "willow", "yonder", "zephyr", "anchor", "beacon", "canyon", "desert"),
)


def tokenize(prompt: str | Sequence[int]) -> list[int]:
    if isinstance(prompt, str):
        return [zlib.crc32(piece.encode()) & 0xFFFF for piece in re.findall(r"\w+|[^\w\s]", prompt)] or [1]
    return [int(token) for token in prompt]


def weights(model: str) -> int:
    """Two models give other KV: what their config.json says, or their name where there is none."""
    config = Path(model, "config.json")
    return zlib.crc32(config.read_bytes() if config.is_file() else model.rstrip("/").encode())


def model_facts(model: str) -> dict[str, Any]:
    """{moe, mla, hybrid, max_len}; one that is not there counts as mixture of experts, as the guides' models are."""
    try:
        config = json.loads(Path(model, "config.json").read_text())
    except (OSError, ValueError):
        return {"moe": True, "mla": False, "hybrid": False, "max_len": 32768}
    text = {**config, **config.get("text_config", {})}
    experts = next((text[k] for k in ("n_routed_experts", "num_experts", "num_local_experts") if text.get(k)), 0)
    return {
        "moe": bool(experts),
        "mla": bool(text.get("kv_lora_rank")),
        "hybrid": "linear_attention" in text.get("layer_types", ()) or bool(text.get("compress_ratios")),
        "max_len": int(text.get("max_position_embeddings") or 32768),
    }


def kv_of(tokens: Sequence[int], model: int) -> list[int]:
    """One number for each token, which stands for its key and value in all layers."""
    return [(token * 2654435761 + model + position) & 0xFFFFFFFF for position, token in enumerate(tokens)]


def text_of(kv: Sequence[int], count: int) -> list[str]:
    """What the model says when its cache holds this."""
    seed = hashlib.sha256(b"".join(value.to_bytes(4, "big") for value in kv)).digest()
    return [" " + _WORDS[hashlib.sha256(seed + i.to_bytes(4, "big")).digest()[0] % len(_WORDS)] for i in range(count)]
