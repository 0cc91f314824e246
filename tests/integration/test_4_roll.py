# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two prefill and two decode under load: restarted one by one, killed, changed, and no client is failed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.tests.load.judge import OK
from ansible_collections.mooncake.pd.tests.load.report import Report
from ansible_collections.mooncake.pd.tests.load.witness import Witness

from .conftest import Lab, Play, Runner, fresh_hosts

INVENTORY = Path(__file__).parent / "roll"
NAME = "integration-roll"
URL = "http://10.90.88.10:8080"
# instance -> its host and where it answers
INSTANCES = {
    "p1": ("roll-p1", "10.90.88.11:8110"),
    "p2": ("roll-p2", "10.90.88.12:8110"),
    "d1": ("roll-d1", "10.90.88.21:8210"),
    "d2": ("roll-d2", "10.90.88.22:8210"),
}
# two cores carry four engines, two routers and these
LOAD: dict[str, Any] = {"clients": 4, "pause": 0.2, "cancelled": 0.05}


@pytest.fixture(scope="module")
def lab(play: Runner) -> Iterator[Lab]:
    """A running service on hosts of its own."""
    with fresh_hosts(NAME, INVENTORY) as found:
        done = play("site.yml", inventory=INVENTORY)
        assert done.rc == 0, done.stdout
        yield found


def starts(lab: Lab) -> dict[str, int]:
    """How often each engine has been started since its host is there."""
    count = "grep -c -e '--- mooncake-pd start' /var/log/mooncake-pd/mooncake-pd-{}.log"
    return {name: int(lab.shell(host, count.format(name))) for name, (host, _api) in INSTANCES.items()}


def steps(play: Play) -> list[tuple[str, str]]:
    """(first word, instance) of each step of a wave, as somebody who watches the run reads them."""
    begun = [e["event_data"]["name"] for e in play.events if e["event"] == "playbook_on_task_start"]
    return [(task.split()[0], task.split()[-1]) for task in begun if task.split()[-1] in INSTANCES]


def waves(play: Play) -> list[str]:
    """Who was taken out, in order."""
    return [name for step, name in steps(play) if step == "Take"]


def answered_by(report: Report, name: str) -> int:
    """How many answers came through this instance: vllm-router names both in the id."""
    return sum(INSTANCES[name][1] in answer.id for answer in report.answers if answer.kind == OK)


def proven(report: Report) -> bool:
    return report.counts[OK] >= 1000


def of_all(report: Report) -> bool:
    """Whether every instance serves in the end."""
    return all(answered_by(report.phase("after"), name) for name in INSTANCES)


def start_seconds(play: Play) -> float:
    """How long the engines took to be ready, one after the other."""
    found = [
        e["event_data"]["res"]
        for e in play.events
        if e["event"] == "runner_on_ok" and e["event_data"]["task_action"] == "mooncake.pd.wait_ready"
    ]
    return sum(process["seconds"] for result in found for process in result["processes"])


@pytest.fixture(scope="module")
def rolled(lab: Lab, play: Runner) -> tuple[Play, Report, dict[str, int]]:
    before = starts(lab)
    with Witness(URL, **LOAD) as witness:
        witness.wait("answers at rest", lambda report: report.counts[OK] >= 200, 120)
        witness.mark("roll")
        done = play("playbooks/roll.yml", inventory=INVENTORY, extravars={"roll_restart": True})
        witness.mark("after")
        assert done.rc == 0, f"{done.stdout}\n{witness.report}"
        witness.wait("a thousand answers, and some of each", lambda report: proven(report) and of_all(report), 120)
    print(witness.report)
    starting = start_seconds(done)
    print(f"roll {done.seconds:.1f} s, {done.seconds / starting:.2f} of the {starting:.1f} s for which engines started")
    return done, witness.report, before


