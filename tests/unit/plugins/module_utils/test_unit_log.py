# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import unit_log
from ansible_collections.mooncake.pd.plugins.module_utils.unit_log import FileLog, JournalLog, everything, lines_of

UNIT = "mooncake-pd-p1.service"
OLD, NEW, NEXT = "0" * 32, "1" * 32, "2" * 32


def mark(invocation: str) -> str:
    return f"--- mooncake-pd start unit={UNIT} invocation={invocation} digest=0123456789ab\n"


def log_in(folder: Path, text: str | bytes) -> Path:
    path = folder / "mooncake-pd-p1.log"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def add(path: Path, text: str) -> None:
    with path.open("a") as target:
        target.write(text)


def test_only_lines_of_this_start(tmp_path: Path) -> None:
    path = log_in(tmp_path, mark(OLD) + "startup complete\n" + mark(NEW) + "loading\n")
    log = FileLog(str(path), UNIT, NEW)
    assert log.poll() == ["loading"]
    assert log.poll() == []
    add(path, "half a li")
    assert log.poll() == []
    add(path, "ne\nready\n")
    assert log.poll() == ["half a line", "ready"]
    add(path, "Killed")
    assert log.poll() == []
    assert log.poll(final=True) == ["Killed"]


def test_a_start_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    path = log_in(tmp_path, mark(OLD) + "cause\n" + mark(NEW) + "later\n")
    log = FileLog(str(path), UNIT, OLD)
    assert log.poll() == ["cause"]
    add(path, "more\n")
    assert log.poll() == []


def test_last_start_without_an_invocation(tmp_path: Path) -> None:
    path = log_in(tmp_path, mark(OLD) + "a\n" + mark(NEW) + "b\n")
    assert FileLog(str(path), UNIT).poll() == ["b"]


def test_waits_for_the_mark_to_be_written(tmp_path: Path) -> None:
    path = log_in(tmp_path, mark(OLD) + "ready\n")
    log = FileLog(str(path), UNIT, NEW)
    assert log.poll() == []
    assert not log.found
    add(path, mark(NEW)[:20])
    assert log.poll() == []
    add(path, mark(NEW)[20:] + "loading\n")
    assert log.poll() == ["loading"]
    assert log.found


def test_missing_file_is_no_line(tmp_path: Path) -> None:
    log = FileLog(str(tmp_path / "none.log"), UNIT, NEW)
    assert log.poll() == []
    assert not log.found


def test_renamed_while_read(tmp_path: Path) -> None:
    path = log_in(tmp_path, mark(NEW) + "one\n")
    log = FileLog(str(path), UNIT, NEW)
    assert log.poll() == ["one"]
    add(path, "two\n")
    os.rename(path, f"{path}.1")
    log_in(tmp_path, "three\n")
    assert list(everything(log)) == ["two", "three"]
    add(Path(f"{path}.1"), "still open there\n")
    assert list(everything(log)) == ["still open there"]


def test_renamed_before_it_is_read(tmp_path: Path) -> None:
    path = log_in(tmp_path, "three\n")
    Path(f"{path}.1").write_text(mark(OLD) + "zero\n" + mark(NEW) + "one\ntwo\n")
    assert list(everything(FileLog(str(path), UNIT, NEW))) == ["one", "two", "three"]


def test_copytruncate_loses_nothing(tmp_path: Path) -> None:
    path = log_in(tmp_path, mark(NEW) + "one\n")
    log = FileLog(str(path), UNIT, NEW)
    assert log.poll() == ["one"]
    add(path, "two\n")
    Path(f"{path}.1").write_text(path.read_text())
    os.truncate(path, 0)
    add(path, "three\n")
    assert list(everything(log)) == ["two", "three"]
    add(path, "four\n")
    assert list(everything(log)) == ["four"]


def test_truncated_without_a_copy(tmp_path: Path) -> None:
    path = log_in(tmp_path, mark(NEW) + "one\n")
    log = FileLog(str(path), UNIT, NEW)
    log.poll()
    os.truncate(path, 0)
    add(path, "two\n")
    assert log.poll() == ["two"]


def test_long_logs_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_log, "_CHUNK", 64)
    lines = [f"line {number}" for number in range(50)] + ["x" * 200, "end"]
    before = mark(OLD) + "noise\n" * 40
    path = log_in(tmp_path, before + mark(NEW) + "\n".join(lines) + "\n")
    read = list(everything(FileLog(str(path), UNIT, NEW)))
    assert read[:50] == lines[:50]
    assert "".join(read[50:-1]) == "x" * 200  # a line longer than a piece is cut, not lost
    assert read[-1] == "end"


def test_find_last_over_the_border_of_two_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_log, "_CHUNK", 10)
    for shift in range(25):
        path = log_in(tmp_path, b"." * shift + b"needle" + b"," * 17)
        assert unit_log.find_last(str(path), b"needle") == shift + 6
        assert unit_log.find_last(str(path), b"needle", shift + 1) == -1


def test_colours_carriage_returns_bad_bytes_and_holes() -> None:
    raw = (
        b"\x1b[1;36m(APIServer pid=7)\x1b[0;0m INFO:     up\r\n"
        b"\rloading 10%\rloading 99%\r\n"
        b"caf\xe9 \xff\n\0\0\0after a hole\n\n"
    )
    assert lines_of(raw) == [
        "(APIServer pid=7) INFO:     up",
        "loading 10%",
        "loading 99%",
        "caf\ufffd \ufffd",
        "after a hole",
    ]


def test_journal_goes_on_behind_its_cursor() -> None:
    asked: list[list[str]] = []
    answers = ["one\n\x1b[1mtwo\x1b[0m\n-- cursor: s=abc;i=1\n", "three\n-- cursor: s=abc;i=2\n", ""]

    def run(command: list[str]) -> tuple[int, str, str]:
        asked.append(command)
        return 0, answers[len(asked) - 1], ""

    log = JournalLog(UNIT, run, NEW)
    assert list(everything(log)) == ["one", "two"]
    assert log.poll() == ["three"]
    assert f"_SYSTEMD_INVOCATION_ID={NEW}" in asked[0]
    assert "--after-cursor=s=abc;i=1" in asked[1]
    assert JournalLog(UNIT, run, None).poll() == []


def test_open_log_takes_the_file_if_there_is_one(tmp_path: Path) -> None:
    def run(command: list[str]) -> tuple[int, str, str]:
        return 1, "", ""

    assert isinstance(unit_log.open_log(str(tmp_path), UNIT, NEW, run), JournalLog)
    assert isinstance(unit_log.open_log(None, UNIT, NEW, run), JournalLog)
    log_in(tmp_path, "")
    assert isinstance(unit_log.open_log(str(tmp_path), UNIT, NEW, run), FileLog)
