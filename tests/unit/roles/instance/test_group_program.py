# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program as the role starts it: two supervisors that find each other, with a stand-in for systemctl."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
SYSTEMCTL = ROOT / "tests/sim/group/systemctl.py"


class Supervisor:
    """One on a loopback address of its own, with one unit."""

    def __init__(self, folder: Path, number: int, more: list[str]) -> None:
        self.folder, self.unit, self.more = folder / str(number), f"mooncake-pd-d1-{number}.service", more
        (self.folder / "state").mkdir(parents=True)
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "systemctl").write_text(f'#!/bin/sh\nexec {sys.executable} {SYSTEMCTL} "$@"\n')
        (programs / "systemctl").chmod(0o755)
        self.host = f"npu{number}"
        self.set("active", "a")
        self.begin()

    def begin(self, log_file: str = "log") -> None:
        environment = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "roles/instance/files"),
            "FAKE_UNITS": str(self.folder),
            "STATE_DIRECTORY": str(self.folder / "state"),
        }
        who = ["--cluster", "lab", "--instance", "d1", "--host", self.host, "--grace", "6", "--units", self.unit]
        with (self.folder / log_file).open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pd_group", *who, *self.more], env=environment, stdout=log, stderr=log
            )

    def set(self, state: str, run: str) -> None:
        now = round(time.monotonic() * 1e6)
        sub = "auto-restart" if state == "activating" else "x"
        shown = {"ActiveState": state, "SubState": sub, "InvocationID": run, "MainPID": os.getpid()}
        shown |= {"ExecMainStartTimestampMonotonic": now, "InactiveEnterTimestampMonotonic": 0}
        if state == "activating":
            shown |= {"MainPID": 0, "InactiveEnterTimestampMonotonic": now, "ExecMainCode": 2, "ExecMainStatus": 9}
        fresh = self.folder / "fresh"
        fresh.write_text(json.dumps(shown))
        fresh.replace(self.folder / f"{self.unit}.json")

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls.txt"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(10)


def wait_until(check: Callable[[], object], seconds: float = 10) -> float:
    began = time.monotonic()
    while not check():
        assert time.monotonic() - began < seconds, "it did not come to this"
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.fixture
def group(tmp_path: Path) -> Iterator[list[Supervisor]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        at = f"127.0.0.1:{free.getsockname()[1]}"
    head = Supervisor(tmp_path, 0, ["--listen", at, "--hosts", "npu0=127.0.0.1", "npu1=127.0.0.2"])
    made = [head, Supervisor(tmp_path, 1, ["--head", at, "--address", "127.0.0.2"])]
    yield made
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        print(one.host, one.log)


def test_a_death_on_one_host_ends_the_unit_of_the_other(group):
    head, other = group
    wait_until(lambda: "d1 runs: 2 units" in head.log)
    time.sleep(1.5)
    assert (head.calls, other.calls) == ([], [])
    other.set("activating", "a")
    took = wait_until(lambda: head.calls)
    assert head.calls[0] == f"kill --kill-who=main --signal=TERM -- {head.unit}"
    assert other.calls == []
    # it looks every five seconds, and at once when a program is gone; the stand-in's program never goes
    assert took < 7
    # said when it is done
    wait_until(lambda: "d1 starts anew: d1-1 on npu1 died (killed by SIGKILL)" in head.log)


def test_orders_reach_the_other_host(group):
    head, other = group
    wait_until(lambda: "d1 runs: 2 units" in head.log)
    time.sleep(1.5)
    head.set("activating", "a")
    wait_until(lambda: other.calls)
    assert other.calls[0] == f"kill --kill-who=main --signal=TERM -- {other.unit}"


@pytest.mark.parametrize("lost", [0, 1])
def test_whoever_hears_nothing_stops_its_own_and_starts_them_when_the_other_is_back(group, lost):
    head = group[0]
    gone, left = group[lost], group[1 - lost]
    wait_until(lambda: "d1 runs: 2 units" in head.log)
    time.sleep(2)
    gone.process.kill()
    gone.process.wait()
    assert wait_until(lambda: left.calls, 15) > 4
    assert left.calls == [f"stop --no-block -- {left.unit}"]
    left.set("inactive", "a")
    time.sleep(1)
    assert len(left.calls) == 1
    gone.set("active", "b")
    gone.begin()
    wait_until(lambda: f"start --no-block -- {left.unit}" in left.calls, 20)


@pytest.mark.parametrize("lost", [0, 1])
def test_whoever_is_told_to_end_is_not_missed(group, lost):
    head, left = group[0], group[1 - lost]
    wait_until(lambda: "d1 runs: 2 units" in head.log)
    time.sleep(2)
    assert group[lost].end() == 0
    time.sleep(9)
    assert left.calls == []
    if lost:
        assert "d1 is not watched on npu1: its supervisor was told to end there" in head.log
        # the one that decides still knows after a restart
        head.end()
        head.begin()
        time.sleep(8)
        assert head.calls == []
    group[lost].begin()
    wait_until(lambda: head.log.rstrip().endswith("d1 runs: 2 units"))
    assert (head.calls, group[1].calls) == ([], [])


@pytest.mark.parametrize("lost", [0, 1])
def test_whoever_goes_down_with_its_host_is_missed(group, lost):
    head, left = group[0], group[1 - lost]
    wait_until(lambda: "d1 runs: 2 units" in head.log)
    time.sleep(2)
    (group[lost].folder / "stopping").touch()
    assert group[lost].end() == 0
    wait_until(lambda: left.calls, 15)
    assert left.calls == [f"stop --no-block -- {left.unit}"]


def test_a_full_disk_does_not_end_it(group):
    head, other = group
    wait_until(lambda: "d1 runs: 2 units" in head.log)
    for one in group:
        assert one.end() == 0
        for name in ("runs", "held"):
            (one.folder / f"state/.{name}.json.new").symlink_to("/dev/full")
        (one.folder / "full").symlink_to("/dev/full")
        one.begin("full")
    time.sleep(2)
    # also where there is something to say and to keep
    head.set("activating", "a")
    wait_until(lambda: other.calls)
    assert other.calls[0] == f"kill --kill-who=main --signal=TERM -- {other.unit}"
    time.sleep(1)
    assert [one.process.poll() for one in group] == [None, None]
    assert [one.end() for one in group] == [0, 0]


def test_it_ends_when_it_is_told_to_and_touches_nothing(group):
    head, other = group
    wait_until(lambda: "d1 runs: 2 units" in head.log)
    assert (head.end(), other.end()) == (0, 0)
    assert (head.calls, other.calls) == ([], [])


def test_a_restart_of_it_is_nothing(group):
    head, other = group
    wait_until(lambda: "d1 runs: 2 units" in head.log)
    head.end()
    head.begin()
    wait_until(lambda: head.log.count("d1 runs: 2 units") == 2)
    time.sleep(2)
    assert (head.calls, other.calls) == ([], [])
