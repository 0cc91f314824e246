# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Watch the processes of one host until all are proven ready, or one has failed for good."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils import notes, procs, readiness, sockets, systemd
from ansible_collections.mooncake.pd.plugins.module_utils.readiness import Expected, First, Port, State
from ansible_collections.mooncake.pd.plugins.module_utils.signatures import CauseFinder, speaker
from ansible_collections.mooncake.pd.plugins.module_utils.tuning import effective
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree
from ansible_collections.mooncake.pd.plugins.module_utils.unit_log import Log, open_log, stem, tail

READY, FAILED, WAITING = "ready", "failed", "waiting"

_HEALTH_TIMEOUT = 2.0
_UNIT_REFRESH = 5.0  # between two looks at systemd while every main process is there
_GRACE = 0.5  # lets a failing process finish its traceback
# on a timeout, the last lines of so many logs stand in the message
_TOLD, _LAST_LINES = 2, 3
_HELD = " held by "
_NO_CAUSE = (
    "The log names no cause. Run the preflight (mooncake_master says nothing when its RPC port is taken) and see"
    " `systemctl status`."
)
_NO_HUGEPAGES = (
    "Check that MC_STORE_USE_HUGEPAGE is in the environment of the unit (systemctl show -p Environment) and that the"
    " pages of MC_STORE_HUGEPAGE_SIZE were free before the start (/sys/kernel/mm/hugepages/*/free_hugepages)."
)


def ask_health(
    url: str, wanted: Mapping[str, Any], states: Sequence[State] = (), timeout: float = _HEALTH_TIMEOUT
) -> tuple[Optional[str], Optional[State]]:
    """None when it answers 200 with the wanted JSON values, else the last answer in short; and which state it tells."""
    # A proxy of the environment must not answer for the process.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    state, wrong = None, None
    try:
        with opener.open(url, timeout=timeout) as answer:
            body = answer.read(1 << 16)
            if answer.status != 200:
                return f"{url} answered {answer.status}", None
        if wanted or states:
            told = json.loads(body)
            wrong = readiness.json_missing(wanted, told)
            if states and not wrong:
                state, wrong = readiness.state_of(states, told)
        return (f"{url}: {wrong}", None) if wrong else (None, state)
    except urllib.error.HTTPError as error:
        return f"{url} answered {error.code}", None
    except ValueError:
        return f"{url}: the answer is no JSON", None
    except Exception as error:  # whatever a half-started server does, it is not healthy
        return f"{url}: {sockets.first_error(error)}", None


class Proc(Tree):
    """/proc, wherever it lies."""

    def at(self, path: str) -> str:
        return os.path.join(self.root, path[len("/proc/") :])


class Watched:
    """One process: what is expected of it and what has been seen."""

    def __init__(
        self,
        expected: Expected,
        fatal_patterns: Sequence[re.Pattern[str]],
        note_patterns: Mapping[str, re.Pattern[str]],
    ) -> None:
        self.expected = expected
        self.unit = systemd.Unit(expected.unit)
        self.first: Optional[First] = None
        self.log: Optional[Log] = None
        self.counts = [0] * len(expected.lines)
        self.finder = CauseFinder(fatal_patterns)
        self.note_patterns = note_patterns
        self.noted: dict[str, str] = {}
        self.proven = False  # an earlier wait saw this very start become ready: its lines may be rotated away since
        self.dead: Optional[str] = None
        self.missing: list[str] = ["not looked at yet"]
        self.seconds: Optional[float] = None
        self.limits_of: set[int] = set()  # processes whose limits are seen
        self.way_out: Optional[str] = None
        self.hugepages: Optional[int] = None
        self.state: Optional[State] = None

    @property
    def name(self) -> str:
        return self.expected.name

    @property
    def invocation(self) -> Optional[str]:
        return (self.first.invocation if self.first else self.unit.InvocationID) or None

    def feed(self, lines: Sequence[str]) -> None:
        readiness.count(self.expected, self.counts, lines)
        self.finder.feed(lines)
        for line in lines if self.note_patterns else ():
            self.noted.update({name: line for name, pattern in self.note_patterns.items() if pattern.search(line)})

    @property
    def proof(self) -> str:
        """This start and what its log had to say."""
        lines = repr([(pattern.pattern, wanted) for pattern, wanted in self.expected.lines])
        return f"{self.invocation} {hashlib.sha256(lines.encode()).hexdigest()[:12]}"

    @property
    def failed(self) -> bool:
        return bool(self.dead or (self.finder.proof and not self.proven))

    @property
    def ready(self) -> bool:
        return not self.missing and not self.failed


