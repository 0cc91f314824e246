# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prefill against decode: how many there are, how many there were, and when a change looks like a mistake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import DECODE, PREFILL

KINDS = (PREFILL, DECODE)
# of the instances, and of the workers, that a kind has to keep; below it a change looks like a slip of the pen
KEEP = 0.5
_WORKERS = ("dp", "tp", "pp", "pcp")


@dataclass(frozen=True)
class Count:
    instances: Mapping[str, int]
    workers: Mapping[str, int]

    def as_dict(self) -> dict[str, Any]:
        return {**self.instances, "workers": dict(self.workers)}

    def text(self) -> str:
        prefill, decode = (self.instances[kind] for kind in KINDS)
        shared = gcd(prefill, decode) or 1
        reduced = f", {prefill // shared}:{decode // shared}" if shared > 1 else ""
        workers = " to ".join(str(self.workers[kind]) for kind in KINDS)
        return f"{prefill} prefill to {decode} decode{reduced} (workers {workers})"


@dataclass(frozen=True)
class Ratio:
    text: str
    now: Count
    before: Count | None
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "now": self.now.as_dict(),
            "before": self.before.as_dict() if self.before else None,
            "warnings": list(self.warnings),
        }


def count(instances: Iterable[Mapping[str, Any]]) -> Count:
    """Of instances with kind and shape."""
    numbers, workers = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    for item in instances:
        numbers[item["kind"]] += 1
        workers[item["kind"]] += prod(item["shape"][size] for size in _WORKERS)
    return Count(numbers, workers)


def ratio(instances: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]] | None = None) -> Ratio:
    """before: the instances of another time, None when nothing is known of one."""
    now, then = count(instances), None if before is None else count(before)
    text = f"P:D is {now.text()}"
    if then is not None and then != now:
        text += f"; before it was {then.text()}"
    return Ratio(f"{text}.", now, then, tuple(_warnings(now, then)))


def _warnings(now: Count, then: Count | None) -> Iterator[str]:
    for kind in KINDS:
        left = now.instances[kind]
        if not left:
            yield f"No {kind} instance is left, so nothing can be served."
        elif then is not None:
            for what, here, there in (
                (f"{kind} instances", left, then.instances[kind]),
                (f"workers of {kind}", now.workers[kind], then.workers[kind]),
            ):
                if here < there * KEEP:
                    yield f"{here} {what} are left of {there}, less than {KEEP:.0%}."
                    break
