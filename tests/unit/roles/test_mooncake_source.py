# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the mooncake role takes for a source tree on the controller, and how it packs one."""

from __future__ import annotations

import importlib.util
import subprocess
import tarfile
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "roles" / "mooncake" / "files" / "source.py"
spec = importlib.util.spec_from_file_location("mooncake_source", PROGRAM)
assert spec
assert spec.loader
source = importlib.util.module_from_spec(spec)
spec.loader.exec_module(source)

NEEDS = ["CMakeLists.txt", "extern/pybind11/CMakeLists.txt"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    for name in NEEDS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    return folder


def look(place: Path, pack: Path | str = "", version: str = "v1", given: bool = False) -> dict:
    asked = {"name": "mooncake", "from": str(place), "version": version, "version_given": given, "needs": NEEDS}
    return source.look({"trees": [asked], "pack": str(pack)})


def git(folder: Path, *words: str) -> None:
    quiet = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", "-C", str(folder), *quiet, *words], check=True, capture_output=True)


@pytest.fixture
def clone(tree: Path) -> Path:
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "one")
    git(tree, "tag", "v1")
    return tree


def test_same_content_has_the_same_digest_and_bytes(tree, tmp_path):
    first = look(tree, tmp_path / "a")["trees"]["mooncake"]
    (tree / "CMakeLists.txt").touch()
    second = look(tree, tmp_path / "b")["trees"]["mooncake"]
    assert first["digest"] == second["digest"]
    assert Path(first["archive"]).read_bytes() == Path(second["archive"]).read_bytes()
    with tarfile.open(first["archive"]) as archive:
        assert archive.getnames() == sorted(NEEDS)


@pytest.mark.parametrize("change", ["content", "name", "executable"])
def test_every_change_has_another_digest(tree, change):
    before = look(tree)["trees"]["mooncake"]["digest"]
    if change == "content":
        (tree / "CMakeLists.txt").write_text("# other\n")
    elif change == "name":
        (tree / "new").write_text("")
    else:
        (tree / "CMakeLists.txt").chmod(0o755)
    assert look(tree)["trees"]["mooncake"]["digest"] != before


def test_tree_without_submodules_is_refused(tree):
    (tree / NEEDS[1]).unlink()
    (problem,) = look(tree)["problems"]
    assert "lacks extern/pybind11/CMakeLists.txt" in problem
    assert "git submodule update --init --recursive" in problem


def test_of_a_clone_only_what_git_tracks_counts(clone):
    before = look(clone)
    (clone / "build.log").write_text("left over")
    assert look(clone) == before
    (clone / "CMakeLists.txt").write_text("# not committed\n")
    assert look(clone)["trees"]["mooncake"]["digest"] != before["trees"]["mooncake"]["digest"]


def test_submodules_of_a_clone_are_in(clone, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "inside").write_text("x")
    git(other, "init", "-q")
    git(other, "add", ".")
    git(other, "commit", "-q", "-m", "x")
    git(clone, "submodule", "add", "-q", str(other), "extern/other")
    found = look(clone, tmp_path / "packed")
    with tarfile.open(found["trees"]["mooncake"]["archive"]) as archive:
        assert "extern/other/inside" in archive.getnames()


def test_clone_at_another_release_than_planned(clone):
    git(clone, "commit", "-q", "--allow-empty", "-m", "two")
    (problem,) = look(clone)["problems"]
    assert "planned is v1" in problem
    assert "checkout --recurse-submodules v1" in problem


def test_release_that_the_clone_does_not_know(clone):
    assert look(clone, version="v2")["problems"] == []
    assert "knows no v2" in look(clone, version="v2", given=True)["problems"][0]


@pytest.mark.parametrize("around", ["", "Mooncake-1/"])
def test_archive_with_and_without_a_folder_around_it(tree, tmp_path, around):
    path = tmp_path / "source.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in NEEDS:
            archive.add(tree / name, around + name)
    found = look(path)
    assert found["problems"] == []
    assert found["trees"]["mooncake"]["strip"] == (1 if around else 0)


def test_what_is_no_source(tmp_path):
    assert "there is no" in look(tmp_path / "nowhere")["problems"][0]
    (tmp_path / "page.tar.gz").write_text("<html>")
    assert "no archive that tar reads" in look(tmp_path / "page.tar.gz")["problems"][0]
