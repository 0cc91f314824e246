# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KV of one token and of one sequence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import dtypes, figures
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.figures import Figure, combine, unknown
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.model import Model
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.shards import Shards


@dataclass(frozen=True)
class Cache:
    """A model, and the format in which its KV is kept."""

    model: Model
    dtype: str = dtypes.AUTO
    kv_cache_dtype: str = dtypes.AUTO
    unknown: tuple[str, ...] = ()  # what else speaks against telling it

    @property
    def element(self) -> Figure:
        reasons = (*self.model.unknown, *self.unknown)
        if reasons:
            return unknown(dtypes.PER_ELEMENT, *reasons)
        return dtypes.element(self.model, self.dtype, self.kv_cache_dtype)

    @property
    def token(self) -> Figure:
        """Of a token that every layer with KV keeps; each KV head once, whatever the number of its copies."""
        each = len(self.model.keeping) * self.model.kv_heads * self.model.elements
        return combine(figures.BYTES_PER_TOKEN, lambda element: element * each, self.element)

    def sequence(self, length: int) -> Figure:
        """Of a whole sequence in an engine: a layer with a window keeps no more than that."""
        if self.model.states:
            return unknown(figures.BYTES, *self.model.unknown, self.model.states)
        kept = [layer.tokens(length) for layer in self.model.layers]
        if any(tokens is None for tokens in kept):
            why = "sliding_window is set and no layer_types says for which layers"
            return unknown(figures.BYTES, *self.model.unknown, why)
        each = sum(tokens or 0 for tokens in kept) * self.model.kv_heads * self.model.elements
        return combine(figures.BYTES, lambda element: element * each, self.element)

    @property
    def pooled(self) -> Figure:
        """Of a token in a pool, which has every KV head once and can be asked for any prefix."""
        return unknown(figures.BYTES_PER_TOKEN, self.model.states) if self.model.states else self.token

    def worker(self, spread: Shards) -> Figure:
        return combine(figures.BYTES_PER_TOKEN, spread.per_worker, self.element)

    def notes(self) -> Iterator[str]:
        if self.model.states:
            yield f"bytes/token are those of the layers with KV; {self.model.states}."
        if self.model.windowed:
            yield (
                "Some layers keep only the newest tokens. A pool is counted as if it kept all of them, so at least as "
                "many tokens fit as are told."
            )
