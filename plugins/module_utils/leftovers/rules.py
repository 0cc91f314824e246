# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is a leftover: the first reason to keep a file, or none."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from typing import Callable, Collection, Mapping, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import patterns
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.evidence import Evidence, ran_at
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.find import Entry

# Nobody but this host has these; what others may have open cannot be seen here.
LOCAL = frozenset(
    ("tmpfs", "ramfs", "devtmpfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "overlay")
)
# A running vLLM 0.32.0 leaves a socket of its start that it has closed; it makes it in one go with those that it keeps
# (seen: within 10 ms). It cannot be used any more, but what runs leaves no leftovers.
TOGETHER = 2.0
_TYPES: Mapping[str, Callable[[int], bool]] = {
    patterns.SOCKET: stat.S_ISSOCK,
    patterns.FOLDER: stat.S_ISDIR,
}


@dataclass(frozen=True)
class Reason:
    """Why a file is kept."""

    text: str
    pid: Optional[int] = None  # of the process that has it
    foreign: bool = False  # nothing of ours


@dataclass(frozen=True)
class Circumstances:
    evidence: Evidence
    users: Collection[int]
    over: float  # what is older belongs to a process that has ended
    over_text: str  # what ended then
    file_systems: Mapping[str, str] = field(default_factory=dict)  # folder -> type
    unit_texts: Mapping[str, str] = field(default_factory=dict)
    live_sockets: Collection[tuple[int, float]] = ()  # user and time of those that are bound
    user_name: Callable[[int], str] = str


def reason_to_keep(entry: Entry, here: Circumstances) -> Optional[Reason]:
    rules = (_foreign, _no_such_thing, _named, _unknown, _in_use, _maker, _last_user, _young, _unheld, _together)
    for rule in rules:
        found = rule(entry, here)
        if found:
            return found
    return None


def _foreign(entry: Entry, here: Circumstances) -> Optional[Reason]:
    user = entry.status.st_uid
    return None if user in here.users else Reason(f"belongs to {here.user_name(user)}", foreign=True)


def _no_such_thing(entry: Entry, here: Circumstances) -> Optional[Reason]:
    mode = entry.status.st_mode
    if stat.S_ISLNK(mode):
        return Reason("a link")
    if not _TYPES.get(entry.kind, stat.S_ISREG)(mode):
        return Reason(f"no {'regular file' if entry.kind not in _TYPES else entry.kind}")
    if entry.status.st_dev != entry.folder_device:
        return Reason("another file system is mounted there")
    if entry.kind != patterns.FOLDER and entry.status.st_nlink > 1:
        return Reason("the file has another name elsewhere")
    system = here.file_systems.get(entry.folder, "")
    if system not in LOCAL:
        return Reason(f"on a file system that other hosts may use ({system or 'unknown'})")
    return None


def _named(entry: Entry, here: Circumstances) -> Optional[Reason]:
    what = patterns.data(entry.path, entry.pattern)
    if what:
        return Reason(what)
    for unit, text in here.unit_texts.items():
        if entry.path in text:
            return Reason(f"{unit} names it")
    if entry.newest:
        return Reason("the newest log of its program")
    return None


def unclear(here: Circumstances) -> Optional[Reason]:
    unknown = here.evidence.unknown
    return Reason(f"it is not known who uses it: {unknown[0][1]}") if unknown else None


def _unknown(entry: Entry, here: Circumstances) -> Optional[Reason]:
    return unclear(here)


def _in_use(entry: Entry, here: Circumstances) -> Optional[Reason]:
    evidence, identity = here.evidence, entry.identity
    uses = (
        ("open", evidence.open.get(identity)),
        ("mapped", evidence.mapped.get(identity)),
        ("mapped", evidence.mapped_paths.get(entry.path)),
        ("locked", evidence.locked.get(identity)),
        ("bound", evidence.bound.get(entry.name) if entry.kind == patterns.SOCKET else None),
    )
    for how, pids in uses:
        if pids is not None:
            # a socket that only a message holds has no process; the number of a lock of its own kind is -1
            return Reason(how, min((pid for pid in pids if pid > 0), default=None))
    return None


def _maker(entry: Entry, here: Circumstances) -> Optional[Reason]:
    if entry.maker is None:
        return None
    for one in here.evidence.processes.values():
        # a number comes back: what started later is another process
        if entry.maker in (one.pids | {one.pid}) and one.started <= entry.changed + 1.0:
            return Reason("the process that made it lives", one.pid)
    return None


def _last_user(entry: Entry, here: Circumstances) -> Optional[Reason]:
    if entry.pattern.last_user and here.evidence.mooncake:
        return Reason("a process with Mooncake in it lives", min(here.evidence.mooncake))
    return None


def _young(entry: Entry, here: Circumstances) -> Optional[Reason]:
    if entry.changed < here.over:
        return None
    return Reason(f"not older than {here.over_text}")


def _unheld(entry: Entry, here: Circumstances) -> Optional[Reason]:
    """Whoever still wants it would not have it open."""
    if entry.pattern.held or (entry.inside and entry.kind == patterns.SOCKET):
        return None
    living = ran_at(here.evidence.processes, entry.changed, entry.status.st_uid)
    if not living:
        return None
    return Reason("such files are used without being open, and a process lives that may have made it", living[-1].pid)


def _together(entry: Entry, here: Circumstances) -> Optional[Reason]:
    if entry.kind != patterns.SOCKET:
        return None
    for user, moment in here.live_sockets:
        if user == entry.status.st_uid and abs(moment - entry.changed) <= TOGETHER:
            return Reason("made together with a socket that is in use")
    return None
