# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rolls of eight instances, good ones and those that meet trouble; what the roll does, no client notices."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest
import yaml
from twin_hosts import ROOT

from ansible_collections.mooncake.pd.tests.load.judge import OK
from ansible_collections.mooncake.pd.tests.load.witness import Witness

URL = "http://10.90.89.11:8000"
LOAD = {"model": "qwen3-moe", "clients": 2, "pause": 0.2, "cancelled": 0.05}
PROCESSES = {
    "npu1": ["p1", "p2"],
    "npu2": ["p3", "p4"],
    "npu3": ["d1-0", "d2-0", "d3-0", "d3-1"],
    "npu4": ["d1-1", "d2-1", "d4-0", "d4-1"],
}
ALL = {name for names in PROCESSES.values() for name in names}
API = {f"http://10.90.89.{host}:{port}" for host in (11, 12) for port in (8100, 8102)} | {
    f"http://10.90.89.{host}:{port}" for host in (13, 14) for port in range(8200, 8204)
}


@pytest.fixture
def clients():
    """They ask during a test."""
    with Witness(URL, **LOAD) as found:
        found.wait("answers", lambda report: report.counts[OK] >= 10, 60)
        yield found
    print(found.report)


@pytest.fixture
def nobody_failed(clients):
    yield
    assert clients.report.counts[OK] > 0
    assert clients.report.faults == [], clients.report


@pytest.fixture
def changed(scenario, tmp_path):
    """The inventory with something more for every decode."""

    def change(**keys):
        shutil.copytree(scenario.inventory, tmp_path / "inventory", dirs_exist_ok=True)
        topology = yaml.safe_load((scenario.inventory / "topology.yml").read_text())
        for decode in topology["decode"]:
            decode.update(keys)
        (tmp_path / "inventory" / "topology.yml").write_text(yaml.safe_dump(topology))
        return tmp_path / "inventory"

    return change


@contextmanager
def cut_off(scenario, host):
    """The host goes on, and nobody reaches it."""
    lab = ROOT / "tests/hosts/lab"
    try:
        yield lambda: subprocess.run([lab, "cut", scenario.lab, host], check=True)
    finally:
        subprocess.run([lab, "join", scenario.lab, host], check=True)


def starts(scenario):
    """Process -> the start that runs now."""
    found = {}
    for host, names in PROCESSES.items():
        units = " ".join(f"mooncake-pd-{name}" for name in names)
        shown = scenario.hosts[host].check_output(f"systemctl show --value -p InvocationID {units}")
        # one that is not there has an empty line
        found |= dict(zip(names, shown.split("\n\n"), strict=True))
    return found


def restarted(before, after):
    return {name for name in before if before[name] != after[name]}


def argument(scenario, text):
    """The processes that run with this in their command line."""
    found = set()
    for host, names in PROCESSES.items():
        for name in names:
            pid = f"$(systemctl show --value -p MainPID mooncake-pd-{name})"
            if text in scenario.hosts[host].check_output(f"tr '\\0' ' ' < /proc/{pid}/cmdline"):
                found.add(name)
    return found


def workers(scenario):
    """Whom each router serves."""
    found = []
    for port in (18001, 18002):
        told = scenario.hosts["npu1"].check_output(f"curl -sS -m 10 http://127.0.0.1:{port}/workers")
        found.append({worker["url"] for worker in json.loads(told)["workers"]})
    return found


def planned(play):
    """The waves as the plan names them before the first."""
    return re.search(r"waves? for [^:]*: ([^.]+)\.", play.text)[1].split("; ")


def waves(play):
    """The waves in order, as somebody who watches the run reads them."""
    return re.findall(r"TASK \[Take out of the routers[^\]]*? of, ([^\]]+)\]", play.text)


