# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a unit and what is done to it, how both go over the wire and from clock to clock: pure, no I/O."""

from __future__ import annotations

import json
from collections import deque
from typing import Any, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

UP = "up"  # its program runs
MOVING = "moving"  # on the way up or down
WAITING = "waiting"  # it died, and systemd is about to start it again
HELD = "held"  # a supervisor has stopped it and starts it again
STOPPED = "stopped"  # somebody has stopped it, or it was never started
FAILED = "failed"  # it died, and systemd does not start it any more
STATES = (UP, MOVING, WAITING, HELD, STOPPED, FAILED)

RESTART = "restart"
HOLD = "hold"
RELEASE = "release"
ORDERS = (RESTART, HOLD, RELEASE)

VERSION = 1
LONGEST = 1 << 20  # of a message, in bytes

DRIFT = 1e-4  # by how much of its time a clock runs away from another one, at most
SAMPLES = 20


class Member(NamedTuple):
    """A unit as its host sees it. Times are seconds on one clock, 0 for what has not happened since the boot."""

    unit: str
    state: str
    run: str = ""  # invocation of systemd, of the present run or of the last one
    start: float = 0.0  # when the program of this run was started
    ended: float = 0.0  # when the run before it, or the last one, ended
    why: str = ""  # how the last run ended, or why it is held


class Order(NamedTuple):
    """What one unit's host is told; it counts for that run of the unit only."""

    do: str
    unit: str
    run: str
    why: str


class Report(NamedTuple):
    host: str
    boot: str
    now: float  # the clock of the host
    members: List[Member]
    leaves: bool = False  # its supervisor ends because it was told to, and the host stays


class Told(NamedTuple):
    """What the host that decides tells another one."""

    orders: List[Order]
    leaves: bool = False


def short(unit: str) -> str:
    """mooncake-pd-d1-17.service as people call it: d1-17."""
    name = unit[: -len(".service")] if unit.endswith(".service") else unit
    return name[len("mooncake-pd-") :] if name.startswith("mooncake-pd-") else name


class Wire:
    """Messages of one instance of one cluster: a line of JSON each. What belongs to another one is not understood."""

    def __init__(self, cluster: str, instance: str) -> None:
        self.who: Dict[str, Any] = {"version": VERSION, "cluster": cluster, "instance": instance}

    def report(self, report: Report) -> bytes:
        return self._line({"report": report._asdict()})

    def orders(self, orders: Sequence[Order], leaves: bool = False) -> bytes:
        return self._line({"orders": list(orders), "leaves": leaves})

    def _line(self, content: Dict[str, Any]) -> bytes:
        return json.dumps({**self.who, **content}, separators=(",", ":")).encode() + b"\n"

    def _read(self, line: bytes) -> Optional[Dict[str, Any]]:
        try:
            told = json.loads(line)
        except ValueError:
            return None
        same = isinstance(told, dict) and all(told.get(key) == value for key, value in self.who.items())
        return told if same else None

    def read_report(self, line: bytes) -> Optional[Report]:
        told: Any = (self._read(line) or {}).get("report")
        try:
            members = [_member(row) for row in told["members"]]
            leaves = told.get("leaves") is True
            return Report(str(told["host"]), str(told["boot"]), float(told["now"]), members, leaves)
        except (TypeError, KeyError, ValueError):
            return None

    def read_orders(self, line: bytes) -> Optional[Told]:
        told: Any = self._read(line) or {}
        try:
            return Told([_order(row) for row in told["orders"]], told.get("leaves") is True)
        except (TypeError, KeyError, ValueError):
            return None


class Clock:
    """The clock of another host since its boot. A moment is converted once, so that it stays where it is."""

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self.seen: Deque[Tuple[float, float]] = deque(maxlen=SAMPLES)  # when, how far apart by that message
        self.starts: Dict[float, float] = {}
        self.ends: Dict[float, float] = {}

    def here(self, report: Report, received: float) -> Report:
        self.seen.append((received, received - report.now))
        # no message comes before it was sent, so the fastest of the last ones tells best how far the clocks are apart
        offset = min(apart + DRIFT * (received - at) for at, apart in self.seen)

        def keep(known: Dict[float, float], moments: Sequence[float], doubt: float) -> Dict[float, float]:
            new = {moment: moment + offset + doubt * (report.now - moment) for moment in moments}
            # what has not happened has no time
            return {moment: known.get(moment, at) if moment else 0.0 for moment, at in new.items()}

        # what happened long ago may have been sooner or later: then no unit is said to have outlived another one
        self.starts = keep(self.starts, [one.start for one in report.members], DRIFT)
        self.ends = keep(self.ends, [one.ended for one in report.members], -DRIFT)
        members = [one._replace(start=self.starts[one.start], ended=self.ends[one.ended]) for one in report.members]
        return report._replace(now=received, members=members)


class Clocks:
    """Those of all other hosts."""

    def __init__(self) -> None:
        self.clocks: Dict[str, Clock] = {}

    def here(self, report: Report, received: float) -> Report:
        """The report in the time of this host; it was told when it came, whatever the other clock shows."""
        clock = self.clocks.get(report.host)
        if clock is None or clock.boot != report.boot:
            clock = self.clocks[report.host] = Clock(report.boot)
        return clock.here(report, received)


def _member(row: Any) -> Member:
    unit, state, run, start, ended, why = row
    if state not in STATES:
        raise ValueError(state)
    return Member(str(unit), state, str(run), float(start), float(ended), str(why))


def _order(row: Any) -> Order:
    do, unit, run, why = row
    if do not in ORDERS:
        raise ValueError(do)
    return Order(do, str(unit), str(run), str(why))
