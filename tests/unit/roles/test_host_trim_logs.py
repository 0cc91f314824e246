# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which log files of a folder go: the oldest, never the newest of a kind, nor what is in use."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

PROGRAM = Path(__file__).parents[3] / "roles" / "host" / "files" / "trim_logs.py"
spec = importlib.util.spec_from_file_location("host_trim_logs", PROGRAM)
assert spec
assert spec.loader
trim = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = trim
spec.loader.exec_module(trim)

NOW = 1_000_000.0
LOGS = st.lists(
    st.builds(
        lambda number, kind, size, age: trim.Log(f"/l/{kind}-{number}.log", size, NOW - age, (0, number)),
        st.integers(0, 10**6),
        st.sampled_from(["plog", "device"]),
        st.integers(0, 100),
        st.integers(0, 20000),
    ),
    unique_by=lambda log: log.identity,
    max_size=12,
)


@given(LOGS, st.integers(0, 500), st.sets(st.integers(0, 10**6)))
def test_never_the_newest_never_what_is_open_oldest_first(logs, most, numbers):
    kept = {(0, number) for number in numbers} | {log.identity for log in logs[:1]}
    going = trim.surplus(logs, most, kept, NOW)
    rest = [log for log in logs if log not in going]
    assert not {log.identity for log in going} & kept
    assert all(NOW - log.written >= 3600 for log in going)
    for log in going:
        assert any(other.kind == log.kind and other.written >= log.written for other in rest)
    free = [log for log in rest if log.identity not in kept and NOW - log.written >= 3600]
    if sum(log.size for log in rest) > most:
        # all that stays has a reason to
        assert all(not any(o.kind == log.kind and o.written > log.written for o in logs) for log in free)
    elif going:
        assert sum(log.size for log in rest) + going[-1].size > most


def test_program_removes_the_oldest_and_follows_no_link(tmp_path, capsys):
    folder = tmp_path / "log"
    (folder / "run").mkdir(parents=True)
    old = time.time() - 86400
    for number in range(4):
        for place in (folder, folder / "run", tmp_path):
            path = place / f"plog-{number}.log"
            path.write_bytes(b"x" * 100)
            os.utime(path, (old + number, old + number))
    (folder / "link.log").symlink_to(tmp_path / "plog-0.log")
    (folder / "elsewhere").symlink_to(tmp_path)
    settings = tmp_path / "settings.json"
    settings.write_text(
        json.dumps([{"path": str(folder), "max_size": "250", "recurse": True}, {"path": "/nowhere", "max_size": "1G"}])
    )
    with (folder / "plog-0.log").open():
        trim.main(str(settings))
    left = sorted(str(path.relative_to(folder)) for path in folder.rglob("plog*") if not path.is_symlink())
    assert left == ["plog-0.log", "plog-3.log", "run/plog-3.log"]
    assert len(list(tmp_path.glob("plog*"))) == 4
    assert "removed 5 of 8 files, 500 bytes" in capsys.readouterr().out


def test_folders_below_count_only_when_told(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.log").write_text("x")
    (tmp_path / "a.log.1").write_text("x")
    entry = {"path": str(tmp_path), "pattern": "*.log.*"}
    assert [log.path for log in trim.files(entry)] == [str(tmp_path / "a.log.1")]


@pytest.mark.parametrize(("text", "number"), [("10G", 10 << 30), ("5", 5), ("1k", 1024)])
def test_sizes(text, number):
    assert trim.size(text) == number


def test_what_is_no_size():
    with pytest.raises(ValueError, match="no size"):
        trim.size("much")
