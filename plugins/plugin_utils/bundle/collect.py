# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fill a folder with what jobs ask for. Each is done in a folder of its own that gets its name when it is whole."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle import files, packages, wheels
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.jobs import Job
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.manifest import (
    NAME,
    SUMS,
    Manifest,
    ManifestError,
    describe,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.run import CollectError

WORK = ".collecting"
KINDS = ("wheels", "packages", "source", "image", "collection")
_AT_ONCE = 3


@dataclass(frozen=True)
class Settings:
    pip_arguments: tuple[str, ...] = ()
    package_sources: str = ""
    refresh: bool = False


@dataclass
class Outcome:
    collected: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self.collected or self.mended or self.removed)


class Bundle:
    def __init__(self, home: Path, jobs: Iterable[Job], settings: Settings) -> None:
        self.home = home
        self.settings = settings
        self.wanted = {job.key: job for job in jobs}
        self.manifest = self._read()
        self.damaged = self.manifest.problems(home)
        known = {key: entry["folder"] for key, entry in self.manifest.jobs.items()}
        broken = {self.manifest.folder_of(name) for name in self.damaged}
        self.todo = [
            job
            for key, job in self.wanted.items()
            if key not in known or key in broken or (settings.refresh and _may_change(job))
        ]
        self._known = known

    def outcome_to_come(self) -> Outcome:
        """What a run would do."""
        return Outcome(
            [job.what for job in self.todo if job.key not in self._known],
            self._mended(),
            sorted(str(path.relative_to(self.home)) for path in self._strays()),
        )

    def fill(self, tell: Callable[[str], None]) -> Outcome:
        outcome = Outcome(mended=self._mended())
        self.home.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.home / WORK, ignore_errors=True)
        for name in self.damaged:
            (self.home / name).unlink(missing_ok=True)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            running: dict[Future[dict[str, Any]], Job] = {pool.submit(self._stage, job): job for job in self.todo}
            for done in as_completed(running):
                job = running[done]
                try:
                    told = done.result()
                except (CollectError, OSError) as error:
                    outcome.errors.append(f"{job.what}: {error}")
                    continue
                if self._take(job, told):
                    outcome.collected.append(job.what)
                    tell(f"{job.folder}: {len(told)} files, {sum(file['size'] for file in told.values()) / 1e6:.1f} MB")
        shutil.rmtree(self.home / WORK, ignore_errors=True)
        # what failed to come is no reason to lose what an older bundle had
        if not outcome.errors:
            outcome.removed = self._clear()
        self._write()
        return outcome

    def _read(self) -> Manifest:
        if (self.home / NAME).exists():
            return Manifest.read(self.home)
        if self.home.is_dir() and any(path.name not in (WORK, SUMS, *KINDS) for path in self.home.iterdir()):
            raise ManifestError(
                f"{self.home} has files and is no bundle. Mend: name an empty or a new folder in bundle_path."
            )
        return Manifest()

    def _mended(self) -> list[str]:
        return [f"{name} {problem}" for name, problem in self.damaged.items()]

    def _stage(self, job: Job) -> dict[str, Any]:
        place = self.home / WORK / job.key
        work, dest = place / "work", place / "files"
        for folder in (work, dest):
            folder.mkdir(parents=True)
        known = _COLLECT[job.kind](self, job, work, dest)
        if job.key in self._known:
            # a file that was still there was found there
            for name, file in self.manifest.jobs[job.key]["files"].items():
                if name in known and known[name]["from"].startswith("file:"):
                    known[name]["from"] = file["from"]
        return describe(dest, known)

    def _take(self, job: Job, told: Mapping[str, Any]) -> bool:
        """Whether it is another one than before."""
        before = self.manifest.jobs.get(job.key)
        if before and before["files"] == told and not any(name.startswith(f"{job.folder}/") for name in self.damaged):
            return False
        target = self.home / job.folder
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(exist_ok=True)
        (self.home / WORK / job.key / "files").rename(target)
        self.manifest.jobs[job.key] = {"what": job.what, "folder": job.folder, "files": dict(told)}
        self.manifest.write(self.home)
        return not before or before["files"] != told

    def _strays(self) -> Iterator[Path]:
        """Folders that an older inventory or a run that was interrupted has left; only those that jobs are done in."""
        wanted = {job.folder for job in self.wanted.values()}
        for kind in KINDS:
            folder = self.home / kind
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                if str(path.relative_to(self.home)) not in wanted:
                    yield path

    def _clear(self) -> list[str]:
        removed = []
        for path in list(self._strays()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            removed.append(str(path.relative_to(self.home)))
        for kind in KINDS:
            folder = self.home / kind
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        self.manifest.jobs = {key: entry for key, entry in self.manifest.jobs.items() if key in self.wanted}
        return removed

    def _write(self) -> None:
        if not (self.home / NAME).exists() or Manifest.read(self.home) != self.manifest:
            self.manifest.write(self.home)


def collection_job() -> Job:
    """Known by what is in it, so it has to be built to be known."""
    with tempfile.TemporaryDirectory() as folder:
        files.collection(Path(folder))
        return Job("collection", "mooncake-pd", {"contents": files.contents(Path(folder))})


def _may_change(job: Job) -> bool:
    """A lock, a tag or a build is the same tomorrow."""
    return job.kind in ("packages", "image") or (job.kind == "wheels" and job.request["dependencies"])


def _wheels(bundle: Bundle, job: Job, work: Path, dest: Path) -> dict[str, dict[str, str]]:
    before = bundle.home / job.folder
    mending = job.key in bundle._known and before.is_dir() and not bundle.settings.refresh
    more = bundle.settings.pip_arguments
    return wheels.collect(job.request, job.how, work, dest, more=more, before=before if mending else None)


_COLLECT: dict[str, Callable[[Bundle, Job, Path, Path], dict[str, dict[str, str]]]] = {
    "wheels": _wheels,
    "packages": lambda bundle, job, work, dest: packages.collect(
        job.request, job.how, bundle.settings.package_sources, work, dest
    ),
    "source": lambda _bundle, job, work, dest: files.source(job.request, job.how, work, dest),
    "image": lambda _bundle, job, _work, dest: files.image(job.request, job.how, dest),
    "collection": lambda _bundle, _job, _work, dest: files.collection(dest),
}
