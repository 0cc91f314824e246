# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was seen of one thing while something else was lost: when it served, and for how long it did not.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Callable, Optional

# An answer that takes longer than this is an interruption for whoever waits for it, though it comes in the end.
SLOW = 1.0
_REMEMBERED = 5  # of different answers and reasons


@dataclass(frozen=True)
class Sample:
    asked: float  # seconds, of one clock
    answered: float
    good: bool
    what: str = ""  # who answered, or why nobody did


class Track:
    """Samples of one thing; several threads may look at it."""

    def __init__(self, name: str, patient: bool = False) -> None:
        self.name = name
        # answers of it take their time, so only those that fail tell of an interruption
        self.patient = patient
        self._lock = threading.Lock()
        self._samples: list[Sample] = []
        self._asking: Optional[float] = None
        self._closed = False

    def asking(self, now: float) -> None:
        with self._lock:
            self._asking = now

    def answered(self, now: float, good: bool, what: str = "") -> None:
        with self._lock:
            if self._closed:
                return
            asked = now if self._asking is None else self._asking
            self._samples.append(Sample(asked, now, good, what))
            self._asking = None

    def settled(self, now: float, seconds: float) -> bool:
        """Whether all that was asked in the last seconds was well."""
        with self._lock:
            hangs = self._asking is not None and now - self._asking > max(seconds, SLOW) * (6 if self.patient else 1)
            recent = [sample for sample in self._samples if sample.answered > now - seconds]
            last = self._samples[-1:]
            return not hangs and bool(last) and all(sample.good for sample in [*last, *recent])

    def close(self, now: float) -> None:
        """Nobody waits any longer for an answer that is still missing, and what comes later is not of the drill."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._asking is not None and now - self._asking > SLOW * (30 if self.patient else 1):
                self._samples.append(Sample(self._asking, now, False, f"no answer within {now - self._asking:.0f} s"))
            self._asking = None

    def summary(self, epoch: float = 0.0) -> dict[str, Any]:
        """epoch: what the clock of the samples has to be added to."""
        with self._lock:
            return summary(self.name, self._samples, self.patient, epoch)


def summary(name: str, samples: list[Sample], patient: bool = False, epoch: float = 0.0) -> dict[str, Any]:
    good = [sample for sample in samples if sample.good]
    bad = [sample for sample in samples if not sample.good]
    return {
        "name": name,
        "asked": len(samples),
        "failed": len(bad),
        "since": round(samples[0].answered + epoch, 3) if samples else None,
        # only then was it seen to be lost
        "before": bool(samples) and samples[0].good,
        "recovered": bool(samples) and samples[-1].good,
        "outage": round(outage(samples, patient), 3),
        "answers": _different(sample.what for sample in good),
        "reasons": _different(sample.what for sample in bad),
    }


def outage(samples: list[Sample], patient: bool = False) -> float:
    """The longest time from one good answer to the next in which somebody was not served. It needs one clock only, and
    is never shorter than the interruption was."""
    longest, since, bad = 0.0, None, False
    for sample in samples:
        if not sample.good:
            bad = True
            since = sample.asked if since is None else since
            longest = max(longest, sample.answered - since)
            continue
        hung = not patient and sample.answered - sample.asked > SLOW
        if since is not None and (bad or hung):
            longest = max(longest, sample.answered - since)
        since, bad = sample.answered, False
    return longest


def _different(told: Any) -> list[str]:
    return [what for what in dict.fromkeys(told) if what][:_REMEMBERED]


def ask_until(
    track: Track,
    ask: Callable[[], tuple[bool, str]],
    interval: float,
    stop: threading.Event,
    clock: Callable[[], float],
) -> None:
    while not stop.is_set():
        track.asking(clock())
        good, what = ask()
        track.answered(clock(), good, what)
        stop.wait(interval)
