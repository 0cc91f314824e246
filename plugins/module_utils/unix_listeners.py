# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who listens on a Unix socket, found out without a connect."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

_ACCEPTS = 1 << 16  # __SO_ACCEPTCON, linux/include/linux/net.h
_RUNTIMES = ("dockerd", "podman")


def of(path: str, proc: str = "/proc") -> list[int]:
    """Inodes of the sockets of this network namespace that listen there."""
    with open(f"{proc}/net/unix", encoding="utf-8", errors="replace") as table:
        return list(parse(table, path))


def parse(lines: Iterable[str], path: str) -> Iterator[int]:
    """Num RefCount Protocol Flags Type St Inode Path"""
    name, real = os.path.basename(path), os.path.realpath(path)
    for line in lines:
        words = line.rstrip("\n").split(None, 7)
        if len(words) < 8 or os.path.basename(words[7]) != name or not words[7].startswith("/"):
            continue
        if int(words[3], 16) & _ACCEPTS and os.path.realpath(words[7]) == real:
            yield int(words[6])


def starters(pids: Iterable[int], proc: str = "/proc") -> set[int]:
    """Those that hold a socket for a service that they start when somebody connects."""
    return {pid for pid in pids if _starts(pid, _comm(pid, proc))}


def _starts(pid: int, comm: str) -> bool:
    # a container may have the runtime itself as its first process
    return not comm or comm.startswith("systemd") or (pid == 1 and comm not in _RUNTIMES)


def _comm(pid: int, proc: str) -> str:
    try:
        with open(f"{proc}/{pid}/comm", encoding="utf-8", errors="replace") as source:
            return source.read().strip()
    except OSError:  # it has ended
        return ""
