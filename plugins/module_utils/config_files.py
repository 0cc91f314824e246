# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that the programs of units read: what is to be written, and whether it is there already.

They are never removed here: the unit that ran before may name another one, and has to find it.
"""

from __future__ import annotations

import grp
import os
import posixpath
import pwd
import stat
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Optional

MODE = 0o640
_FOLDER_MODE = 0o755


class ConfigFileError(ValueError):
    """Something that cannot be written as asked for."""


@dataclass(frozen=True)
class Wanted:
    path: str
    content: str
    user: str  # names or numbers
    group: str


@dataclass(frozen=True)
class Found:
    content: Optional[str]
    as_wanted: bool  # owner and mode too


def owner(
    unit: Mapping[str, Any], defaults: Optional[Mapping[str, Any]], container: Optional[Mapping[str, Any]]
) -> tuple[str, str]:
    """Who the program of a unit runs as, as far as this host knows him."""
    if container:
        user, _colon, group = str(container.get("user") or "").partition(":")
        # names are those of the image; root of the container is root here
        return (user, group or user) if user.isdigit() and (not group or group.isdigit()) else ("0", "0")
    service: dict[str, Any] = {}
    for sections in (defaults or {}, unit.get("sections") or {}):
        service.update(sections.get("Service") or {})
    user = str(service.get("User") or "root")
    return user, str(service.get("Group") or user)


def wanted(
    units: Iterable[Mapping[str, Any]],
    defaults: Optional[Mapping[str, Any]],
    container: Optional[Mapping[str, Any]],
) -> list[Wanted]:
    """One entry for each path. ConfigFileError when two units want different things there."""
    made: dict[str, Wanted] = {}
    for unit in units:
        user, group = owner(unit, defaults, container)
        for file in unit.get("files") or ():
            path = file["path"]
            if not path.startswith("/") or posixpath.normpath(path) != path:
                raise ConfigFileError(f"{unit['name']}: files: {path!r} is no plain absolute path")
            new = Wanted(path, file["content"], user, group)
            if made.setdefault(path, new) != new:
                raise ConfigFileError(f"{unit['name']}: files: another unit has {path} with other content or owner")
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
    try:
        owned = (status.st_uid, status.st_gid) == ids(file)
    except ConfigFileError:
        owned = False
    return Found(content, content == file.content and owned and stat.S_IMODE(status.st_mode) == MODE)


def ids(file: Wanted) -> tuple[int, int]:
    try:
        uid = int(file.user) if file.user.isdigit() else pwd.getpwnam(file.user).pw_uid
        gid = int(file.group) if file.group.isdigit() else grp.getgrnam(file.group).gr_gid
    except KeyError as error:
        raise ConfigFileError(f"{file.path} cannot be given to {file.user}:{file.group}: {error.args[0]}") from None
    return uid, gid


def write(file: Wanted) -> None:
    """Made beside its place with its owner and mode, so that nobody sees it in between.

    AnsibleModule.atomic_move() would give a new file to root, and to everybody to read.
    """
    uid, gid = ids(file)
    folder = posixpath.dirname(file.path)
    if not os.path.isdir(folder):
        os.makedirs(folder, _FOLDER_MODE)
    temporary = f"{file.path}.new"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as target:
        target.write(file.content)
    os.chown(temporary, uid, gid)
    os.chmod(temporary, MODE)
    os.replace(temporary, file.path)
