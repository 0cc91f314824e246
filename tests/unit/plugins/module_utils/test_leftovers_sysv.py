# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ctypes
import os

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import sysv
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.evidence import Process

OURS = 990
SHM = """  key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime  rss swap
-2147483647 3 600 524288 4711 4712 0 990 990 990 990 90 95 80 8192 4096
0 4 1600 4096 0 0 2 0 0 0 0 0 0 80 0 0
"""
SEM = """       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime
        17          0   600          1   990   990   990   990         99         80
"""


def test_tables() -> None:
    first, second = sysv.parse("shm", SHM)
    assert first == sysv.Object("shm", 3, 0x80000001, OURS, (4711, 4712), 0, 12288, 95.0)
    assert first.path == "System V shared memory 3 (key 0x80000001)"
    assert (second.attached, second.makers) == (2, ())
    (third,) = sysv.parse("sem", SEM)
    assert third == sysv.Object("sem", 0, 17, OURS, (), 0, 0, 99.0)
    assert sysv.parse("sem", "") == []


def segment(user: int = OURS, attached: int = 0, changed: float = 95.0) -> sysv.Object:
    return sysv.Object("shm", 3, 1, user, (4711,), attached, 0, changed)


def living(pid: int, started: float, user: int = OURS) -> dict[int, Process]:
    return {pid: Process(pid, "x", frozenset((user,)), started)}


@pytest.mark.parametrize(
    ("one", "processes", "says"),
    [
        (segment(), {}, ""),
        (segment(), living(9, 99.0), ""),
        (segment(), living(4711, 99.0), ""),  # the number came back
        (segment(user=0), {}, "others"),
        (segment(user=5), {}, "others"),
        (segment(attached=1), {}, "attached"),
        (segment(), living(4711, 90.0, 0), "made or used"),
        (segment(changed=199.5), {}, "not older"),
        (segment(), living(9, 90.0), "of its user"),
        (segment(), living(9, 90.0, 5), ""),
    ],
)
def test_what_goes(one: sysv.Object, processes: dict[int, Process], says: str) -> None:
    reason = sysv.reason_to_keep(one, [OURS, 0], processes, 200.0, "the stop")
    assert (says in reason.text) if says and reason else (reason is None and not says)


@pytest.mark.parametrize("kind", ["shm", "sem"])
def test_removal_of_a_real_one(kind: str) -> None:
    libc = ctypes.CDLL(None)
    number = libc.shmget(0, 4096, 0o1600) if kind == "shm" else libc.semget(0, 1, 0o1600)
    if number < 0:
        pytest.skip("no System V here")
    (one,) = [row for row in sysv.listed() if (row.kind, row.number) == (kind, number)]
    assert one.user == os.geteuid()
    assert sysv.remove(one) is None
    assert one not in sysv.listed()
    assert "could not be removed" in (sysv.remove(one) or "")
