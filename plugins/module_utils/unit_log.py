# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines a unit wrote since one start, out of its log file (rotated, truncated, coloured, cut) or the journal."""

from __future__ import annotations

import os
import re
from collections import deque
from typing import Iterator, Optional, Protocol

from ansible_collections.mooncake.pd.plugins.module_utils.systemd import Run

START_MARK = "--- mooncake-pd start"  # the units write it before each start, see unit_file

_MARK = re.compile(re.escape(START_MARK) + r" unit=\S+ invocation=(\S*)")
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_BREAK = re.compile(r"[\r\n]+")
_CHUNK = 8 << 20


def stem(unit: str) -> str:
    return unit[: -len(".service")] if unit.endswith(".service") else unit


def log_path(log_dir: str, unit: str) -> str:
    return os.path.join(log_dir, stem(unit) + ".log")


def lines_of(raw: bytes) -> list[str]:
    """Readable lines: no colours, no holes of a truncation; carriage returns (progress bars, CRLF) end a line."""
    text = _ANSI.sub("", raw.decode("utf-8", "replace").replace("\0", ""))
    return [line for line in _BREAK.split(text) if line.strip()]


def find_last(path: str, needle: bytes, lowest: int = 0) -> int:
    """Offset behind the last `needle` of a file at or after `lowest`, or -1; searched from the end in pieces."""
    with open(path, "rb") as source:
        end = source.seek(0, os.SEEK_END)
        while end > lowest:
            begin = max(lowest, end - _CHUNK)
            source.seek(begin)
            at = source.read(end - begin + len(needle) - 1).rfind(needle)
            if at >= 0:
                return begin + at + len(needle)
            end = begin
    return -1


class Log(Protocol):
    where: str
    behind: bool  # the last poll took a piece only, so poll again

    @property
    def found(self) -> bool: ...

    def poll(self, final: bool = False) -> list[str]: ...


class FileLog:
    """Follow a log file from the mark of one start on (the last start when no invocation is given)."""

    def __init__(self, path: str, unit: str, invocation: Optional[str] = None) -> None:
        self.where = path
        self.behind = False
        self._invocation = invocation
        mark = f"{START_MARK} unit={unit} "
        self._needle = (f"{mark}invocation={invocation} " if invocation else mark).encode()
        self._read: dict[tuple[int, int], int] = {}  # (device, inode) -> bytes read
        self._searched: dict[tuple[int, int], int] = {}
        self._ended = False

    @property
    def found(self) -> bool:
        """Is the mark of this start still in the log?"""
        return bool(self._read)

    def poll(self, final: bool = False) -> list[str]:
        """New complete lines; with `final` also a last one without a line end. Empty when there is nothing new."""
        if self._ended or not (self.found or self._locate()):
            return []
        # A renamed file may still be written to, so both are read, the older first.
        self.behind = False
        lines = self._new(self.where + ".1", final, follow=False)
        if not self.behind:
            lines += self._new(self.where, final, follow=True)
        for index, line in enumerate(lines):
            match = _MARK.search(line)
            if match and self._invocation and match.group(1) != self._invocation:
                self._ended, self.behind = True, False  # the next start wrote on from here
                return lines[:index]
        return lines

    def _locate(self) -> bool:
        for path in (self.where, self.where + ".1"):
            try:
                key, size = _identity(path)
                at = find_last(path, self._needle, self._searched.get(key, 0))
            except FileNotFoundError:
                continue
            if at < 0:
                self._searched[key] = max(0, size - len(self._needle))
                continue
            with open(path, "rb") as source:
                source.seek(at)
                self._read[key] = at + len(source.readline())
            return True
        return False

    def _new(self, path: str, final: bool, follow: bool) -> list[str]:
        try:
            key, size = _identity(path)
        except FileNotFoundError:
            return []
        if key not in self._read:
            if not follow:
                return []
            self._read[key] = 0  # a new file after a rotation
        lines: list[str] = []
        if size < self._read[key]:  # copytruncate: the rest of the old text is in the copy
            if follow:
                lines = self._take(path + ".1", self._read[key], final=True)[0]
            self._read[key] = 0
        more, self._read[key] = self._take(path, self._read[key], final)
        return lines + more

    def _take(self, path: str, offset: int, final: bool) -> tuple[list[str], int]:
        try:
            with open(path, "rb") as source:
                source.seek(offset)
                raw = source.read(_CHUNK)
        except FileNotFoundError:
            return [], offset
        full = self.behind = len(raw) == _CHUNK
        if (full and b"\n" in raw) or not (full or final):  # up to the last whole line
            raw = raw[: raw.rfind(b"\n") + 1]
        return lines_of(raw), offset + len(raw)


def _identity(path: str) -> tuple[tuple[int, int], int]:
    status = os.stat(path)
    return (status.st_dev, status.st_ino), status.st_size


class JournalLog:
    """The same for a unit that logs to the journal."""

    def __init__(self, unit: str, run: Run, invocation: Optional[str]) -> None:
        self.where = f"journalctl -u {unit}"
        self.behind = False
        self._run = run
        self._invocation = invocation
        self._cursor = ""

    @property
    def found(self) -> bool:
        return bool(self._invocation)

    def poll(self, final: bool = False) -> list[str]:
        if not self._invocation:
            return []
        command = ["journalctl", "-q", "--no-pager", "-o", "cat", "--show-cursor"]
        if self._cursor:
            command.append(f"--after-cursor={self._cursor}")
        # what the unit's processes said, or systemd said about this run of the unit
        command += [f"_SYSTEMD_INVOCATION_ID={self._invocation}", "+", f"INVOCATION_ID={self._invocation}"]
        code, out, _err = self._run(command)
        if code != 0:
            return []
        lines = lines_of(out.encode())
        if lines and lines[-1].startswith("-- cursor: "):
            self._cursor = lines.pop()[len("-- cursor: ") :]
        return lines


def open_log(log_dir: Optional[str], unit: str, invocation: Optional[str], run: Run) -> Log:
    """The unit's file in log_dir; the journal when there is none."""
    if log_dir:
        path = log_path(log_dir, unit)
        if os.path.exists(path) or os.path.exists(path + ".1"):
            return FileLog(path, unit, invocation)
    return JournalLog(unit, run, invocation)


def everything(log: Log) -> Iterator[str]:
    """All lines up to now; a process that writes all the time does not keep this going."""
    yield from log.poll(final=True)
    while log.behind:
        yield from log.poll(final=True)


def tail(log: Log, count: int) -> list[str]:
    return list(deque(everything(log), maxlen=count))
