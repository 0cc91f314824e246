# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""manifest.json: what is in a bundle, where it comes from and what it has to look like."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAME = "manifest.json"
SUMS = "SHA256SUMS"
SCHEMA = 1


class ManifestError(Exception):
    """The folder is no bundle, or none that this version can read."""


@dataclass
class Manifest:
    """Job folders by key: {what, folder, files: {name: {sha256, size, version, from}}}."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, home: Path) -> Manifest:
        try:
            told = json.loads((home / NAME).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise ManifestError(
                f"{home} is no bundle: it has no {NAME}. Mend: name the folder that playbooks/bundle.yml filled."
            ) from None
        except (OSError, ValueError) as error:
            raise ManifestError(f"{home / NAME} cannot be read: {error}. Mend: carry the bundle over again.") from None
        if not isinstance(told, dict) or told.get("schema") != SCHEMA:
            raise ManifestError(f"{home / NAME} is of another version. Mend: collect the bundle anew with this one.")
        return cls(told["jobs"])

    def write(self, home: Path) -> None:
        content = {"schema": SCHEMA, "jobs": dict(sorted(self.jobs.items(), key=lambda entry: entry[1]["folder"]))}
        _put(home / SUMS, "".join(f"{file['sha256']}  {name}\n" for name, file in sorted(self.files().items())))
        _put(home / NAME, json.dumps(content, indent=1) + "\n")

    def files(self, keys: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        """By path below the bundle."""
        chosen = self.jobs.values() if keys is None else [self.jobs[key] for key in keys]
        return {f"{job['folder']}/{name}": file for job in chosen for name, file in job["files"].items()}

    def problems(self, home: Path) -> dict[str, str]:
        """Path and what is wrong with it, of every file that is not as it has to be."""
        wanted = self.files()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            told = pool.map(lambda entry: _problem(home / entry[0], entry[1]), wanted.items())
            return {name: problem for name, problem in zip(wanted, told, strict=True) if problem}

    def folder_of(self, path: str) -> str:
        """The key of the job that a file belongs to."""
        return next(key for key, job in self.jobs.items() if path.startswith(f"{job['folder']}/"))


def describe(folder: Path, more: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Any]]:
    """What was collected, as the manifest tells it."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        sums = list(pool.map(lambda name: digest(folder / name), names))
    return {
        name: {
            "sha256": checksum,
            "size": (folder / name).stat().st_size,
            "version": "",
            "from": "",
            **more.get(name, {}),
        }
        for name, checksum in zip(names, sums, strict=True)
    }


def digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as source:
        for block in iter(lambda: source.read(1 << 20), b""):
            total.update(block)
    return total.hexdigest()


def _problem(path: Path, wanted: Mapping[str, Any]) -> str:
    try:
        if path.stat().st_size != wanted["size"]:
            return f"has {path.stat().st_size} bytes instead of {wanted['size']}"
        return "" if digest(path) == wanted["sha256"] else "is damaged"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _put(path: Path, text: str) -> None:
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
