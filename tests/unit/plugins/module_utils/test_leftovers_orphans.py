# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import orphans
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.evidence import Look, Process
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.orphans import Orphan
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.unit_runs import Run

OURS = 990
IDLE = Run("mooncake-pd-p1.service", "failed", "failed", ended=100.0)
ACTIVE = Run("mooncake-pd-d1.service", "active", "running", invocation="new", began=200.0)
BUSY = Run("mooncake-pd-d2.service", "deactivating", "stop-sigterm", began=200.0)
RUNS = [IDLE, ACTIVE, BUSY]


class Proc:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.processes: dict[int, Process] = {}

    def add(self, pid: int, group: str, environment: dict[str, str] | None = None, **changes: float) -> None:
        folder = self.root / str(pid)
        folder.mkdir()
        (folder / "cgroup").write_text(f"0::{group}\n")
        (folder / "environ").write_text("".join(f"{key}={value}\0" for key, value in (environment or {}).items()))
        user = int(changes.get("user", OURS))
        self.processes[pid] = Process(pid, "x", frozenset((user,)), changes.get("started", 150.0))

    def orphans(self) -> list[tuple[int, str, str]]:
        found = orphans.find(RUNS, self.processes, [OURS], str(self.root))
        return [(one.process.pid, one.unit, one.why) for one in found]


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def started_by(unit: str, invocation: str = "old", **changes: str) -> dict[str, str]:
    folder = f"/run/mooncake-pd/{unit}"
    return {"RUNTIME_DIRECTORY": folder, "INVOCATION_ID": invocation, "MOONCAKE_PD_DIGEST": "d", **changes}


def test_what_is_left_in_the_group_of_a_unit_that_does_not_run(proc: Proc) -> None:
    proc.add(41, "/system.slice/mooncake-pd-p1.service", user=0)
    proc.add(42, "/system.slice/mooncake-pd-p10.service")
    proc.add(43, "/system.slice/other.service")
    why = "in the control group of mooncake-pd-p1.service, which does not run"
    assert proc.orphans() == [(41, IDLE.name, why)]


@pytest.mark.parametrize(("started", "orphan"), [(150.0, True), (199.5, False), (201.0, False)])
def test_what_was_in_the_group_before_the_unit_started(proc: Proc, started: float, orphan: bool) -> None:
    proc.add(41, "/system.slice/mooncake-pd-d1.service", started=started)
    assert bool(proc.orphans()) is orphan


def test_a_unit_that_is_being_stopped_has_no_orphans(proc: Proc) -> None:
    proc.add(41, "/system.slice/mooncake-pd-d2.service")
    proc.add(42, "/user.slice", started_by("mooncake-pd-d2"))
    assert proc.orphans() == []


@pytest.mark.parametrize(
    ("environment", "orphan"),
    [
        (started_by("mooncake-pd-p1"), True),
        (started_by("mooncake-pd-d1", "old"), True),
        (started_by("mooncake-pd-d1", "new"), False),
        (started_by("mooncake-pd-p9"), False),  # of another cluster, maybe
        ({**started_by("mooncake-pd-p1"), "RUNTIME_DIRECTORY": "/run/other/mooncake-pd-p1"}, False),
        ({key: value for key, value in started_by("mooncake-pd-p1").items() if key != "MOONCAKE_PD_DIGEST"}, False),
        ({key: value for key, value in started_by("mooncake-pd-p1").items() if key != "INVOCATION_ID"}, False),
        ({}, False),
    ],
)
def test_who_left_the_group_is_known_by_his_environment(proc: Proc, environment: dict[str, str], orphan: bool) -> None:
    proc.add(41, "/user.slice/user-0.slice/session-1.scope", environment)
    proc.add(42, "/user.slice/user-0.slice/session-1.scope", environment, user=1000)
    assert [pid for pid, _unit, _why in proc.orphans()] == ([41] if orphan else [])


def test_who_asks_is_no_orphan(proc: Proc) -> None:
    proc.add(os.getpid(), "/system.slice/mooncake-pd-p1.service")
    proc.add(1, "/system.slice/mooncake-pd-p1.service")
    assert proc.orphans() == []


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    started = [
        subprocess.Popen(["sleep", "60"]),
        subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE),
    ]
    assert started[1].stdout
    started[1].stdout.readline()
    yield started
    for child in started:
        child.kill()
        child.wait()


def orphan(pid: int, ticks: int | None = None) -> Orphan:
    process = Look([]).run().processes[pid]
    return Orphan(
        Process(pid, "x", process.users, process.started, ticks=process.ticks if ticks is None else ticks), "", ""
    )


@pytest.mark.parametrize("handles", [True, False], ids=["pidfd", "old kernel"])
def test_first_asked_then_killed(
    children: list[subprocess.Popen[bytes]], handles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not handles:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    pids = [child.pid for child in children]
    assert orphans.terminate([orphan(pid) for pid in pids], 0.3) == {pids[0]: "SIGTERM", pids[1]: "SIGKILL"}
    assert [child.wait() for child in children] == [-signal.SIGTERM, -signal.SIGKILL]


def test_a_number_that_came_back_is_not_the_process(children: list[subprocess.Popen[bytes]]) -> None:
    begin = time.monotonic()
    orphans.terminate([orphan(children[0].pid, ticks=5)], 5.0)
    assert time.monotonic() - begin < 1
    assert children[0].poll() is None
