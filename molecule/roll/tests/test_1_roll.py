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


def starts(scenario):
    """Process -> the start that runs now."""
    found = {}
    for host, names in PROCESSES.items():
        units = " ".join(f"mooncake-pd-{name}" for name in names)
        shown = scenario.hosts[host].check_output(f"systemctl show --value -p InvocationID {units}")
        found |= dict(zip(names, shown.split(), strict=True))
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
    # the first of a kind goes alone
    assert {"p1", "d1"} <= set(waves(play))
    assert restarted(before, starts(scenario)) == ALL
    assert workers(scenario) == [API, API]


def test_nothing_to_do(scenario):
    before = starts(scenario)
    play = scenario.play("roll")
    assert play.rc == 0, play.output
    assert waves(play) == []
    assert re.findall(r"changed=[1-9]", play.text) == []
    assert starts(scenario) == before


# the new engines start, are ready, and answer 200 without text
BAD = {"environment": {"MOONCAKE_PD_TWIN_FAULT": "empty-answer"}}


def test_bad_change_stops_at_the_canary_which_goes_back(scenario, nobody_failed, changed):
    before = starts(scenario)
    play = scenario.play("roll", inventory=changed(**BAD))
    assert play.rc != 0
    assert waves(play) == ["d1"], play.output
    assert "d1 did not come up as planned" in play.text
    assert "It runs again what ran before" in play.text
    # on both of its hosts
    assert restarted(before, starts(scenario)) == {"d1-0", "d1-1"}
    assert workers(scenario) == [API, API]
    again = scenario.play("roll")
    assert again.rc == 0, again.output
    assert waves(again) == []


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


def test_host_that_goes_away_in_the_middle_and_the_same_command_again(scenario, clients, changed):
    """npu4 is cut off when its part of d1 is stopped; with it goes half of d2, and d4."""
    lab = ROOT / "tests/hosts/lab"
    good = changed(args=["--max-num-seqs=12"])
    before = starts(scenario)
    ended = threading.Event()

    def cut():
        while not ended.is_set():
            if scenario.hosts["npu4"].run("systemctl is-active mooncake-pd-d1-1").stdout.strip() != "active":
                subprocess.run([lab, "cut", scenario.lab, "npu4"], check=True)
                return
            time.sleep(0.2)

    watcher = threading.Thread(target=cut)
    watcher.start()
    try:
        play = scenario.play("roll", inventory=good)
    finally:
        ended.set()
        watcher.join()
        subprocess.run([lab, "join", scenario.lab, "npu4"], check=True)
    assert play.rc != 0
    assert "npu4" in play.text
    assert waves(play) == ["d1"]
    clients.wait("answers", lambda report: report.answers[-1].kind == OK, 60)
    clients.mark("again")
    again = scenario.play("roll", inventory=good)
    assert again.rc == 0, again.output
    assert clients.report.phase("again").faults == [], clients.report
    assert argument(scenario, "--max-num-seqs=12") == {name for name in ALL if name.startswith("d")}
    assert restarted(before, starts(scenario)) == {name for name in ALL if name.startswith("d")}
    assert workers(scenario) == [API, API]


def test_full_disk_in_the_middle_and_the_same_command_again(scenario, nobody_failed, changed):
    """On npu2 there is no room for logs."""
    npu2 = scenario.hosts["npu2"]
    same = changed(args=["--max-num-seqs=12"])
    npu2.check_output("mount -t tmpfs -o size=64k full /var/log/mooncake-pd && fallocate -l 64K /var/log/mooncake-pd/x")
    try:
        play = scenario.play("roll", "-e", "roll_restart=true", "-e", "roll_only=p3", inventory=same)
    finally:
        npu2.check_output("umount /var/log/mooncake-pd")
    assert play.rc != 0
    without = API - {"http://10.90.89.12:8100"}
    assert workers(scenario) == [without, without]
    before = starts(scenario)
    again = scenario.play("roll", inventory=same)
    assert again.rc == 0, again.output
    assert restarted(before, starts(scenario)) == {"p3"}
    assert workers(scenario) == [API, API]
