# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where passports lie on the controller: one file each, counted up, the last ones kept. Beside them lies what ran when
a restart began that has not ended yet."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.controller_files import FilesError, Reports, folder
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.passport import SCHEMA, Passport
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.resuming import Starts

# The number decides which one is the last, for clocks of controllers differ.
_RESTART = "restart.json"
_NAME = re.compile(r"([0-9]{4,9})_[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{6}Z\.json")


@dataclass(frozen=True)
class Archive:
    home: Path
    cluster: str

    @classmethod
    def of(cls, cluster: str, dest: str | None = None) -> Archive:
        return cls(Path(dest or Path("passport", folder(cluster))).absolute(), cluster)

    def last(self) -> tuple[Path, Passport] | None:
        """The newest passport; FilesError when it cannot be read, for to pass over it would be to forget it."""
        files = self._files()
        return (files[-1], self._read(files[-1])) if files else None

    def next(self, written: str) -> Path:
        """Where the next one goes. written: the time, as it stands in the passport."""
        files = self._files()
        number = int(_NAME.fullmatch(files[-1].name)[1]) + 1 if files else 1  # type: ignore[index]  # _files() matched
        return self.home / f"{number:04}_{written.replace(':', '')}.json"

    def write(self, path: Path, passport: Passport) -> None:
        Reports.of({path: json.dumps(passport, indent=2) + "\n"}).write()

    def restart(self) -> Any:
        """What ran when a restart of the cluster began that was not seen to end, and when; None without one."""
        path = self.note
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise FilesError(f"{path} cannot be read: {error}. Mend: remove it; a restart begins anew then.") from error
        return told if isinstance(told, dict) and told.get("cluster") == self.cluster else None

    def begin_restart(self, ran: Starts, began: str) -> None:
        text = json.dumps({"cluster": self.cluster, "began": began, "ran": ran}, indent=2) + "\n"
        Reports.of({self.note: text}).write()

    @property
    def note(self) -> Path:
        """There while a restart goes on, or was interrupted."""
        return self.home / _RESTART

    def surplus(self, keep: int, one_more: bool) -> list[Path]:
        """The oldest of them, beyond those that are kept. one_more: one is about to be written."""
        files = [path for path in self._files() if self._is_ours(path)]
        return files[: max(len(files) + one_more - keep, 0)]

    def remove(self, paths: Sequence[Path]) -> None:
        for path in paths:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise FilesError(f"{path} cannot be removed: {error.strerror}. Mend: remove it by hand.") from error

    def _files(self) -> list[Path]:
        try:
            found = [path for path in self.home.iterdir() if _NAME.fullmatch(path.name)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise FilesError(f"{self.home} cannot be read: {error.strerror}.") from error
        return sorted(found, key=lambda path: (int(path.name.partition("_")[0]), path.name))

    def _read(self, path: Path) -> Passport:
        problem = "it was not written by this version"
        try:
            told: Any = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            told, problem = None, str(error)
        if not isinstance(told, dict) or told.get("schema") != SCHEMA:
            raise FilesError(f"{path} cannot be read: {problem}. Mend: restore it, or move it away.")
        if told.get("cluster") != self.cluster:
            raise FilesError(
                f"{path} is the passport of {told.get('cluster')}, not of {self.cluster}. Mend: name another folder."
            )
        return told

    def _is_ours(self, path: Path) -> bool:
        try:
            self._read(path)
        except FilesError:
            return False
        return not os.path.islink(path)
