# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a bundle on a host: each bears its name only when its checksum is the right one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import IO, Optional

INDEX = ".index.json"
STAMP = ".ready"
# written by the package managers or for them
_THEIRS = ("apt", "dnf")


class StoreError(Exception):
    """What arrived is not what was sent, or a name leads elsewhere."""


def digest(path: str) -> str:
    total = hashlib.sha256()
    with open(path, "rb") as source:
        for block in iter(lambda: source.read(1 << 20), b""):
            total.update(block)
    return total.hexdigest()


def inside(names: Iterable[str]) -> None:
    for name in names:
        if not name or name != os.path.normpath(name) or name.startswith(("/", "..")):
            raise StoreError(f"{name} is no path below the bundle")


def differences(have: Mapping[str, str], want: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """What has to come, and what is there for nothing."""
    return (
        sorted(name for name, checksum in want.items() if have.get(name) != checksum),
        sorted(name for name in have if name not in want),
    )


def free(path: str) -> int:
    """Bytes that may still be written there, also when the folder is yet to be made."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path).free


class Store:
    def __init__(self, path: str) -> None:
        self.path = path
        # name: size, time of the last change, checksum; what has not changed since is not read again
        self._index: dict[str, list[object]] = {}
        with suppress(OSError, ValueError), open(self._at(INDEX), encoding="utf-8") as source:
            known = json.load(source)
            if isinstance(known, dict):
                self._index = known

    def files(self) -> dict[str, str]:
        return {name: self._checksum(name) for name in self._names()}

    def take(self, name: str, source: str, checksum: str) -> None:
        with open(source, "rb") as content:
            self._write(name, content, checksum)
        os.unlink(source)
        self._save()

    def take_archive(self, archive: str, checksums: Mapping[str, str]) -> None:
        """Only what is named is taken, wherever else the archive may lead."""
        lacking = dict(checksums)
        with tarfile.open(archive) as packed:
            for member in packed:
                content = packed.extractfile(member) if member.name in lacking else None
                if content is not None:
                    self._write(member.name, content, lacking.pop(member.name))
        self._save()
        os.unlink(archive)
        if lacking:
            raise StoreError(f"the archive that arrived lacks {', '.join(sorted(lacking))}")

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            inside([name])
            os.unlink(self._at(name))
            self._index.pop(name, None)
            folder = os.path.dirname(name)
            while folder:
                with suppress(OSError):
                    os.rmdir(self._at(folder))
                folder = os.path.dirname(folder)
        self._save()

    @property
    def stamp(self) -> Optional[str]:
        """What the package managers have read."""
        with suppress(OSError), open(self._at(STAMP), encoding="utf-8") as source:
            return source.read()
        return None

    def ready(self, stamp: str) -> None:
        self._put(STAMP, stamp)

    def unready(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._at(STAMP))

    def text(self, name: str, content: str) -> None:
        os.makedirs(os.path.dirname(self._at(name)), mode=0o755, exist_ok=True)
        self._put(name, content)

    def _at(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _names(self) -> Iterable[str]:
        for folder, folders, names in os.walk(self.path):
            inner = os.path.relpath(folder, self.path)
            if inner == ".":
                folders[:] = [name for name in folders if name not in _THEIRS]
            for name in names:
                if inner != "." or name not in (INDEX, STAMP):
                    yield os.path.normpath(os.path.join(inner, name))

    def _checksum(self, name: str) -> str:
        now = os.lstat(self._at(name))
        known = self._index.get(name)
        if isinstance(known, list) and known[:2] == [now.st_size, now.st_mtime_ns] and isinstance(known[-1], str):
            return known[-1]
        return "" if os.path.islink(self._at(name)) else digest(self._at(name))

    def _write(self, name: str, content: IO[bytes], checksum: str) -> None:
        inside([name])
        target = self._at(name)
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        unfinished, total = f"{target}.arriving", hashlib.sha256()
        try:
            with open(unfinished, "wb") as out:
                for block in iter(lambda: content.read(1 << 20), b""):
                    total.update(block)
                    out.write(block)
            if total.hexdigest() != checksum:
                raise StoreError(f"{name} arrived damaged")
            os.chmod(unfinished, 0o644)
            os.replace(unfinished, target)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
        now = os.lstat(target)
        self._index[name] = [now.st_size, now.st_mtime_ns, checksum]

    def _save(self) -> None:
        self._put(INDEX, json.dumps(self._index))

    def _put(self, name: str, content: str) -> None:
        unfinished = self._at(f"{name}.new")
        with open(unfinished, "w", encoding="utf-8") as out:
            out.write(content)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, self._at(name))
