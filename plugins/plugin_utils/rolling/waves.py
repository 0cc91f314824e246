# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which instances are taken out, restarted and put back. Pure: what serves is counted along the way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.capacity import KINDS
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.refusals import Refusal, joined
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.settings import Settings
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.state import Seen
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import DECODE, PREFILL

OTHER = {PREFILL: DECODE, DECODE: PREFILL}
DOWNTIME = "say downtime=true (-e roll_downtime=true) to accept that nothing is served meanwhile"


@dataclass(frozen=True)
class Wave:
    instances: tuple[Seen, ...]
    restart: tuple[str, ...]  # the others run as planned already and are only proven
    partners: tuple[str, ...]  # whom the proof may use as the other side
    min_healthy: Mapping[str, int]
    serving: Mapping[str, int]  # while the wave is out
    why: Mapping[str, str]
    canary: bool = False
    downtime: bool = False
    hold: bool = False  # stays out until the next wave puts it back
    swap: bool = False  # taken out in the same moment in which `back` goes in
    back: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.instances)

    @property
    def name(self) -> str:
        return joined(self.names, 4)

    def as_dict(self, number: int) -> dict[str, Any]:
        return {
            "number": number,
            "name": self.name,
            "instances": list(self.names),
            "restart": list(self.restart),
            "kinds": [kind for kind in KINDS if any(item.kind == kind for item in self.instances)],
            "hosts": list(dict.fromkeys(host for item in self.instances for host in item.hosts)),
            "canary": self.canary,
            "downtime": self.downtime,
            "hold": self.hold,
            "swap": self.swap,
            "back": list(self.back),
            "partners": list(self.partners),
            "min_healthy": dict(self.min_healthy),
            "serving": dict(self.serving),
            "why": dict(self.why),
        }


@dataclass
class Course:
    """What serves, and what is still to do, from wave to wave."""

    seen: Sequence[Seen]
    settings: Settings
    left: list[Seen]
    serving: set[str] = field(init=False)
    # serve, run as planned and stay: the first of a kind has shown that what is planned works
    fresh: set[str] = field(init=False)
    waves: list[Wave] = field(default_factory=list)

    def __post_init__(self) -> None:
        todo = {item.name for item in self.left}
        self.serving = {item.name for item in self.seen if item.serves}
        self.fresh = {item.name for item in self.seen if item.serves and item.current and item.name not in todo}

    def count(self, names: Collection[str], kind: str) -> int:
        return sum(item.kind == kind and item.name in names for item in self.seen)

    def counts(self, names: Collection[str]) -> dict[str, int]:
        return {kind: self.count(names, kind) for kind in KINDS}

    def of(self, kind: str) -> list[Seen]:
        return [item for item in self.left if item.kind == kind]

    def idle(self) -> list[Seen]:
        """Those still to do that serve nobody."""
        return [item for item in self.left if item.name not in self.serving]

    def add(
        self,
        chosen: Iterable[Seen],
        *,
        partners: Collection[str] | None = None,
        back: tuple[str, ...] = (),
        downtime: bool = False,
        hold: bool = False,
        canary: bool = False,
    ) -> None:
        """partners: besides the wave's own; by default whoever serves."""
        wave = tuple(item for kind in KINDS for item in chosen if item.kind == kind)
        names = {item.name for item in wave}
        restarts = self.settings.restart
        self.serving |= set(back)
        self.serving -= names
        remaining = self.counts(self.serving)
        may_prove = (self.serving if partners is None else set(partners)) | names
        touched = {item.kind for item in wave} if downtime else set()
        self.waves.append(
            Wave(
                instances=wave,
                restart=tuple(item.name for item in wave if item.name in restarts or not item.stands),
                partners=tuple(item.name for item in self.seen if item.name in may_prove),
                # what an earlier run left out of service is not there to be kept
                min_healthy={
                    kind: 0 if kind in touched else min(self.settings.min_healthy[kind], remaining[kind])
                    for kind in KINDS
                },
                serving=remaining,
                why={item.name: item.why(item.name in restarts) for item in wave},
                canary=canary,
                downtime=downtime,
                hold=hold,
                swap=bool(back),
                back=back,
            )
        )
        self.left = [item for item in self.left if item.name not in names]
        if not hold:
            self.serving |= names
            self.fresh |= names


