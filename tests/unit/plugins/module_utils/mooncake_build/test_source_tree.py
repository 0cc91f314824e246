# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import source_tree


def git(arguments: Sequence[str]) -> str | None:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/CMakeLists.txt").write_text("x")
    (tmp_path / "run.sh").write_text("y")
    (tmp_path / "link").symlink_to("a")
    return tmp_path


def test_what_counts_for_the_hash(tree: Path) -> None:
    before = source_tree.tree_hash(str(tree))
    os.utime(tree / "run.sh", (1, 1))
    (tree / "__pycache__").mkdir()
    (tree / "__pycache__/x.pyc").touch()
    (tree / ".git").mkdir()
    (tree / ".git/HEAD").touch()
    assert source_tree.tree_hash(str(tree)) == before
    seen = {before}
    (tree / "run.sh").chmod(0o755)
    seen.add(source_tree.tree_hash(str(tree)))
    (tree / "run.sh").write_text("z")
    seen.add(source_tree.tree_hash(str(tree)))
    (tree / "link").unlink()
    (tree / "link").symlink_to("run.sh")
    seen.add(source_tree.tree_hash(str(tree)))
    (tree / "run.sh").rename(tree / "b")
    seen.add(source_tree.tree_hash(str(tree)))
    assert len(seen) == 5


def test_a_clean_checkout_is_its_commit_and_any_other_tree_its_content(tree: Path) -> None:
    def run(*words: str) -> None:
        subprocess.run(["git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

    plain = source_tree.identity(str(tree), git)
    assert plain == (f"tree:{source_tree.tree_hash(str(tree))}", None)
    run("init", "-q")
    assert source_tree.identity(str(tree), git).commit is None
    run("add", "-A")
    run("commit", "-q", "-m", "x")
    clean = source_tree.identity(str(tree), git)
    assert clean.commit
    assert clean.text == f"commit:{clean.commit}"
    (tree / "new").touch()
    assert source_tree.identity(str(tree), git).commit is None
    (tree / "new").unlink()
    assert source_tree.identity(str(tree), git) == clean
    assert source_tree.identity(str(tree), lambda arguments: None) == plain


def test_empty_submodules(tree: Path) -> None:
    assert source_tree.empty_submodules(str(tree)) == ["extern/pybind11"]
    (tree / ".gitmodules").write_text(
        '[submodule "p"]\n\tpath = extern/pybind11\n\turl = x\n[submodule "y"]\n\tpath=extern/yalantinglibs\n'
        '[submodule "z"]\n\tpath = extern/z\n'
    )
    (tree / "extern/z").mkdir(parents=True)
    assert source_tree.empty_submodules(str(tree)) == ["extern/pybind11", "extern/z"]
    (tree / "extern/z/x").touch()
    (tree / "extern/pybind11").mkdir()
    (tree / "extern/pybind11/CMakeLists.txt").touch()
    assert source_tree.empty_submodules(str(tree)) == []


def test_cmake_files_are_those_of_the_tree_itself(tree: Path) -> None:
    for path in ("extern/e/CMakeLists.txt", "s/tests/CMakeLists.txt", "cmake/Find.cmake", "notes.txt"):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(path)
    assert source_tree.cmake_files(str(tree)) == "x\ncmake/Find.cmake"
