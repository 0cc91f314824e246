# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import installation, manifest
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.installation import Installation, Owner

PACKAGE = "lib/python3.11/site-packages/mooncake"
FIRST = {"bin/m": b"one", f"{PACKAGE}/__init__.py": b"two", "lib/a.so": b"three"}
SECOND = {"bin/m": b"ONE", f"{PACKAGE}/__init__.py": b"two", f"{PACKAGE}/sub/x.py": b"four"}
LINK = {"path": "lib/b.so", "target": "a.so"}


def described(contents: dict[str, bytes], *links: dict[str, str]) -> dict[str, Any]:
    files = [
        {
            "path": path,
            "sha256": sha256(content).hexdigest(),
            "mode": "0755" if path.startswith("bin/") else "0644",
            "size": len(content),
        }
        for path, content in contents.items()
    ]
    return {"version": "1", "files": [*files, *links]}


def streams(contents: dict[str, bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    return ((path, io.BytesIO(content)) for path, content in contents.items())


def look(root: Path) -> Installation:
    return Installation(str(root), Owner())


def install(root: Path, contents: dict[str, bytes], *links: dict[str, str]) -> installation.Change:
    there = look(root)
    wanted = described(contents, *links)
    change = there.change_to(wanted["files"])
    assert there.foreign(wanted["files"], change) == []
    there.apply(wanted, change, streams(contents))
    return change


def files(root: Path) -> dict[str, str]:
    found = [path for path in root.rglob("*") if not path.is_dir() or path.is_symlink()]
    return {
        str(path.relative_to(root)): f"-> {os.readlink(path)}"
        if path.is_symlink()
        else f"{path.stat().st_mode & 0o777:o}"
        for path in found
    }


MANIFEST = {manifest.PATH: "644"}
INSTALLED = {"bin/m": "755", f"{PACKAGE}/__init__.py": "644", "lib/a.so": "644", "lib/b.so": "-> a.so", **MANIFEST}


@pytest.fixture(autouse=True)
def narrow() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_a_fresh_folder_and_nothing_the_second_time(tmp_path: Path) -> None:
    root = tmp_path / "new"
    assert install(root, FIRST, LINK)
    assert files(root) == INSTALLED
    assert {path.stat().st_mode & 0o777 for path in root.rglob("*") if path.is_dir()} == {0o755}
    assert not install(root, FIRST, LINK)


def test_another_release_removes_what_it_lacks(tmp_path: Path) -> None:
    install(tmp_path, FIRST, LINK)
    compiled = tmp_path / PACKAGE / "__pycache__"
    compiled.mkdir()
    change = install(tmp_path, SECOND)
    assert [entry["path"] for entry in change.write] == ["bin/m", f"{PACKAGE}/sub/x.py"]
    assert change.remove == ["lib/a.so", "lib/b.so"]
    assert files(tmp_path) == {
        "bin/m": "755",
        f"{PACKAGE}/__init__.py": "644",
        f"{PACKAGE}/sub/x.py": "644",
        **MANIFEST,
    }
    assert (tmp_path / "bin/m").read_bytes() == b"ONE"
    assert install(tmp_path, FIRST, LINK).remove == [f"{PACKAGE}/sub/x.py"]
    assert not (tmp_path / PACKAGE / "sub").exists()


@pytest.mark.parametrize("damage", ["content", "mode", "gone", "link", "folder"])
def test_damage_is_mended(tmp_path: Path, damage: str) -> None:
    install(tmp_path, FIRST, LINK)
    if damage == "content":
        (tmp_path / "lib/a.so").write_bytes(b"THREE")
    elif damage == "mode":
        (tmp_path / "lib/a.so").chmod(0o666)
    elif damage == "gone":
        (tmp_path / "lib/a.so").unlink()
    elif damage == "link":
        (tmp_path / "lib/b.so").unlink()
        (tmp_path / "lib/b.so").symlink_to("/tmp")
    else:
        (tmp_path / PACKAGE).chmod(0o767)
    assert install(tmp_path, FIRST, LINK)
    assert files(tmp_path) == INSTALLED
    assert (tmp_path / "lib/a.so").read_bytes() == b"three"
    assert (tmp_path / PACKAGE).stat().st_mode & 0o777 == 0o755
    assert not install(tmp_path, FIRST, LINK)


def test_a_program_that_runs_keeps_its_file(tmp_path: Path) -> None:
    install(tmp_path, FIRST)
    with open(tmp_path / "bin/m", "rb") as running:
        install(tmp_path, SECOND)
        assert running.read() == b"one"


def test_a_run_that_broke_off_is_taken_up(tmp_path: Path) -> None:
    install(tmp_path, FIRST)
    there = look(tmp_path)
    wanted = described(SECOND)

    def broken() -> Iterator[tuple[str, IO[bytes]]]:
        yield from streams(SECOND)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        there.apply(wanted, there.change_to(wanted["files"]), broken())
    (tmp_path / PACKAGE / "sub").mkdir()
    (tmp_path / PACKAGE / "sub/x.py").write_bytes(b"fo")  # as if it had been renamed already, and torn
    assert install(tmp_path, SECOND)
    assert not install(tmp_path, SECOND)
    assert sorted(files(tmp_path)) == sorted([*SECOND, *MANIFEST])


def test_foreign_files_stay(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/m").write_bytes(b"mine")
    (tmp_path / "lib").write_bytes(b"a file")
    wanted = described(FIRST)["files"]
    there = look(tmp_path)
    assert there.foreign(wanted, there.change_to(wanted)) == [
        f"{tmp_path}/bin/m was not installed by mooncake.pd: move it away",
        f"{tmp_path}/lib is no folder: move it away",
    ]


def test_equal_files_are_taken_over(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/m").write_bytes(b"one")
    install(tmp_path, FIRST)
    assert look(tmp_path).remove() == sorted(FIRST)


def test_what_pip_installed_is_named(tmp_path: Path) -> None:
    info = tmp_path / "lib/python3.11/site-packages/mooncake_transfer_engine_npu-0.3.12.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text("bin/x,,\nmooncake/engine.so,sha256=x,3\n")
    other = tmp_path / "lib/python3.11/site-packages/mooncake_pd_tools-1.dist-info"
    other.mkdir()
    (other / "RECORD").write_text("mooncake_pd_tools/x.py,,\n")
    wanted = described(FIRST)["files"]
    said = look(tmp_path).foreign(wanted, look(tmp_path).change_to(wanted))
    assert said == [
        f"pip installed mooncake-transfer-engine-npu into {tmp_path}/lib/python3.11/site-packages: remove it"
        " first, with `pip uninstall mooncake-transfer-engine-npu`"
    ]


@pytest.mark.parametrize("contents", [{**FIRST, "bin/m": b"other"}, {"bin/m": b"one"}])
def test_an_archive_that_is_not_its_manifest_installs_nothing(tmp_path: Path, contents: dict[str, bytes]) -> None:
    there = look(tmp_path)
    wanted = described(FIRST)
    with pytest.raises(installation.InstallError):
        there.apply(wanted, there.change_to(wanted["files"]), streams(contents))
    assert not (tmp_path / "bin").exists()


def test_removal_takes_all_of_it_and_only_that(tmp_path: Path) -> None:
    (tmp_path / PACKAGE).mkdir(parents=True)
    (tmp_path / "lib/python3.11/other").touch()
    install(tmp_path, FIRST, LINK)
    compiled = tmp_path / PACKAGE / "__pycache__"
    compiled.mkdir()
    (compiled / "__init__.cpython-311.pyc").touch()
    there = look(tmp_path)
    assert there.is_there
    assert there.remove() == sorted([*FIRST, "lib/b.so"])
    assert files(tmp_path) == {"lib/python3.11/other": "600"}
    assert [path.name for path in tmp_path.iterdir()] == ["lib"]
    assert not look(tmp_path).is_there
