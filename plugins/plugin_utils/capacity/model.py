# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a model decides how much KV it keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

# keeps every token | the newest ones | one state a sequence | every token or the newest ones, the config does not tell
FULL, WINDOW, STATE, MAYBE = "full", "window", "state", "full or window"


@dataclass(frozen=True)
class Layer:
    kind: str = FULL
    window: int = 0

    def tokens(self, length: int) -> int | None:
        """How many of the tokens of a sequence it keeps; None when that cannot be told."""
        if self.kind == FULL or (self.kind == MAYBE and length <= self.window):
            return length
        if self.kind == WINDOW:
            return min(length, self.window)
        return 0 if self.kind == STATE else None


@dataclass(frozen=True)
class Model:
    layers: tuple[Layer, ...]
    latent: bool  # one latent instead of a key and a value for each KV head (MLA)
    query_heads: int
    kv_heads: int  # 1 of a latent: every rank needs all of it
    elements: int  # numbers that a layer keeps of a token and KV head
    dtype: str | None = None
    cache_scheme: str = ""  # the KV format that the checkpoint itself names
    unknown: tuple[str, ...] = ()  # why its KV cannot be told

    @property
    def attention(self) -> str:
        if self.latent:
            return "MLA"
        if self.kv_heads == self.query_heads:
            return "MHA"
        return "MQA" if self.kv_heads == 1 else "GQA"

    @property
    def keeping(self) -> tuple[Layer, ...]:
        """The layers that keep something of a token."""
        return tuple(layer for layer in self.layers if layer.kind != STATE)

    @property
    def states(self) -> str:
        """Why a whole sequence cannot be told of a model with states."""
        count = len(self.layers) - len(self.keeping)
        return f"{count} layers keep a state instead of tokens, and its size and use are the engine's" if count else ""

    @property
    def windowed(self) -> bool:
        return any(layer.kind in (WINDOW, MAYBE) for layer in self.layers)

    def as_dict(self) -> dict[str, Any]:
        return {
            "attention": self.attention,
            "layers": dict(Counter(layer.kind for layer in self.layers)),
            "windows": sorted({layer.window for layer in self.layers if layer.window}),
            "query_heads": self.query_heads,
            "kv_heads": self.kv_heads,
            "elements": self.elements,
            "dtype": self.dtype,
            "unknown": list(self.unknown),
        }
