# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan everything, complain about everything, then change what differs and read back what the kernel made of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.tuning import (
    boot,
    fstab,
    login_limits,
    observed,
    pages,
    record,
    shm,
    sysctls,
    values,
    wishes,
)
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree
from ansible_collections.mooncake.pd.plugins.module_utils.unit_file import HEADER, is_ours

_SYS_RESOURCE = 24
_COMPACT = "/proc/sys/vm/compact_memory"
_NOTHING: dict[str, Any] = {
    "sysctl": {},
    "reserved_ports": [],
    "hugepages": [],
    "hugepages_compact": False,
    "shm_size": None,
    "transparent_hugepages": None,
    "governor": None,
    "limits": [],
    "files": [],
}


class Refused(Exception):
    """Nothing was changed; all reasons."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass
class Change:
    """A value on its way: what stood there, what is to stand there."""

    name: str
    path: str
    now: str
    target: str
    after: str = ""


@dataclass
class Tuning:
    tree: Tree
    params: Mapping[str, Any]
    run: shm.Run
    space: Callable[[Tree, str], tuple[int, int]] = observed.space
    entries: record.Entries = field(default_factory=dict)
    kept_entries: record.Entries = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    kept: list[dict[str, str]] = field(default_factory=list)
    files: dict[str, tuple[Optional[str], Optional[str]]] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    applied: bool = False

    # ---- planning ------------------------------------------------------------------------------------------------

    def plan(self) -> None:
        absent = self.params["state"] == "absent"
        params = _NOTHING if absent else self.params
        try:
            self.entries = record.load(self.tree)
        except record.RecordError as error:
            raise Refused([str(error)]) from error
        self.wishes = wishes.gather(self.tree, params)
        self.steps = [
            values.plan(wish, values.shown(self.tree.read(wish.path) or ""), self.entries.get(wish.name))
            for wish in self.wishes.values
        ]
        self.shm = shm.plan(self.tree, params["shm_size"], self.entries.get(shm.NAME), self.space)
        problems = self.wishes.problems + self.shm.problems
        limits = self._limits(params, problems)
        problems += boot.problems(self.tree, self.steps) + self._memory()
        self._file(sysctls.FILE, boot.sysctl_text(self.steps), problems)
        self._file(boot.TMPFILES, boot.tmpfiles_text(self.steps), problems)
        self._file(login_limits.FILE, login_limits.text(limits, HEADER), problems)
        self._more_files(params)
        if self.shm.before_text is not None:
            self.files[fstab.FILE] = (self.shm.before_text, self.shm.after_text)
        if problems:
            raise Refused(problems)
        self._plan_values()

    def _limits(self, params: Mapping[str, Any], problems: list[str]) -> list[Mapping[str, str]]:
        limits: list[Mapping[str, str]] = params["limits"]
        # what it will be, and not what was asked: a value may be withheld, or already higher
        planned = [step.target for step in self.steps if step.wish.name == "fs.nr_open"]
        nr_open = planned[0] if planned else (self.tree.read("/proc/sys/fs/nr_open") or "").strip()
        found = login_limits.problems(limits, int(nr_open) if nr_open.isdigit() else None)
        problems += found
        if not limits or found:
            return []
        if not login_limits.applied(self.tree):
            self.wishes.skip("limits", "no service of PAM asks for them (pam_limits.so in /etc/pam.d)")
            return []
        may_raise = observed.capable(self.tree, _SYS_RESOURCE)
        written = []
        for limit in limits:
            why = login_limits.out_of_reach(self.tree, limit, may_raise)
            if why:
                self.wishes.skip("limits: {domain} {type} {item} {value}".format(**limit), why)
            else:
                written.append(limit)
        self.warnings += login_limits.overridden(self.tree, written)
        return written

    def _memory(self) -> list[str]:
        """Hugepages that would take all memory: the kernel would try, and kill for it."""
        more = sum(
            (int(step.target) - int(step.now)) * self.wishes.asks[step.wish.name].size
            for step in self.steps
            if step.wish.name in self.wishes.asks and step.now.isdigit()
        )
        available = pages.memory(self.tree, "MemAvailable")
        if available is None or more <= available:
            return []
        return [
            f"hugepages: {more} bytes more are asked for, and {available} are available: free memory, or ask for less"
        ]

    def _file(self, path: str, text: Optional[str], problems: list[str]) -> None:
        before = self.tree.read(path)
        if before is not None and not is_ours(before):
            if text is not None:
                problems.append(f"{path} was not written by mooncake.pd: move it away; its values count as others'")
            elif self.params["state"] == "absent":
                self.kept.append({"name": path, "why": "it was not written by mooncake.pd"})
            return
        self.files[path] = (before, text)

    def _more_files(self, params: Mapping[str, Any]) -> None:
        """Files that bear our name, so nobody else's are among them. Those that are no longer asked for go."""
        for one in params["files"]:
            self.files[one["path"]] = (self.tree.read(one["path"]), one["content"])
            self.modes[one["path"]] = 0o755 if one["executable"] else 0o644
            self.kept_entries[one["path"]] = {"file": True}
        for path, entry in self.entries.items():
            if entry.get("file") and path not in self.kept_entries:
                self.files[path] = (self.tree.read(path), None)

    def _plan_values(self) -> None:
        for step in self.steps:
            self.changes.append(Change(step.wish.name, step.wish.path, step.now, step.target))
            if step.entry:
                self.kept_entries[step.wish.name] = dict(step.entry)
        stay = {*self.wishes.satisfied, *(skip["name"] for skip in self.wishes.skipped)}
        self.kept_entries.update({name: entry for name, entry in self.entries.items() if name in stay})
        wished = {step.wish.name for step in self.steps} | stay
        for name, entry in self.entries.items():
            if name not in wished and name != shm.NAME and not entry.get("file"):
                self._plan_back(name, entry)
        if self.shm.skipped and self.params["state"] == "present" and self.params["shm_size"]:
            self.wishes.skip(shm.NAME, self.shm.skipped)
        if self.shm.entry:
            self.kept_entries[shm.NAME] = self.shm.entry
        self.kept += [{"name": shm.NAME, "why": why} for why in self.shm.kept]

    def _plan_back(self, name: str, entry: Mapping[str, Any]) -> None:
        path = str(entry["path"])
        now = values.shown(self.tree.read(path) or "")
        target = values.restored(now, entry)
        why = self.tree.refusal(path)
        if why is None and target is None:
            why = f"it is {now} and was {entry['set']} when mooncake.pd had set it: somebody else changed it since"
        if why is not None or target is None:
            self.kept.append({"name": name, "why": str(why)})
            return
        self.changes.append(Change(name, path, now, target))
        self.restored.append(name)

    # ---- changing ------------------------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        return (
            any(not values.same(change.now, change.after if self.applied else change.target) for change in self.changes)
            or any(before != after for before, after in self.files.values())
            or self.shm.changed
        )

    def apply(self) -> None:
        # first, so that a run that is broken off can still be taken back
        noted = copy.deepcopy({**self.entries, **self.kept_entries})
        if self.entries != self.kept_entries:
            record.save(self.tree, noted)
        for path, (before, after) in self.files.items():
            if before != after:
                self.tree.put(path, after, self.modes.get(path, 0o644))
        for change in self.changes:
            self._set(change)
        if self.shm.resizes:
            self._resize()
        if noted != self.kept_entries:
            record.save(self.tree, self.kept_entries)
        self.applied = True

    def _set(self, change: Change) -> None:
        change.after = change.now
        if values.same(change.now, change.target):
            return
        said = self._write(change)
        change.after = values.shown(self.tree.read(change.path) or "")
        entry = self.kept_entries.get(change.name)
        if not values.same(change.after, change.target) and change.name not in self.wishes.asks:
            told = said or f"the kernel has {change.after} all the same"
            self.errors.append(f"{change.name} could not be set to {change.target}: {told}")
        if entry:
            entry["set"] = change.after
            if values.same(change.after, str(entry["before"])):
                del self.kept_entries[change.name]

    def _write(self, change: Change) -> Optional[str]:
        said = self.tree.set(change.path, change.target)
        ask = self.wishes.asks.get(change.name)
        if ask and self.params["hugepages_compact"] and pages.short(self.tree, ask, int(change.target)):
            self.tree.set(_COMPACT, "1")
            said = self.tree.set(change.path, change.target)
        return said

    def _resize(self) -> None:
        said = shm.resize(self.run, self.shm.option)
        now = self.space(self.tree, shm.NAME)[0]
        if now != self.shm.target:
            self.errors.append(f"/dev/shm has {now} bytes and not {self.shm.target}: {said or 'mount said nothing'}")

    def shortage(self) -> Optional[str]:
        """What is missing of the hugepages, and what to do."""
        missing = [
            pages.short(self.tree, self.wishes.asks[step.wish.name], int(step.target))
            for step in self.steps
            if step.wish.name in self.wishes.asks
        ]
        found = [one for one in missing if one is not None]
        return pages.advice(found, list(self.wishes.asks.values()), boot.TMPFILES) if found else None

    # ---- telling -------------------------------------------------------------------------------------------------

    def told(self) -> list[dict[str, Any]]:
        rows = [
            {
                "name": change.name,
                "before": change.now,
                "wanted": change.target,
                "after": change.after if self.applied else change.target,
            }
            for change in self.changes
        ]
        if self.shm.target is not None:
            now, target = str(self.shm.now), str(self.shm.target)
            rows.append({"name": shm.NAME, "before": now, "wanted": target, "after": target})
        return rows

    def diff(self) -> list[dict[str, str]]:
        rows = [
            {"before": before or "", "after": after or "", "before_header": path, "after_header": path}
            for path, (before, after) in self.files.items()
            if before != after
        ]
        differing = [row for row in self.told() if not values.same(row["before"], row["wanted"])]
        if differing:
            rows.append(
                {
                    "before": "".join(f"{row['name']} = {row['before']}\n" for row in differing),
                    "after": "".join(f"{row['name']} = {row['wanted']}\n" for row in differing),
                    "before_header": "values of the kernel",
                    "after_header": "values of the kernel",
                }
            )
        return rows
