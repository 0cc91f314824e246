# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to happen to the units of a group, from what their hosts tell. Pure: it is told the time and asks nobody.

The units of a group meet when they start and cannot meet again: one that has lived together with a run that has ended
has to start anew. A unit that died is started again by systemd after RestartSec, and no sooner. Within that time all
others are ended too, so that systemd starts all of them at about the same time, and its own limit of starts counts
them. Only while the group cannot be whole (a host is silent, a unit failed or was stopped by somebody), those that
cannot serve are held: stopped, and started again when nothing is missing any more.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .model import (
    FAILED,
    HELD,
    HOLD,
    MOVING,
    RELEASE,
    RESTART,
    STOPPED,
    UP,
    WAITING,
    Member,
    Order,
    short,
)

NEVER = float("-inf")
# Clocks of hosts are compared by the fastest message, and a program that lived for less than this has met nobody.
TOLERANCE = 1.0
# Whoever starts units of this group goes on to start the rest within this time, and then nothing is left to do.
SETTLE = 5.0
# The death of one ends others sooner or later; the first one is the cause.
TOGETHER = 15.0
REMEMBERED = 60.0
# A unit fails when systemd would start it again, and others that died with it are started at that moment.
SLACK = 3.0
AGAIN = 3.0  # seconds after which an order that had no effect is given again
FRESH = 3.5  # a host that has told nothing for this long may have changed


class Place(NamedTuple):
    """What a host told last, in the time of whoever decides."""

    contact: float = NEVER
    members: Tuple[Member, ...] = ()
    left: bool = False  # it said goodbye, and was not heard since


class Lives:
    """When runs that are over were last known to be alive."""

    def __init__(self) -> None:
        self.last: Dict[str, Tuple[str, float]] = {}  # unit -> run, last known to be alive at
        self.over: Dict[str, float] = {}
        # runs of an earlier boot of this host that were alive at its end
        self.elder: FrozenSet[str] = frozenset()

    def see(self, member: Member, now: float) -> None:
        known = self.last.get(member.unit)
        alive = member.state in (UP, MOVING) and member.run
        if known and not (alive and known[0] == member.run):
            del self.last[member.unit]
            # a message may come late, so the host knows better when it ended, unless it has booted since
            self._is_over(member.unit, member.ended or known[1])
        if alive:
            self.last[member.unit] = (member.run, now)
        if member.ended:
            self._is_over(member.unit, member.ended)

    def _is_over(self, unit: str, moment: float) -> None:
        self.over[unit] = max(moment, self.over.get(unit, NEVER))


class Verdict(NamedTuple):
    orders: List[Tuple[str, Order]]  # host and order
    text: str  # how the group is, in one sentence


