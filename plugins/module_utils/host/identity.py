# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Look at something as another user: in a child process that becomes that user."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from typing import Any, Callable, Sequence

Become = Callable[[], None]


def as_user(uid: int, gid: int, groups: Sequence[int], function: Callable[[Become], Any], seconds: float) -> Any:
    """What the function returns (through JSON); it calls what it is given to become that user.

    To be called before the first thread is started: it forks.
    """
    if (uid, gid) == (os.geteuid(), os.getegid()):
        return function(lambda: None)
    if os.geteuid() != 0:
        raise PermissionError("only root can look as another user")

    def become() -> None:
        os.setgroups(list(groups))
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            os.write(writer, json.dumps(function(become)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    try:
        return json.loads(_everything(reader, time.monotonic() + seconds) or "null")
    finally:
        os.close(reader)
        _end(child)


def _end(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    for _attempt in range(50):  # it cannot be killed while a dead mount holds it
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.01)


def _everything(handle: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    while True:
        ready, _writable, _broken = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError("it did not end in its time")
        part = os.read(handle, 65536)
        if not part:
            return b"".join(parts)
        parts.append(part)
