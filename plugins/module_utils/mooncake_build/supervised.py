# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A command that does not outlive who started it, nor do its children.

Between the two stands a process of its own session. The kernel tells it when its parent is gone, even by SIGKILL, and
it ends the whole session then: make and ninja alone would go on, as nobody tells them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn, Optional

# prctl(2)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SECONDS = 10.0
_NOT_STARTED = 127


def run(argv: Sequence[str], environment: Mapping[str, str], folder: str, log: str) -> int:
    """The code it ends with, negative for a signal. Both its streams are appended to the log."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _supervise(parent, argv, environment, folder, log)
    try:
        _pid, status = os.waitpid(child, 0)
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
        raise
    return os.waitstatus_to_exitcode(status)


def _supervise(parent: int, argv: Sequence[str], environment: Mapping[str, str], folder: str, log: str) -> NoReturn:
    code = _NOT_STARTED
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        os.closerange(3, 4096)  # the lock among them
        os.setsid()
        signal.signal(signal.SIGTERM, _end)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        if os.getppid() != parent:
            _end()
        with open(log, "ab", buffering=0) as target:
            try:
                # run_command keeps all output in memory
                process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                    argv, stdin=subprocess.DEVNULL, stdout=target, stderr=target, env=environment, cwd=folder
                )
                code = process.wait()
            except OSError as error:
                target.write(f"{argv[0]} cannot be started: {error.strerror}\n".encode())
        _end_session()
    finally:
        os._exit(code if code >= 0 else 128 - code)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _end(_number: int = 0, _frame: Optional[FrameType] = None) -> NoReturn:
    _end_session()
    os._exit(128 + signal.SIGTERM)


def _session(pid: str) -> Optional[int]:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as source:
            fields = source.read().rpartition(")")[2].split()
        return int(fields[3]) if fields[0] != "Z" else None
    except (OSError, ValueError, IndexError):
        return None


def _end_session() -> None:
    own = os.getpid()
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        running = [int(name) for name in os.listdir("/proc") if name.isdigit() and _session(name) == own]
        others = [pid for pid in running if pid != own]
        if not others:
            return
        for pid in others:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
