# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many names in few words: npu[1-40,43]."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

WIDEST = 100
FLEET = "the fleet"

# literal text stands at even places, numbers at odd ones
_NUMBER = re.compile(r"([0-9]{1,18})")
_Parts = tuple[str, ...]


def compressed(names: Iterable[str]) -> str:
    """All names, those that differ in a number only as one: the last number first, then the ones before it."""
    told: list[_Parts] = [tuple(_NUMBER.split(name)) for name in dict.fromkeys(names)]
    most = max((len(parts) for parts in told), default=0)
    for place in range(most - 2, 0, -2):
        told = _folded(told, place)
    return ",".join("".join(parts) for parts in told)


def shortened(names: Sequence[str], widest: int = WIDEST) -> str:
    """As compressed; what would be wider than that ends in how many more there are."""
    full = compressed(names)
    if len(full) <= widest:
        return full
    least, most = 1, len(names)
    while most - least > 1:
        middle = (least + most) // 2
        if len(compressed(names[:middle])) <= widest:
            least = middle
        else:
            most = middle
    more = len(names) - least
    return compressed(names[:least]) + (f" and {more} more" if more else "")


def _folded(told: Iterable[_Parts], place: int) -> list[_Parts]:
    """Names in which everything but the number at this place is equal become one."""
    alike: dict[tuple[_Parts, _Parts], list[str]] = {}
    for parts in told:
        # a name without that number is alone
        alike.setdefault((parts[:place], parts[place + 1 :]), []).extend(parts[place : place + 1])
    return [(*before, *([_ranges(numbers)] if numbers else []), *after) for (before, after), numbers in alike.items()]


def _ranges(numbers: Sequence[str]) -> str:
    if len(numbers) == 1:
        return numbers[0]
    runs: list[list[str]] = []
    for number in sorted(numbers, key=lambda text: (int(text), len(text))):
        # 009 and 010 are neighbours, 9 and 010 are not
        if runs and str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][-1])) == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    return "[" + ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) + "]"
