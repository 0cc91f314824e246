# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supervisor on its host: what it makes of systemd's words, and what it does to units."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pd_group.model import FAILED, HELD, HOLD, MOVING, RELEASE, RESTART, STOPPED, UP, WAITING, Order
from pd_group.units import PATIENCE, RESTART_SECONDS, Kept, Units, ended_how, gave_up

from ansible_collections.mooncake.pd.tests.sim.group.world import World

NAME = "mooncake-pd-d1-0.service"
RUNS = {"ActiveState": "active", "SubState": "running", "InvocationID": "a", "MainPID": str(os.getpid())}
DEAD = {"ActiveState": "inactive", "SubState": "dead", "InvocationID": "a", "ExecMainCode": "2", "ExecMainStatus": "9"}
WILL = {**DEAD, "ActiveState": "activating", "SubState": "auto-restart"}


class Systemd:
    def __init__(self, **shown: str) -> None:
        self.shown, self.calls, self.code = shown, [], 0

    def __call__(self, argv: list[str]) -> tuple[int, str]:
        if argv[0] == "show":
            return self.code, "\n".join(f"{key}={value}" for key, value in self.shown.items()) + "\n"
        self.calls.append(" ".join(argv))
        return self.code, "no such unit" if self.code else ""


@pytest.fixture
def make(tmp_path: Path):
    def made(**shown: str) -> tuple[Units, Systemd]:
        systemd = Systemd(**shown)
        units = Units([NAME], tmp_path, systemd)
        assert units.look(100.0)
        return units, systemd

    return made


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        (RUNS, UP),
        ({**RUNS, "ActiveState": "activating", "SubState": "start"}, UP),
        ({**RUNS, "ActiveState": "activating", "SubState": "start-pre", "MainPID": "0"}, MOVING),
        ({**RUNS, "ActiveState": "deactivating", "SubState": "stop-sigterm"}, MOVING),
        (WILL, WAITING),
        ({**WILL, "SubState": "auto-restart-queued"}, WAITING),
        (DEAD, STOPPED),
        ({"ActiveState": "inactive", "SubState": "dead"}, STOPPED),
        # a restart is under way
        ({**DEAD, "Job": "17"}, MOVING),
        # stopped, and it did not end well: it failed when its program ended
        (
            {
                **DEAD,
                "ActiveState": "failed",
                "ExecMainExitTimestampMonotonic": "90000000",
                "InactiveEnterTimestampMonotonic": "90100000",
            },
            STOPPED,
        ),
        # the same, and what it left behind took its time
        (
            {
                **DEAD,
                "ActiveState": "failed",
                "Result": "exit-code",
                "ExecMainExitTimestampMonotonic": "90000000",
                "InactiveEnterTimestampMonotonic": "118500000",
            },
            STOPPED,
        ),
        # systemd gave up when it would have started it again
        (
            {
                **DEAD,
                "ActiveState": "failed",
                "ExecMainExitTimestampMonotonic": "90000000",
                "InactiveEnterTimestampMonotonic": "120000000",
            },
            FAILED,
        ),
        ({**DEAD, "ActiveState": "failed", "ExecMainCode": "1", "ExecMainStatus": "2"}, FAILED),
    ],
)
def test_states(make, shown, state):
    units, _systemd = make(**shown)
    assert units.members[0].state == state


def test_times_are_seconds(make):
    units, _systemd = make(**RUNS, ExecMainStartTimestampMonotonic="5250000", InactiveEnterTimestampMonotonic="4000000")
    assert (units.members[0].start, units.members[0].ended, units.members[0].run) == (5.25, 4.0, "a")


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [("1", "3", "exit status 3"), ("2", "9", "killed by SIGKILL"), ("2", "250", "killed by signal 250")],
)
def test_how_it_ended(code, status, text):
    assert ended_how({"ExecMainCode": code, "ExecMainStatus": status}) == text
    assert ended_how({"Result": "resources"}) == "result resources"
    assert gave_up({"Result": "start-limit-hit", "ExecMainExitTimestampMonotonic": "1"})


def test_silence_of_systemd_is_not_taken_for_an_answer(make):
    units, systemd = make(**RUNS)
    before = units.members
    systemd.code = 1
    assert not units.look(101.0)
    assert units.members == before


def test_nothing_is_asked_while_all_programs_live(make):
    units, systemd = make(**RUNS)
    systemd.code = 1
    assert units.watch(101.0)
    assert not units.watch(106.0)


def test_a_program_that_is_gone_is_noticed_at_once(make):
    units, systemd = make(**{**RUNS, "MainPID": "999999999"})
    systemd.shown = WILL
    assert units.watch(100.5)
    assert units.members[0].state == WAITING


def test_restart_tells_the_program_to_end_and_kills_what_does_not(make):
    units, systemd = make(**RUNS)
    order = Order(RESTART, NAME, "a", "d1-1 on npu4 died")
    units.obey([order], 100.0)
    units.obey([order], 100.5)
    assert systemd.calls == [f"kill --kill-who=main --signal=TERM -- {NAME}"]
    systemd.shown = {**RUNS, "ActiveState": "deactivating", "SubState": "stop-sigterm"}
    units.look(100.0 + PATIENCE - 0.1)
    assert len(systemd.calls) == 1
    units.look(100.0 + PATIENCE)
    assert systemd.calls[1:] == [f"kill --signal=KILL -- {NAME}"]


