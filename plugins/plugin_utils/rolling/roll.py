# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the plan and what runs to the waves of a roll, or to all reasons not to begin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.classes import REFUSE, TOGETHER
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.coherence import Coherence, coherence
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.refusals import Refusal, joined, report
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.resuming import Starts, resume, starts
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.settings import read_settings
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.state import Running, Seen, check_known, look
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.telling import SHOWN, notes, resumed
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.telling import summary as told
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.waves import (
    DOWNTIME,
    Course,
    Wave,
    at_once,
    in_halves,
    one_by_one,
)


@dataclass(frozen=True)
class Known:
    """What was found out about the cluster."""

    running: Running
    health: Sequence[Mapping[str, Any]]
    out: frozenset[str]
    left_out: frozenset[str]
    passport: Mapping[str, Any] | None = None
    against: str | None = None  # where the passport lies
    # what ran, by `ran`, when a restart began that may have been interrupted, and when that was
    begun: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Roll:
    waves: tuple[Wave, ...]
    refusals: tuple[Refusal, ...]
    coherence: Coherence
    notes: tuple[str, ...]
    summary: str
    begins: Starts | None = None  # what runs now, when a restart begins


def plan_roll(instances: Sequence[Mapping[str, Any]], known: Known, options: Mapping[str, Any]) -> Roll:
    """instances: of the plan, with name, kind, hosts, processes and facts."""
    settings, refusals = read_settings(options, instances)
    seen = look(instances, known.running, known.health, known.out, known.left_out)
    refusals += check_known(seen, settings.selected, known.health)
    # inside of an instance everything restarts together, so it is enough to know a part of one that is not selected
    old = [item.name for item in seen if item.old]
    proven = {item["name"]: item["facts"] for item in known.passport["instances"]} if known.passport else None
    verdict = coherence(instances, proven, old, known.against)
    wanted = [item for item in seen if item.name in settings.selected and item.known and not item.new]
    now = starts(instances, {item.name for item in wanted}, known.running)
    begun = known.begun if settings.restart and known.begun else {}
    selected = [item.name for item in seen if item.name in settings.selected and not item.new]
    done = resume(begun.get("ran"), now, selected, [item.name for item in wanted if item.needs])
    settings = replace(settings, restart=settings.restart - (done or frozenset()))
    todo = [item for item in wanted if item.name in settings.restart or item.needs]
    course = Course(seen, settings, todo)
    if known.passport and not settings.downtime:
        refusals += _moving(instances, known.passport["instances"], todo)
    refusals = list(dict.fromkeys([*refusals, *_waves(course, verdict)]))
    return Roll(
        waves=() if refusals else tuple(course.waves),
        refusals=tuple(refusals),
        coherence=verdict,
        notes=(*resumed(done, begun.get("began")), *notes(seen, todo, known.out)),
        summary=report(refusals) if refusals else told(course.waves, len(instances), settings),
        begins=now if settings.restart and done is None and not refusals else None,
    )


def lines(roll: Roll) -> list[str]:
    """What is about to happen, to look at."""
    shown = [roll.summary]
    for number, wave in enumerate(roll.waves, 1):
        marks = [mark for mark in ("canary", "downtime", "hold", "swap") if getattr(wave, mark)]
        serving = ", ".join(f"{count} {kind}" for kind, count in wave.serving.items())
        about = f" ({', '.join(marks)})" if marks else ""
        shown.append(f"  wave {number}{about}: {wave.name}; {serving} serve meanwhile")
        shown += [f"    {name} {why}" for name, why in list(wave.why.items())[:SHOWN]]
    return [*shown, *(f"  note: {note}" for note in roll.notes)]


def _waves(course: Course, verdict: Coherence) -> list[Refusal]:
    todo = {item.name for item in course.left}
    separate = verdict.verdict == REFUSE or (verdict.verdict == TOGETHER and not course.settings.mix)
    # one that is out of the routers meets nobody, however old it is
    meeting = [item for item in course.seen if item.old and not item.out]
    if not todo or not separate or not meeting:
        return one_by_one(course)
    refusals = []
    staying = [item.name for item in course.seen if item.name not in todo and not item.out and _maybe_old(item)]
    if staying:
        refusals.append(
            Refusal(
                "coherence-partial",
                joined(staying),
                f"would go on as before beside new ones, with which {_pronoun(staying)} must not meet: "
                f"{_reasons(verdict)}.",
                "roll all instances in one run, without only and --limit.",
            )
        )
    if verdict.verdict == REFUSE:
        return refusals + (at_once(course) if course.settings.downtime else list(_refused(verdict)))
    halves = in_halves(course)
    return refusals + [
        Refusal(item.rule, item.where, f"{item.message} Why: {_reasons(verdict)}.", _mend(item.fix, verdict))
        for item in halves
    ]


def _moving(
    instances: Sequence[Mapping[str, Any]], proven: Sequence[Mapping[str, Any]], todo: Sequence[Seen]
) -> Iterator[Refusal]:
    """Asked at its new address, an instance looks idle while the routers still send to the old one."""
    before = {item["name"]: item for item in proven}
    serving = {item.name for item in todo if item.active and not item.out}
    for item in instances:
        old = before.get(item["name"], {})
        moved = [key for key in ("api_urls", "bootstrap_urls") if old and old.get(key) != item.get(key)]
        if item["name"] in serving and moved:
            yield Refusal(
                "address-changed",
                item["name"],
                f"serves at {joined(old[moved[0]], 3)} and is planned at {joined(item[moved[0]], 3)}.",
                "take it out of the topology, run scale.yml, add it again with its new address and run scale.yml; "
                f"or {DOWNTIME}.",
            )


def _maybe_old(item: Seen) -> bool:
    return item.old or not item.known


def _pronoun(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "they"


def _mend(fix: str, verdict: Coherence) -> str:
    doubtful = verdict.unproven or any(not change.kind.known for change in verdict.worst())
    return (
        f"{fix[:-1]}; if you know that old and new can serve together, say mix=true (-e roll_mix=true)."
        if doubtful
        else fix
    )


def _reasons(verdict: Coherence) -> str:
    said = [change.text() for change in verdict.worst()]
    if verdict.unproven:
        passport = "the last passport does not tell" if verdict.against else "there is no passport that tells"
        said.append(f"{passport} what {joined(verdict.unproven)} ran when it was proven")
    more = len(said) - SHOWN
    return "; ".join(said[:SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _refused(verdict: Coherence) -> Iterator[Refusal]:
    for change in verdict.worst():
        yield Refusal(
            "coherence-refused",
            change.fact,
            f"{change.text()}.",
            f"deploy it as a second cluster beside this one and move the clients there, or {DOWNTIME}.",
        )
