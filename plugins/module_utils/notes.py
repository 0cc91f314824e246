# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Notes in /run/mooncake-pd/UNIT. The folder belongs to the unit's user, so root follows nothing that lies in it."""

from __future__ import annotations

import json
import os
import secrets
import stat
from typing import Mapping, Optional

RUN_DIR = "/run/mooncake-pd"
LINES = "notes.json"
CID = "cid"  # written by a container runtime: the container of the unit
_LIMIT = 1 << 20
_LINE_LIMIT = 1000


def read(path: str) -> Optional[str]:
    """Text of a regular file; None for anything else, such as a link or a FIFO."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        with open(handle, "rb", closefd=False) as source:
            return source.read(_LIMIT).decode("utf-8", "replace")
    finally:
        os.close(handle)


def write(folder: str, name: str, text: str) -> None:
    """Put a file of our own there, in place of whatever has its name."""
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    fresh = f".{name}.{secrets.token_hex(8)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(fresh, flags, 0o644, dir_fd=inside)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as target:
                target.write(text)
            os.replace(fresh, name, src_dir_fd=inside, dst_dir_fd=inside)
        except OSError:
            os.unlink(fresh, dir_fd=inside)
            raise
    finally:
        os.close(inside)


def write_lines(folder: str, invocation: str, lines: Mapping[str, str]) -> None:
    kept = {name: line[:_LINE_LIMIT] for name, line in lines.items()}
    write(folder, LINES, json.dumps({"invocation": invocation, "lines": kept}, ensure_ascii=False) + "\n")


def read_lines(folder: str, invocation: str) -> dict[str, str]:
    """Lines by name; none when they are of another start."""
    try:
        content = json.loads(read(os.path.join(folder, LINES)) or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict) or not invocation or content.get("invocation") != invocation:
        return {}
    lines = content.get("lines")
    return {str(name): str(line) for name, line in lines.items()} if isinstance(lines, dict) else {}
