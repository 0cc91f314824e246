# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""System V shared memory and semaphores: who has them, and their removal."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Collection, Mapping, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.evidence import Process, ran_at
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.rules import Reason

SHM, SEM = "shm", "sem"
_IPC_RMID = 0  # linux/include/uapi/linux/ipc.h


@dataclass(frozen=True)
class Object:
    """A row of /proc/sysvipc/shm or sem, proc(5)."""

    kind: str
    number: int
    key: int
    user: int
    makers: tuple[int, ...]  # cpid and lpid of shared memory
    attached: int
    size: int
    changed: float

    @property
    def path(self) -> str:
        return f"System V {'shared memory' if self.kind == SHM else 'semaphores'} {self.number} (key {self.key:#x})"


def parse(kind: str, text: str) -> list[Object]:
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    found = []
    for words in lines[1:]:
        row = dict(zip(lines[0], words))
        times = [int(row[key]) for key in ("atime", "dtime", "ctime", "otime") if key in row]
        found.append(
            Object(
                kind,
                int(row["shmid" if kind == SHM else "semid"]),
                int(row["key"]) & 0xFFFFFFFF,
                int(row["uid"]),
                tuple(int(row[key]) for key in ("cpid", "lpid") if key in row and row[key] != "0"),
                int(row.get("nattch", 0)),
                int(row.get("rss", 0)) + int(row.get("swap", 0)),
                float(max(times, default=0)),
            )
        )
    return found


def listed(proc: str = "/proc") -> list[Object]:
    found = []
    for kind in (SHM, SEM):
        try:
            with open(os.path.join(proc, "sysvipc", kind), encoding="ascii") as table:
                found += parse(kind, table.read())
        except FileNotFoundError:  # a kernel without System V
            continue
    return found


def reason_to_keep(
    one: Object, users: Collection[int], processes: Mapping[int, Process], over: float, over_text: str
) -> Optional[Reason]:
    """A semaphore knows no holder, and who wants a segment may attach later: nobody may live who could know of it."""
    if one.user not in users or one.user == 0:
        return Reason("belongs to others", foreign=True)
    if one.attached:
        return Reason("attached", next((pid for pid in one.makers if pid in processes), None))
    for pid in one.makers:
        if pid in processes and processes[pid].started <= one.changed + 1.0:
            return Reason("the process that made or used it lives", pid)
    if one.changed + 1.0 >= over:  # the table has whole seconds
        return Reason(f"not older than {over_text}")
    living = ran_at(processes, one.changed, one.user)
    return Reason("a process of its user lives that ran when it was used last", living[-1].pid) if living else None


def remove(one: Object) -> Optional[str]:
    """None when it is gone. A segment that somebody attaches meanwhile stays until he lets go."""
    libc = ctypes.CDLL(None, use_errno=True)
    if one.kind == SHM:
        code = libc.shmctl(ctypes.c_int(one.number), ctypes.c_int(_IPC_RMID), None)
    else:
        code = libc.semctl(ctypes.c_int(one.number), ctypes.c_int(0), ctypes.c_int(_IPC_RMID), ctypes.c_int(0))
    return None if code == 0 else f"it could not be removed: {os.strerror(ctypes.get_errno())}"