def test_restart_of_all_fails_no_request(rolled: tuple[Play, Report, dict[str, int]], lab: Lab) -> None:
    _done, report, _before = rolled
    assert report.faults == [], report
    assert proven(report), report
    # they were asked while it went on
    assert report.phase("roll").counts[OK] >= 100, report
    assert of_all(report), report


def test_each_instance_is_restarted_once(rolled: tuple[Play, Report, dict[str, int]], lab: Lab) -> None:
    _done, _report, before = rolled
    assert starts(lab) == {name: count + 1 for name, count in before.items()}


def test_who_watches_sees_each_instance_go_and_come(rolled: tuple[Play, Report, dict[str, int]]) -> None:
    done, _report, _before = rolled
    planned = [wave["name"] for wave in done.result("mooncake.pd.roll_plan")["waves"]]
    assert waves(done) == planned
    assert sorted(planned) == sorted(INSTANCES)
    for name in INSTANCES:
        assert [step for step, of in steps(done) if of == name] == ["Take", "Send", "Give"]


def test_second_roll_has_nothing_to_do(rolled: tuple[Play, Report, dict[str, int]], play: Runner, lab: Lab) -> None:
    before = starts(lab)
    done = play("playbooks/roll.yml", inventory=INVENTORY)
    assert done.rc == 0, done.stdout
    assert done.changes() == []
    assert waves(done) == []
    assert starts(lab) == before


def test_killed_decode_is_out_within_two_seconds_and_comes_back(lab: Lab) -> None:
    host, _api = INSTANCES["d1"]
    with Witness(URL, **LOAD) as witness:
        witness.wait("answers of d1", lambda report: answered_by(report, "d1") >= 20, 60)
        witness.mark("killed")
        lab.exec(host, "systemctl", "kill", "-s", "KILL", "mooncake-pd-d1.service")
        witness.wait("answers without d1", lambda report: report.phase("killed").counts[OK] >= 50, 60)
        witness.mark("waiting")
        witness.wait("answers of d1 again", lambda report: answered_by(report.phase("waiting"), "d1") >= 20, 180)
    report = witness.report
    print(report)
    print(f"faults for {report.fault_seconds:.1f} s")
    assert report.fault_seconds < 2, report
    # those that d1 had begun to stream, and what the routers sent there until they knew
    assert {answer.kind for answer in report.faults} <= {"failed", "truncated"}, report


def test_roll_that_was_killed_is_finished_by_the_same_command(lab: Lab, play: Runner, tmp_path: Path) -> None:
    """Decode gets another argument; in the middle of the first wave the controller is gone."""
    shutil.copytree(INVENTORY, tmp_path / "inventory")
    topology = tmp_path / "inventory" / "topology.yml"
    text = topology.read_text()
    topology.write_text(text.replace("api_port: 8210}", "api_port: 8210, args: [--max-num-seqs, '3']}"))
    given: dict[str, Any] = {"inventory": tmp_path / "inventory", "extravars": {"roll_only": "d1"}}
    before = starts(lab)
    died: list[str] = []

    def in_the_middle(event: dict[str, Any]) -> None:
        task = event["event_data"].get("task", "")
        if event["event"] == "playbook_on_task_start" and "are ready" in task:
            died.append(task)

    with Witness(URL, **LOAD) as witness:
        broken = play("playbooks/roll.yml", **given, on_event=in_the_middle, killed=lambda: bool(died))
        assert broken.rc != 0
        assert len(died) == 1
        done = play("playbooks/roll.yml", **given)
        assert done.rc == 0, f"{done.stdout}\n{witness.report}"
        witness.mark("after")
        witness.wait("answers of d1", lambda report: answered_by(report.phase("after"), "d1") > 0, 60)
    print(witness.report)
    assert witness.report.faults == [], witness.report
    # nothing is started twice because of it
    assert starts(lab) == {**before, "d1": before["d1"] + 1}
    shown = lab.shell("roll-d1", "tr '\\0' ' ' < /proc/$(systemctl show --value -p MainPID mooncake-pd-d1)/cmdline")
    assert "--max-num-seqs 3" in shown
