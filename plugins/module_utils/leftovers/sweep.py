# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole of it: look, judge, look again, remove."""

from __future__ import annotations

import os
import pwd
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Callable, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils import procs
from ansible_collections.mooncake.pd.plugins.module_utils.host import filesystems
from ansible_collections.mooncake.pd.plugins.module_utils.jobs import Job, Late
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import (
    find,
    patterns,
    remove,
    rules,
    sysv,
    unit_runs,
)
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.evidence import Evidence, Look

_SECONDS = 20.0  # for a pass over /proc: a process that hangs may keep its files of it waiting for ever


@dataclass(frozen=True)
class Wanted:
    users: Sequence[int]
    patterns: Sequence[patterns.Pattern]
    kinds: Sequence[str]
    proc: str = "/proc"


@dataclass
class Swept:
    removed: list[dict[str, Any]] = field(default_factory=list)
    kept: list[dict[str, Any]] = field(default_factory=list)
    unknown: list[dict[str, str]] = field(default_factory=list)

    @property
    def freed(self) -> int:
        return sum(row["size"] for row in self.removed)


def user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def look(entries: Sequence[find.Entry], proc: str, systems: dict[str, str]) -> Evidence:
    """Who has what; nothing is known when the pass does not come to an end."""
    odd = [entry.path for entry in entries if systems.get(entry.folder) in ("overlay", "btrfs", "zfs")]
    job = Job(Look([entry.identity for entry in entries], odd, proc).run)
    try:
        return job.result(time.monotonic() + _SECONDS)  # type: ignore[no-any-return]
    except Late:
        return Evidence(unknown=[("processes", f"Looking into all processes took more than {_SECONDS:g} s.")])
    except OSError as error:
        return Evidence(unknown=[("processes", f"{proc}: {error.strerror}.")])


def folder_systems(folders: Sequence[str], proc: str = "/proc") -> dict[str, str]:
    try:
        with open(os.path.join(proc, "self/mountinfo"), encoding="utf-8", errors="replace") as source:
            mounts = filesystems.parse_mounts(source.read())
    except OSError:
        return {}
    found = {folder: filesystems.mount_of(folder, mounts) for folder in folders}
    return {folder: mount.filesystem for folder, mount in found.items() if mount}


class Sweep:
    """One run over the files and System V objects of a host."""

    def __init__(self, wanted: Wanted, runs: Callable[[], Sequence[unit_runs.Run]], dry: bool) -> None:
        self.wanted, self.runs, self.dry = wanted, runs, dry
        self.result = Swept()

    def run(self, settle: Callable[[Evidence, Sequence[unit_runs.Run]], bool]) -> Swept:
        """settle: what is to be done with the processes first; true when some of them are gone by it."""
        entries, troubles = find.entries(self.wanted.patterns, self.wanted.kinds)
        for folder, why in troubles:
            self.result.unknown.append({"what": "folders", "why": f"{folder} could not be read: {why}.", "raw": ""})
        entries = _with_newest(entries)
        here, runs = self._look(entries)
        if settle(here.evidence, runs):
            entries = _with_newest(find.entries(self.wanted.patterns, self.wanted.kinds)[0])
            here, _runs = self._look(entries)
        doomed, objects = self._doomed(entries, here), self._objects(here)
        if (doomed or objects) and not self.dry:
            # the reports take their time, and somebody may have opened one meanwhile
            here, _runs = self._look(doomed)
            doomed, objects = self._doomed(doomed, here), [one for one in self._objects(here) if one in objects]
        self._remove(doomed, objects, here)
        self.result.unknown += [{"what": what, "why": why, "raw": ""} for what, why in here.evidence.unknown]
        return self.result

    def _look(self, entries: Sequence[find.Entry]) -> tuple[rules.Circumstances, Sequence[unit_runs.Run]]:
        systems = folder_systems(sorted({entry.folder for entry in entries}), self.wanted.proc)
        evidence = look(entries, self.wanted.proc, systems)
        runs = self.runs()
        over, text = unit_runs.latest(runs, evidence.boot)
        texts = unit_runs.texts(runs)
        live = [
            (one.status.st_uid, one.changed)
            for one in entries
            if one.kind == patterns.SOCKET and one.name in evidence.bound
        ]
        return rules.Circumstances(evidence, self.wanted.users, over, text, systems, texts, live, user_name), runs

    def _doomed(self, entries: Sequence[find.Entry], here: rules.Circumstances) -> list[find.Entry]:
        doomed = []
        for entry in entries:
            reason = rules.reason_to_keep(entry, here)
            if reason:
                self._keep(entry.path, entry.kind, reason)
            else:
                doomed.append(entry)
        return doomed

    def _objects(self, here: rules.Circumstances) -> list[sysv.Object]:
        if patterns.SYSV not in self.wanted.kinds:
            return []
        doomed = []
        for one in sysv.listed(self.wanted.proc):
            unclear = rules.unclear(here)
            reason = sysv.reason_to_keep(one, here.users, here.evidence.processes, here.over, here.over_text)
            if reason is None and unclear is None:
                doomed.append(one)
            elif reason is None or not reason.foreign:
                self._keep(one.path, patterns.SYSV, reason or unclear)
        return doomed

    def _keep(self, path: str, kind: str, reason: Optional[rules.Reason]) -> None:
        if reason is None or any(row["path"] == path for row in self.result.kept):
            return
        row: dict[str, Any] = {"path": path, "kind": kind, "why": reason.text, "pid": reason.pid}
        if reason.pid is not None:
            process = procs.describe(reason.pid, self.wanted.proc)
            row.update({"command": process.command, "unit": process.unit, "container": process.container})
        self.result.kept.append(row)

    def _remove(self, entries: Sequence[find.Entry], objects: Sequence[sysv.Object], here: rules.Circumstances) -> None:
        now = time.time()
        tasks: list[tuple[str, str, int, float, Callable[[], Optional[str]]]] = [
            (one.path, one.kind, one.size, one.changed, partial(remove.remove, one, self.dry)) for one in entries
        ]
        tasks += [(one.path, patterns.SYSV, one.size, one.changed, partial(_object, one, self.dry)) for one in objects]
        for path, kind, size, changed, act in tasks:
            why = act()
            if why == remove.GONE:
                continue
            if why:
                self._keep(path, kind, rules.Reason(why))
                continue
            age = max(0, int(now - changed))
            text = f"nobody has it, and it is older than {here.over_text}"
            self.result.removed.append({"path": path, "kind": kind, "size": size, "age": age, "why": text})


def _object(one: sysv.Object, dry: bool) -> Optional[str]:
    return None if dry else sysv.remove(one)


def _with_newest(entries: Sequence[find.Entry]) -> list[find.Entry]:
    logs: dict[str, set[str]] = {}
    for entry in entries:
        if entry.kind == patterns.LOG:
            logs.setdefault(entry.folder, set()).add(entry.name)
    last = {folder: patterns.newest(names) for folder, names in logs.items()}
    return [replace(entry, newest=entry.name in last.get(entry.folder, ())) for entry in entries]
