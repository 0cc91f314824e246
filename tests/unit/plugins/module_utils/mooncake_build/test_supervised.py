# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import lock, supervised

# what make does: a shell that starts a process of a group of its own, and goes on after it
WORKER = "echo begun; setsid -w true; (sleep 30; touch later) & sleep 30; touch later"
# ansible-test finds collections by a hook that only its own process has
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join((str(Path(supervised.__file__).parents[6]), *sys.path)),
}
PARENT = """
import sys
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import supervised
command, folder = ["sh", "-c", sys.argv[1]], sys.argv[2]
supervised.run(command, {"PATH": "/usr/bin:/bin", "MARK": folder}, folder, folder + "/log")
"""


def soon(true: Callable[[], bool]) -> bool:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if true():
            return True
        time.sleep(0.02)
    return False


def running(folder: Path) -> list[int]:
    wanted = f"MARK={folder}".encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            content = Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        found += [int(name)] if wanted in content.split(b"\0") else []
    return found


def test_output_and_code(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    environment = {"PATH": os.environ["PATH"]}
    command = ["sh", "-c", "pwd; echo wrong >&2; exit 3"]
    assert supervised.run(command, environment, str(tmp_path), str(log)) == 3
    assert log.read_text() == f"before\n{tmp_path}\nwrong\n"
    assert supervised.run(["sh", "-c", "kill -9 $$"], environment, str(tmp_path), str(log)) == 137
    assert supervised.run(["/no/such"], environment, str(tmp_path), str(log)) == 127
    assert log.read_text().endswith("/no/such cannot be started: No such file or directory\n")


def test_what_is_left_in_the_background_ends_with_the_command(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "MARK": str(tmp_path)}
    assert supervised.run(["sh", "-c", "sleep 30 &"], environment, str(tmp_path), str(tmp_path / "log")) == 0
    assert running(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_all_of_it_ends_when_who_started_it_is_killed(tmp_path: Path, number: int) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, WORKER, str(tmp_path)], env=ENVIRONMENT)
    assert soon(lambda: (tmp_path / "log").is_file() and (tmp_path / "log").read_text() == "begun\n")
    assert soon(lambda: len(running(tmp_path)) >= 3)
    parent.send_signal(number)
    parent.wait()
    assert soon(lambda: running(tmp_path) == [])
    assert not (tmp_path / "later").exists()


def test_a_lock_names_its_holder_and_is_not_inherited(tmp_path: Path) -> None:
    with lock.Lock(str(tmp_path)):
        sleeper = subprocess.Popen(["sleep", "30"])
        with pytest.raises(lock.Busy, match=f"another build runs in {tmp_path}, by process {os.getpid()}$"):
            lock.Lock(str(tmp_path)).__enter__()
    with lock.Lock(str(tmp_path)):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    sleeper.kill()
    sleeper.wait()


def test_what_a_killed_build_left_is_ended_and_nothing_else(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"]}
    ours = subprocess.Popen(["sleep", "30"], env={**environment, lock.VARIABLE: str(tmp_path)})
    other = subprocess.Popen(["sleep", "30"], env={**environment, lock.VARIABLE: f"{tmp_path}2"})
    try:
        assert soon(lambda: lock.left_running(str(tmp_path)) == [ours.pid])
        assert soon(lambda: lock.left_running(f"{tmp_path}2") == [other.pid])
        assert lock.end_left_running(str(tmp_path)) == [ours.pid]
        assert ours.wait() == -signal.SIGKILL
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
