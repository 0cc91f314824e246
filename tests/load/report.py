# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen, in figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from .judge import CANCELLED, FAULTS, OK


@dataclass(frozen=True)
class Answer:
    started: float  # seconds since the epoch
    seconds: float
    kind: str
    question: str
    why: str = ""
    body: str = ""  # its beginning, of faults only
    id: str = ""  # as the API gave it; vllm-router names prefill and decode in it

    @property
    def ended(self) -> float:
        return self.started + self.seconds


@dataclass
class Report:
    answers: list[Answer]
    marks: list[tuple[float, str]] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Kind -> how many, of every kind that there is."""
        found = Counter(answer.kind for answer in self.answers)
        return {kind: found[kind] for kind in (OK, CANCELLED, *FAULTS)}

    @property
    def faults(self) -> list[Answer]:
        return sorted((answer for answer in self.answers if answer.kind in FAULTS), key=lambda answer: answer.started)

    @property
    def fault_seconds(self) -> float:
        """From the end of the first fault to the end of the last, as clients saw them."""
        ends = [answer.ended for answer in self.faults]
        return max(ends) - min(ends) if ends else 0.0

    def percentile(self, share: float) -> float:
        """Seconds within which this share of the answers that came in full were there; NaN without any."""
        return percentile((answer.seconds for answer in self.answers if answer.kind in (OK, "slow", "wrong")), share)

    def phase(self, name: str) -> Report:
        """What was asked from this mark to the next one. A name that comes again means all of its times."""
        begins = [*self.marks, (math.inf, "")]
        spans = [(at, until) for (at, found), (until, _next) in pairwise(begins) if found == name]
        return Report([a for a in self.answers if any(at <= a.started < until for at, until in spans)])

    def __str__(self) -> str:
        names = list(dict.fromkeys(name for _at, name in self.marks))
        rows = [(name, self.phase(name)) for name in names] if len(names) > 1 else []
        columns = [OK, CANCELLED, *FAULTS]
        lines = [f"{'':12} {'total':>6} " + " ".join(f"{kind:>9}" for kind in columns) + f" {'p50':>7} {'p99':>7}"]
        for name, report in [*rows, ("all", self)]:
            counts = " ".join(f"{report.counts[kind]:>9}" for kind in columns)
            times = f"{report.percentile(0.5):>6.3f}s {report.percentile(0.99):>6.3f}s"
            lines.append(f"{name:12} {len(report.answers):>6} {counts} {times}")
        for answer in self.faults[:5]:
            lines += [f"{answer.kind} after {answer.seconds:.3f} s: {answer.why}", f"  asked {answer.question}"]
            lines += [f"  body {answer.body}"] if answer.body else []
        return "\n".join(lines)


def percentile(values: Iterable[float], share: float) -> float:
    """By nearest rank: a value that was really seen."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan
