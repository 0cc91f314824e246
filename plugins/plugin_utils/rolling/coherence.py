# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether old and new instances may serve together while a cluster is rolled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.classes import FREE, ORDER, TOGETHER, Kind, class_of

NONE = "none"  # nothing that runs is another than planned


@dataclass(frozen=True)
class Change:
    fact: str
    before: Any
    after: Any
    kinds: tuple[str, ...]
    instances: tuple[str, ...]
    kind: Kind

    @property
    def cls(self) -> str:
        return self.kind.cls

    def as_dict(self) -> dict[str, Any]:
        return {
            "fact": self.fact,
            "kinds": list(self.kinds),
            "instances": list(self.instances),
            "before": self.before,
            "after": self.after,
            "cls": self.cls,
            "known": self.kind.known,
            "why": self.kind.why,
            "source": self.kind.source,
        }

    def text(self) -> str:
        unknown = "" if self.kind.known else ", taken as such because it is not known"
        return f"{self.fact} {said(self.before)} -> {said(self.after)} ({self.kind.why}{unknown})"


@dataclass(frozen=True)
class Coherence:
    verdict: str  # none | free | together | refuse
    changes: tuple[Change, ...] = ()
    against: str | None = None  # the passport
    unproven: tuple[str, ...] = ()  # instances that the passport does not tell of

    def worst(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.cls == self.verdict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "against": self.against,
            "changes": [change.as_dict() for change in self.changes],
            "unproven": list(self.unproven),
        }


def coherence(
    planned: Sequence[Mapping[str, Any]],
    known: Mapping[str, Mapping[str, Any]] | None,
    old: Iterable[str],
    against: str | None = None,
) -> Coherence:
    """planned: instances with name, kind and facts; known: the facts that were last proven, by instance, None without a
    passport; old: the names of those that run another unit than planned."""
    names = set(old)
    if not names:
        return Coherence(NONE, against=against)
    concerned = [item for item in planned if item["name"] in names]
    told = known or {}
    unproven = tuple(item["name"] for item in concerned if item["name"] not in told)
    found = changes((item, told[item["name"]], item["facts"]) for item in concerned if item["name"] in told)
    return Coherence(
        _verdict(found, [item for item in concerned if item["name"] in unproven]), found, against, unproven
    )


def changes(compared: Iterable[tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]]) -> tuple[Change, ...]:
    """What differs, the worst first. A fact that changes alike for several instances is one change."""
    found: dict[str, list[tuple[Any, Any, Kind, dict[str, str]]]] = {}
    for item, before, after in compared:
        for fact, old, new, kind in _differences(before, after):
            entries = found.setdefault(fact, [])
            same = next((entry for entry in entries if entry[:3] == (old, new, kind)), None)
            if same is None:
                entries.append((old, new, kind, {item["name"]: item["kind"]}))
            else:
                same[3][item["name"]] = item["kind"]
    listed = [
        Change(fact, old, new, tuple(dict.fromkeys(who.values())), tuple(who), kind)
        for fact, entries in found.items()
        for old, new, kind, who in entries
    ]
    return tuple(sorted(listed, key=lambda change: (-ORDER.index(change.cls), change.fact)))


def worst_of(found: Iterable[Change]) -> str:
    classes = {change.cls for change in found}
    return next((cls for cls in reversed(ORDER) if cls in classes), NONE)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any, Kind]]:
    store = bool(before.get("store") or after.get("store"))
    for fact in sorted({*before, *after}):
        old, new = before.get(fact), after.get(fact)
        if old != new:
            yield fact, old, new, class_of(fact, old, new, store)


def _verdict(found: Sequence[Change], unproven: Sequence[Mapping[str, Any]]) -> str:
    """A change on one side only meets the other side as it stays: that pair is what is planned, and what it was before
    has served. So both sides have to change before an old one and a new one must not meet."""
    worst = worst_of(found)
    if worst not in (NONE, FREE, TOGETHER):
        return worst
    sides = {kind for change in found if change.cls == TOGETHER for kind in change.kinds}
    sides |= {item["kind"] for item in unproven}
    return TOGETHER if len(sides) > 1 else FREE


def said(value: Any) -> str:
    """A value in few words, for a sentence."""
    if value is None:
        return "(not given)"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
