# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which processes have which sockets open, read once; and what a socket that no table shows is bound to."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Optional

from ansible_collections.mooncake.pd.plugins.module_utils import procs, sockets

# The same numbers on every architecture (include/uapi/asm-generic/unistd.h); kernel 5.3 and 5.6.
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_SO_NETNS_COOKIE = 71  # kernel 5.14
_PREFIX = "socket:["


@dataclass
class Holders:
    places: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # inode -> (pid, fd)
    hidden: int = 0  # processes that may not be looked into

    def pids(self, inodes: Iterable[int]) -> list[int]:
        return sorted({pid for inode in inodes for pid, _fd in self.places.get(inode, ())})


def look(proc: str = "/proc") -> Holders:
    found = Holders()
    for pid in procs.pids(proc):
        folder = f"{proc}/{pid}/fd"
        try:
            names = os.listdir(folder)
        except PermissionError:
            found.hidden += 1
            continue
        except OSError:  # it has ended
            continue
        for name in names:
            try:
                target = os.readlink(f"{folder}/{name}")
            except OSError:  # closed meanwhile
                continue
            if target.startswith(_PREFIX):
                found.places.setdefault(int(target[len(_PREFIX) : -1]), []).append((pid, int(name)))
    return found


class Unreadable(Exception):
    """Sockets that are bound and do not listen cannot be found on this host."""


def bound(holders: Holders, listed: Collection[int], ports: Collection[int], budget: float = 1.0) -> list[sockets.Row]:
    """The TCP sockets on these ports that no table lists: bound, neither listening nor connected.

    Each is duplicated for a moment out of the process that has it, and asked for its name.
    """
    end = time.monotonic() + budget
    here = _cookie_here()
    spaces: dict[int, str] = {}
    rows = []
    for inode, places in holders.places.items():
        if inode in listed:
            continue
        pid, number = places[0]
        if here is None and not _same_space(pid, spaces):
            continue
        if time.monotonic() > end:
            raise Unreadable(f"Looking into all processes would take longer than {budget:g} s.")
        duplicate = _borrow(pid, number)
        if duplicate is None:
            continue
        with duplicate:
            row = _row(duplicate, inode, ports, here)
        if row:
            rows.append(row)
    return rows


def _row(borrowed: socket.socket, inode: int, ports: Collection[int], here: Optional[bytes]) -> Optional[sockets.Row]:
    if borrowed.family not in (socket.AF_INET, socket.AF_INET6) or borrowed.type != socket.SOCK_STREAM:
        return None
    try:
        address, port = borrowed.getsockname()[:2]
        if port not in ports or (here and _cookie(borrowed) != here):
            return None
        v6only = None
        if borrowed.family == socket.AF_INET6:
            v6only = bool(borrowed.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY))
            address = sockets.shown(socket.inet_pton(socket.AF_INET6, address.partition("%")[0]))
    except OSError:
        return None
    return sockets.Row(address, port, sockets.BOUND, inode, "", v6only)


def _cookie(one: socket.socket) -> Optional[bytes]:
    try:
        return one.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, struct.calcsize("=Q"))
    except OSError:
        return None


def _cookie_here() -> Optional[bytes]:
    """The name of this network namespace, which a socket of it bears as well."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as own:
        return _cookie(own)


def _same_space(pid: int, spaces: dict[int, str]) -> bool:
    for one in (pid, os.getpid()):
        if one not in spaces:
            try:
                spaces[one] = os.readlink(f"/proc/{one}/ns/net")
            except OSError:
                spaces[one] = ""
    return spaces[pid] == spaces[os.getpid()]


def _borrow(pid: int, number: int) -> Optional[socket.socket]:
    """A duplicate of a socket of another process; None when that has ended or closed it."""
    process = _call(_PIDFD_OPEN, pid, 0, 0)
    if process < 0:
        _check(-process)
        return None
    try:
        duplicate = _call(_PIDFD_GETFD, process, number, 0)
    finally:
        os.close(process)
    if duplicate < 0:
        _check(-duplicate)
        return None
    try:
        return socket.socket(fileno=duplicate)
    except OSError:  # another file stands at this number by now
        os.close(duplicate)
        return None


def _check(code: int) -> None:
    """Unreadable, unless the process is gone or has closed the file."""
    if code not in (errno.ESRCH, errno.EBADF):
        raise Unreadable(f"The kernel does not lend sockets of other processes (pidfd_getfd): {os.strerror(code)}.")


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: int) -> int:
    """A system call; the negative error number when it fails."""
    answer = int(_libc().syscall(ctypes.c_long(number), *(ctypes.c_long(value) for value in arguments)))
    return answer if answer >= 0 else -ctypes.get_errno()