class Group:
    """Decides for a group, on the host of its first rank."""

    def __init__(self, instance: str, hosts: Sequence[str], grace: float, began: float) -> None:
        self.instance, self.grace, self.began = instance, grace, began
        self.places: Dict[str, Place] = {host: Place() for host in hosts}
        self.lives = Lives()
        self.whole_since: Optional[float] = None
        self.given: Dict[Tuple[str, str, str], float] = {}
        self.first = (NEVER, "")  # when and how a unit died that nobody had told to

    def see(self, host: str, members: Sequence[Member], now: float, leaves: bool = False) -> None:
        for member in members:
            self.lives.see(member, now)
            told = (RESTART, member.unit, member.run) in self.given
            if member.state == WAITING and not told and now - self.first[0] > TOGETHER:
                self.first = (now, f"{short(member.unit)} on {host} died ({member.why})")
        self.places[host] = Place(now, tuple(members), leaves)

    def decide(self, now: float) -> Verdict:
        silent = {
            host: place.contact
            for host, place in self.places.items()
            if not place.left and now - max(place.contact, self.began) > self.grace
        }
        orders = list(self._orders(silent, now))
        told = [(host, order) for host, order in orders if self._due(order, now)]
        self.given = {key: moment for key, moment in self.given.items() if now - moment < REMEMBERED}
        return Verdict(told, self._text(silent, orders, now))

    # ---- the rules -------------------------------------------------------------------------------------------------

    def members(self) -> Iterator[Tuple[str, Member]]:
        for host, place in self.places.items():
            for member in place.members:
                yield host, member

    def _orders(self, silent: Dict[str, float], now: float) -> Iterator[Tuple[str, Order]]:
        missing = self._missing(silent)
        # what was started later waits for what is lost or failed, as whoever started it goes on to start that
        failed = (one.ended + SLACK for _host, one in self.members() if one.state == FAILED)
        lost = max((*silent.values(), *failed), default=NEVER)
        latest, cause = self._latest(), self._cause(now)
        for host, member in self.members():
            if host in silent or self.places[host].left:
                continue
            stale = self._stale(member, latest)
            gone = member.state == WAITING
            if missing and (gone or stale or (member.state == UP and member.start < lost)):
                yield host, Order(HOLD, member.unit, member.run, missing)
            elif stale:
                yield host, Order(RESTART, member.unit, member.run, cause or "another unit of its group died")
        if self._can_be_whole(latest, now):
            held = [(host, member) for host, member in self.members() if member.state == HELD]
            self.whole_since = now if self.whole_since is None else self.whole_since
            if held and now - self.whole_since >= SETTLE:
                yield from (
                    (host, Order(RELEASE, one.unit, one.run, "nothing is missing any more")) for host, one in held
                )
        else:
            self.whole_since = None

    def _latest(self) -> List[Tuple[float, str]]:
        """The ends of runs that count, the last two units first: enough to compare each unit with all others."""
        stopped = {other.unit for _host, other in self.members() if other.state == STOPPED}
        ends = [(moment, unit) for unit, moment in self.lives.over.items() if unit not in stopped]
        return sorted(ends, reverse=True)[:2]

    def _stale(self, member: Member, latest: Sequence[Tuple[float, str]]) -> bool:
        if member.state != UP or not member.start:
            return False
        others = (moment for moment, unit in latest if unit != member.unit)
        return member.run in self.lives.elder or any(moment > member.start + TOLERANCE for moment in others)

    def _missing(self, silent: Dict[str, float]) -> str:
        """Why the group cannot be whole now; empty when nothing is in its way."""
        if silent:
            return f"waiting for {', '.join(silent)}, from which nothing was heard for {self.grace:g} s"
        for state, text in ((FAILED, "failed"), (STOPPED, "is stopped")):
            units = [f"{short(one.unit)} on {host}" for host, one in self.members() if one.state == state]
            if units:
                more = f" and {len(units) - 1} more" if len(units) > 1 else ""
                return f"{units[0]}{more} {text}"
        return ""

    def _can_be_whole(self, latest: Sequence[Tuple[float, str]], now: float) -> bool:
        fresh = all(now - place.contact <= FRESH for place in self.places.values())
        return fresh and all(
            one.state == HELD or (one.state == UP and not self._stale(one, latest)) for _host, one in self.members()
        )

    def _due(self, order: Order, now: float) -> bool:
        key = (order.do, order.unit, order.run)
        if now - self.given.get(key, NEVER) < AGAIN:
            return False
        self.given[key] = now
        return True

    def _cause(self, now: float) -> str:
        return self.first[1] if now - self.first[0] < REMEMBERED else ""

    # ---- telling ---------------------------------------------------------------------------------------------------

    def _text(self, silent: Dict[str, float], orders: Sequence[Tuple[str, Order]], now: float) -> str:
        states = [one.state for _host, one in self.members()]
        failed = [(host, one) for host, one in self.members() if one.state == FAILED]
        fresh = all(now - place.contact <= FRESH for place in self.places.values())
        left = [host for host, place in self.places.items() if place.left]
        text = ""
        if silent:
            text = f"{self.instance} waits for {', '.join(silent)}: nothing was heard for {self.grace:g} s"
        elif failed:
            text = self._gave_up(*failed[0], len(failed), self._cause(now))
        elif any(order.do == RESTART for _host, order in orders):
            text = f"{self.instance} starts anew: {self._cause(now) or 'a unit of it was started anew'}"
        elif left:
            text = f"{self.instance} is not watched on {', '.join(left)}: its supervisor was told to end there"
        elif fresh and all(state == UP for state in states):
            text = f"{self.instance} runs: {len(states)} units"
        elif fresh and all(state == STOPPED for state in states):
            text = f"{self.instance} is stopped"
        elif HELD in states and STOPPED in states:
            text = f"{self.instance} is held: {self._missing(silent)}"
        return text

    def _gave_up(self, host: str, one: Member, count: int, cause: str) -> str:
        units = f"{short(one.unit)} on {host}" + (f" and {count - 1} more" if count > 1 else "")
        first = f" First {cause}." if cause and short(one.unit) not in cause else ""
        log = one.unit.replace(".service", ".log")
        return (
            f"{self.instance} gives up, as {units} failed ({one.why}).{first} Mend: read {log} on {host}, mend what "
            "it tells, then run start.yml, or on all hosts of the instance: "
            f"systemctl reset-failed 'mooncake-pd-{self.instance}-*', and systemctl start of its units"
        )


class Contact(NamedTuple):
    """With the host that decides, as another host sees it."""

    head: str
    heard: float
    began: float  # when it began to listen
    grace: float
    left: bool = False  # it said goodbye

    def lost(self, now: float) -> bool:
        return not self.left and now - max(self.heard, self.began) > self.grace


def alone(members: Sequence[Member], contact: Contact, now: float) -> List[Order]:
    """What a host does by itself that does not hear from the host that decides."""
    if not contact.lost(now):
        return []
    why = f"waiting for {contact.head}, from which nothing was heard for {contact.grace:g} s"
    return [
        Order(HOLD, one.unit, one.run, why)
        for one in members
        if one.state == WAITING or (one.state == UP and one.start < contact.heard)
    ]
