# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.drill_strike import SPARE, StrikeError, guard_name, strike

UNIT = "mooncake-pd-etcd.service"


class Systemd:
    """One unit, as systemctl tells and changes it."""

    def __init__(self, restarts: bool = True, active: bool = True, broken: str = "") -> None:
        self.active, self.restarts, self.broken = active, restarts, broken
        self.start = 1
        self.calls: list[str] = []

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        verb = command[1] if command[0] == "systemctl" else command[0]
        if verb == self.broken:
            return 1, "", "no"
        if verb == "show":
            state = "active" if self.active else "inactive"
            return 0, f"Id={UNIT}\nActiveState={state}\nInvocationID={self.start}\n", ""
        self.calls.append(" ".join(command))
        if verb in ("kill", "restart", "start") and (verb != "kill" or self.restarts):
            self.start, self.active = self.start + (not (verb == "start" and self.active)), True
        elif verb in ("kill", "stop") and command[-1] == UNIT:
            self.active = False
        return 0, "", ""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def __call__(self) -> float:
        return self.now


def lose(systemd: Systemd, how: str, hold: float = 4, patience: float = 3) -> dict[str, object]:
    clock = Clock()
    return strike(systemd, UNIT, how, hold, patience, sleep=clock.sleep, clock=clock)


def test_killed_it_comes_back_by_itself() -> None:
    systemd = Systemd()
    told = lose(systemd, "kill")
    assert (told["lost"], told["by"], told["runs"]) == (True, "itself", True)
    assert systemd.calls == [f"systemctl kill --signal=KILL -- {UNIT}"]


def test_killed_and_not_restarted_it_is_started() -> None:
    systemd = Systemd(restarts=False)
    told = lose(systemd, "kill")
    assert (told["lost"], told["by"], told["runs"], systemd.active) == (True, "the drill", True, True)


def test_stopped_it_is_started_and_systemd_would_do_it_without_us() -> None:
    systemd = Systemd()
    told = lose(systemd, "stop")
    assert (told["lost"], told["by"], told["runs"], told["seconds"]) == (True, "the drill", True, 4)
    guard, stop, start, end = systemd.calls
    assert guard.startswith(f"systemd-run --collect --unit={guard_name(UNIT)} --on-active={4 + SPARE} ")
    assert guard.endswith(f"systemctl start -- {UNIT}")
    assert (stop, start) == (f"systemctl stop -- {UNIT}", f"systemctl start -- {UNIT}")
    assert end == f"systemctl stop -- {guard_name(UNIT)}.timer"


def test_whatever_happens_it_is_started_again() -> None:
    systemd = Systemd(broken="stop")
    with pytest.raises(StrikeError, match=r"systemctl stop .* failed: no"):
        lose(systemd, "stop")
    assert f"systemctl start -- {UNIT}" in systemd.calls


def test_without_the_timer_nothing_is_stopped() -> None:
    systemd = Systemd(broken="systemd-run")
    with pytest.raises(StrikeError):
        lose(systemd, "stop")
    assert systemd.calls == []


def test_what_does_not_run_cannot_be_lost() -> None:
    systemd = Systemd(active=False)
    with pytest.raises(StrikeError, match="does not run"):
        lose(systemd, "kill")
    assert systemd.calls == []
