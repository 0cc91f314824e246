# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import archive, manifest

WHOLE = {"path": "bin/x", "sha256": "a" * 64, "mode": "0755", "size": 1}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin/x").write_text("program")
    (tree / "bin/x").chmod(0o755)
    (tree / "lib").mkdir()
    (tree / "lib/a.so").write_text("library")
    (tree / "lib/a.so").chmod(0o644)
    (tree / "lib/b.so").symlink_to("a.so")
    return tree


def described(tree: Path) -> dict[str, Any]:
    return {"version": "1", "files": manifest.files_of(str(tree))}


def test_what_goes_in_comes_out(tree: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "a.tar.gz")
    archive.pack(str(tree), described(tree), path)
    with archive.opened(path) as (found, files):
        assert found == described(tree)
        assert {name: content.read() for name, content in files} == {"bin/x": b"program", "lib/a.so": b"library"}
    assert [entry["path"] for entry in found["files"]] == ["bin/x", "lib/a.so", "lib/b.so"]
    assert found["files"][2] == {"path": "lib/b.so", "target": "a.so"}


def test_equal_content_is_an_equal_archive(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.pack(str(tree), described(tree), str(tmp_path / "a.tar.gz"))
    os.utime(tree / "bin/x", (1, 1))
    monkeypatch.setattr(time, "time", lambda: 1000000000.0)
    archive.pack(str(tree), described(tree), str(tmp_path / "b.tar.gz"))
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


@pytest.mark.parametrize("keep", [0, 10, 100, 250])
def test_half_an_archive_is_none(tree: Path, tmp_path: Path, keep: int) -> None:
    path = tmp_path / "a.tar.gz"
    archive.pack(str(tree), described(tree), str(path))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(manifest.ManifestError), archive.opened(str(path)) as (_found, files):
        list(files)


@pytest.mark.parametrize(
    "entry",
    [
        {**WHOLE, "path": "/bin/x"},
        {**WHOLE, "path": "../x"},
        {**WHOLE, "path": "a/../../x"},
        {**WHOLE, "path": ""},
        {**WHOLE, "mode": "0777"},
        {**WHOLE, "mode": "4755"},
        {**WHOLE, "sha256": "a"},
        {"path": "lib/x", "target": "/etc/passwd"},
        {"path": "lib/x", "target": "../../x"},
    ],
)
def test_a_manifest_leads_nowhere_outside(entry: dict[str, Any]) -> None:
    text = manifest.text({"files": [WHOLE, entry]})
    with pytest.raises(manifest.ManifestError, match="lists what it must not"):
        manifest.parse(text, "m")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": 3}', '{"files": [{"path": "x"}]}'])
def test_what_is_no_manifest(text: str) -> None:
    with pytest.raises(manifest.ManifestError, match="is no manifest"):
        manifest.parse(text, "m")


def test_the_name_of_an_archive() -> None:
    assert archive.name_of("0.3.9", "debian-12", "0123456789abcdef") == "mooncake-0.3.9-debian-12-0123456789ab.tar.gz"
