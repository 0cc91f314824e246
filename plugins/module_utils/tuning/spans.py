# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports as spans (first, last), inclusive, and the text that the kernel has for them (8100,8200-8207)."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

Span = tuple[int, int]
LAST = 65535


def parse(given: Any) -> Span:
    """A port, "first-last", or a claim of the plan with `first` and `last`."""
    if isinstance(given, Mapping) and {"first", "last"} <= set(given):
        words = [str(given["first"]), str(given["last"])]
    else:
        words = [word.strip() for word in str(given).split("-")]
    if len(words) not in (1, 2) or not all(word.isascii() and word.isdigit() for word in words):
        raise ValueError(f"{given!r} is no port and no range like 20000-20015")
    first, last = int(words[0]), int(words[-1])
    if not 1 <= first <= last <= LAST:
        raise ValueError(f"{given!r}: ports are 1 to {LAST}, the smaller one first")
    return first, last


def read(text: str) -> list[Span]:
    return merged(parse(part) for part in text.replace("\n", ",").split(",") if part.strip())


def text(spans: Iterable[Span]) -> str:
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in spans)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Sorted; those that meet or touch become one."""
    made: list[Span] = []
    for first, last in sorted(spans):
        if made and first <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(last, made[-1][1]))
        else:
            made.append((first, last))
    return made


def without(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    left = []
    taken = merged(others)
    for first, last in merged(spans):
        begin = first
        for low, high in taken:
            if high < begin or low > last:
                continue
            if low > begin:
                left.append((begin, low - 1))
            begin = high + 1
        if begin <= last:
            left.append((begin, last))
    return left


def inside(spans: Iterable[Span], limits: Iterable[Span]) -> list[Span]:
    """What of the spans lies within the limits."""
    wanted = merged(spans)
    return without(wanted, without([(1, LAST)], limits))
