# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The units of this host: what systemd says of them, and what is done to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

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

Run = Callable[[List[str]], Tuple[int, str]]

PROPERTIES = (
    *("Id", "LoadState", "ActiveState", "SubState", "Job", "Result", "InvocationID", "MainPID"),
    *("ExecMainCode", "ExecMainStatus", "ExecMainStartTimestampMonotonic", "ExecMainExitTimestampMonotonic"),
    "InactiveEnterTimestampMonotonic",
)
LOOK_AT_LEAST = 5.0
# Those who are told to end because another one died have no request that could still succeed. RestartSec of the units
# is longer: all of them are gone when the first one starts again.
PATIENCE = 4.0
PREVENTS = 2  # RestartPreventExitStatus of the units
RESTART_SECONDS = 30.0  # RestartSec of the units
# A unit that was stopped fails, if it does, when it has ended. One that systemd gives up fails once more, when it would
# have been started again, and its Result says only how it ended.
GIVEN_UP_AFTER = RESTART_SECONDS - 1


def systemctl(argv: List[str]) -> Tuple[int, str]:
    try:
        done = subprocess.run(["systemctl", *argv], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr.strip()


def say(text: str) -> bool:
    """False where the log cannot be written, as on a full disk. Nothing of it is kept, so it never ends the program."""
    line = f"{text}\n".encode()
    try:
        return os.write(1, line) == len(line)
    except OSError:
        return False


class Kept:
    """A file with what this program must not forget. It goes on without one, as on a full disk, from its memory."""

    def __init__(self, path: Path) -> None:
        self.path, self.trouble = path, ""

    def read(self) -> Dict[str, Any]:
        try:
            content = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def write(self, content: Mapping[str, Any]) -> bool:
        fresh = self.path.with_name(f".{self.path.name}.new")
        try:
            fresh.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
            fresh.replace(self.path)
        except OSError as error:
            if str(error) != self.trouble and say(f"{self.path} cannot be written, and is tried again: {error}"):
                self.trouble = str(error)
            return False
        self.trouble = ""
        return True


class Units:
    def __init__(self, names: Sequence[str], folder: Path, run: Run = systemctl) -> None:
        self.names, self.file, self.run = list(names), Kept(folder / "held.json"), run
        self.held: Dict[str, List[str]] = self.file.read()  # unit -> run that was stopped, why
        self.kept = True
        self.ending: Dict[str, Tuple[str, float]] = {}  # unit -> run that was told to end, when it is killed
        self.members: List[Member] = []
        self.programs: Dict[int, str] = {}  # main processes of the last look, and when each was started
        self.looked = 0.0

    def watch(self, now: float) -> bool:
        """Look only where something may have changed: to ask systemd for many units costs more than all the rest."""
        quiet = not self.ending and all(one.state == UP for one in self.members) and now - self.looked < LOOK_AT_LEAST
        if (
            quiet
            and self.members
            and self.programs
            and all(at and started(pid) == at for pid, at in self.programs.items())
        ):
            return True
        return self.look(now)

    def look(self, now: float) -> bool:
        """False when systemd does not answer; then nothing new is known."""
        code, text = self.run(["show", "--no-pager", f"--property={','.join(PROPERTIES)}", "--", *self.names])
        blocks = [block for block in text.strip("\n").split("\n\n") if block.strip()]
        if code != 0 or len(blocks) != len(self.names):
            return False
        shown = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in blocks]
        if not self.members:
            self._forget({name: one.get("InvocationID", "") for name, one in zip(self.names, shown)})
        self.members = [self._member(name, one) for name, one in zip(self.names, shown)]
        pids = [int(one["MainPID"]) for one in shown if one.get("MainPID", "0") not in ("", "0")]
        self.programs, self.looked = {pid: started(pid) for pid in pids}, now
        self._let_go()
        if not self.kept:
            self._keep()
        self._kill_late(now)
        return True

    def stays(self) -> bool:
        """Whether this host goes on running, as far as systemd says so."""
        code, text = self.run(["show", "--property=SystemState"])
        state = text.strip().rpartition("=")[2]
        return code == 0 and state not in ("", "stopping")

    def _forget(self, runs: Mapping[str, str]) -> None:
        """What was started since, or belongs to an instance of this name that was removed, is not held."""
        held = {unit: kept for unit, kept in self.held.items() if runs.get(unit) == kept[0]}
        if held != self.held:
            self.held = held
            self._keep()

    def _member(self, name: str, shown: Dict[str, str]) -> Member:
        state, why = self._state(name, shown)
        return Member(
            name,
            state,
            shown.get("InvocationID", ""),
            seconds(shown, "ExecMainStartTimestampMonotonic"),
            seconds(shown, "InactiveEnterTimestampMonotonic"),
            self.held[name][1] if state == HELD else why,
        )

    def _state(self, name: str, shown: Dict[str, str]) -> Tuple[str, str]:
        active, sub = shown.get("ActiveState", ""), shown.get("SubState", "")
        ended = ended_how(shown)
        job = shown.get("Job", "0") not in ("", "0")
        if active in ("active", "reloading", "refreshing"):
            return UP, ""
        if active == "activating" and sub.startswith("auto-restart"):
            return WAITING, ended
        if active == "activating":
            return (UP if shown.get("MainPID", "0") != "0" else MOVING), ""
        if active not in ("inactive", "failed") or job:
            return MOVING, ended
        if name in self.held:
            return HELD, ""
        return (FAILED if active == "failed" and gave_up(shown) else STOPPED), ended

    def _let_go(self) -> None:
        """Whoever has started a unit meanwhile: it is not held any more."""
        free = [
            one.unit
            for one in self.members
            if one.state == UP and one.unit in self.held and one.run != self.held[one.unit][0]
        ]
        for unit in free:
            del self.held[unit]
        if free:
            self._keep()

    def _keep(self) -> None:
        self.kept = self.file.write(self.held)

    # ---- orders ----------------------------------------------------------------------------------------------------

    def obey(self, orders: Sequence[Order], now: float) -> None:
        """All of a kind at once: one after the other, the last would end when the first starts again."""
        known = {(one.unit, one.run): one for one in self.members}
        met = [(order, known[order.unit, order.run]) for order in orders if (order.unit, order.run) in known]
        self._end([(one, o.why) for o, one in met if o.do == RESTART and one.state == UP], now)
        self._hold([(one, o.why) for o, one in met if o.do == HOLD and one.state in (UP, WAITING)])
        self._release([(one, o.why) for o, one in met if o.do == RELEASE and one.state == HELD])

    def _end(self, chosen: Sequence[Tuple[Member, str]], now: float) -> None:
        fresh = [(one, why) for one, why in chosen if self.ending.get(one.unit, ("", 0.0))[0] != one.run]
        for one, why in fresh:
            say(f"{short(one.unit)} is ended and starts anew: {why}")
            self.ending[one.unit] = (one.run, now + PATIENCE)
        self._systemctl(["kill", "--kill-who=main", "--signal=TERM"], [one.unit for one, _why in fresh])

    def _kill_late(self, now: float) -> None:
        late = []
        runs = {one.unit: one for one in self.members}
        for unit, (run, until) in list(self.ending.items()):
            one = runs.get(unit)
            if one is None or one.run != run or one.state not in (UP, MOVING):
                del self.ending[unit]
            elif now >= until:
                say(f"{short(unit)} does not end within {PATIENCE:g} s and is killed")
                self.ending[unit] = (run, now + PATIENCE)
                late.append(unit)
        self._systemctl(["kill", "--signal=KILL"], late)

    def _hold(self, chosen: Sequence[Tuple[Member, str]]) -> None:
        for one, why in chosen:
            say(f"{short(one.unit)} is stopped: {why}")
            self.held[one.unit] = [one.run, why]
        if chosen:
            # first, so that a stop that is ours is never taken for somebody else's
            self._keep()
        self._systemctl(["stop", "--no-block"], [one.unit for one, _why in chosen])

    def _release(self, chosen: Sequence[Tuple[Member, str]]) -> None:
        for one, why in chosen:
            say(f"{short(one.unit)} is started: {why}")
        units = [one.unit for one, _why in chosen]
        # they did not die by themselves, so their starts up to now do not count
        if units:
            self.run(["reset-failed", "--", *units])
        self._systemctl(["start", "--no-block"], units)

    def _systemctl(self, argv: List[str], units: Sequence[str]) -> None:
        if not units:
            return
        code, text = self.run([*argv, "--", *units])
        if code != 0:
            say(f"systemctl {' '.join([*argv, *units])} failed: {text}")


def started(pid: int) -> str:
    """When the process was started, in ticks since the boot, which with its number names it; empty when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def seconds(shown: Dict[str, str], key: str) -> float:
    value = shown.get(key, "")
    return int(value) / 1e6 if value.isdigit() else 0.0


def gave_up(shown: Dict[str, str]) -> bool:
    """Whether systemd does not start a failed unit any more; else it was stopped and did not end well."""
    if shown.get("ExecMainCode") == "1" and shown.get("ExecMainStatus") == str(PREVENTS):
        return True
    ended = seconds(shown, "ExecMainExitTimestampMonotonic")
    late = seconds(shown, "InactiveEnterTimestampMonotonic") - ended
    return shown.get("Result") in ("start-limit-hit", "resources") or not ended or late > GIVEN_UP_AFTER


def ended_how(shown: Dict[str, str]) -> str:
    code, status = shown.get("ExecMainCode", "0"), shown.get("ExecMainStatus", "0")
    if code == "1":
        return f"exit status {status}"
    if code in ("2", "3"):
        try:
            return f"killed by {signal.Signals(int(status)).name}"
        except ValueError:
            return f"killed by signal {status}"
    return f"result {shown.get('Result', 'unknown')}"
