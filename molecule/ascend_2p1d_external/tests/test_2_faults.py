# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong after the look at the hosts, and what becomes of the 32 ranks of decode, which live together."""

from __future__ import annotations

import json
import subprocess
import time

import pytest
from twin_hosts import ROOT

DECODE = {"npu3": range(16), "npu4": range(16, 32)}
UNITS = {f"mooncake-pd-d1-{rank}.service" for ranks in DECODE.values() for rank in ranks}
# the service as clients see it; with kv_load_failure_policy recompute a request survives what the group does not
BODY = json.dumps({"model": "qwen3-moe", "prompt": "hello", "max_tokens": 8})
ASK = f"curl -sS -m 20 -H 'Content-Type: application/json' -d '{BODY}' http://10.90.78.11:8000/v1/completions"
LOG = "/var/log/mooncake-pd"


def lab(scenario, verb, host):
    subprocess.run([ROOT / "tests/hosts/lab", verb, scenario.lab, host], check=True)


def runs(scenario):
    """unit -> its invocation and how often systemd has restarted it."""
    found = {}
    for host in scenario.hosts.values():
        shown = host.check_output(
            "systemctl show -p Id -p InvocationID -p NRestarts 'mooncake-pd-[dp][12]-[0-9]*.service'"
        )
        for block in shown.split("\n\n"):
            told = dict(line.split("=", 1) for line in block.splitlines())
            found[told["Id"]] = (told["InvocationID"], int(told["NRestarts"]))
    return found


def starts(scenario):
    """unit -> how often it was started, by the marks in its log."""
    return {
        unit: int(scenario.hosts[host].run(f"grep -c '^--- mooncake-pd start' {LOG}/mooncake-pd-d1-{rank}.log").stdout)
        for host, ranks in DECODE.items()
        for rank in ranks
        for unit in [f"mooncake-pd-d1-{rank}.service"]
    }


def said(scenario, host="npu3"):
    return scenario.hosts[host].check_output(f"cat {LOG}/mooncake-pd-d1-group.log").splitlines()


def until(check, seconds=240):
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it did not come to this in time"
        time.sleep(1)


def whole(scenario):
    """Every rank answers, which it does when it has met all others."""
    for host, address in (("npu3", "10.90.78.13"), ("npu4", "10.90.78.14")):
        curl = f"curl -s -o /dev/null -m 2 -w '%{{http_code}} ' http://{address}:$port/health"
        ask = f"for port in $(seq 8200 8215); do {curl}; done"
        if scenario.hosts[host].run(ask).stdout.split() != ["200"] * 16:
            return False
    return True


def answers(scenario):
    done = scenario.hosts["npu1"].run(ASK)
    return done.rc == 0 and '"text"' in done.stdout


@pytest.fixture(scope="module")
def hanging(scenario):
    """Ranks that have lost one go on as if nothing were, as idle real ones do; the rolling restart takes it up."""
    for host in DECODE:
        scenario.state(host, engine={"peer_loss": "hang"})
    before, seen = starts(scenario), len(said(scenario))
    play = scenario.play("roll", "-e", "roll_restart=true", "-e", "roll_only=d1", "-e", "roll_downtime=true")
    assert play.rc == 0, play.output
    return before, said(scenario)[seen:]


def test_a_roll_starts_every_rank_once(scenario, hanging):
    before, told = hanging
    assert starts(scenario) == {unit: count + 1 for unit, count in before.items()}
    assert not [line for line in told if "anew" in line or "stopped:" in line]


@pytest.mark.long
def test_one_rank_that_is_killed_restarts_its_whole_group_and_nothing_else(scenario, hanging):
    before = runs(scenario)
    began = time.monotonic()
    scenario.hosts["npu4"].check_output("systemctl kill --signal=KILL mooncake-pd-d1-17")
    until(lambda: any("d1 starts anew: d1-17 on npu4 died (killed by SIGKILL)" in line for line in said(scenario)), 5)
    noticed = time.monotonic() - began
    until(lambda: whole(scenario) and {runs(scenario)[unit][0] == before[unit][0] for unit in UNITS} == {False})
    after = runs(scenario)
    assert {unit for unit in after if after[unit][0] != before[unit][0]} == UNITS
    assert {after[unit][1] - before[unit][1] for unit in UNITS} == {1}
    until(lambda: answers(scenario))
    smoke = scenario.play("smoke")
    assert smoke.rc == 0, smoke.output
    assert noticed < 5


