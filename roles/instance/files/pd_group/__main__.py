# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python3 -m pd_group`: the supervisor of one instance on one host. Its arguments are the plan's."""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from .links import Hub, Uplink
from .model import MOVING, UP, Member, Order, Report, Wire
from .rules import Contact, Group, Place, alone
from .units import Kept, Units, say

TICK = 0.5
DECIDE = 0.2  # seconds between decisions, however many hosts there are to hear
REPORT = 1.5  # a host where nothing changes tells so this often, and is answered as often


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Memory:
    """Which runs were alive together, kept on disk: a restart of this program or of its host must not forget it."""

    def __init__(self, file: Path, boot: str) -> None:
        self.file, self.boot = Kept(file), boot
        self.written: Tuple[Dict[str, str], List[str]] = ({}, [])

    def recall(self, group: Group, own: List[str]) -> None:
        told = self.file.read()
        for host in told.get("left") or []:
            if host in group.places:
                group.places[host] = Place(left=True)
        runs = told.get("runs") or {}
        if told.get("boot") == self.boot:
            group.lives.last = {unit: (run, float(told.get("at", 0.0))) for unit, run in runs.items()}
        elif any(unit in runs for unit in own):
            # all that ran here has ended with the boot
            group.lives.elder = frozenset(run for unit, run in runs.items() if unit not in own)

    def keep(self, group: Group, now: float) -> None:
        runs = {one.unit: one.run for _host, one in group.members() if one.state in (UP, MOVING) and one.run}
        left = [host for host, place in group.places.items() if place.left]
        fresh = (runs, left)
        if fresh != self.written and self.file.write({"boot": self.boot, "at": now, "runs": runs, "left": left}):
            self.written = fresh


class Head:
    """On the host of the first rank: it decides, and tells the others."""

    def __init__(self, options: argparse.Namespace, wire: Wire, units: Units, boot: str) -> None:
        self.host, self.units = options.host, units
        addresses = dict(pair.split("=", 1) for pair in options.hosts)
        self.group = Group(options.instance, list(addresses), options.grace, time.monotonic())
        self.memory = Memory(options.state / "runs.json", boot)
        self.memory.recall(self.group, units.names)
        others = {host: at for host, at in addresses.items() if host != options.host}
        self.hub = Hub(wire, options.listen, others) if options.listen else None
        self.text = ""
        self.acted = self.answered = 0.0

    def step(self, looked: bool, until: float) -> None:
        now = time.monotonic()
        if looked:
            self.group.see(self.host, self.units.members, now)
        self._act(now)
        left = until - time.monotonic()
        if self.hub is None:
            time.sleep(max(0.0, left))
            return
        new = False
        while left > 0:
            pause = min(left, max(0.0, self.acted + DECIDE - time.monotonic())) if new else left
            for report in self.hub.hear(pause):
                self.group.see(report.host, report.members, report.now, report.leaves)
                new = True
            if new and time.monotonic() - self.acted >= DECIDE:
                self._act(time.monotonic())
                new = False
            left = until - time.monotonic()

    def _act(self, now: float) -> None:
        self.acted = now
        verdict = self.group.decide(now)
        told: Dict[str, List[Order]] = {host: [] for host in self.group.places}
        for host, order in verdict.orders:
            told[host].append(order)
        obey(self.units, told.pop(self.host), now)
        if now - self.answered >= REPORT:
            self.answered = now
            hosts = list(told)
        else:
            hosts = [host for host, orders in told.items() if orders]
        for host in hosts:
            if self.hub:
                self.hub.tell(host, told[host])
        if verdict.text and verdict.text != self.text and say(verdict.text):
            self.text = verdict.text
        self.memory.keep(self.group, now)

    def leave(self) -> None:
        for host in self.group.places:
            if self.hub:
                self.hub.tell(host, [], leaves=True)


class Follower:
    """On every other host: it tells the head and does what it says, and acts alone when it does not hear from it."""

    def __init__(self, options: argparse.Namespace, wire: Wire, units: Units, boot: str) -> None:
        self.options, self.units, self.boot = options, units, boot
        self.uplink = Uplink(wire, options.head, options.address)
        self.began = time.monotonic()
        self.told: Tuple[float, List[Member]] = (0.0, [])

    def step(self, looked: bool, until: float) -> None:
        options, now = self.options, time.monotonic()
        members = self.units.members
        if looked and (members != self.told[1] or now - self.told[0] >= REPORT or not self.uplink.lines):
            self.told = (now, members)
            self.uplink.tell(Report(options.host, self.boot, now, members))
        head = f"{options.head[0]}:{options.head[1]}"
        contact = Contact(head, self.uplink.contact, self.began, options.grace, self.uplink.left)
        obey(self.units, alone(members, contact, now), now)
        while True:
            left = until - time.monotonic()
            obey(self.units, self.uplink.hear(left), time.monotonic())
            if left <= 0:
                return

    def leave(self) -> None:
        self.uplink.tell(Report(self.options.host, self.boot, time.monotonic(), self.units.members, leaves=True))


def obey(units: Units, orders: List[Order], now: float) -> None:
    # what was seen half a second ago may not be true any more
    if orders and units.look(now):
        units.obey(orders, now)


def address(text: str) -> Tuple[str, int]:
    host, _colon, port = text.rpartition(":")
    return host, int(port)


def parse(argv: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="pd_group", description=__doc__)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--instance", required=True)
    parser.add_argument("--host", required=True, help="this host, by its name in the plan")
    parser.add_argument("--grace", type=float, required=True, help="seconds without contact until a host is given up")
    parser.add_argument("--hosts", nargs="+", default=[], help="on the head: all hosts, NAME=ADDRESS")
    parser.add_argument("--listen", type=address, help="on the head of several hosts: ADDRESS:PORT")
    parser.add_argument("--head", type=address, help="on every other host: ADDRESS:PORT of the head")
    parser.add_argument("--address", default="", help="on every other host: its own address")
    parser.add_argument("--units", nargs="+", required=True, help="the units of the instance on this host")
    parser.add_argument("--state", type=Path, default=Path(os.environ.get("STATE_DIRECTORY", ".")))
    return parser.parse_args(argv)


def main(argv: Optional[List[str]] = None) -> None:
    options = parse(argv)
    told: List[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    units = Units(options.units, options.state)
    boot = boot_id()
    wire = Wire(options.cluster, options.instance)
    side = (Follower if options.head else Head)(options, wire, units, boot)
    say(f"watching {options.instance} of {options.cluster}: {len(options.units)} units of {options.host}")
    while not told:
        now = time.monotonic()
        side.step(units.watch(now), now + TICK)
    # one that goes down with its host is missed, as its units are
    if units.stays():
        side.leave()


if __name__ == "__main__":
    main()
