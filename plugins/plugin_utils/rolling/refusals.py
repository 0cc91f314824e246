# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a roll does not begin: every reason at once, each with its place, its rule and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Refusal:
    rule: str
    where: str
    message: str
    fix: str

    def text(self) -> str:
        return f"{self.where}: [{self.rule}] {self.message} Mend: {self.fix}"

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def report(refusals: Sequence[Refusal]) -> str:
    head = "1 reason" if len(refusals) == 1 else f"{len(refusals)} reasons"
    lines = [f"  {refusal.text()}" for refusal in refusals]
    return "\n".join([f"Nothing was changed, {head} not to roll:", *lines])


def joined(names: Sequence[str], most: int = 8) -> str:
    """Names for a sentence: a, b and 3 more."""
    more = len(names) - most
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:most])} and {more} more"
