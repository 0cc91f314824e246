# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on the controller that reports are written to."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Values of environment variables are in it: nothing for all users of the controller, though perhaps for a group.
MODE = 0o640


class FilesError(Exception):
    """A file or folder cannot be used; the text names it and the way out."""


@dataclass(frozen=True)
class Reports:
    """Files of one folder: what they are now and what they are to be."""

    before: Mapping[Path, str | None]
    after: Mapping[Path, str]

    @classmethod
    def of(cls, texts: Mapping[Path, str]) -> Reports:
        return cls({path: _read(path) for path in texts}, texts)

    @classmethod
    def outside(cls, sources: Iterable[object], home: Path, texts: Mapping[Path, str]) -> Reports:
        """Files of a folder that is no part of the inventories that Ansible was given."""
        refuse_inventory(home, sources)
        return cls.of(texts)

    def write(self) -> None:
        for path, text in self.after.items():
            if self.before[path] != text:
                _write(path, text)

    def results(self) -> list[dict[str, Any]]:
        return [{"path": str(path), "changed": self.before[path] != text} for path, text in self.after.items()]

    def said(self, check_mode: bool) -> list[str]:
        lines = []
        for file in self.results():
            path = os.path.relpath(file["path"])
            state = ("would be written" if check_mode else "written") if file["changed"] else "unchanged"
            lines.append(f"{file['path'] if path.startswith('..') else path}  {state}")
        return lines


def folder(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "cluster"


def refuse_inventory(dest: Path, sources: Iterable[object]) -> None:
    """Ansible reads every file below a folder that it was given, and .json as an inventory.

    Of a folder with a file that it was given it reads the variables only. Still, the folder itself is refused, for it
    is what -i names the next time; folders below it are not, for plan/<name> lies there when one stands beside the
    file.
    """
    real = dest.resolve()
    for source in sources:
        path = Path(str(source)).absolute()
        if path.is_dir():
            inventory, inside = path.resolve(), real.is_relative_to(path.resolve())
        elif path.is_file():
            inventory = path.parent.resolve()  # a link's own, which is where Ansible looks for variables
            variables = (inventory / "group_vars", inventory / "host_vars")
            inside = real == inventory or any(real.is_relative_to(place) for place in variables)
        else:
            continue  # a list of hosts
        if inside:
            raise FilesError(
                f"dest: {dest} lies in the inventory {inventory}, where Ansible would read what is written as an "
                "inventory or as variables. Mend: choose a folder outside of it."
            )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        return ""  # whatever it is, it is no plan
    except OSError as error:
        raise FilesError(f"dest: {path} cannot be read: {error.strerror}.") from error


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise FilesError(f"dest: {path} cannot be written: {error.strerror}. Mend: choose another folder.") from error


def _replace(path: Path, text: str) -> None:
    """Whoever looks at it meanwhile sees all of it, and no link that lies there is followed."""
    handle, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, MODE)
            file.write(text)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
