# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import notes

ID = "a" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mooncake-pd-p1"
    made.mkdir()
    return made


def test_links_are_replaced_and_never_followed(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (folder / "ready").symlink_to(victim)
    assert notes.read(str(folder / "ready")) is None
    notes.write(str(folder), "ready", "proof\n")
    assert victim.read_text() == "precious"
    assert not (folder / "ready").is_symlink()
    assert notes.read(str(folder / "ready")) == "proof\n"
    assert [file.name for file in folder.iterdir()] == ["ready"]


def test_folder_that_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(folder)
    with pytest.raises(OSError):  # noqa: PT011 - ELOOP or ENOTDIR
        notes.write(str(tmp_path / "other"), "ready", "proof")
    assert list(folder.iterdir()) == []


def test_nothing_but_regular_files_is_read(folder: Path) -> None:
    os.mkfifo(folder / "fifo")  # a plain open would wait for a writer for ever
    (folder / "folder").mkdir()
    for name in ("fifo", "folder", "none"):
        assert notes.read(str(folder / name)) is None


def test_failed_write_leaves_nothing(folder: Path) -> None:
    (folder / "ready").mkdir()
    with pytest.raises(OSError):  # noqa: PT011 - EISDIR
        notes.write(str(folder), "ready", "proof")
    assert [file.name for file in folder.iterdir()] == ["ready"]


def test_lines_are_those_of_one_start(folder: Path) -> None:
    notes.write_lines(str(folder), ID, {"transport": "TcpTransport \u6d4b", "long": "x" * 5000})
    lines = notes.read_lines(str(folder), ID)
    assert lines["transport"] == "TcpTransport \u6d4b"
    assert len(lines["long"]) == 1000
    assert notes.read_lines(str(folder), "b" * 32) == {}
    assert notes.read_lines(str(folder), "") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", f'{{"invocation": "{ID}"}}', f'{{"invocation": "{ID}", "lines": 1}}'])
def test_rubbish_is_no_line(folder: Path, text: str) -> None:
    (folder / notes.LINES).write_text(text)
    assert notes.read_lines(str(folder), ID) == {}
