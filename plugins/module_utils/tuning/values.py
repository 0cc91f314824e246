# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One value of the kernel: what is wanted, what stands there, what to write, and what to put back some day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.tuning import spans

EXACT, AT_LEAST, UNION = "exact", "at least", "union"
Entry = Mapping[str, Any]  # of the record: before, set, path, and added for a union


@dataclass(frozen=True)
class Wish:
    name: str
    path: str
    rule: str
    value: str
    others: Optional[str] = None  # what files of others say at boot
    at_boot: bool = False  # the kernel may start with it (its command line), so what stands there needs no file


@dataclass(frozen=True)
class Step:
    """now -> target, and what the record is to say then."""

    wish: Wish
    now: str
    target: str
    entry: Optional[dict[str, Any]]
    boot: Optional[str]  # what our file has to say at boot; None: it comes about without us


def shown(text: str) -> str:
    """The value in what the kernel prints: [always] madvise never; tabs between several."""
    words = text.split()
    chosen = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]")]
    return chosen[0] if len(chosen) == 1 else " ".join(words)


def same(one: str, other: str) -> bool:
    return one == other or (one.lstrip("-").isdigit() and other.lstrip("-").isdigit() and int(one) == int(other))


def base(now: str, entry: Optional[Entry]) -> str:
    """What would stand there without us. Somebody who changed it since we did has the last word."""
    return str(entry["before"]) if entry and same(now, str(entry["set"])) else now


def plan(wish: Wish, now: str, entry: Optional[Entry]) -> Step:
    return _union(wish, now, entry) if wish.rule == UNION else _single(wish, now, entry)


def _single(wish: Wish, now: str, entry: Optional[Entry]) -> Step:
    stood = base(now, entry)
    target: str = wish.value
    boot: Optional[str] = wish.value
    if wish.rule == AT_LEAST:
        asked, others = int(wish.value), int(wish.others) if wish.others is not None else None
        target = str(max(asked, int(stood), others or 0))
        given = int(stood) if wish.at_boot else others
        boot = None if given is not None and given >= asked else target
    new = None if same(target, stood) else {"before": stood, "set": target, "path": wish.path}
    return Step(wish, now, target, new, boot)


def _union(wish: Wish, now: str, entry: Optional[Entry]) -> Step:
    ours, told = spans.read(wish.value), spans.read(wish.others or "")
    stood = spans.read(without_ours(now, entry))
    foreign = spans.merged([*stood, *told])
    together = spans.text(spans.merged([*foreign, *ours]))
    target = together if spans.without(ours, stood) else spans.text(stood)
    added = spans.without(ours, foreign)
    new = None
    if added:
        new = {"before": spans.text(foreign), "set": target, "path": wish.path, "added": spans.text(added)}
    return Step(wish, now, target, new, together if spans.without(ours, told) else None)


def without_ours(now: str, entry: Optional[Entry]) -> str:
    added = spans.read(str(entry.get("added", ""))) if entry else []
    return spans.text(spans.without(spans.read(now), added))


def restored(now: str, entry: Entry) -> Optional[str]:
    """What to put back; None when somebody changed it since."""
    if "added" in entry:
        return without_ours(now, entry)
    return str(entry["before"]) if same(now, str(entry["set"])) else None
