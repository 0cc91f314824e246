# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A number with its unit, or the reason why nobody can tell it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Number = int | float

BYTES, BYTES_PER_TOKEN, TOKENS, SEQUENCES, SECONDS = "bytes", "bytes/token", "tokens", "sequences", "seconds"
BYTES_PER_SECOND, TOKENS_PER_SECOND = "bytes/second", "tokens/second"

_STEPS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIMES = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"))


@dataclass(frozen=True)
class Figure:
    value: Number | None
    unit: str
    why: str = ""  # why there is no value

    def as_dict(self) -> dict[str, Any]:
        return {"value": self.value, "unit": self.unit, "unknown": self.why or None}

    def text(self) -> str:
        if self.value is None:
            return "UNKNOWN"
        if self.unit in (BYTES, BYTES_PER_TOKEN, BYTES_PER_SECOND):
            return size(self.value) + self.unit.removeprefix(BYTES)
        if self.unit == SECONDS:
            return duration(self.value)
        return f"{plain(self.value)} {self.unit}"


def unknown(unit: str, *reasons: str) -> Figure:
    """Each reason once; those of what it follows from may have been joined already."""
    return Figure(
        None, unit, "; ".join(dict.fromkeys(one for reason in reasons if reason for one in reason.split("; ")))
    )


def combine(unit: str, count: Callable[..., Number], *figures: Figure) -> Figure:
    """What follows from figures; what cannot be told of one of them cannot be told of it either."""
    known = [figure.value for figure in figures if figure.value is not None]
    if len(known) < len(figures):
        return unknown(unit, *(figure.why for figure in figures if figure.value is None))
    return Figure(count(*known), unit)


def size(number: Number) -> str:
    """Bytes in steps of 1024: 320 KiB, 10 GiB."""
    step = 0
    while abs(number) >= 1024 and step < len(_STEPS) - 1:
        number /= 1024
        step += 1
    return f"{plain(number)} {_STEPS[step]}"


def duration(seconds: Number) -> str:
    return next((f"{plain(seconds / step)} {name}" for step, name in _TIMES if seconds >= step), f"{plain(seconds)} s")


def plain(number: Number) -> str:
    """Whole numbers as they are, others with three digits that matter."""
    if number == int(number):
        return f"{int(number):,}"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
