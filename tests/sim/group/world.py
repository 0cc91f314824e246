# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with the units of a group and their supervisors, in a time of their own. Only systemd is simulated."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "roles/instance/files"))

from pd_group.model import Clocks, Report
from pd_group.rules import Contact, Group, alone
from pd_group.units import Units

RESTART_SECONDS, LIMIT, INTERVAL = 30.0, 3, 1800.0
STEP = 0.5
GRACE = 30.0
BEGIN = 1000.0
UP, ENDING, WAITING, DOWN, FAILED = "up", "ending", "waiting", "down", "failed"


class Unit:
    """As systemd 252 runs it: Restart=always, RestartSec, a limit of starts that reset-failed sets back."""

    def __init__(self, name: str) -> None:
        self.name, self.state, self.run = name, DOWN, ""
        self.start = self.exit = self.inactive = 0.0
        self.until = 0.0
        self.stops = self.broken = False
        self.code, self.status, self.result = 0, 0, "success"
        self.drain = 0.0  # seconds that it takes to end
        self.starts: list[float] = []
        self.all_starts: list[float] = []
        self.lives: list[tuple[float, float]] = []

    def begin(self, now: float) -> None:
        recent = [moment for moment in self.starts if now - moment < INTERVAL]
        if len(recent) >= LIMIT:
            self.state, self.inactive = FAILED, now
            # how it ended before stays what systemd says, unless it ended well
            self.result = "start-limit-hit" if self.result == "success" else self.result
            return
        self.starts = [*recent, now]
        self.all_starts.append(now)
        self.state, self.run, self.start = UP, f"{self.name}-{len(self.all_starts)}", now
        self.stops, self.exit, self.code = False, 0.0, 0
        if self.broken:
            self.until = now + 2

    def die(self, now: float, code: int = 2, status: int = 9) -> None:
        self.lives.append((self.start, now))
        self.exit = self.inactive = now
        self.code, self.status = code, status
        self.result = "success" if (code, status) == (1, 0) else "exit-code"
        if self.stops:
            self.state = DOWN
        elif (code, status) == (1, 2):
            self.state = FAILED
        else:
            self.state, self.until = WAITING, now + RESTART_SECONDS

    def told_to_end(self, now: float, stops: bool) -> None:
        if self.state in (UP, ENDING):
            self.stops = self.stops or stops
            if self.state == UP:
                self.state, self.until = ENDING, now + self.drain
        elif self.state == WAITING and stops:
            self.state = DOWN

    def tick(self, now: float) -> None:
        if self.state == UP and self.broken and now >= self.until:
            self.die(now, 1, 1)
        elif self.state == ENDING and now >= self.until:
            self.die(now, 1, 0)
        elif self.state == WAITING and now >= self.until:
            self.begin(now)

    def show(self) -> str:
        active = {UP: "active", ENDING: "deactivating", WAITING: "activating", DOWN: "inactive", FAILED: "failed"}
        sub = "auto-restart" if self.state == WAITING else self.state
        return "\n".join(
            [
                f"Id={self.name}",
                f"ActiveState={active[self.state]}",
                f"SubState={sub}",
                f"InvocationID={self.run}",
                f"MainPID={4711 if self.state in (UP, ENDING) else 0}",
                f"ExecMainCode={self.code}",
                f"ExecMainStatus={self.status}",
                f"ExecMainStartTimestampMonotonic={round(self.start * 1e6)}",
                f"ExecMainExitTimestampMonotonic={round(self.exit * 1e6)}",
                f"InactiveEnterTimestampMonotonic={round(self.inactive * 1e6)}",
                f"Result={self.result}",
            ]
        )


class Host:
    def __init__(self, world: World, name: str, units: Iterable[str]) -> None:
        self.world, self.name = world, name
        self.units = {unit: Unit(unit) for unit in units}
        self.folder = world.folder / name
        self.folder.mkdir()
        self.cut_until = self.off_until = 0.0
        self.supervised = True
        self.calls: list[list[str]] = []
        self.boots, self.booted = 0, 0.0
        self.rate = 1.0  # of its clock, by that of the world
        self.begin()

    def begin(self) -> None:
        """The supervisor starts."""
        self.local = Units(list(self.units), self.folder, self.systemctl)
        self.heard, self.began, self.head_left = float("-inf"), self.world.now, False

    def clock(self, moment: float) -> float:
        return (moment - self.booted) * self.rate if moment else 0.0

    @property
    def report(self) -> Report:
        """As it goes over the wire, by the clock of this host."""
        members = [one._replace(start=self.clock(one.start), ended=self.clock(one.ended)) for one in self.local.members]
        return Report(self.name, str(self.boots), self.clock(self.world.now), members)

    @property
    def reached(self) -> bool:
        return self.on and self.supervised and self.world.now >= self.cut_until

    @property
    def on(self) -> bool:
        return self.world.now >= self.off_until

    def systemctl(self, argv: list[str]) -> tuple[int, str]:
        now, verb = self.world.now, argv[0]
        if verb == "show":
            return 0, "\n\n".join(unit.show() for unit in self.units.values()) + "\n"
        self.calls.append(argv)
        for name in argv[argv.index("--") + 1 :]:
            self._do(verb, argv, self.units[name], now)
        return 0, ""

    def _do(self, verb: str, argv: list[str], unit: Unit, now: float) -> None:
        if verb == "stop" or (verb == "kill" and "--signal=TERM" in argv):
            unit.told_to_end(now, verb == "stop")
        elif verb == "kill" and unit.state in (UP, ENDING):
            unit.die(now)
        elif verb == "reset-failed":
            unit.starts = []
            unit.state = DOWN if unit.state == FAILED else unit.state
        elif verb == "start" and unit.state in (DOWN, FAILED, WAITING):
            unit.begin(now)

    def reboot(self, seconds: float) -> None:
        for unit in self.units.values():
            if unit.state in (UP, ENDING):
                unit.lives.append((unit.start, self.world.now))
            unit.state, unit.starts, unit.inactive, unit.exit = DOWN, [], 0.0, 0.0
        self.off_until = self.world.now + seconds

    def tick(self) -> None:
        if not self.on:
            return
        if self.off_until:
            self.off_until = 0.0
            # its clock shows some seconds when the first unit starts; 0 is what has not happened
            self.boots, self.booted = self.boots + 1, self.world.now - 10
            for unit in self.units.values():
                unit.begin(self.world.now)
            self.world.supervisor_begins(self)
        for unit in self.units.values():
            unit.tick(self.world.now)


