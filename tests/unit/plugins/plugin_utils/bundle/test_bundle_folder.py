# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle from run to run: whole, interrupted, damaged, no longer needed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle import collect, files
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.collect import Bundle, Settings
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.jobs import Job
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.manifest import Manifest, ManifestError, describe
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.run import CollectError

ONE = Job("wheels", "one", {"requirements": ["one"], "dependencies": True})
LOCK = Job("wheels", "lock", {"requirements": ["lock"], "dependencies": False})
DEBS = Job("packages", "debian-12-x86_64", {"names": ["deb"]})


class Market:
    """In place of pip and apt."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.goods = {"one": "1", "lock": "2", "debian-12-x86_64": "3"}
        self.sold_out: set[str] = set()

    def sell(self, _bundle: Bundle, job: Job, _work: Path, dest: Path) -> dict[str, dict[str, str]]:
        self.asked.append(job.label)
        (dest / "sub").mkdir()
        (dest / "sub/second").write_text("always")
        (dest / "first").write_text(self.goods[job.label])
        if job.label in self.sold_out:
            raise CollectError(f"no {job.label} any more")
        return {"first": {"version": "1.0", "from": "market"}}


@pytest.fixture
def market(monkeypatch: pytest.MonkeyPatch) -> Market:
    made = Market()
    for kind in ("wheels", "packages"):
        monkeypatch.setitem(collect._COLLECT, kind, made.sell)
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "bundle"


def fill(home: Path, *jobs: Job, refresh: bool = False) -> collect.Outcome:
    return Bundle(home, jobs, Settings(refresh=refresh)).fill(lambda text: None)


def tree(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_first_run_tells_of_every_file_and_sha256sum_agrees(home: Path, market: Market) -> None:
    outcome = fill(home, ONE, DEBS)
    assert sorted(outcome.collected) == [DEBS.what, ONE.what]
    assert Manifest.read(home).files()[f"{ONE.folder}/first"] == {
        "sha256": "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
        "size": 1,
        "version": "1.0",
        "from": "market",
    }
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=home, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout.count(b"OK")) == (0, 4)
    assert not (home / collect.WORK).exists()


def test_second_run_asks_for_nothing_and_writes_nothing(home: Path, market: Market) -> None:
    fill(home, ONE, DEBS)
    before, stamps = tree(home), {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    market.asked.clear()
    assert not fill(home, ONE, DEBS).changed
    assert market.asked == []
    assert tree(home) == before
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == stamps


@pytest.mark.parametrize("harm", ["damaged", "shorter", "missing"])
def test_a_bad_file_is_told_and_mended(home: Path, market: Market, harm: str) -> None:
    fill(home, ONE, LOCK)
    good, bad = tree(home), home / LOCK.folder / "first"
    {"damaged": lambda: bad.write_text("x"), "shorter": lambda: bad.write_text(""), "missing": bad.unlink}[harm]()
    market.asked.clear()
    bundle = Bundle(home, [ONE, LOCK], Settings())
    expected = {"damaged": "is damaged", "shorter": "has 0 bytes instead of 1", "missing": "is missing"}[harm]
    assert bundle.outcome_to_come().mended == [f"{LOCK.folder}/first {expected}"]
    outcome = bundle.fill(lambda text: None)
    assert outcome.changed
    assert outcome.collected == []
    assert market.asked == ["lock"]
    assert tree(home) == good


def test_what_came_before_a_failure_is_kept_and_the_rest_is_told(home: Path, market: Market) -> None:
    market.sold_out = {"one", "debian-12-x86_64"}
    outcome = fill(home, ONE, LOCK, DEBS)
    assert sorted(outcome.errors) == [f"{job.what}: no {job.label} any more" for job in (DEBS, ONE)]
    assert [entry["folder"] for entry in Manifest.read(home).jobs.values()] == [LOCK.folder]
    assert not (home / ONE.folder).exists()
    market.sold_out, market.asked = set(), []
    assert fill(home, ONE, LOCK, DEBS).errors == []
    assert sorted(market.asked) == ["debian-12-x86_64", "one"]


def test_a_failure_takes_nothing_away(home: Path, market: Market) -> None:
    fill(home, ONE)
    market.sold_out = {"lock"}
    assert fill(home, LOCK).removed == []
    assert (home / ONE.folder / "first").exists()


def test_a_run_that_was_killed_leaves_nothing_that_counts(home: Path, market: Market) -> None:
    (home / collect.WORK / "half/files").mkdir(parents=True)
    (home / collect.WORK / "half/files/a").write_text("ha")
    # its folder had its name already, and the manifest did not tell of it yet
    (home / ONE.folder).mkdir(parents=True)
    (home / ONE.folder / "third").write_text("?")
    fill(home, ONE)
    assert sorted(tree(home / ONE.folder)) == ["first", "sub/second"]
    assert not (home / collect.WORK).exists()


def test_what_is_no_longer_needed_goes(home: Path, market: Market) -> None:
    fill(home, ONE, DEBS)
    assert Bundle(home, [ONE], Settings()).outcome_to_come().removed == [DEBS.folder]
    assert fill(home, ONE).removed == [DEBS.folder]
    assert not (home / "packages").exists()
    assert list(Manifest.read(home).jobs) == [ONE.key]
    assert not fill(home, ONE).changed


def test_refresh_asks_for_what_may_have_become_newer(home: Path, market: Market) -> None:
    fill(home, ONE, LOCK, DEBS)
    market.asked.clear()
    assert not fill(home, ONE, LOCK, DEBS, refresh=True).changed
    assert sorted(market.asked) == ["debian-12-x86_64", "one"]
    market.goods["one"] = "newer"
    assert fill(home, ONE, LOCK, DEBS, refresh=True).collected == [ONE.what]
    assert (home / ONE.folder / "first").read_text() == "newer"


def test_a_folder_of_somebody_else_is_left_alone(home: Path, market: Market) -> None:
    home.mkdir()
    (home / "thesis.txt").write_text("mine")
    with pytest.raises(ManifestError, match=r"has files and is no bundle\. Mend"):
        fill(home, ONE)
    assert tree(home) == {"thesis.txt": b"mine"}


@pytest.mark.parametrize(("text", "why"), [("{", "cannot be read"), ('{"schema": 0}', "of another version")])
def test_a_manifest_that_is_none(home: Path, text: str, why: str) -> None:
    home.mkdir()
    (home / "manifest.json").write_text(text)
    with pytest.raises(ManifestError, match=why):
        Manifest.read(home)


def test_no_manifest_is_no_bundle(home: Path) -> None:
    with pytest.raises(ManifestError, match=r"is no bundle: it has no manifest\.json\. Mend"):
        Manifest.read(home)


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


def repository(folder: Path, **texts: str) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet")
    for name, text in texts.items():
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x")
    return folder


def test_a_source_comes_at_its_tag_with_its_submodules(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", header="inner")
    outer = repository(tmp_path / "outer", CMakeLists="old")
    git(outer, "submodule", "--quiet", "add", str(inner), "extern")
    git(outer, "commit", "-qm", "with")
    git(outer, "tag", "v1")
    (outer / "CMakeLists").write_text("new")
    git(outer, "commit", "-qam", "later")
    how: dict[str, Any] = {
        "name": "mooncake",
        "git": True,
        "needs": ["CMakeLists", "extern/header"],
        "version_given": False,
        "environment": {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "protocol.file.allow",
            "GIT_CONFIG_VALUE_0": "always",
        },
    }
    request = {"from": f"file://{outer}", "version": "v1"}
    sums = []
    for name in ("first", "second"):
        work, dest = tmp_path / f"{name}-work", tmp_path / name
        work.mkdir()
        dest.mkdir()
        told = files.source(request, how, work, dest)
        assert told == {"mooncake.tar.gz": {"version": "v1", "from": f"file://{outer}"}}
        sums.append(describe(dest, told)["mooncake.tar.gz"]["sha256"])
    assert sums[0] == sums[1]
    listed = subprocess.run(["tar", "-xzOf", dest / "mooncake.tar.gz", "CMakeLists"], check=True, capture_output=True)
    assert listed.stdout == b"old"
    with pytest.raises(CollectError, match="it lacks absent"):
        files.source(request, {**how, "needs": ["absent"]}, tmp_path, tmp_path)


def test_the_collection_is_known_by_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "galaxy.yml").write_text("{namespace: a, name: b, version: 1.2.3, readme: README.md, authors: [x]}")
    monkeypatch.setattr(files, "HOME", home)
    sums = []
    for text in ("same", "same", "other"):
        (home / "README.md").write_text(text)
        dest = tmp_path / str(len(sums))
        dest.mkdir()
        assert files.collection(dest) == {"a-b-1.2.3.tar.gz": {"version": "1.2.3", "from": "this collection"}}
        sums.append(files.contents(dest))
    assert sums[0] == sums[1] != sums[2]


def test_an_installed_collection_is_packed_as_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, dest = tmp_path / "installed", tmp_path / "dest"
    home.mkdir()
    dest.mkdir()
    (home / "README.md").write_text("x")
    info = {"namespace": "mooncake", "name": "pd", "version": "7.0.0"}
    (home / "MANIFEST.json").write_text(json.dumps({"collection_info": info}))
    listed = [{"name": "README.md", "ftype": "file", "chksum_sha256": "0"}, {"name": ".", "ftype": "dir"}]
    (home / "FILES.json").write_text(json.dumps({"files": listed}))
    monkeypatch.setattr(files, "HOME", home)
    assert files.collection(dest) == {"mooncake-pd-7.0.0.tar.gz": {"version": "7.0.0", "from": "this collection"}}
    listed = subprocess.run(["tar", "-tf", next(dest.iterdir())], check=True, capture_output=True, text=True).stdout
    assert sorted(listed.split()) == ["FILES.json", "MANIFEST.json", "README.md"]
