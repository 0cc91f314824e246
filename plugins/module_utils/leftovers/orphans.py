# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes that outlived a run of our units: which they are, and their end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Collection, Iterable, Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils import notes, procs
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.evidence import Process
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.unit_runs import Run
from ansible_collections.mooncake.pd.plugins.module_utils.unit_log import stem

_STEP = 0.05
_TOLERANCE = 1.0  # seconds between the kernel's ticks and systemd's clock


@dataclass(frozen=True)
class Orphan:
    process: Process
    unit: str
    why: str


def find(
    runs: Sequence[Run], processes: Mapping[int, Process], users: Collection[int], proc: str = "/proc"
) -> list[Orphan]:
    """Its control group tells whose a process is: the name that an engine gives itself (VLLM::EngineCore) is written
    over its environment (seen with vLLM 0.32.0). The environment only tells of those that left the group.
    """
    by_name = {run.name: run for run in runs}
    by_stem = {stem(run.name): run for run in runs}
    mine = _ancestors(processes, proc)
    found = []
    for process in processes.values():
        if process.pid in mine or process.pid == 1:
            continue
        unit = procs.unit_of(procs.cgroup_paths(_text(process.pid, "cgroup", proc)))
        run = by_name.get(unit or "")
        why = _in_group(run, process) if run else None
        if run is None and process.users & set(users):
            run, why = _by_environment(by_stem, _text(process.pid, "environ", proc))
        if run and why:
            found.append(Orphan(process, run.name, why))
    return found


def _text(pid: int, name: str, proc: str) -> str:
    try:
        with open(os.path.join(proc, str(pid), name), "rb") as source:
            return source.read().decode("utf-8", "replace")
    except OSError:  # it has ended, or is not ours to see: then it is told with what may not be looked into
        return ""


def _ancestors(processes: Mapping[int, Process], proc: str) -> set[int]:
    """This process and those that started it."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 1 and pid not in found:
        found.add(pid)
        fields = _text(pid, "stat", proc).rpartition(")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
    return found


def _in_group(run: Run, process: Process) -> Optional[str]:
    if run.idle:
        return f"in the control group of {run.name}, which does not run"
    if run.active_state == "active" and run.began and process.started < run.began - _TOLERANCE:
        return f"in the control group of {run.name}, which was started after it"
    return None


def _by_environment(by_stem: Mapping[str, Run], text: str) -> tuple[Optional[Run], Optional[str]]:
    variables = dict(row.partition("=")[::2] for row in text.split("\0"))
    folder = variables.get("RUNTIME_DIRECTORY", "").split(":")[0]
    run = by_stem.get(os.path.basename(folder)) if os.path.dirname(folder) == notes.RUN_DIR else None
    invocation = variables.get("INVOCATION_ID")
    if run is None or not invocation or "MOONCAKE_PD_DIGEST" not in variables:
        return None, None
    if run.idle:
        return run, f"started by {run.name}, which does not run"
    if run.active_state == "active" and invocation != run.invocation:
        return run, f"started by an earlier run of {run.name}"
    return None, None


class Handle:
    """A process that cannot be mistaken for a later one of its number."""

    def __init__(self, process: Process, proc: str = "/proc") -> None:
        self.process, self.proc = process, proc
        self._handle: Optional[int] = None
        with suppress(OSError, AttributeError):  # kernel before 5.3, or a Python built for one
            self._handle = os.pidfd_open(process.pid)

    @property
    def lives(self) -> bool:
        fields = _text(self.process.pid, "stat", self.proc).rpartition(")")[2].split()
        return len(fields) > 19 and int(fields[19]) == self.process.ticks and fields[0] not in ("Z", "X")

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            if not self.lives:
                return
            if self._handle is None:
                os.kill(self.process.pid, number)
            else:
                signal.pidfd_send_signal(self._handle, number)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)


def terminate(orphans: Iterable[Orphan], grace: float, proc: str = "/proc") -> dict[int, str]:
    """How each one ended; those that did not are left out."""
    handles = [Handle(orphan.process, proc) for orphan in orphans]
    ends: dict[int, str] = {}
    try:
        for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
            left = [one for one in handles if one.process.pid not in ends]
            for one in left:
                one.send(number)
            ends.update(_wait(left, seconds, number.name))
    finally:
        for one in handles:
            one.close()
    return ends


def _wait(handles: Sequence[Handle], seconds: float, how: str) -> dict[int, str]:
    end = time.monotonic() + seconds
    ends: dict[int, str] = {}
    while True:
        ends.update({one.process.pid: how for one in handles if not one.lives})
        if len(ends) == len(handles) or time.monotonic() > end:
            return ends
        time.sleep(_STEP)
