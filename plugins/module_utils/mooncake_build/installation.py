# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of a manifest lies below a folder, and how it gets there and away again."""

from __future__ import annotations

import glob
import json
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import IO, Any, Callable, NamedTuple, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import manifest as manifests
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.source_tree import file_hash, stream_hash

Entry = Mapping[str, Any]

_PENDING = f"{manifests.PATH}.pending"  # paths that a run that did not end may have written
_STAGE = ".mooncake-pd-install"
_PACKAGE = "mooncake"


class InstallError(Exception):
    pass


class Owner(NamedTuple):
    user: Optional[int] = None  # None: whoever it is
    group: Optional[int] = None

    def is_of(self, status: os.stat_result) -> bool:
        return self.user in (None, status.st_uid) and self.group in (None, status.st_gid)

    def give(self, path: str) -> None:
        if self != (None, None):
            os.chown(path, *(-1 if number is None else number for number in self), follow_symlinks=False)


class Change(NamedTuple):
    write: list[Entry]  # content that is not as it should be
    adjust: list[Entry]  # only mode or owner
    remove: list[str]
    tighten: list[str]  # folders that everybody may write to

    def __bool__(self) -> bool:
        return any(self)


class Installation:
    def __init__(self, root: str, owner: Owner, relabel: Callable[[str], None] = lambda path: None) -> None:
        self.root = root
        self.owner = owner
        self._relabel = relabel
        self.manifest = self._read_manifest()
        self._own = {entry["path"] for entry in self.manifest["files"]} if self.manifest else set()
        with suppress(OSError, ValueError), open(self._at(_PENDING), encoding="utf-8") as source:
            self._own |= {path for path in json.load(source) if isinstance(path, str) and manifests.inside(path)}

    def _at(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _read_manifest(self) -> Optional[dict[str, Any]]:
        path = self._at(manifests.PATH)
        try:
            with open(path, encoding="utf-8", errors="replace") as source:
                return manifests.parse(source.read(), path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    # ---- what is to be done --------------------------------------------------------------------------------------

    def change_to(self, files: Iterable[Entry]) -> Change:
        wanted = {str(entry["path"]): entry for entry in files}
        states = {path: self._state(entry) for path, entry in wanted.items()}
        return Change(
            [wanted[path] for path, state in states.items() if state == "differs"],
            [wanted[path] for path, state in states.items() if state == "adjust"],
            sorted(path for path in self._own - wanted.keys() if os.path.lexists(self._at(path))),
            self._open_folders(wanted),
        )

    def _state(self, entry: Entry) -> str:
        path = self._at(entry["path"])
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return "differs"
        if "target" in entry:
            same = stat.S_ISLNK(status.st_mode) and os.readlink(path) == entry["target"]
        else:
            same = stat.S_ISREG(status.st_mode) and file_hash(path) == entry["sha256"]
        if not same:
            return "differs"
        mode = "target" in entry or stat.S_IMODE(status.st_mode) == int(entry["mode"], 8)
        return "right" if mode and self.owner.is_of(status) else "adjust"

    def _open_folders(self, paths: Iterable[str]) -> list[str]:
        found = []
        for folder in sorted(_folders(paths)):
            with suppress(OSError):
                if os.stat(self._at(folder)).st_mode & stat.S_IWOTH:
                    found.append(folder)
        return found

    def foreign(self, files: Iterable[Entry], change: Change) -> list[str]:
        """What would be overwritten, or would stand beside it, that is not ours; with the way out."""
        listed = list(files)
        said = []
        for folder in sorted({_site_packages(str(entry["path"])) for entry in listed} - {""}):
            said += [
                f"pip installed {name} into {self._at(folder)}: remove it first, with `pip uninstall {name}`"
                for name in self._distributions(folder)
            ]
        if said:
            return said
        for entry in change.write:
            path = self._at(entry["path"])
            if os.path.isdir(path) and not os.path.islink(path):
                said.append(f"{path} is a folder: move it away")
            elif os.path.lexists(path) and entry["path"] not in self._own:
                said.append(f"{path} was not installed by mooncake.pd: move it away")
        for folder in sorted(_folders(entry["path"] for entry in change.write)):
            if os.path.lexists(self._at(folder)) and not os.path.isdir(self._at(folder)):
                said.append(f"{self._at(folder)} is no folder: move it away")
        return said

    def _distributions(self, folder: str) -> list[str]:
        names = []
        for record in sorted(glob.glob(os.path.join(glob.escape(self._at(folder)), "*.dist-info", "RECORD"))):
            with open(record, encoding="utf-8", errors="replace") as source:
                if any(line.startswith(f"{_PACKAGE}/") for line in source):
                    stem = os.path.basename(os.path.dirname(record))[: -len(".dist-info")]
                    names.append(stem.rpartition("-")[0].replace("_", "-"))
        return names

    # ---- doing it ------------------------------------------------------------------------------------------------

    def apply(self, manifest: Mapping[str, Any], change: Change, contents: Iterable[tuple[str, IO[bytes]]]) -> None:
        """contents: of all files of the archive; those that are right already are passed over."""
        self._note({*self._own, *(entry["path"] for entry in manifest["files"])})
        self._place(change.write, contents)
        for entry in change.adjust:
            path = self._at(entry["path"])
            self.owner.give(path)
            if "target" not in entry:
                os.chmod(path, int(entry["mode"], 8))
        for folder in change.tighten:
            os.chmod(self._at(folder), 0o755)
        self._remove(change.remove)
        self._write(manifests.PATH, manifests.text(manifest))
        os.unlink(self._at(_PENDING))

    def remove(self) -> list[str]:
        """All that is ours."""
        removed = sorted(path for path in self._own if os.path.lexists(self._at(path)))
        self._remove(removed)
        for path in (_PENDING, manifests.PATH):
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(self._at(path))
        shutil.rmtree(self._at(_STAGE), ignore_errors=True)
        self._prune([manifests.PATH])
        return removed

    @property
    def is_there(self) -> bool:
        return self.manifest is not None or bool(self._own)

    def _note(self, paths: Iterable[str]) -> None:
        self._write(_PENDING, json.dumps(sorted(paths)))

    def _write(self, path: str, text: str) -> None:
        self._make_folder(os.path.dirname(path))
        temporary = self._at(f"{path}.tmp")
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        # the folder may belong to somebody else, who could have put a link there
        number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with open(number, "w", encoding="utf-8") as target:
            os.fchmod(number, 0o644)
            target.write(text)
        self.owner.give(temporary)
        os.replace(temporary, self._at(path))
        self._relabel(self._at(path))

    def _make_folder(self, path: str) -> None:
        place = self.root
        for name in ("", *filter(None, path.split("/"))):
            place = os.path.join(place, name) if name else place
            if not os.path.isdir(place):
                os.makedirs(place)
                os.chmod(place, 0o755)
                self.owner.give(place)

    def _place(self, entries: Iterable[Entry], contents: Iterable[tuple[str, IO[bytes]]]) -> None:
        """First all of it beside the place, then each by one rename, so that no program meets half a file."""
        wanted = {str(entry["path"]): entry for entry in entries}
        if not wanted:
            return
        stage = self._at(_STAGE)
        shutil.rmtree(stage, ignore_errors=True)
        os.makedirs(stage, mode=0o700)
        ready = {}
        for number, (path, content) in enumerate(contents):
            entry = wanted.get(path)
            if entry is not None:
                ready[path] = self._unpack(entry, content, os.path.join(stage, str(number)))
        for number, (path, entry) in enumerate(wanted.items()):
            if "target" in entry:
                ready[path] = os.path.join(stage, f"link{number}")
                os.symlink(entry["target"], ready[path])
                self.owner.give(ready[path])
        absent = sorted(wanted.keys() - ready.keys())
        if absent:
            raise InstallError(f"The archive lacks files of its manifest: {', '.join(absent[:5])}")
        for path, temporary in sorted(ready.items()):
            self._make_folder(os.path.dirname(path))
            os.replace(temporary, self._at(path))
            self._relabel(self._at(path))
        shutil.rmtree(stage)

    def _unpack(self, entry: Entry, content: IO[bytes], place: str) -> str:
        with open(place, "wb") as target:
            shutil.copyfileobj(content, target)
        with open(place, "rb") as source:
            if stream_hash(source) != entry["sha256"]:
                raise InstallError(f"{entry['path']} in the archive is not what its manifest says")
        os.chmod(place, int(entry["mode"], 8))
        self.owner.give(place)
        return place

    def _remove(self, paths: Iterable[str]) -> None:
        gone = list(paths)
        for path in gone:
            full = self._at(path)
            if os.path.isdir(full) and not os.path.islink(full):
                continue
            os.unlink(full)
            folder, name = os.path.split(full)
            if name.endswith(".py"):
                stem = glob.escape(os.path.join(folder, "__pycache__", name[:-3]))
                for compiled in glob.glob(f"{stem}.*.pyc"):
                    os.unlink(compiled)
        self._prune(gone)

    def _prune(self, paths: Iterable[str]) -> None:
        folders = _folders(paths)
        for folder in sorted({*folders, *(os.path.join(name, "__pycache__") for name in folders)}, reverse=True):
            with suppress(OSError):  # not empty, or not there
                os.rmdir(self._at(folder))


def _folders(paths: Iterable[str]) -> set[str]:
    """All folders above them, below the root."""
    found = set()
    for path in paths:
        folder = os.path.dirname(path)
        while folder:
            found.add(folder)
            folder = os.path.dirname(folder)
    return found


def _site_packages(path: str) -> str:
    before, found, _after = path.partition(f"-packages/{_PACKAGE}/")
    return f"{before}-packages" if found else ""