def test_one_that_is_told_to_end_is_looked_at_until_it_has(make):
    units, systemd = make(**RUNS)
    units.obey([Order(RESTART, NAME, "a", "x")], 100.0)
    # to systemd it is active until it ends, and its program is there
    assert units.watch(100.0 + PATIENCE)
    assert systemd.calls[1:] == [f"kill --signal=KILL -- {NAME}"]


def test_one_that_ends_in_time_is_not_killed_in_its_next_run(make):
    units, systemd = make(**RUNS)
    units.obey([Order(RESTART, NAME, "a", "x")], 100.0)
    systemd.shown = {**RUNS, "InvocationID": "b"}
    units.look(111.0)
    assert len(systemd.calls) == 1


@pytest.mark.parametrize("do", [RESTART, HOLD])
@pytest.mark.parametrize(("unit", "run"), [(NAME, "older"), ("sshd.service", "a")])
def test_orders_for_another_run_or_another_unit_are_nothing(make, do, unit, run):
    units, systemd = make(**RUNS)
    units.obey([Order(do, unit, run, "x")], 100.0)
    assert (systemd.calls, units.held) == ([], {})


@pytest.mark.parametrize("shown", [DEAD, {**RUNS, "ActiveState": "deactivating"}])
@pytest.mark.parametrize("do", [RESTART, HOLD, RELEASE])
def test_what_somebody_stops_or_has_stopped_is_left_alone(make, do, shown):
    units, systemd = make(**shown)
    units.obey([Order(do, NAME, "a", "x")], 100.0)
    assert systemd.calls == []


@pytest.mark.parametrize("shown", [RUNS, WILL])
def test_hold_is_kept_before_anything_is_stopped_and_survives(make, tmp_path, shown):
    units, systemd = make(**shown)
    units.obey([Order(HOLD, NAME, "a", "waiting for npu4")], 100.0)
    assert systemd.calls == [f"stop --no-block -- {NAME}"]
    assert json.loads((tmp_path / "held.json").read_text()) == {NAME: ["a", "waiting for npu4"]}
    again, systemd = make(**DEAD)
    assert (again.members[0].state, again.members[0].why) == (HELD, "waiting for npu4")
    again.obey([Order(RELEASE, NAME, "a", "it is back")], 101.0)
    assert systemd.calls == [f"reset-failed -- {NAME}", f"start --no-block -- {NAME}"]
    systemd.shown = {**RUNS, "InvocationID": "b"}
    again.look(102.0)
    assert (again.held, json.loads((tmp_path / "held.json").read_text())) == ({}, {})


def test_what_another_instance_of_this_name_left_is_not_held(make, tmp_path):
    (tmp_path / "held.json").write_text(json.dumps({NAME: ["older", "x"], "mooncake-pd-d1-9.service": ["b", "x"]}))
    units, _systemd = make(**DEAD)
    assert units.members[0].state == STOPPED
    assert (units.held, json.loads((tmp_path / "held.json").read_text())) == ({}, {})


def test_a_full_disk_ends_nothing_and_what_was_not_kept_is_kept_later(make, tmp_path, capfd):
    units, systemd = make(**RUNS)
    full = tmp_path / ".held.json.new"
    full.symlink_to("/dev/full")
    units.obey([Order(HOLD, NAME, "a", "waiting for npu4")], 100.0)
    assert systemd.calls == [f"stop --no-block -- {NAME}"]
    systemd.shown = DEAD
    for now in (101.0, 102.0):
        assert units.look(now)
        assert units.members[0].state == HELD
    assert capfd.readouterr().out.count("No space left") == 1
    full.unlink()
    units.look(103.0)
    assert json.loads((tmp_path / "held.json").read_text()) == {NAME: ["a", "waiting for npu4"]}


def test_a_folder_that_is_not_there_ends_nothing(tmp_path):
    kept = Kept(tmp_path / "nowhere" / "held.json")
    assert (kept.write({}), kept.read()) == (False, {})


@pytest.mark.parametrize(("state", "stays"), [("running", True), ("degraded", True), ("stopping", False), ("", False)])
def test_whether_the_host_goes_down(make, state, stays):
    units, systemd = make(**RUNS)
    systemd.shown = {"SystemState": state}
    assert units.stays() is stays
    systemd.code = 1
    assert not units.stays()


def test_the_units_start_again_after_what_is_reckoned_with():
    planner = (Path(__file__).parents[4] / "plugins/plugin_utils/supervisor.py").read_text()
    assert f"\nRESTART_SECONDS = {RESTART_SECONDS:g}\n" in planner


def test_one_that_is_held_and_did_not_end_well_is_held(make):
    units, systemd = make(**RUNS)
    units.obey([Order(HOLD, NAME, "a", "x")], 100.0)
    systemd.shown = {**DEAD, "ActiveState": "failed", "ExecMainCode": "1", "ExecMainStatus": "2"}
    units.look(101.0)
    assert units.members[0].state == HELD


def test_what_systemctl_refuses_is_told(make, capfd):
    units, systemd = make(**RUNS)
    systemd.code = 1
    units.obey([Order(HOLD, NAME, "a", "x")], 100.0)
    assert "failed: no such unit" in capfd.readouterr().out


def test_the_world_of_the_other_tests_uses_this_side(tmp_path):
    world = World(tmp_path)
    world.start_all()
    world.run(2)
    assert {one.state for one in world.hosts[0].local.members} == {UP}
