# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""File systems: /dev/shm with what lies there, /tmp, and the paths of the plan."""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.plugins.module_utils.jobs import Late, in_parallel

_SHM = "/dev/shm"
_SEGMENTS = 50
_SCAN_SECONDS = 1.5
_PIECE = 1 << 20
_SECONDS = 2.0  # a mount that does not answer hangs for ever
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    point: str
    filesystem: str
    options: list[str]


def parse_mounts(text: str) -> list[Mount]:
    """/proc/self/mountinfo"""
    found = []
    for line in text.splitlines():
        left, _dash, right = line.partition(" - ")
        fields, more = left.split(), right.split()
        if len(fields) < 6 or not more:
            continue
        point = _ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), fields[4])
        options = [*fields[5].split(","), *(more[2].split(",") if len(more) > 2 else [])]
        found.append(Mount(point, more[0], list(dict.fromkeys(options))))
    return found


def mount_of(path: str, mounts: Sequence[Mount]) -> Optional[Mount]:
    """The innermost one; of those at one place the last, which hides the others."""
    holding = [m for m in mounts if path == m.point or path.startswith(m.point.rstrip("/") + "/")]
    return max(enumerate(holding), key=lambda pair: (len(pair[1].point), pair[0]))[1] if holding else None


def mounts(look: Look) -> list[Mount]:
    return parse_mounts(look.read("/proc/self/mountinfo"))


def room(look: Look, path: str) -> dict[str, Optional[int]]:
    found = look.system.statvfs(look.at(path))
    return {
        "total": found.f_blocks * found.f_frsize,
        "free": found.f_bavail * found.f_frsize,
        # file systems that count none (btrfs) say 0 of 0
        "inodes_free": found.f_favail if found.f_files else -1,
    }


def tmp(look: Look) -> dict[str, Optional[int]]:
    found = look.sane("tmp", dict.fromkeys(("total", "free")), lambda: room(look, "/tmp"))
    return {key: found[key] for key in ("total", "free")}


def shm(look: Look) -> dict[str, Any]:
    nothing = dict.fromkeys(("total", "free", "inodes_free"))
    found: dict[str, Any] = dict(look.sane("shm", nothing, lambda: room(look, _SHM)))
    mount = look.sane("shm.options", None, lambda: mount_of(_SHM, mounts(look)))
    found["options"] = mount.options if mount else []
    there = look.sane("shm.segments", None, lambda: segments(look))
    if there is None:
        look.unknown("shm.segments_total", f"{_SHM} could not be listed.")
        there = {"segments": [], "segments_total": None}
    return {**found, **there}


def segments(look: Look) -> dict[str, Any]:
    """What lies in /dev/shm. `size` is what it takes: a segment may be longer than what was written to it."""
    files: dict[tuple[int, int], tuple[str, os.stat_result]] = {}
    for folder, folders, names in os.walk(look.at(_SHM), onerror=_raise):
        del folders[100:]
        for name in names:
            try:
                entry = os.lstat(os.path.join(folder, name))
            except OSError:  # removed meanwhile
                continue
            if stat.S_ISREG(entry.st_mode):
                path = os.path.relpath(os.path.join(folder, name), look.at(_SHM))
                files[entry.st_dev, entry.st_ino] = (path, entry)
    used, complete = opened(look, {key: name for key, (name, _entry) in files.items()})
    entries = [
        {
            "name": name,
            "size": entry.st_blocks * 512,
            "owner": look.system.user_name(entry.st_uid),
            "age": max(0, int(look.system.now() - entry.st_mtime)),
            "open": True if key in used else (False if complete else None),
        }
        for key, (name, entry) in files.items()
    ]
    if not complete:
        look.unknown("shm.segments", "Not every process could be asked whether it uses them.")
        look.unknown("shm.segments_total", "Not every process could be asked whether it uses them.")
    unused = [entry for entry in entries if entry["open"] is False]
    total = {
        "count": len(entries),
        "size": sum(_size(entry) for entry in entries),
        "unused_count": len(unused) if complete else None,
        "unused_size": sum(_size(entry) for entry in unused) if complete else None,
    }
    entries.sort(key=lambda entry: (-_size(entry), str(entry["name"])))
    return {"segments": entries[:_SEGMENTS], "segments_total": total}


def _size(entry: Mapping[str, Any]) -> int:
    return int(entry["size"])


def _raise(error: OSError) -> None:
    raise error


def opened(look: Look, named: Mapping[tuple[int, int], str]) -> tuple[set[tuple[int, int]], bool]:
    """Which of the files (device, inode) a process has open or mapped, and whether all processes could be asked."""
    files = set(named)
    names = {os.path.basename(name) for name in named.values()}
    left = set(files)
    complete = True
    until = look.system.monotonic() + _SCAN_SECONDS

    def in_time() -> None:
        if look.system.monotonic() > until:
            raise Late

    for pid in [name for name in os.listdir(look.at("/proc")) if name.isdigit()]:
        if not left:
            break
        try:
            in_time()
            left -= set(_mapped(look, pid, left, in_time))
            left -= set(_open(look, pid, left, names, in_time))
        except Late:
            return files - left, False
        except PermissionError:
            complete = False
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
    return files - left, complete or not left


