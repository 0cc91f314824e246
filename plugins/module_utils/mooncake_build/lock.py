# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One build at a time in a work folder, and an end to what a killed one left running."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress
from typing import Optional

VARIABLE = "MOONCAKE_PD_BUILD"  # in the environment of all that a build starts, with its work folder
_SECONDS = 10.0  # in which killed processes have to be gone


class Busy(Exception):
    pass


class Lock:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = os.path.join(folder, "lock")
        self.descriptor: Optional[int] = None

    def __enter__(self) -> Lock:
        # not inherited by what is started: a compiler that outlives the build must not keep it
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise Busy(f"another build runs in {self._folder}, by process {holder}") from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self.descriptor = descriptor
        return self

    def __exit__(self, *_error: object) -> None:
        if self.descriptor is not None:
            os.ftruncate(self.descriptor, 0)
            os.close(self.descriptor)


def left_running(folder: str, proc: str = "/proc") -> list[int]:
    """Processes that a build in this folder started."""
    wanted = f"{VARIABLE}={folder}".encode()
    found = []
    for name in os.listdir(proc):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with suppress(OSError), open(f"{proc}/{name}/environ", "rb") as source:
            if wanted in source.read().split(b"\0"):
                found.append(int(name))
    return found


def end_left_running(folder: str) -> list[int]:
    """Kills them. They may start others meanwhile, so it looks until there are none."""
    ended: set[int] = set()
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        running = left_running(folder)
        if not running:
            break
        for pid in running:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended.update(running)
        time.sleep(0.02)
    return sorted(ended)
