# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import systemd
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import unit_runs
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.unit_runs import Run

NAME = "mooncake-pd-p1.service"


def block(**values: str) -> str:
    return "\n".join(["Id=mooncake-pd-p1.service", *(f"{key}={value}" for key, value in values.items())]) + "\n"


def at(second: int, day: int = 30) -> str:
    return f"Mon 2026-11-{day} 06:15:{second:02}.500000 UTC"


def seconds(second: int) -> float:
    return 1796019300.5 + second


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (at(2), seconds(2)),
        ("Mon 2026-11-30 06:15:02 UTC", 1796019302.0),
        ("", None),
        ("n/a", None),
        ("Mon 2026-11-30 06:15:02 CET", None),
        ("Mon 2026-13-30 06:15:02 UTC", None),
    ],
)
def test_times(text: str, moment: float | None) -> None:
    assert unit_runs.parse_time(text) == moment


@pytest.mark.parametrize(
    ("values", "idle", "began", "ended"),
    [
        ({}, True, None, None),  # never started
        ({"ActiveState": "active", "ExecMainStartTimestamp": at(5)}, False, 5, None),
        (
            {"ActiveState": "failed", "ExecMainStartTimestamp": at(5), "InactiveEnterTimestamp": at(9)},
            True,
            5,
            9,
        ),
        # started by hand once more
        (
            {"ActiveState": "active", "ExecMainStartTimestamp": at(12), "InactiveEnterTimestamp": at(9)},
            False,
            12,
            9,
        ),
        # conmon tells systemd that it is the main process when the container runs
        (
            {"ActiveState": "active", "ExecMainStartTimestamp": at(14), "InactiveExitTimestamp": at(11)},
            False,
            11,
            None,
        ),
        # starts itself again: systemd 252 writes both, later ones only the time it left
        (
            {"ActiveState": "activating", "SubState": "auto-restart", "ExecMainExitTimestamp": at(9)},
            True,
            None,
            9,
        ),
        ({"ActiveState": "active", "ExecMainStartTimestamp": at(20), "ActiveExitTimestamp": at(9)}, False, 20, 9),
        # its main process is gone, the others are being stopped: nothing has ended
        (
            {"ActiveState": "deactivating", "ExecMainStartTimestamp": at(5), "ExecMainExitTimestamp": at(9)},
            False,
            5,
            None,
        ),
    ],
)
def test_runs(values: dict[str, str], idle: bool, began: int | None, ended: int | None) -> None:
    (run,) = unit_runs.parse(block(**values), [NAME])
    assert run.idle is idle
    assert run.began == (None if began is None else seconds(began))
    assert run.ended == (None if ended is None else seconds(ended))


def test_systemctl_is_asked_once_for_all() -> None:
    calls = []

    def run(command: list[str]) -> tuple[int, str, str]:
        calls.append(command)
        return 0, block(ActiveState="active") + "\n" + block(ActiveState="inactive"), ""

    assert [one.idle for one in unit_runs.show(run, ["a.service", "b.service"])] == [False, True]
    assert len(calls) == 1
    assert unit_runs.show(run, []) == []
    with pytest.raises(systemd.SystemdError, match="2 of 1"):
        unit_runs.show(run, ["a.service"])
    with pytest.raises(systemd.SystemdError, match="no bus"):
        unit_runs.show(lambda _command: (1, "", "no bus"), ["a.service"])


def test_the_last_end_counts() -> None:
    runs = [
        Run("a.service", ended=20.0),
        Run("b.service", "active", "running", began=90.0),
        Run("c.service", ended=30.0),
    ]
    assert unit_runs.latest(runs, 10.0) == (30.0, "the last stop of c.service")
    assert unit_runs.latest(runs, 50.0) == (50.0, "the start of this host")
    assert unit_runs.latest([], 50.0) == (50.0, "the start of this host")


def test_a_stop_that_lies_ahead_makes_nothing_old_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 25.0)
    assert unit_runs.latest([Run("a.service", ended=30.0)], 10.0)[0] == 25.0


def test_texts_of_unit_files(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("[Service]\n")
    runs = [Run(NAME, fragment=str(tmp_path / NAME)), Run("b.service"), Run("c.service", fragment="/nonexistent")]
    assert unit_runs.texts(runs) == {NAME: "[Service]\n", "c.service": ""}