@pytest.mark.long
def test_a_host_that_reboots_brings_its_group_back(scenario, hanging):
    before = runs(scenario)
    lab(scenario, "reboot", "npu4")
    until(lambda: whole(scenario) and {runs(scenario)[unit][0] == before[unit][0] for unit in UNITS} == {False})
    after = runs(scenario)
    assert {unit for unit in after if after[unit][0] != before[unit][0]} == UNITS
    until(lambda: answers(scenario))


@pytest.mark.long
def test_a_host_that_is_gone_stops_the_rest_and_gets_it_back(scenario, hanging):
    npu3 = scenario.hosts["npu3"]
    lab(scenario, "kill", "npu4")
    try:
        active = "systemctl list-units --no-legend --state=active 'mooncake-pd-d1-[0-9]*'"
        until(lambda: npu3.check_output(active) == "", 120)
        assert "d1 waits for npu4: nothing was heard for 30 s" in said(scenario)[-20:]
    finally:
        lab(scenario, "start", "npu4")
    until(lambda: whole(scenario))


@pytest.mark.long
def test_one_rank_that_cannot_start_ends_the_group_with_a_word(scenario, hanging):
    npu3, npu4 = scenario.hosts["npu3"], scenario.hosts["npu4"]
    stop = scenario.play("stop", "-e", "stop_only=d1", "-e", "stop_force=true")
    assert stop.rc == 0, stop.output
    for host in (npu3, npu4):
        assert not host.service("mooncake-pd-d1-group").is_running
    before = starts(scenario)
    start = scenario.play("start")
    assert start.rc == 0, start.output
    assert starts(scenario) == {unit: count + 1 for unit, count in before.items()}
    scenario.state("npu4", engine_faults={"rank:17": "exit:3"})
    try:
        npu4.check_output("systemctl kill --signal=KILL mooncake-pd-d1-17")
        until(lambda: any("d1 gives up, as " in line for line in said(scenario)), 400)
        (line,) = [line for line in said(scenario) if "d1 gives up, as " in line][-1:]
        assert "Mend: " in line
        assert "start.yml" in line
        until(lambda: not [u for u in UNITS if active(scenario, u)], 60)
        # one by the play, and what the limit of systemd leaves
        assert max(starts(scenario)[unit] - before[unit] for unit in UNITS) <= 3
        settled = starts(scenario)
        # longer than systemd waits before it starts one again
        time.sleep(40)
        assert starts(scenario) == settled
    finally:
        scenario.state("npu4", engine_faults={})
    mended = scenario.play("start")
    assert mended.rc == 0, mended.output
    assert whole(scenario)


def active(scenario, unit):
    rank = int(unit.rpartition("-")[2].partition(".")[0])
    return scenario.hosts["npu3" if rank < 16 else "npu4"].service(unit.removesuffix(".service")).is_running


@pytest.mark.long
def test_a_supervisor_takes_little(scenario, hanging):
    for host in DECODE:
        ask = "systemctl show --value -p CPUUsageNSec mooncake-pd-d1-group"
        first = scenario.hosts[host].check_output(ask)
        if not first.isdigit():
            pid = scenario.hosts[host].check_output("systemctl show --value -p MainPID mooncake-pd-d1-group")
            ask = f"awk '{{print ($14 + $15 + $16 + $17) * 10000000}}' /proc/{pid}/stat"
            first = scenario.hosts[host].check_output(ask)
        time.sleep(20)
        used = (int(float(scenario.hosts[host].check_output(ask))) - int(float(first))) / 1e9
        print(f"{host}: {used / 20:.2%} of a CPU")
        assert used / 20 < 0.03


def test_port_taken_after_preflight_is_named_at_the_start(scenario):
    """The port is one of the second rank's group, and the process that takes it came when nobody looked."""
    npu1 = scenario.hosts["npu1"]
    scenario.stop("mooncake-pd-p1-*.service")
    npu1.check_output("systemd-run --unit=dashboard python3 -m http.server 22011 --bind 10.90.78.11")
    try:
        play = scenario.play("start")
        assert play.rc != 0
        assert "p1-1: kv port 10.90.78.11:22011" in play.text
        assert "dashboard.service" in play.text
        # not even the rank whose ports are free
        assert not npu1.service("mooncake-pd-p1-0.service").is_running
    finally:
        npu1.run("systemctl stop dashboard.service")
        scenario.stop("mooncake-pd-p1-*.service")
    mended = scenario.play("site")
    assert mended.rc == 0, mended.output
