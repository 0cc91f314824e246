# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The size of /dev/shm: now by a remount, and at boot by its line in fstab."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.tuning import fstab, observed, pages
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree

NAME = fstab.PLACE
_SYS_ADMIN = 21
Run = Callable[[list[str]], tuple[int, str, str]]


@dataclass
class Shm:
    """What there is to do; nothing of it is done yet."""

    now: Optional[int] = None
    target: Optional[int] = None
    option: str = ""  # as mount takes it
    before_text: Optional[str] = None
    after_text: Optional[str] = None
    entry: Optional[dict[str, Any]] = None
    problems: list[str] = field(default_factory=list)
    skipped: Optional[str] = None
    kept: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return self.resizes or self.before_text != self.after_text

    @property
    def resizes(self) -> bool:
        return self.target is not None and self.target != self.now


def _refusal(tree: Tree) -> Optional[str]:
    found = observed.mounted(tree, NAME)
    if found is None or found[0] != "tmpfs":
        return "no tmpfs is mounted there"
    if not observed.capable(tree, _SYS_ADMIN):
        return "nothing may be mounted here (no CAP_SYS_ADMIN, a container?); give the container --shm-size"
    return None


def plan(
    tree: Tree,
    size: Optional[str],
    entry: Optional[Mapping[str, Any]],
    space: Callable[[Tree, str], tuple[int, int]] = observed.space,
) -> Shm:
    made = Shm()
    if not size and not entry:
        return made
    try:
        made.option = fstab.size(size) if size else ""
    except ValueError as error:
        made.problems.append(f"shm_size: {error}")
        return made
    made.before_text = made.after_text = tree.read(fstab.FILE) or ""
    made.skipped = _refusal(tree)
    if made.skipped:
        made.entry = dict(entry) if entry else None
        return made
    made.now, used = space(tree, NAME)
    if size:
        _wanted(tree, made, entry, used)
    elif entry:
        _back(made, entry, used)
    return made


def _wanted(tree: Tree, made: Shm, entry: Optional[Mapping[str, Any]], used: int) -> None:
    memory, page = pages.memory(tree, "MemTotal") or 0, os.sysconf("SC_PAGE_SIZE")
    mounted = observed.mounted(tree, NAME)
    try:
        edited = fstab.edit(made.before_text or "", made.option, mounted[1] if mounted else ())
    except ValueError as error:
        made.problems.append(f"shm_size: {error}")
        return
    made.after_text = edited.text
    made.target = fstab.bytes_of(made.option, memory, page)
    if made.target < used:
        made.problems.append(
            f"shm_size: {made.option} is less than the {used} bytes in use; `fuser -v /dev/shm/*` shows by whom"
        )
    if memory and made.target > memory:
        made.problems.append(f"shm_size: {made.option} is more than the memory of this host ({memory} bytes)")
    stood, line = str(made.now), edited.before
    if entry:
        stood = str(entry["before"]) if str(made.now) == str(entry["set"]) else stood
        line = entry["line_before"] if edited.before == entry["line"] else line
    if stood != str(made.target) or line != edited.line:
        made.entry = {"before": stood, "set": str(made.target), "line_before": line, "line": edited.line}


def _back(made: Shm, entry: Mapping[str, Any], used: int) -> None:
    text = fstab.undo(made.before_text or "", entry["line_before"], entry["line"])
    if text is None:
        made.kept.append(f"its line in {fstab.FILE} was changed since")
    else:
        made.after_text = text
    before = int(entry["before"])
    if str(made.now) != str(entry["set"]):
        made.kept.append(f"it has {made.now} bytes, which somebody else gave it since")
    elif before < used:
        made.kept.append(f"it had {before} bytes before, and {used} are in use")
    else:
        made.target, made.option = before, str(before)


def resize(run: Run, option: str) -> Optional[str]:
    """fstab has to be written before: a remount takes the other options from there."""
    code, out, err = run(["mount", "-o", f"remount,size={option}", NAME])
    return None if code == 0 else (err.strip() or out.strip() or f"mount ended with {code}")