class Watcher:
    def __init__(
        self,
        processes: Sequence[Expected],
        run: systemd.Run,
        *,
        log_dir: Optional[str] = None,
        fatal_patterns: Sequence[re.Pattern[str]] = (),
        note_patterns: Optional[Mapping[str, re.Pattern[str]]] = None,
        seen: Optional[Mapping[str, Any]] = None,
        proc: str = "/proc",
        run_dir: str = notes.RUN_DIR,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._run = run
        self._log_dir = log_dir
        self._proc = proc
        self._tree = Proc(proc)
        self._run_dir = run_dir
        self._clock = clock
        self._sleep = sleep
        self._refreshed: Optional[float] = None
        self.watched = [Watched(expected, fatal_patterns, note_patterns or {}) for expected in processes]
        seen = seen or {}
        # the monotonic clock of a host is the same for every call
        self.began = float(seen.get("began", clock()))
        for process in self.watched:
            known = (seen.get("processes") or {}).get(process.name) or {}
            if known.get("first"):
                process.first = First(**known["first"])
            process.seconds = known.get("seconds")

    # ---- looking -------------------------------------------------------------------------------------------------

    def look(self, thorough: bool = False) -> None:
        """One look at everything. Cheap checks first; with `thorough` all of them, to tell all that is missing."""
        self._look_at_units(thorough)
        for process in self.watched:
            self._look_at_limits(process, everyone=thorough)
            if not process.dead:
                self._read_log(process)
        pending: list[Watched] = []
        for process in self.watched:
            if process.failed:
                continue
            process.missing = self._missing_lines(process)
            if thorough or not process.missing:
                always = [port for port in process.expected.ports if port.purpose not in process.expected.varying]
                process.missing += self._missing_ports(process, always, thorough)
            if process.expected.health_url and (thorough or not process.missing):
                pending.append(process)
        if pending:
            with ThreadPoolExecutor(max_workers=min(len(pending), 16)) as pool:
                answers = pool.map(
                    lambda p: ask_health(str(p.expected.health_url), p.expected.health_json or {}, p.expected.states),
                    pending,
                )
                for process, (wrong, state) in list(zip(pending, answers)):
                    process.state = state
                    process.missing += [f"health {wrong}"] if wrong else self._missing_of_state(process, thorough)
        for process in self.watched:
            if process.ready and process.seconds is None:
                process.seconds = round(self._clock() - self.began, 1)

    def _look_at_units(self, force: bool) -> None:
        now = self._clock()
        fresh = self._refreshed is not None and now - self._refreshed < _UNIT_REFRESH
        if not force and fresh and all(p.dead or procs.is_alive(p.unit.MainPID, self._proc) for p in self.watched):
            return
        self._refreshed = now
        units = systemd.show(self._run, sorted({p.expected.unit for p in self.watched}))
        for process in self.watched:
            if process.dead:
                continue
            process.unit = unit = units[process.expected.unit]
            process.dead = readiness.death(process.first, unit)
            if process.dead:
                self._read_log(process, final=True)
                continue
            if process.first is None or not process.first.main_pid:
                process.first = First(unit.InvocationID, unit.MainPID, unit.NRestarts)
            process.proven = self._proof(process) == process.proof

    def _look_at_limits(self, process: Watched, everyone: bool = False) -> None:
        """Those of the main process and of a child as soon as there are some; of every process in the end."""
        expected, unit = process.expected, process.unit
        if process.dead or unit.ActiveState != "active" or not unit.MainPID:
            return
        if everyone:
            pids = procs.in_control_group(unit.ControlGroup, self._proc, unit.name) | {unit.MainPID}
        elif not expected.limits or len(process.limits_of) > 1:
            return
        else:
            pids = {unit.MainPID, *effective.children(self._tree, unit.MainPID)[:1]}
        lacks = effective.lacks(self._tree, sorted(pids - process.limits_of), expected.limits)
        process.limits_of |= pids
        if lacks:
            process.dead = "its limits did not take effect: " + "; ".join(lack.text for lack in lacks)
            process.way_out = effective.explain(self._tree, self._run, expected.unit, lacks)
        if everyone:
            process.hugepages = effective.hugepages(self._tree, pids)
            if process.hugepages < expected.hugepages and not process.dead and process.ready:
                process.dead = (
                    f"{expected.hugepages} bytes of hugepages are planned, and its processes have {process.hugepages}"
                )
                process.way_out = _NO_HUGEPAGES

    def _read_log(self, process: Watched, final: bool = False) -> None:
        if process.proven and not final:
            return
        if process.log is None:
            # Before the main process is there, the file may not be.
            if not final and not process.unit.MainPID:
                return
            process.log = self._open(process)
        more = True
        while more:
            process.feed(process.log.poll(final))
            more = process.log.behind

    def _open(self, process: Watched) -> Log:
        return open_log(self._log_dir, process.expected.unit, process.invocation, self._run)

    def _where(self, process: Watched) -> str:
        return (process.log or self._open(process)).where

    def _missing_lines(self, process: Watched) -> list[str]:
        if process.unit.ActiveState == "activating":
            return [f"the unit is {process.unit.ActiveState} ({process.unit.SubState})"]
        if process.proven:
            return []
        log = process.log
        return readiness.lines_missing(
            process.expected, process.counts, bool(log and log.found), log.where if log else "the log"
        )

    def _missing_of_state(self, process: Watched, thorough: bool) -> list[str]:
        """Ports that belong to the state which the process tells of itself."""
        if process.state is None:
            return []
        closed, varying = process.state.without, process.expected.varying
        ports = [port for port in process.expected.ports if port.purpose in varying and port.purpose not in closed]
        return self._missing_ports(process, ports, thorough)

    def _missing_ports(self, process: Watched, ports: Sequence[Port], thorough: bool) -> list[str]:
        if not ports:
            return []
        numbers = {port.port for port in ports}
        rows, _bad = sockets.tables(self._proc, numbers)
        missing = readiness.ports_missing(readiness.port_states(ports, rows, None, {}))
        if missing and not thorough:
            return missing  # no need yet to ask whose the others are
        own = procs.in_control_group(process.unit.ControlGroup, self._proc, process.unit.name) | {process.unit.MainPID}
        mine: set[int] = set()
        for pid in own:
            try:
                mine |= sockets.inodes_of(pid, self._proc)
            except PermissionError:
                return [*missing, f"whose ports: process {pid} may not be looked into, become root"]
        foreign = {row.inode for row in rows if row.state == sockets.LISTEN} - mine
        holder: dict[int, str] = {}
        if foreign:
            found, _hidden = sockets.holders(foreign, procs.pids(self._proc), self._proc)
            for inode, pids in found.items():
                holder[inode] = " and ".join(str(procs.describe(pid, self._proc)) for pid in pids)
        states = readiness.port_states(ports, rows, mine, holder)
        for port, wrong in states.items():
            # Only a bind can tell whether a [::] listener takes IPv4 as well.
            addresses = {row.address for row in sockets.listeners(rows, port.port)}
            unsure = not wrong and addresses == {"::"} and ":" not in port.address
            if unsure and sockets.probe(port.address, port.port, self._proc) != sockets.TAKEN:
                states[port] = "open for IPv6 only"
        return readiness.ports_missing(states)

    # ---- proof of an earlier wait --------------------------------------------------------------------------------

    def _folder(self, process: Watched) -> str:
        return os.path.join(self._run_dir, stem(process.expected.unit))

    def _proof(self, process: Watched) -> Optional[str]:
        return (notes.read(os.path.join(self._folder(process), "ready")) or "").strip() or None

    def keep_proof(self) -> None:
        """systemd removes the folder, and the proof with it, when the unit stops."""
        for process in self.watched:
            if process.ready and not process.proven and process.invocation:
                try:
                    # the proof last: with it in place no later wait reads the log
                    notes.write_lines(self._folder(process), process.invocation, process.noted)
                    notes.write(self._folder(process), "ready", process.proof + "\n")
                except OSError:
                    continue  # ready all the same; a later wait has to read the log again

    # ---- waiting -------------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> str:
        if any(process.failed for process in self.watched):
            return FAILED
        return READY if all(process.ready for process in self.watched) else WAITING

    @property
    def waited(self) -> float:
        return self._clock() - self.began

    def wait(self, seconds: float, interval: float) -> str:
        """Look again and again for at most `seconds`."""
        end = self._clock() + seconds
        while True:
            self.look()
            if self.verdict == READY:
                self._look_at_units(force=True)  # alive to the last
                for process in self.watched:
                    self._look_at_limits(process, everyone=True)
            if self.verdict != WAITING:
                break
            left = end - self._clock()
            if left <= 0:
                self.look(thorough=True)
                break
            self._sleep(min(interval, left))
        if self.verdict == FAILED:
            self._sleep(_GRACE)
            for process in self.watched:
                self._read_log(process, final=True)
        return self.verdict

    # ---- telling -------------------------------------------------------------------------------------------------

    def seen(self) -> dict[str, Any]:
        """What the next call must know to notice a death between the two."""
        return {
            "began": self.began,
            "processes": {
                process.name: {"first": vars(process.first) if process.first else None, "seconds": process.seconds}
                for process in self.watched
            },
        }

    def progress(self) -> list[dict[str, Any]]:
        waited = round(self.waited)
        return [{"name": p.name, "waiting_for": p.missing, "seconds": waited} for p in self.watched if not p.ready]

    def results(self) -> list[dict[str, Any]]:
        answers = []
        for process in self.watched:
            answer: dict[str, Any] = {
                "name": process.name,
                "unit": process.expected.unit,
                "ready": process.ready,
                "seconds": process.seconds,
                "main_pid": process.unit.MainPID,
                "invocation_id": process.invocation or "",
                "missing": [] if process.failed else process.missing,
                "degraded": list(process.finder.degraded.values()),
                "hugepages": process.hugepages,
                "state": process.state.name if process.state and process.ready else None,
            }
            if process.failed:
                answer.update(self._failure(process))
            answers.append(answer)
        return answers

    def _failure(self, process: Watched) -> dict[str, Any]:
        cause = process.finder.cause or process.finder.proof
        if process.way_out:
            cause = None  # nothing in the log explains it
        advice = cause.signature.advice if cause and cause.signature else None
        excerpt = cause.excerpt if cause else [f"  {line}" for line in tail(self._open(process), 10)]
        return {
            "reason": process.dead or "it lives, but its log says that it has failed for good",
            "cause": cause.line if cause else None,
            "speaker": speaker(cause.line) if cause else None,
            "earlier": process.finder.earlier.line if process.finder.earlier else None,
            "advice": process.way_out
            or advice
            or process.unit.advice
            or (self._silent(process) if process.unit.died and not cause else None),
            "excerpt": excerpt,
            "log": self._where(process),
        }

    def _silent(self, process: Watched) -> str:
        """It ended without a cause in its log: somebody else may have its port (mooncake_master does not say that)."""
        held = [text for text in self._missing_ports(process, process.expected.ports, thorough=True) if _HELD in text]
        if held:
            return f"{'; '.join(held)}. Stop that one, or plan another port. Its log does not say so."
        return _NO_CAUSE

    def failure_text(self) -> str:
        """What a tired person needs: who, why, the line, what to do; then how the others stand."""
        parts = []
        for answer in self.results():
            head = f"{answer['name']} ({answer['unit']})"
            if "reason" not in answer:
                continue
            rows = [f"{head} is not ready: {answer['reason']}."]
            if answer["cause"]:
                rows.append(f"First cause{' in ' + answer['speaker'] if answer['speaker'] else ''}: {answer['cause']}")
            if answer["earlier"]:
                rows.append(f"Before that: {answer['earlier']}")
            if answer["advice"]:
                rows.append(f"What to do: {answer['advice']}")
            if answer["excerpt"]:
                rows += [f"From {answer['log']}:", *answer["excerpt"]]
            parts.append("\n".join(rows))
        others = [self._standing(process) for process in self.watched if not process.failed]
        if others:
            parts.append("The others on this host: " + "; ".join(others) + ".")
        return "\n".join(parts)

    def timeout_text(self, timeout: float) -> str:
        rows = [f"Not ready after {timeout:g} s."]
        told = 0
        for process in self.watched:
            row = f"{process.name} ({process.expected.unit}): "
            if process.ready:
                rows.append(row + "ready")
                continue
            where = self._where(process)
            missing = "; ".join(process.missing)
            row += f"alive (pid {process.unit.MainPID}), still missing: {missing}. "
            row += "".join(f"{sign['advice']!s} " for sign in process.finder.degraded.values())
            told += 1
            if told > _TOLD:
                rows.append(f"{row}See {where}")
                continue
            last = tail(self._open(process), _LAST_LINES) or ["(nothing of this start)"]
            rows += [f"{row}Last lines of {where}:", *(f"  {line}" for line in last)]
        rows.append("A large model may need a longer timeout; a log that no longer grows tells where it stands.")
        return "\n".join(rows)

    @staticmethod
    def _standing(process: Watched) -> str:
        return f"{process.name} {'is ready' if process.ready else 'still waits for ' + ', '.join(process.missing)}"