def test_restart_of_all(scenario, nobody_failed):
    before = starts(scenario)
    play = scenario.play("roll", "-e", "roll_restart=true", "-e", "roll_batch=2")
    assert play.rc == 0, play.output
    print(f"{play.seconds:.0f} s: {waves(play)}")
    assert waves(play) == planned(play)
    assert sorted(", ".join(waves(play)).split(", ")) == sorted({name.partition("-")[0] for name in ALL})
    assert restarted(before, starts(scenario)) == ALL
    assert workers(scenario) == [API, API]


GOOD = {"args": ["--max-num-seqs=12"]}
# the new engines start, are ready, and answer 200 without text
BAD = {"environment": {"MOONCAKE_PD_TWIN_FAULT": "empty-answer"}}


def test_bad_upgrade_goes_back_at_the_canary_and_rollback_puts_the_topology_back(scenario, nobody_failed, changed):
    before = starts(scenario)
    bad = changed(**BAD)
    play = scenario.play("upgrade", inventory=bad)
    assert play.rc != 0
    assert waves(play) == ["d1"], play.output
    assert "d1 did not come up as planned" in play.text, play.output
    assert "It runs again what ran before" in play.text
    # on both of its hosts
    assert restarted(before, starts(scenario)) == {"d1-0", "d1-1"}
    assert workers(scenario) == [API, API]
    before = starts(scenario)
    back = scenario.play("rollback", inventory=bad)
    assert back.rc == 0, back.output
    assert (bad / "topology.yml").read_text() == (scenario.inventory / "topology.yml").read_text()
    (kept,) = bad.glob("topology.yml.*~")
    assert yaml.safe_load(kept.read_text())["decode"][0]["environment"] == BAD["environment"]
    assert waves(back) == []
    assert starts(scenario) == before
    assert workers(scenario) == [API, API]


@pytest.mark.long
def test_bad_change_without_a_way_back_leaves_the_canary_out(scenario, nobody_failed, changed):
    before = starts(scenario)
    play = scenario.play("roll", "-e", "roll_rollback=false", inventory=changed(**BAD))
    assert play.rc != 0
    assert "It is out of the routers; the others serve." in play.text
    assert restarted(before, starts(scenario)) == {"d1-0", "d1-1"}
    without = API - {"http://10.90.89.13:8200", "http://10.90.89.14:8200"}
    assert workers(scenario) == [without, without]
    # with the plan that was good it is taken back in, and nobody else is touched
    before = starts(scenario)
    mended = scenario.play("roll")
    assert mended.rc == 0, mended.output
    assert restarted(before, starts(scenario)) == {"d1-0", "d1-1"}
    assert workers(scenario) == [API, API]


@pytest.mark.long
def test_host_that_goes_away_in_the_middle_and_the_same_command_again(scenario, clients, changed):
    """npu4 is cut off when its part of d1 is stopped; with it goes half of d2, and d4."""
    good = changed(**GOOD)
    before = starts(scenario)
    ended = threading.Event()

    def watch(cut):
        while not ended.is_set():
            if scenario.hosts["npu4"].run("systemctl is-active mooncake-pd-d1-1").stdout.strip() != "active":
                cut()
                return
            time.sleep(0.2)

    with cut_off(scenario, "npu4") as cut:
        watcher = threading.Thread(target=watch, args=(cut,))
        watcher.start()
        try:
            play = scenario.play("roll", inventory=good)
        finally:
            ended.set()
            watcher.join()
    assert play.rc != 0
    assert "npu4" in play.text
    assert waves(play) == ["d1"]
    clients.wait("answers", lambda report: report.answers[-1].kind == OK, 60)
    clients.mark("again")
    again = scenario.play("upgrade", inventory=good)
    assert again.rc == 0, again.output
    assert clients.report.phase("again").faults == [], clients.report
    assert argument(scenario, "--max-num-seqs=12") == {name for name in ALL if name.startswith("d")}
    assert restarted(before, starts(scenario)) == {name for name in ALL if name.startswith("d")}
    assert workers(scenario) == [API, API]


