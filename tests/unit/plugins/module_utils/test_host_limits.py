# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Answer
from ansible_collections.mooncake.pd.plugins.module_utils.host import limits
from ansible_collections.mooncake.pd.plugins.module_utils.host.system import User
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees

TABLE = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max stack size            8388608              unlimited            bytes
Max core file size        0                    unlimited            bytes
Max processes             30720                30720                processes
Max open files            1024                 524288               files
Max locked memory         8388608              unlimited            bytes
Max realtime timeout      unlimited            unlimited            us
"""
FOUND = {
    "memlock": {"soft": 8388608, "hard": -1},
    "nofile": {"soft": 1024, "hard": 524288},
    "nproc": {"soft": 30720, "hard": 30720},
    "core": {"soft": 0, "hard": -1},
    "stack": {"soft": 8388608, "hard": -1},
}


@pytest.mark.parametrize(
    ("text", "found"),
    [("infinity", -1), ("unlimited", -1), ("18446744073709551615", -1), ("65536", 65536), ("", None), ("64K", None)],
)
def test_amount(text: str, found: int | None) -> None:
    assert limits.amount(text) == found


def test_limits_of_a_process() -> None:
    assert limits.parse(TABLE) == FOUND
    assert limits.parse("Max locked memory\n") == {}


def trial(root: Path, answer: Answer, user: str = "mooncake") -> tuple[dict[str, object], list[list[str]], set[str]]:
    told = trees.Told({"systemd-run": answer})
    told.users["mooncake"] = User("mooncake", 980, 980, (980,))
    look = trees.look(root, system=told)
    found = limits.trial(look, "mooncake-pd-preflight.service", user, {"LimitMEMLOCK": "infinity"})
    return found, told.asked, trees.what(look.unknowns)


def test_trial_is_of_that_unit_and_user_and_leaves_nothing(tmp_path: Path) -> None:
    environ = "PATH=/usr/bin\0MC_TE_METRIC=1\0API_TOKEN=abc\0NOTE=Max locked memory 1 1\nMax open files 2 2\0"
    found, asked, unknown = trial(tmp_path, Answer(out=TABLE + environ))
    assert found == {
        "unit": "mooncake-pd-preflight.service",
        "user": "mooncake",
        **FOUND,
        "environment": {"API_TOKEN": None, "MC_TE_METRIC": "1", "NOTE": None, "PATH": None},
    }
    assert unknown == set()
    (command,) = asked
    assert command[0] == "systemd-run"
    for option in ("--wait", "--pipe", "--collect", "--unit=mooncake-pd-preflight.service", "--uid=mooncake"):
        assert option in command
    assert command[command.index("LimitMEMLOCK=infinity") - 1] == "-p"
    assert command[-3:] == ["cat", "/proc/self/limits", "/proc/self/environ"]


def test_trial_is_as_nobody_where_there_is_no_such_user_yet(tmp_path: Path) -> None:
    found, asked, unknown = trial(tmp_path, Answer(out=TABLE), user="later")
    assert (found["user"], unknown) == ("nobody", set())
    assert "--uid=nobody" in asked[0]


def test_trial_that_fails_is_unknown_with_what_was_said(tmp_path: Path) -> None:
    # systemd 219 has neither --wait nor --pipe nor --collect
    answer = Answer(1, err="systemd-run: unrecognized option '--wait'\n")
    look = trees.look(tmp_path, system=trees.Told({"systemd-run": answer}))
    found = limits.trial(look, "u.service", "mooncake", {})
    assert {found[name] for name in limits.NAMES} == {None}
    assert found["environment"] is None
    (entry,) = look.unknowns
    assert entry["what"] == "limits"
    assert entry["raw"] == answer.text


def test_trial_that_prints_no_table_is_unknown(tmp_path: Path) -> None:
    _found, _asked, unknown = trial(tmp_path, Answer(out="cat: /proc/self/limits: not today\n"))
    assert unknown == {f"limits.{name}" for name in limits.NAMES}


def test_trial_that_hangs_is_stopped(tmp_path: Path) -> None:
    _found, asked, unknown = trial(tmp_path, Answer(None, why="gave no answer in 5.0 s", seconds=5))
    assert asked[-1] == ["systemctl", "stop", "--no-block", "mooncake-pd-preflight.service"]
    assert unknown == {"limits"}


def test_trial_beside_another_one_takes_another_name_of_the_same_prefix(tmp_path: Path) -> None:
    def run(argv: Sequence[str]) -> Answer:
        if "--unit=mooncake-pd-preflight.service" in argv:
            return Answer(1, err="Failed to start transient service unit: Unit ... was already loaded.\n")
        return Answer(out=TABLE)

    told = trees.Told({"systemd-run": run})
    look = trees.look(tmp_path, system=told)
    assert limits.trial(look, "mooncake-pd-preflight.service", "x", {})["nofile"] == FOUND["nofile"]
    assert [word for word in told.asked[1] if word.startswith("--unit=mooncake-pd-preflight-")]
    assert look.unknowns == []


def test_words_of_properties() -> None:
    properties = {"LimitNOFILE": 1048576, "Environment": ["A=1", "B=2"], "PrivateTmp": False, "MemoryMax": None}
    assert limits.words(properties) == [
        *("-p", "LimitNOFILE=1048576", "-p", "Environment=A=1", "-p", "Environment=B=2", "-p", "PrivateTmp=no"),
    ]


def test_limits_of_a_process_that_has_ended_are_none_and_not_unknown(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/proc/7/limits": TABLE, "/proc/8/comm": "x"})
    assert limits.of_process(look, 7, "x") == {"memlock": FOUND["memlock"], "nofile": FOUND["nofile"]}
    assert limits.of_process(look, 9, "x") is None
    assert look.unknowns == []
    assert limits.of_process(look, 8, "units.u.process") == {"memlock": None, "nofile": None}
    assert trees.what(look.unknowns) == {"units.u.process"}