def _mapped(
    look: Look, pid: str, files: set[tuple[int, int]], in_time: Callable[[], None]
) -> Iterator[tuple[int, int]]:
    numbers = {b" %02x:%02x " % (os.major(device), os.minor(device)): device for device, _inode in files}
    with open(look.at(f"/proc/{pid}/maps"), "rb") as source:
        rest = b""
        for part in iter(lambda: source.read(_PIECE), b""):  # an engine has a hundred thousand lines
            in_time()
            text, _newline, rest = (rest + part).rpartition(b"\n")
            for number, device in numbers.items():
                for inode in re.findall(re.escape(number) + rb"(\d+) ", text) if number in text else ():
                    if (device, int(inode)) in files:
                        yield device, int(inode)


def _open(
    look: Look, pid: str, files: set[tuple[int, int]], names: set[str], in_time: Callable[[], None]
) -> Iterator[tuple[int, int]]:
    folder = look.at(f"/proc/{pid}/fd")
    for name in os.listdir(folder):
        in_time()
        handle = os.path.join(folder, name)
        try:
            # The folder may have another name in another mount namespace. A stat of any file could hang.
            if os.path.basename(os.readlink(handle).replace(" (deleted)", "")) not in names:
                continue
            entry = os.stat(handle)
        except OSError:  # closed meanwhile
            continue
        if (entry.st_dev, entry.st_ino) in files:
            yield entry.st_dev, entry.st_ino


def nearest(look: Look, path: str) -> str:
    """The path itself, or the innermost parent that exists."""
    while path != "/":
        try:
            os.stat(look.at(path))
            break
        except (FileNotFoundError, NotADirectoryError):
            path = os.path.dirname(path)
    return path


def kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) else "other"


def examine(look: Look, wish: Mapping[str, Any], mounted: Sequence[Mount]) -> dict[str, Any]:
    path = os.path.normpath(wish["path"])
    there = nearest(look, path)
    entry = os.stat(look.at(there))
    mount = mount_of(os.path.realpath(look.at(there)) if look.root == "/" else there, mounted)
    return {
        "path": wish["path"],
        "purpose": wish["purpose"],
        "type": kind(entry.st_mode) if there == path else "missing",
        "nearest": there,
        "filesystem": mount.filesystem if mount else None,
        "mount": mount.point if mount else None,
        **room(look, there),
        "read_only": bool(look.system.statvfs(look.at(there)).f_flag & os.ST_RDONLY),
        "owner": look.system.user_name(entry.st_uid),
        "mode": f"{stat.S_IMODE(entry.st_mode):04o}",
    }


_NOTHING = dict.fromkeys(
    ("type", "nearest", "filesystem", "mount", "total", "free", "inodes_free", "read_only", "owner", "mode")
)


def paths(look: Look, wishes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each one by itself, as each may be on a mount that does not answer."""

    mounted: list[Mount] = look.sane("paths", [], lambda: mounts(look)) if wishes else []

    def job(wish: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
        return lambda: examine(look, wish, mounted)

    found = in_parallel([job(wish) for wish in wishes], max(1, len(wishes)), _SECONDS)
    entries: list[dict[str, Any]] = []
    for index, (wish, entry) in enumerate(zip(wishes, found)):
        if not isinstance(entry, Exception):
            entries.append(entry)
            for key in ("mount", "filesystem") if entry["mount"] is None else ():
                look.unknown(f"paths.{index}.{key}", f"No mount of /proc/self/mountinfo holds {wish['path']}.")
            continue
        why = f"did not answer within {_SECONDS:g} s" if isinstance(entry, Late) else f"cannot be read: {entry}"
        look.unknown(f"paths.{index}", f"{wish['path']} {why}.")
        entries.append({"path": wish["path"], "purpose": wish["purpose"], **_NOTHING})
    return entries


def access(look: Look, wishes: Sequence[Mapping[str, Any]], user: str) -> list[dict[str, Optional[bool]]]:
    """Whether the user may read and write each path (a missing one: the nearest parent). It forks: no threads yet.

    Asked of the kernel as that user, so that ACLs, read-only mounts and the squashed root of NFS count.
    """
    names = [wish.get("user") or user for wish in wishes]
    found: list[dict[str, Optional[bool]]] = [{"readable": None, "writable": None} for _wish in wishes]
    for name in dict.fromkeys(names):
        who = look.system.user(name)
        if who is None:
            continue
        mine = [index for index, other in enumerate(names) if other == name]

        def look_there(become: Callable[[], None], mine: Sequence[int] = mine) -> list[tuple[bool, bool]]:
            places = [look.at(nearest(look, os.path.normpath(wishes[index]["path"]))) for index in mine]
            become()
            return [_allowed(place) for place in places]

        try:
            answers = look.system.as_user(who, look_there, _SECONDS)
            for index, (readable, writable) in zip(mine, answers or ()):
                found[index] = {"readable": readable, "writable": writable}
            why = "" if answers else "the child process gave no answer"
        except OSError as error:
            why = str(error)
        for index in mine if why else ():
            for key in ("readable", "writable"):
                look.unknown(f"paths.{index}.{key}", f"{name} could not be tried: {why}.")
    return found


def _allowed(path: str) -> tuple[bool, bool]:
    enter = os.X_OK if os.path.isdir(path) else 0
    return os.access(path, os.R_OK | enter), os.access(path, os.W_OK | enter)
