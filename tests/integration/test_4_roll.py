# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two prefill and two decode under load: added, stopped, restarted, killed, changed, taken away; no client fails."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.mooncake.pd.tests.load.judge import OK
from ansible_collections.mooncake.pd.tests.load.report import Report
from ansible_collections.mooncake.pd.tests.load.witness import Witness

from .conftest import ROOT, Lab, Play, Runner, fresh_hosts

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
CHANGED = {"d1": ["--max-num-seqs", "3"]}
# two cores carry four engines, two routers and these
LOAD: dict[str, Any] = {"clients": 3, "pause": 0.3, "cancelled": 0.05}


def edited(home: Path, *gone: str, arguments: dict[str, list[str]] | None = None, mooncake: str = "") -> Path:
    """A copy of the inventory without these instances and their hosts, and with more arguments for others."""
    shutil.copytree(INVENTORY, home / "inventory")
    file = home / "inventory" / "topology.yml"
    topology = yaml.safe_load(file.read_text())
    for name in gone:
        topology["hosts"].pop(INSTANCES[name][0])
    for kind in ("prefill", "decode"):
        kept = [item for item in topology[kind] if item["name"] not in gone]
        topology[kind] = [{**item, "args": (arguments or {}).get(item["name"], [])} for item in kept]
    topology["mooncake"]["version"] = mooncake or topology["mooncake"]["version"]
    file.write_text(yaml.safe_dump(topology))
    return home / "inventory"


@pytest.fixture(scope="module")
def lab(play: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running service without d2, on hosts of its own."""
    # what was proven of an earlier lab of that name is nothing to compare these hosts with
    shutil.rmtree(ROOT / "passport" / NAME, ignore_errors=True)
    with fresh_hosts(NAME, INVENTORY) as found:
        done = play("site.yml", inventory=edited(tmp_path_factory.mktemp("small"), "d2"))
        assert done.rc == 0, done.stdout
        yield found


def starts(lab: Lab) -> dict[str, int]:
    """How often each engine has been started since its host is there."""
    count = "cat /var/log/mooncake-pd/mooncake-pd-{}.log 2> /dev/null | grep -c -e '--- mooncake-pd start' || true"
    return {name: int(lab.shell(host, count.format(name))) for name, (host, _api) in INSTANCES.items()}


def steps(play: Play) -> list[tuple[str, str]]:
    """(first word, instances) of each step of a wave, as somebody who watches the run reads them."""
    begun = [e["event_data"]["name"] for e in play.events if e["event"] == "playbook_on_task_start"]
    found = [(task.split()[0], re.search(r"[pd][12](, [pd][12])*$", task)) for task in begun]
    return [(word, match[0]) for word, match in found if match and word in ("Take", "Send", "Give")]


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


def told(play: Play) -> str:
    """The output in one line and without colours, for YAML breaks messages where it likes."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", play.stdout).split())


def touched(play: Play) -> set[str]:
    """Hosts on which something was changed; the passport, which is told of one of them, lies on the controller."""
    return {change.partition(":")[0] for change in play.changes() if not change.endswith("Write the passport")}


@pytest.fixture(scope="module")
def grown(lab: Lab, play: Runner) -> Lab:
    """With d2, which came under load."""
    before = starts(lab)
    with Witness(URL, **LOAD) as witness:
        witness.wait("answers at rest", lambda report: report.counts[OK] >= 20, 120)
        witness.mark("scale")
        done = play("playbooks/scale.yml", inventory=INVENTORY)
        assert done.rc == 0, f"{done.stdout}\n{witness.report}"
        witness.mark("after")
        witness.wait("answers of d2", lambda report: answered_by(report.phase("after"), "d2") > 0, 60)
    print(witness.report)
    assert witness.report.faults == [], witness.report
    # the host that came, and what tells the routers
    assert touched(done) == {"roll-d2", "roll-control"}
    assert starts(lab) == {**before, "d2": 1}
    assert "P:D is 2 prefill to 2 decode, 1:1 (workers 2 to 2); before it was 2 prefill to 1 decode" in told(done)
    return lab


def test_instance_is_added_and_the_others_are_not_touched(grown: Lab) -> None:
    """What this is proven by stands in the fixture, for all tests below need it."""
    assert starts(grown)["d2"] == 1