def one_by_one(course: Course) -> list[Refusal]:
    """What serves nobody first, a canary of each kind, then the rest by batches of both kinds: a prefill that is out
    takes as much away as a prefill and a decode that are."""
    stuck = [kind for kind in KINDS if _stuck(course, kind)]
    refusals = list(_no_partners(course))
    if not course.settings.downtime:
        refusals += [_refused(course, kind) for kind in stuck]
    if refusals:
        return refusals
    while course.left:
        _next(course, stuck)
    return []


def _stuck(course: Course, kind: str) -> bool:
    """Whether none of a kind that serves can be taken out, once what can be mended serves again."""
    serving = course.of(kind) and any(item.name in course.serving for item in course.of(kind))
    return bool(serving) and _reachable(course, kind) - course.settings.min_healthy[kind] < 1


def _reachable(course: Course, kind: str) -> int:
    mended = {item.name for item in course.idle()}
    return course.count(course.serving | mended, kind)


def _refused(course: Course, kind: str) -> Refusal:
    least, most = course.settings.min_healthy[kind], _reachable(course, kind)
    names = [item.name for item in course.of(kind) if item.name in course.serving]
    lost = [item for item in course.seen if item.kind == kind and not item.serves and item not in course.left]
    asides = "".join(f" {_lost(item)}." for item in lost[:8])
    mend = f"mend {joined([item.name for item in lost])} first, or " if lost else "add an instance, or "
    if most <= 1:
        other = OTHER[kind]
        message = (
            f"{joined(names)} is the only one of its kind that serves: without it {other} has no partner and every "
            f"request fails.{asides}"
        )
        return Refusal("no-partner", kind, message, f"{mend}{DOWNTIME}.")
    message = f"{most} can serve and {least} have to (min_healthy), so none can be taken out.{asides}"
    return Refusal("min-healthy", kind, message, f"{mend}lower min_healthy.{kind}, or {DOWNTIME}.")


def _lost(item: Seen) -> str:
    if item.out:
        return f"{item.name} is out of the router"
    state = "is not healthy" if item.healthy is False else "did not say whether it is healthy"
    return f"{item.name} {state}" + (f" ({joined(item.problems, 2)})" if item.problems else "")


def _no_partners(course: Course) -> Iterator[Refusal]:
    for kind in KINDS:
        other = OTHER[kind]
        if course.of(kind) and not _reachable(course, other):
            lost = [item for item in course.seen if item.kind == other]
            message = (
                f"no {other} instance serves or is among those to restart, so nothing could be proven."
                f"{''.join(f' {_lost(item)}.' for item in lost[:8])}"
            )
            names = joined([item.name for item in lost])
            yield Refusal("no-partner", kind, message, f"roll {names} too (only, restart), or start the cluster anew.")


def _next(course: Course, stuck: Sequence[str]) -> None:
    movable = [kind for kind in KINDS if kind not in stuck]
    idle = {kind: [item for item in course.idle() if item.kind == kind] for kind in movable}
    partnered = [kind for kind in movable if idle[kind] and course.count(course.serving, OTHER[kind])]
    if partnered:
        _take(course, [idle[partnered[0]]])
        return
    if any(idle.values()):
        # nothing of either kind serves: the first of both prove each other
        course.add([item for kind in movable for item in idle[kind][:1]], canary=course.settings.canary > 0)
        return
    for kind in movable:
        # one that is only restarted has nothing new to show
        if _canary(course, kind) and any(item.old for item in course.of(kind)):
            _take(course, [course.of(kind)])
            return
    waiting = [item for kind in stuck for item in course.of(kind)]
    if waiting:
        course.add(waiting, downtime=True)
        return
    _take(course, [rest for kind in movable if (rest := course.of(kind))])


