# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fits into a KV pool, and for how long it stays there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import figures, watermark
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.figures import Figure, combine, unknown


@dataclass(frozen=True)
class Segment:
    """Memory that processes of one kind bring into the pool."""

    owner: str
    processes: int
    bytes: int  # of each


@dataclass(frozen=True)
class Load:
    """What is asked of the pool."""

    length: int | None = None  # tokens of a sequence
    tokens_per_second: float | None = None  # that were in no cache before
    requests_per_second: float | None = None

    @property
    def rate(self) -> Figure:
        unit = figures.TOKENS_PER_SECOND
        if self.tokens_per_second is not None:
            return Figure(self.tokens_per_second, unit)
        if self.requests_per_second is None:
            return unknown(unit, "nobody says how many new tokens come: name tokens_per_second or requests_per_second")
        if self.length is None:
            return unknown(unit, "requests_per_second tells no tokens without length")
        return Figure(self.requests_per_second * self.length, unit)


def total(segments: Iterable[Segment], why: str) -> Figure:
    """The pool is the sum of all segments. why: what to say when there are none."""
    sizes = [segment.processes * segment.bytes for segment in segments]
    return Figure(sum(sizes), figures.BYTES) if sizes else unknown(figures.BYTES, why)


def pool(
    size: Figure, segments: Iterable[Segment], token: Figure, load: Load, mark: watermark.Watermark
) -> dict[str, Any]:
    """token: what one token takes in the pool."""
    high = unknown("", mark.source) if mark.high is None else Figure(mark.high, "")
    low = combine("", lambda share: max(share - mark.evicted, 0), high)
    length = unknown(figures.TOKENS, "length is not given") if load.length is None else Figure(load.length, "")
    flow = combine(figures.BYTES_PER_SECOND, lambda rate, each: rate * each, load.rate, token)
    usable = combine(figures.BYTES, lambda all_of_it, share: int(all_of_it * share), size, high)
    told = {
        "bytes": size,
        "usable": usable,
        "tokens": combine(figures.TOKENS, lambda room, each: int(room // each), usable, token),
        "sequences": combine(
            figures.SEQUENCES, lambda room, each, long: int(room // (each * long)), usable, token, length
        ),
        "new_tokens": load.rate,
        "new_bytes": flow,
        # a pass evicts down to the watermark less its share, so what is there swings between the two
        "kept_least": combine(figures.SECONDS, lambda all_of_it, share, new: all_of_it * share / new, size, low, flow),
        "kept_most": combine(figures.SECONDS, lambda all_of_it, share, new: all_of_it * share / new, size, high, flow),
    }
    return {
        "segments": [asdict(segment) for segment in segments],
        "watermark": mark.as_dict(),
        **{name: figure.as_dict() for name, figure in told.items()},
        "advice": list(watermark.advice(mark, size, flow)),
    }
