# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How findings say sizes, lists and limits."""

from __future__ import annotations

from collections.abc import Iterable

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_SHOWN = 4


def size(number: int) -> str:
    """Bytes as a person would write them."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if number >= unit:
            return f"{number / unit:.1f}".rstrip("0").rstrip(".") + f" {name}"
    return f"{number} bytes"


def limit(number: int) -> str:
    return "unlimited" if number < 0 else str(number)


def memory_limit(number: int) -> str:
    return "unlimited" if number < 0 else size(number)


def some(items: Iterable[object], shown: int = _SHOWN) -> str:
    """a, b, c and 3 more"""
    texts = [str(item) for item in items]
    rest = len(texts) - shown
    return ", ".join(texts[:shown]) + (f" and {rest} more" if rest > 0 else "")
