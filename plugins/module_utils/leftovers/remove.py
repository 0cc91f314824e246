# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removal of one file, when the last look still finds what the first one found."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import stat
from contextlib import contextmanager
from typing import Iterator, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import patterns
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.find import Entry, opened

GONE = "somebody else has removed it"
CHANGED = "it has changed since it was looked at"
IN_USE = "open or mapped, says the kernel"
LISTENS = "somebody listens there, says the kernel"


def remove(entry: Entry, dry: bool = False) -> Optional[str]:
    """None when it is gone, else why it was kept. dry: only what would speak against it."""
    try:
        with opened(entry.folder) as folder:
            if not _same(entry, os.stat(entry.name, dir_fd=folder, follow_symlinks=False)):
                return CHANGED
            if entry.kind == patterns.FOLDER:
                return None if dry else _folder(entry, folder)
            if entry.kind == patterns.SOCKET:
                return None if dry else _socket(entry, folder)
            return _file(entry, folder, dry)
    except FileNotFoundError:
        return GONE
    except OSError as error:
        return f"it could not be removed: {error.strerror}"


def _same(entry: Entry, now: os.stat_result) -> bool:
    def facts(status: os.stat_result) -> tuple[int, ...]:
        return status.st_dev, status.st_ino, status.st_mode, status.st_uid, status.st_nlink, status.st_size

    if entry.kind == patterns.FOLDER:  # what was in it is gone by now
        return (now.st_dev, now.st_ino, now.st_mode, now.st_uid) == facts(entry.status)[:4]
    same_times = (now.st_mtime_ns, now.st_ctime_ns) == (entry.status.st_mtime_ns, entry.status.st_ctime_ns)
    return same_times and facts(now) == facts(entry.status)


def _folder(entry: Entry, folder: int) -> Optional[str]:
    try:
        os.rmdir(entry.name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return "not empty"
        raise
    return None


def _file(entry: Entry, folder: int, dry: bool) -> Optional[str]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(entry.name, flags, dir_fd=folder)
    try:
        if not _same(entry, os.fstat(handle)):
            return CHANGED
        if entry.kind == patterns.CORE and not _is_core(handle):
            return "no core file"
        with _lease(handle) as alone:
            if not alone:
                return IN_USE
            if not dry:
                os.unlink(entry.name, dir_fd=folder)
        return None
    finally:
        os.close(handle)


@contextmanager
def _lease(handle: int) -> Iterator[bool]:
    """Whether nobody else has the file open or mapped, in whatever namespace; who opens it meanwhile has to wait.

    fcntl(2), F_SETLEASE: a write lease is given to the only one who has a file open. File systems without leases and
    a root without CAP_LEASE are told nothing: then the pass over /proc stands alone.
    """
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # it would end this process
    try:
        try:
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            yield error.errno not in (errno.EAGAIN, errno.EBUSY)
            return
        try:
            yield True
        finally:
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    finally:
        signal.signal(signal.SIGIO, before)


def _is_core(handle: int) -> bool:
    """ELF, type ET_CORE; elf(5)."""
    head = os.pread(handle, 18, 0)
    if len(head) < 18 or head[:4] != b"\x7fELF":
        return False
    return int.from_bytes(head[16:18], "big" if head[5] == 2 else "little") == 4


def _socket(entry: Entry, folder: int) -> Optional[str]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_UNIX, kind) as client:
            client.setblocking(False)
            # through the folder that is open: neither a long path nor an exchanged folder leads elsewhere
            answer = client.connect_ex(f"/proc/self/fd/{folder}/{entry.name}")
        if answer not in (errno.ECONNREFUSED, errno.EPROTOTYPE):
            return LISTENS if answer in (0, errno.EAGAIN) else f"it could not be asked: {os.strerror(answer)}"
        if answer == errno.EPROTOTYPE:  # there is a socket, of another type
            continue
        now = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
        if not (stat.S_ISSOCK(now.st_mode) and _same(entry, now)):
            return CHANGED
        os.unlink(entry.name, dir_fd=folder)
        return None
    return LISTENS
