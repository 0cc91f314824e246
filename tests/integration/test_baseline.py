# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transfers are measured between real hosts, and nothing is left on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Lab, Play, Runner

ENGINES = ("it-p1", "it-d1")
QUICK = {"baseline_rounds": 1, "baseline_duration": 1, "baseline_threads": 1}


@pytest.fixture(scope="module")
def measure(hosts: Lab, play: Runner, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run the playbook; the archive is in `.home`."""
    prepared = play("playbooks/prepare.yml")
    assert prepared.rc == 0, prepared.stdout
    home = tmp_path_factory.mktemp("baseline")

    def run(cmdline: str = "", **settings: Any) -> Play:
        # as the host's load comes and goes, only what is told is judged here
        variables = {**QUICK, "baseline_dest": str(home), **settings}
        return play("playbooks/baseline.yml", cmdline=cmdline, extravars=variables)

    run.home = home  # type: ignore[attr-defined]
    return run


def left(hosts: Lab) -> list[str]:
    """Units, programs and files of a measurement that are still there."""
    script = (
        "systemctl list-units --all --plain --no-legend 'mooncake-pd-baseline-*'; "
        "pgrep -a transfer_engine; ls /run | grep baseline; ss -Hltn 'sport >= 18500 and sport <= 18563'"
    )
    return [line for host in ENGINES for line in hosts.shell(host, script, check=False).splitlines()]


def last_good(home: Path) -> dict[str, Any]:
    return json.loads((home / "last-good.json").read_text())


def test_check_mode_measures_nothing_and_says_so(measure: Any, hosts: Lab) -> None:
    done = measure("--check")
    assert done.rc == 0, done.stdout
    assert "NOT MEASURED: check mode measures nothing" in done.stdout
    assert done.changes() == []
    assert list(measure.home.iterdir()) == []


def test_first_run_makes_the_baseline_and_later_ones_are_compared(measure: Any, hosts: Lab) -> None:
    first = measure()
    assert first.rc == 0, first.stdout
    report = first.result("mooncake.pd.baseline_report")
    assert report["first"]
    assert {row["pair"] for row in report["rows"]} == {"it-p1-it-d1", "it-d1-it-p1"}
    for row in report["rows"]:
        assert row["state"] == "new"
        assert 1e6 < row["bandwidth"] < 1e12
        assert 1e-6 < row["latency"] < 1
        print(row["pair"], row["bandwidth"], row["latency"])
    assert first.changes() == []
    assert left(hosts) == []

    kept = last_good(measure.home)
    for pair in kept["pairs"].values():
        pair["results"][0]["bandwidth"] *= 1000
    (measure.home / "last-good.json").write_text(json.dumps(kept))
    second = measure(baseline_strict=True)
    assert second.rc != 0
    assert "bandwidth lower by" in second.message
    assert [row["state"] for row in second.result("mooncake.pd.baseline_report")["rows"]] == ["worse", "worse"]
    assert last_good(measure.home) == kept
    assert left(hosts) == []


# what a connection that has ended still holds is taken as well
HOLDER = """
import contextlib, socket, time
held = []
for port in range(18500, 18564):
    with contextlib.suppress(OSError):
        held.append(socket.create_server(("", port)))
time.sleep(300)
"""


def test_host_without_a_free_port_is_told_and_everything_is_taken_away(measure: Any, hosts: Lab) -> None:
    hosts.exec("it-d1", "systemd-run", "--quiet", "--unit=ports-holder", "python3", "-c", HOLDER)
    try:
        done = measure()
    finally:
        hosts.exec("it-d1", "systemctl", "stop", "ports-holder")
    assert done.rc != 0
    assert (
        "it-p1-it-d1 tcp (transfer_engine_bench): on it-d1: of the ports 18500-18563 too few are free" in done.message
    )
    assert left(hosts) == []
