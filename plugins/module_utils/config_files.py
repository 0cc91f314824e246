# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that the programs of units read: what is to be written, and whether it is there already.

Nothing in them is secret, so everybody may read them: who a program runs as in a container, only its image knows.
They are never removed here: the unit that ran before may name another one, and has to find it.
"""

from __future__ import annotations

import os
import posixpath
import stat
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Optional

MODE = 0o644
_FOLDER_MODE = 0o755
_TO_PASS = 0o111  # what everybody needs of a folder to reach what lies in it


class ConfigFileError(ValueError):
    """Something that cannot be written as asked for."""


@dataclass(frozen=True)
class Wanted:
    path: str
    content: str


@dataclass(frozen=True)
class Found:
    content: Optional[str]
    as_wanted: bool  # owner, mode and the way to it too


def wanted(units: Iterable[Mapping[str, Any]]) -> list[Wanted]:
    """One entry for each path. ConfigFileError when two units want different things there."""
    made: dict[str, Wanted] = {}
    for unit in units:
        for file in unit.get("files") or ():
            path = file["path"]
            if not path.startswith("/") or posixpath.normpath(path) != path:
                raise ConfigFileError(f"{unit['name']}: files: {path!r} is no plain absolute path")
            new = Wanted(path, file["content"])
            if made.setdefault(path, new) != new:
                raise ConfigFileError(f"{unit['name']}: files: another unit has {path} with other content")
    return list(made.values())


def look(file: Wanted) -> Found:
    try:
        status = os.lstat(file.path)
    except (FileNotFoundError, NotADirectoryError):
        return Found(None, False)
    if not stat.S_ISREG(status.st_mode):
        raise ConfigFileError(f"{file.path} is there and no file: move it away")
    with open(file.path, encoding="utf-8", errors="replace") as source:
        content = source.read()
    owned = (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
    readable = stat.S_IMODE(status.st_mode) == MODE and _passes(posixpath.dirname(file.path))
    return Found(content, content == file.content and owned and readable)


def _passes(folder: str) -> bool:
    return os.stat(folder).st_mode & _TO_PASS == _TO_PASS


def write(file: Wanted) -> None:
    """Made beside its place with its owner and mode, so that nobody sees it in between."""
    folder = posixpath.dirname(file.path)
    _make(folder)
    if not _passes(folder):
        os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | _TO_PASS)
    temporary = f"{file.path}.new"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as target:
        target.write(file.content)
    os.chown(temporary, os.geteuid(), os.getegid())
    os.chmod(temporary, MODE)
    os.replace(temporary, file.path)


def _make(folder: str) -> None:
    """With all that leads there: root may have a umask that keeps the service user out of what it makes."""
    if os.path.isdir(folder):
        return
    _make(posixpath.dirname(folder))
    os.mkdir(folder)
    os.chmod(folder, _FOLDER_MODE)