def _canary(course: Course, kind: str) -> bool:
    return course.settings.canary > 0 and not course.count(course.fresh, kind)


def _take(course: Course, candidates: Sequence[Sequence[Seen]]) -> None:
    """Of each kind as many as may be out at once, from the front; no two on one host, where they start in turn."""
    chosen: list[Seen] = []
    hosts: set[str] = set()
    for of_kind in candidates:
        kind = of_kind[0].kind
        most = course.settings.batch[kind]
        if _canary(course, kind):
            most = min(most, course.settings.canary)
        spare = course.count(course.serving, kind) - course.settings.min_healthy[kind]
        for item in of_kind:
            serves = item.name in course.serving
            if most == 0 or hosts & {*item.hosts} or (serves and spare < 1):
                continue
            chosen.append(item)
            hosts |= {*item.hosts}
            most -= 1
            spare -= serves
    course.add(chosen, canary=any(_canary(course, of_kind[0].kind) for of_kind in candidates))


def in_halves(course: Course) -> list[Refusal]:
    """Old and new must not meet: one half is renewed, and goes in in the moment in which the other half goes out."""
    sides = [_Side(course, kind) for kind in KINDS]
    settled = all(len(side.fresh) >= side.least for side in sides)
    for side in sides:
        side.divide(settled)
    short = [side for side in sides if not side.possible]
    if short:
        if course.settings.downtime:
            return at_once(course)
        return [side.refusal() for side in short]
    first = [item for side in sides for item in side.first]
    second = [item for side in sides for item in side.second]
    fresh = set(course.fresh)
    if first:
        course.add(first, partners=fresh, hold=bool(second), canary=bool(second) and not fresh)
    if second:
        names = tuple(item.name for item in first)
        course.add(second, partners={*fresh, *names}, back=names)
    return []


def at_once(course: Course) -> list[Refusal]:
    """Everything in one wave, while nothing is served."""
    refusals = list(_no_partners(course))
    if not refusals:
        course.add(list(course.left), partners=set(course.fresh), downtime=True)
    return refusals


class _Side:
    """One kind: what is new already, what still serves as it was, and what serves nobody."""

    def __init__(self, course: Course, kind: str) -> None:
        self.kind = kind
        self.least = course.settings.min_healthy[kind]
        self.fresh = [item for item in course.seen if item.kind == kind and item.name in course.fresh]
        self.old = [item for item in course.of(kind) if item.name in course.serving]
        self.idle = [item for item in course.of(kind) if item.name not in course.serving]
        self.first: list[Seen] = []
        self.second: list[Seen] = []

    def divide(self, settled: bool) -> None:
        """settled: what is new serves well enough by itself, so that all that is old can go at once."""
        everything = len(self.fresh) + len(self.old) + len(self.idle)
        wanted = max(self.least, everything // 2) - len(self.fresh) - len(self.idle)
        number = 0 if settled else min(max(wanted, 0), len(self.old))
        self.first = [*self.idle, *self.old[:number]]
        self.second = self.old[number:]

    @property
    def possible(self) -> bool:
        new = len(self.fresh) + len(self.first)
        return min(len(self.fresh) + len(self.second), new) >= self.least

    def refusal(self) -> Refusal:
        serving = len(self.fresh) + len(self.old)
        message = (
            "old and new must not meet, so one half serves while the other is out. Each half needs "
            f"{self.least} {self.kind} (min_healthy); there are {serving + len(self.idle)}, and {serving} serve now."
        )
        return Refusal(
            "coherence-halves",
            self.kind,
            message,
            f"add instances or lower min_healthy.{self.kind}, or {DOWNTIME}."
            if self.least > 1
            else f"add an instance, or {DOWNTIME}.",
        )
