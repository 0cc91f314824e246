# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove the oldest log files of folders that are larger than they may be: trim_logs.py FILE.json

For programs that begin a new file with each start, which logrotate cannot count. What is open, what was written to
within the last hour, and the newest file of a kind in a folder always stay.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import stat
import sys
import time
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence

_SCALES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_RECENT = 3600


@dataclass(frozen=True)
class Log:
    path: str
    size: int
    written: float
    identity: tuple[int, int]

    @property
    def kind(self) -> tuple[str, str]:
        """Files that differ in numbers only (process, date) are of one kind."""
        folder, name = os.path.split(self.path)
        return folder, re.sub(r"\d+", "#", name)


def size(text: Any) -> int:
    match = re.fullmatch(r"(\d+)([KMGT]?)", str(text).strip().upper())
    if not match:
        raise ValueError(f"max_size {text!r} is no size, like 10G")
    return int(match.group(1)) * _SCALES.get(match.group(2), 1)


def files(entry: Mapping[str, Any]) -> Iterator[Log]:
    """Regular files only; links lead nowhere."""
    for folder, folders, names in os.walk(str(entry["path"])):
        if not entry.get("recurse"):
            folders.clear()
        for name in fnmatch.filter(names, str(entry.get("pattern") or "*")):
            path = os.path.join(folder, name)
            try:
                state = os.lstat(path)
            except OSError:  # it went meanwhile
                continue
            if stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid():
                yield Log(path, state.st_size, state.st_mtime, (state.st_dev, state.st_ino))


def opened(proc: str = "/proc") -> set[tuple[int, int]]:
    """What processes have open, as far as this user may see: its own ones, whose files these are."""
    found = set()
    for pid in filter(str.isdigit, os.listdir(proc)):
        folder = os.path.join(proc, pid, "fd")
        try:
            handles = os.listdir(folder)
        except OSError:
            continue
        for handle in handles:
            try:
                state = os.stat(os.path.join(folder, handle))
            except OSError:
                continue
            found.add((state.st_dev, state.st_ino))
    return found


def surplus(logs: Sequence[Log], most: int, kept: set[tuple[int, int]], now: float) -> list[Log]:
    """What may go, the oldest first, until the rest is small enough."""
    newest: dict[tuple[str, str], Log] = {}
    for log in logs:
        if log.kind not in newest or log.written > newest[log.kind].written:
            newest[log.kind] = log
    total = sum(log.size for log in logs)
    going = []
    for log in sorted(logs, key=lambda one: one.written):
        if total <= most:
            break
        if log.identity in kept or now - log.written < _RECENT or newest[log.kind] is log:
            continue
        going.append(log)
        total -= log.size
    return going


def main(path: str) -> None:
    with open(path, encoding="utf-8") as source:
        entries = json.load(source)
    kept = opened()
    for entry in entries:
        logs = list(files(entry))
        going = surplus(logs, size(entry["max_size"]), kept, time.time())
        for log in going:
            os.unlink(log.path)
        if going:
            print(f"{entry['path']}: removed {len(going)} of {len(logs)} files, {sum(log.size for log in going)} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