@pytest.mark.long
def test_rollback_after_an_upgrade_returns_to_it_without_what_came_after(scenario, nobody_failed, changed):
    """p5 was added and started, and nobody has proven it."""
    more = changed(**GOOD)
    upgraded = (more / "topology.yml").read_text()
    topology = yaml.safe_load(upgraded)
    topology["prefill"].append({"name": "p5", "host": "npu1", "tp": 2, "devices": [4, 5]})
    (more / "topology.yml").write_text(yaml.safe_dump(topology))
    before = starts(scenario)
    started = scenario.play("start", inventory=more)
    assert started.rc == 0, started.output
    assert workers(scenario) == [API | {"http://10.90.89.11:8104"}] * 2
    back = scenario.play("rollback", inventory=more)
    assert back.rc == 0, back.output
    assert (more / "topology.yml").read_text() == upgraded
    assert waves(back) == []
    assert workers(scenario) == [API, API]
    assert "mooncake-pd-p5" not in scenario.hosts["npu1"].check_output("ls /etc/systemd/system")
    assert starts(scenario) == before


@pytest.mark.long
def test_what_is_refused_before_anything_is_touched(scenario, changed, tmp_path):
    before = starts(scenario)
    other = changed(args=["--max-num-seqs=13"])
    edited = (other / "topology.yml").read_text()
    unproven = scenario.play("rollback", "-e", f"passport_dest={tmp_path}/none", inventory=other)
    assert unproven.rc != 0
    assert "Nothing was proven yet" in unproven.text
    assert (other / "topology.yml").read_text() == edited
    more = scenario.play("scale", inventory=other)
    assert more.rc != 0
    assert "d1 itself has changed. Mend: run roll.yml first" in more.text
    part = scenario.play("scale", "--limit", "npu1,npu2,npu3", inventory=changed(**GOOD))
    assert part.rc != 0
    assert "--limit leaves out npu4" in part.text
    assert all(re.findall(r"changed=[1-9]", play.text) == [] for play in (unproven, more, part))
    assert starts(scenario) == before


@pytest.mark.long
@pytest.mark.parametrize(
    ("playbook", "ways_out"),
    [
        (
            "scale",
            [
                "d3 has moved to other hosts. Mend: take it away, run scale.yml",
                "d4 has become one of the other kind, and both have the same units. Mend: take it away, run scale.yml",
            ],
        ),
        (
            "rollback",
            [
                "run stop.yml with -e stop_only=d3 -e stop_disable=true; then give it back its hosts",
                "d4 was proven as one of the other kind",
            ],
        ),
    ],
)
def test_what_has_moved_or_become_another_is_refused(scenario, changed, playbook, ways_out):
    """d3 is planned on npu4, and d4 is a prefill."""
    other = changed(**GOOD)
    topology = yaml.safe_load((other / "topology.yml").read_text())
    topology["prefill"].append({"name": "d4", "host": "npu4", "tp": 2, "devices": [2, 3]})
    kept = [decode for decode in topology["decode"] if decode["name"] != "d4"]
    moved = {"host": "npu4", "devices": [4, 5]}
    topology["decode"] = [{**decode, **moved} if decode["name"] == "d3" else decode for decode in kept]
    (other / "topology.yml").write_text(yaml.safe_dump(topology))
    edited = (other / "topology.yml").read_text()
    before = starts(scenario)
    play = scenario.play(playbook, inventory=other)
    assert play.rc != 0
    assert [text for text in ways_out if text not in play.text] == []
    # rolled, a moved one would be left where it was
    assert "d3 itself has changed" not in play.text
    assert re.findall(r"changed=[1-9]", play.text) == []
    assert (other / "topology.yml").read_text() == edited
    assert starts(scenario) == before


@pytest.mark.long
def test_what_was_proven_and_is_not_there_is_refused(scenario, changed):
    """As after a host was installed anew; the unit goes on without its file."""
    file = "/etc/systemd/system/mooncake-pd-p4.service"
    before = starts(scenario)
    npu2 = scenario.hosts["npu2"]
    npu2.check_output(f"mv {file} /root/")
    try:
        play = scenario.play("scale", inventory=changed(**GOOD))
    finally:
        npu2.check_output(f"mv /root/{file.rpartition('/')[2]} {file}")
    assert play.rc != 0
    assert "mooncake-pd-p4.service: not on npu2" in play.text
    assert "Mend: run site.yml" in play.text
    assert re.findall(r"changed=[1-9]", play.text) == []
    assert starts(scenario) == before


