# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that look like leftovers, found without following a link."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Collection, Iterable, Iterator, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.patterns import FILE, FOLDER, SOCKET, Pattern

Identity = tuple[int, int]  # device, inode


@dataclass(frozen=True)
class Entry:
    folder: str
    name: str
    pattern: Pattern
    kind: str
    status: os.stat_result
    folder_device: int
    maker: Optional[int] = None  # the process that made it, as its name says
    inside: bool = False  # of a folder that is a leftover
    newest: bool = False

    @property
    def path(self) -> str:
        return os.path.join(self.folder, self.name)

    @property
    def identity(self) -> Identity:
        return self.status.st_dev, self.status.st_ino

    @property
    def size(self) -> int:
        """What its removal frees: a segment may be longer than what was written to it."""
        return self.status.st_blocks * 512

    @property
    def changed(self) -> float:
        """A time of change can be set to anything by who owns the file, that of its inode cannot."""
        return max(self.status.st_mtime, self.status.st_ctime)


@contextmanager
def opened(folder: str) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def entries(patterns: Iterable[Pattern], kinds: Collection[str]) -> tuple[list[Entry], list[tuple[str, str]]]:
    """What is of these kinds by the first pattern it matches; and folders that could not be read, with the reason."""
    found: list[Entry] = []
    troubles: list[tuple[str, str]] = []
    by_folder: dict[str, list[Pattern]] = {}
    for pattern in patterns:
        by_folder.setdefault(os.path.realpath(pattern.folder), []).append(pattern)
    for folder, rows in by_folder.items():
        try:
            found += [entry for entry in _of(folder, rows) if entry.pattern.kind in kinds]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            troubles.append((folder, error.strerror or str(error)))
    return found, troubles


def _of(folder: str, rows: list[Pattern]) -> list[Entry]:
    found = []
    with opened(folder) as handle:
        device = os.fstat(handle).st_dev
        for name in sorted(os.listdir(handle)):
            for pattern in rows:
                match = pattern.name.fullmatch(name)
                if not match:
                    continue
                with suppress(FileNotFoundError):
                    status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                    maker = int(match.group("pid")) if "pid" in pattern.name.groupindex else None
                    entry = Entry(folder, name, pattern, pattern.kind, status, device, maker)
                    if entry.kind == FOLDER and stat.S_ISDIR(status.st_mode) and status.st_dev == device:
                        found += _inside(entry)
                    found.append(entry)
                break
    return found


def _inside(folder: Entry) -> list[Entry]:
    """Its files, one level deep: with more in it, it stays."""
    found = []
    with suppress(OSError), opened(folder.path) as handle:
        status = os.fstat(handle)
        if (status.st_dev, status.st_ino) != folder.identity:
            return []
        for name in sorted(os.listdir(handle)):
            with suppress(FileNotFoundError):
                own = os.stat(name, dir_fd=handle, follow_symlinks=False)
                kind = SOCKET if stat.S_ISSOCK(own.st_mode) else FILE
                found.append(Entry(folder.path, name, folder.pattern, kind, own, status.st_dev, inside=True))
    return found