@pytest.fixture(scope="module")
def rolled(grown: Lab, play: Runner) -> tuple[Play, Report, dict[str, int]]:
    """All are restarted, p2 of which was stopped alone before."""
    lab = grown
    before = starts(lab)
    with Witness(URL, **LOAD) as witness:
        witness.wait("answers at rest", lambda report: report.counts[OK] >= 200, 120)
        witness.mark("stop")
        stopped = play("playbooks/stop.yml", inventory=INVENTORY, extravars={"stop_only": "p2"})
        assert stopped.rc == 0, f"{stopped.stdout}\n{witness.report}"
        assert lab.property("roll-p2", "mooncake-pd-p2.service", "ActiveState") == "inactive"
        assert "p2 is stopped and out of the routers. roll.yml starts it and puts it back." in told(stopped)
        witness.mark("roll")
        done = play("playbooks/roll.yml", inventory=INVENTORY, extravars={"roll_restart": True})
        witness.mark("after")
        assert done.rc == 0, f"{done.stdout}\n{witness.report}"
        witness.wait("a thousand answers, and some of each", lambda report: proven(report) and of_all(report), 120)
    print(witness.report)
    starting = start_seconds(done)
    print(f"roll {done.seconds:.1f} s, {done.seconds / starting:.2f} of the {starting:.1f} s for which engines started")
    return done, witness.report, before


def test_stop_of_one_and_restart_of_all_fail_no_request(rolled: tuple[Play, Report, dict[str, int]]) -> None:
    _done, report, _before = rolled
    assert report.faults == [], report
    assert proven(report), report
    # they were asked while it went on
    assert report.phase("stop").counts[OK] >= 20, report
    assert report.phase("roll").counts[OK] >= 100, report
    assert of_all(report), report


def test_each_instance_is_restarted_once(rolled: tuple[Play, Report, dict[str, int]], lab: Lab) -> None:
    _done, _report, before = rolled
    assert starts(lab) == {name: count + 1 for name, count in before.items()}


def test_who_watches_sees_each_instance_go_and_come(rolled: tuple[Play, Report, dict[str, int]]) -> None:
    done, _report, _before = rolled
    planned = [wave["name"] for wave in done.result("mooncake.pd.roll_plan")["waves"]]
    assert waves(done) == planned
    # what was stopped comes first
    assert planned[0] == "p2"
    assert sorted(", ".join(planned).split(", ")) == sorted(INSTANCES)
    for name in planned:
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
    """d1 gets another argument; in the middle of its wave the controller is gone."""
    given: dict[str, Any] = {"inventory": edited(tmp_path, arguments=CHANGED)}
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


def test_instance_is_taken_away_and_the_others_are_not_touched(lab: Lab, play: Runner, tmp_path: Path) -> None:
    """Its host, too, leaves the topology. After the change of d1 above, that is how it was proven last."""
    small = edited(tmp_path, "d2", arguments=CHANGED)
    before = starts(lab)
    with Witness(URL, **LOAD) as witness:
        witness.wait("answers of d2", lambda report: answered_by(report, "d2") > 0, 60)
        witness.mark("scale")
        done = play("playbooks/scale.yml", inventory=small)
        assert done.rc == 0, f"{done.stdout}\n{witness.report}"
        witness.mark("after")
        witness.wait("answers", lambda report: report.phase("after").counts[OK] >= 20, 60)
    print(witness.report)
    assert witness.report.faults == [], witness.report
    assert answered_by(witness.report.phase("after"), "d2") == 0
    assert touched(done) == {"roll-d2", "roll-control"}
    assert lab.shell("roll-d2", "ls /etc/systemd/system | grep mooncake-pd-d2 || true") == ""
    assert lab.shell("roll-d2", "pgrep -f '[v]llm serve' || true") == ""
    assert "P:D is 2 prefill to 1 decode" in told(done)
    again = play("playbooks/scale.yml", inventory=small)
    assert again.rc == 0, again.stdout
    assert again.changes() == []
    assert starts(lab) == before


def test_last_decode_cannot_be_taken_away(lab: Lab, play: Runner, tmp_path: Path) -> None:
    done = play("playbooks/scale.yml", inventory=edited(tmp_path, "d1", "d2"))
    assert done.rc != 0
    assert "decode: [side-missing] there is no decode instance" in told(done)


def test_mooncake_of_what_runs_is_not_replaced(lab: Lab, play: Runner, tmp_path: Path) -> None:
    """Only its version is another one, so nobody looks at the engine's environment."""
    other = edited(tmp_path, "d2", arguments=CHANGED, mooncake="0.3.11.post1")
    done = play("playbooks/prepare.yml", inventory=other, extravars={"mooncake_mode": "wheel"})
    assert done.rc != 0
    assert {host for host, _task, _message in done.failures} == {"roll-p1", "roll-p2", "roll-d1"}
    assert "would lose its Mooncake while it serves" in done.message
    assert "Set engine_path to a folder for this release" in done.message
    assert done.changes() == []
