# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a probe could not find out: said, and never taken for good."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.mooncake.pd.plugins.module_utils import masking

Entry = dict[str, str]


class Unknown:
    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, what: str, why: str, raw: str = "") -> None:
        """what: path of the fact, or of what it is a part of; why: one sentence; raw: what was there instead."""
        self.entries.append({"what": what, "why": masking.masked(why), "raw": masking.raw(raw.strip())})


def spans(numbers: Iterable[int]) -> str:
    """3, 5-7"""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)