@pytest.mark.long
def test_full_disk_in_the_middle_of_a_restart_and_the_same_command_again(scenario, nobody_failed, changed):
    """On npu2 there is no room for logs. What was restarted before that is not restarted once more."""
    npu2 = scenario.hosts["npu2"]
    command = ("roll", "-e", "roll_restart=true", "-e", "roll_only=p1,p3")
    same = changed(**GOOD)
    began = starts(scenario)
    npu2.check_output("mount -t tmpfs -o size=64k full /var/log/mooncake-pd && fallocate -l 64K /var/log/mooncake-pd/x")
    try:
        play = scenario.play(*command, inventory=same)
    finally:
        npu2.check_output("umount /var/log/mooncake-pd")
    assert play.rc != 0
    assert waves(play) == ["p1", "p3"]
    without = API - {"http://10.90.89.12:8100"}
    assert workers(scenario) == [without, without]
    before = starts(scenario)
    assert "p1" in restarted(began, before)
    again = scenario.play(*command, inventory=same)
    assert again.rc == 0, again.output
    # systemd tries p3 again, too, and may have been first
    told = r"The interrupted restart of \S+ goes on; p1(, p3 were| was) restarted by it already\."
    assert re.search(told, again.text), again.output
    assert waves(again) == ["p3"]
    assert restarted(before, starts(scenario)) <= {"p3"}
    assert workers(scenario) == [API, API]


# the last one: what it leaves on npu4 is in no plan
@pytest.mark.long
def test_dead_host_is_scaled_away(scenario, clients, changed):
    """With npu4 goes half of d1 and d2, and d4; what it keeps is told and left alone."""
    small = changed(**GOOD)
    topology = yaml.safe_load((small / "topology.yml").read_text())
    del topology["hosts"]["npu4"]
    topology["decode"] = [decode for decode in topology["decode"] if decode["name"] == "d3"]
    (small / "topology.yml").write_text(yaml.safe_dump(topology))
    gone = {"d1-0", "d1-1", "d2-0", "d2-1", "d4-0", "d4-1"}
    before = starts(scenario)
    with cut_off(scenario, "npu4") as cut:
        cut()
        refused = scenario.play("scale", inventory=small)
        assert refused.rc != 0
        assert "-e scale_force=true" in refused.text
        assert re.findall(r"changed=[1-9]", refused.text) == []
        done = scenario.play("scale", "-e", "scale_force=true", inventory=small)
        assert done.rc == 0, done.output
        assert "1 decode instances are left of 4, less than 50%" in done.text
        # with what would start them again
        told = r"npu4 cannot be reached\. mooncake-pd-d1-group\.service, .*mooncake-pd-d1-1\.service, .* stay there"
        assert re.search(told, done.text), done.output
        clients.mark("after")
        clients.wait("answers", lambda report: report.phase("after").counts[OK] >= 20, 60)
        assert clients.report.phase("after").faults == [], clients.report
        left = {url for url in API if "89.14:" not in url} - {f"http://10.90.89.13:{port}" for port in (8200, 8201)}
        assert workers(scenario) == [left, left]
        again = scenario.play("scale", inventory=small)
        assert again.rc == 0, again.output
        assert re.findall(r"changed=[1-9]", again.text) == []
    listed = scenario.hosts["npu3"].check_output("ls /etc/systemd/system")
    assert "mooncake-pd-d3-0.service" in listed
    assert not re.search(r"mooncake-pd-d[12]-", listed)
    assert scenario.hosts["npu3"].check_output("ls /var/lib/mooncake-pd-group") == "mooncake-pd-d3-group"
    assert restarted(before, starts(scenario)) <= gone