class World:
    def __init__(self, folder: Path, hosts: int = 2, units: int = 2) -> None:
        self.folder, self.now = folder, BEGIN
        self.hosts = [
            Host(self, f"npu{number}", [f"mooncake-pd-d1-{number * units + rank}.service" for rank in range(units)])
            for number in range(hosts)
        ]
        self.orders: list[str] = []
        self.texts: list[str] = []
        self.group = self._group()

    def _group(self) -> Group:
        self.clocks = Clocks()
        return Group("d1", [host.name for host in self.hosts], GRACE, self.now)

    def supervisor_begins(self, host: Host) -> None:
        host.begin()
        if host is self.hosts[0]:
            before, self.group = self.group, self._group()
            runs = {unit: known for unit, known in before.lives.last.items() if unit not in host.units}
            mine = [unit for unit in before.lives.last if unit in host.units]
            if host.off_until == 0.0 and mine:
                self.group.lives.elder = frozenset(run for run, _moment in runs.values())

    def head_supervisor_restarts(self) -> None:
        head = self.hosts[0]
        before = self.group
        head.begin()
        self.group = self._group()
        self.group.lives.last = dict(before.lives.last)

    def supervisor_leaves(self, host: Host) -> None:
        """It is told to end, and says goodbye."""
        host.supervised = False
        if host is not self.hosts[0]:
            self._see(host, True)
        for other in self.hosts[1:]:
            other.head_left = other.head_left or host is self.hosts[0]

    @property
    def units(self) -> list[Unit]:
        return [unit for host in self.hosts for unit in host.units.values()]

    def find(self, number: int) -> tuple[Host, Unit]:
        host = self.hosts[number % len(self.hosts)]
        units = list(host.units.values())
        return host, units[number // len(self.hosts) % len(units)]

    # ---- time ------------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        for _step in range(round(seconds / STEP)):
            self.step()

    def step(self) -> None:
        self.now = round(self.now + STEP, 3)
        for host in self.hosts:
            host.tick()
        head = self.hosts[0]
        for host in self.hosts:
            if host.on and host.supervised:
                host.local.look(self.now)
        if head.on and head.supervised:
            for host in self.hosts:
                if (host is head or (host.reached and head.reached)) and host.supervised and host.on:
                    self._see(host)
            verdict = self.group.decide(self.now)
            if verdict.text and verdict.text not in self.texts[-1:]:
                self.texts.append(verdict.text)
            for host in self.hosts:
                told = [order for name, order in verdict.orders if name == host.name]
                if host is head or (host.reached and head.reached):
                    self._obey(host, told)
        for host in self.hosts[1:]:
            if host.reached and head.reached:
                host.heard, host.head_left = self.now, False
            elif host.on and host.supervised:
                contact = Contact("head", host.heard, host.began, GRACE, host.head_left)
                self._obey(host, alone(host.local.members, contact, self.now))

    def _see(self, host: Host, leaves: bool = False) -> None:
        if host is self.hosts[0]:
            self.group.see(host.name, host.local.members, self.now)
        else:
            report = self.clocks.here(host.report, self.now)
            self.group.see(host.name, report.members, report.now, leaves)

    def _obey(self, host: Host, told: list) -> None:
        if told:
            host.local.look(self.now)
            self.orders += [f"{order.do} {order.unit}" for order in told]
            host.local.obey(told, self.now)

    # ---- what people do --------------------------------------------------------------------------------------------

    def start_all(self, apart: float = 0.0) -> None:
        """As the role does it: it sets the count of starts back."""
        for host in self.hosts:
            host.supervised = True
            for unit in host.units.values():
                if unit.state in (DOWN, FAILED, WAITING):
                    unit.starts = []
                    unit.begin(self.now)
            if apart:
                self.run(apart)

    def stop_all(self, apart: float = 0.0) -> None:
        for host in self.hosts:
            for unit in host.units.values():
                unit.told_to_end(self.now, True)
            if apart:
                self.run(apart)
        self.run(max(unit.drain for unit in self.units) + 1)

    # ---- what holds ------------------------------------------------------------------------------------------------

    @property
    def states(self) -> set[str]:
        return {unit.state for unit in self.units}

    @property
    def coherent(self) -> bool:
        """No unit that runs has lived together with a run that is over."""
        return not any(
            end > unit.start + 1.0
            for unit in self.units
            if unit.state == UP
            for other in self.units
            if other is not unit
            for _start, end in other.lives
        )
