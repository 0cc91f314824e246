# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.plugins.module_utils.host.system import System
from ansible_collections.mooncake.pd.plugins.module_utils.jobs import Job
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees


def test_text_that_cannot_be_read_is_unknown_once(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/a": "x"})
    assert look.text("/a", "a") == "x"
    for _time in range(2):
        assert look.text("/b", "memory.total") is None
    assert look.unknowns == [
        {"what": "memory.total", "why": "/b cannot be read: no such file or directory.", "raw": ""}
    ]


def test_raw_is_cut() -> None:
    look = Look()
    look.unknown("x", "y", "z" * 5000)
    assert len(look.unknowns[0]["raw"]) == 2000


def test_no_secret_is_told() -> None:
    look = Look()
    look.unknown(
        "x", "`tool --token abc` ended with code 1.", "http://u:p/w@192.0.2.3 " + "z" * 1960 + " API_KEY=abcdefghijk"
    )
    (entry,) = look.unknowns
    assert entry["why"].startswith("`tool --token *** ")
    assert entry["raw"].startswith("http://***@192.0.2.3 ")
    assert not any(secret in "".join(entry.values()) for secret in ("abc", "p/w"))


def test_files_are_read_in_pieces_up_to_a_limit(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/big": b"x" * 200_000})
    assert len(look.bytes("/big")) == 200_000
    assert len(look.bytes("/big", 70_000)) == 70_000
    assert Look().read("/proc/sys/kernel/pid_max").strip().isdigit()


def test_numbers(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/n": "42\n", "/t": "many\n"})
    assert look.number("/n", "n") == 42
    assert look.number("/t", "t") is None
    assert look.unknowns == [{"what": "t", "why": "/t holds no number.", "raw": "many\n"}]


def test_whatever_goes_wrong_is_unknown() -> None:
    look = Look()
    assert look.sane("a.b", 7, lambda: 1 // 0) == 7
    assert look.unknowns[0]["what"] == "a.b"
    assert "ZeroDivisionError" in look.unknowns[0]["why"]


def test_what_the_kernel_lacks_is_known_and_what_cannot_be_read_is_not(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/sys/there/a": "x", "/sys/folder/a/b": "x"})
    assert look.optional("/sys/there/a", "a") == "x"
    assert look.optional("/sys/there/b", "b") is None
    assert look.unknowns == []
    assert look.optional("/sys/folder/a", "c") is None
    assert look.optional("/sys/nowhere/a", "d") is None
    assert look.unknowns == [
        {"what": "c", "why": "/sys/folder/a cannot be read: is a directory.", "raw": ""},
        {"what": "d", "why": "/sys/nowhere/a cannot be read: there is no /sys/nowhere.", "raw": ""},
    ]


def test_command() -> None:
    answer = System().run(["sh", "-c", "echo out; echo err >&2; exit 3"], 5)
    assert (answer.code, answer.out, answer.err) == (3, "out\n", "err\n")
    assert answer.text == "out\nerr\n"
    assert answer.failure == "ended with code 3"


def test_command_speaks_english_and_reads_nothing() -> None:
    assert System().run(["sh", "-c", "cat; echo $LC_ALL $PWD ${HOME:-none}"], 5).out == "C / none\n"


def test_command_that_is_not_there() -> None:
    answer = System().run(["/no/such/tool"], 1)
    assert answer.failure == "cannot be started: No such file or directory"


def test_hung_command_is_killed_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    begun = time.monotonic()
    answer = System().run(["sh", "-c", f"sleep 30 & echo $! > {note}; echo began; wait"], 0.3)
    assert time.monotonic() - begun < 20
    assert answer.failure == "gave no answer in 0.3 s"
    assert answer.out == "began\n"
    child = int(note.read_text())
    for _attempt in range(100):
        stat = Path(f"/proc/{child}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.01)
    else:
        pytest.fail(f"{child} lives")


def test_this_machine_answers() -> None:
    system = System()
    assert system.page_size() in (4096, 16384, 65536)
    assert system.synchronized() in (True, False)
    assert system.user("no-such-user-here") is None
    assert system.user_name(0) == "root"
    assert system.user_name(3_999_999_999) == "3999999999"
    assert system.source("127.0.0.1") == "127.0.0.1"
    assert system.resolve("localhost")[1]
    assert system.statvfs("/").f_blocks > 0
    assert system.uname().nodename == os.uname().nodename


def test_what_does_not_end_is_unknown() -> None:
    look = Look()
    job = Job(lambda: time.sleep(2))
    assert look.sane("names", None, lambda: job.result(time.monotonic())) is None
    assert look.unknowns == [{"what": "names", "why": "This did not end in its time.", "raw": ""}]
