# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import metadata
from ansible_collections.mooncake.pd.plugins.modules import leftovers

from .conftest import Answer, RunModule

P1 = "mooncake-pd-p1.service"
GONE = 54321
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


class Host:
    """Folders of our own, systemctl's answer, and the real /proc with few of its processes."""

    def __init__(self, root: Path, run_module: RunModule) -> None:
        self.run_module = run_module
        self.shm, self.tmp, self.proc = root / "shm", root / "tmp", root / "proc"
        for folder in (self.shm, self.tmp, self.proc):
            folder.mkdir()
        self.stopped = time.time() + 3600
        self.active = "failed"
        self.booted = True

    def show(self, process: int) -> None:
        (self.proc / str(process)).symlink_to(f"/proc/{process}")

    def systemctl(self, command: list[str]) -> tuple[int, str, str]:
        if not self.booted:
            return 1, "", "System has not been booted with systemd as init system"
        assert command[:2] == ["systemctl", "show"]
        moment = datetime.fromtimestamp(self.stopped, timezone.utc).strftime("Mon %Y-%m-%d %H:%M:%S.%f UTC")
        return 0, f"Id={P1}\nActiveState={self.active}\nSubState=dead\nInactiveEnterTimestamp={moment}\n", ""

    def file(self, name: str = "psm_0a1b2c3d", folder: Path | None = None, user: int = GONE) -> Path:
        path = (folder or self.shm) / name
        path.write_bytes(b"x" * 4096)
        os.chown(path, user, user)
        return path

    def run(self, check: bool = False, **params: Any) -> Answer:
        params = {"units": [P1], "users": [str(GONE), "nobody-of-this-name"], "temp_dirs": [str(self.tmp)], **params}
        return self.run_module(leftovers, check=check, **params)


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _self, text: told.append(text))
    return told


@pytest.fixture
def host(run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    root = Path(tempfile.mkdtemp(prefix="leftovers-"))
    own = Host(root, run_module)
    with subprocess.Popen(["sleep", "60"], cwd="/") as first:
        # process 1 may be one that root of a container cannot look into
        (own.proc / "1").symlink_to(f"/proc/{first.pid}")
        for name, target in (("self", f"/proc/{os.getpid()}"), ("locks", "/proc/locks")):
            (own.proc / name).symlink_to(target)
        own.show(os.getpid())
        monkeypatch.setattr(leftovers, "SHM", str(own.shm))
        monkeypatch.setattr(leftovers, "PROC", str(own.proc))
        monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, command: own.systemctl(command))
        yield own
        first.kill()
    shutil.rmtree(root)


def paths(rows: list[dict[str, Any]]) -> list[str]:
    return [row["path"] for row in rows]


def test_nothing_there(host: Host, warnings: list[str]) -> None:
    answer = host.run()
    assert (answer["changed"], answer["removed"], answer["kept"], answer["orphans"]) == (False, [], [], [])
    assert answer["diff"]["before"] == ""
    assert warnings == []


def test_a_folder_that_is_not_there_yet(host: Host) -> None:
    host.tmp.rmdir()
    assert host.run()["changed"] is False


def test_check_mode_lists_what_a_run_removes(host: Host) -> None:
    path = host.file()
    told = host.run(check=True)
    assert path.exists()
    done = host.run()
    assert not path.exists()
    for answer in (told, done):
        assert answer["changed"] is True
        assert answer["freed"] == 4096
        assert answer["diff"]["before"] == f"{path}\n"
        (row,) = answer["removed"]
        assert (row["path"], row["kind"], row["size"]) == (str(path), "shm", 4096)
        assert row["why"] == f"nobody has it, and it is older than the last stop of {P1}"
    assert host.run()["changed"] is False


def test_a_running_unit_s_start_makes_nothing_old(host: Host) -> None:
    time.sleep(0.1)  # later than the start of this host
    host.active, host.stopped = "active", time.time()
    time.sleep(0.05)
    path = host.file()
    answer = host.run()
    assert path.exists()
    assert answer["kept"][0]["why"] == f"not older than the last stop of {P1}"


def test_who_has_it_is_told(host: Host) -> None:
    path = host.file()
    with path.open("rb"):
        (row,) = host.run()["kept"]
    assert (row["why"], row["pid"]) == ("open", os.getpid())
    assert {"command", "unit", "container"} <= set(row)


def test_nothing_goes_when_not_all_can_be_seen(
    host: Host, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = host.file()
    (host.proc / "1").unlink()
    answer = host.run()
    assert path.exists()
    assert answer["changed"] is False
    assert answer["unknown"][0]["what"] == "processes"
    assert "hidepid" in warnings[0]
    assert "not known who uses it" in answer["kept"][0]["why"]


def test_logs_and_cores_go_when_asked(host: Host) -> None:
    logs = [host.file(f"mooncake_master.h.u.log.INFO.2026113{day}-061500.7", host.tmp) for day in (0, 1)]
    core, other = host.file("core.7", host.tmp), host.file("core.8", host.tmp)
    core.write_bytes(b"\x7fELF\x02\x01" + bytes(10) + b"\x04\x00")
    patterns = [{"path": f"{host.tmp}/core.*", "kind": "core"}]
    assert host.run(patterns=patterns)["removed"] == []
    answer = host.run(patterns=patterns, kinds=["log", "core"])
    assert set(paths(answer["removed"])) == {str(logs[0]), str(core)}
    assert {(row["path"], row["why"]) for row in answer["kept"]} == {
        (str(logs[1]), "the newest log of its program"),
        (str(other), "no core file"),
    }


def test_orphans_are_told_and_ended_when_asked(host: Host, warnings: list[str]) -> None:
    variables = {
        "RUNTIME_DIRECTORY": "/run/mooncake-pd/mooncake-pd-p1",
        "INVOCATION_ID": "0",
        "MOONCAKE_PD_DIGEST": "0",
    }
    with subprocess.Popen(["sleep", "600"], env={**os.environ, **variables}, cwd="/", user=GONE) as stray:
        time.sleep(0.1)
        host.show(stray.pid)
        told, foreseen = host.run(), host.run(check=True, kill_orphans=True)
        assert stray.poll() is None
        done = host.run(kill_orphans=True, grace=1)
        assert stray.wait(5) != 0
    assert [answer["changed"] for answer in (told, foreseen, done)] == [False, True, True]
    assert [answer["orphans"][0]["ended"] for answer in (told, foreseen, done)] == [None, None, "SIGTERM"]
    assert told["orphans"][0]["command"] == "sleep 600"
    assert "outlived its unit" in warnings[0]
    assert f"pid {stray.pid}" in foreseen["diff"]["before"]


def test_metadata(host: Host, warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    states = [("removed", "a", 7), ("kept", "b", 0), ("unknown", "c", 0)]
    results = [metadata.Result("http://a/metadata", key, state, "so", size) for state, key, size in states]
    monkeypatch.setattr(metadata, "sweep", lambda *_arguments: results)
    answer = host.run(metadata=[{"server": "http://a/metadata", "names": ["x"]}])
    assert paths(answer["removed"]) == ["http://a/metadata a"]
    assert paths(answer["kept"]) == ["http://a/metadata b"]
    assert [row["what"] for row in answer["unknown"]] == ["metadata http://a/metadata c"]
    assert (answer["changed"], answer["freed"]) == (True, 7)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"patterns": [{"path": "/tmp/*", "kind": "file"}]}, "nearly everything"),
        ({"metadata": [{"server": "redis://a", "names": []}]}, "neither"),
        ({"temp_dirs": ["tmp"]}, "no absolute path"),
        ({"grace": -1}, "less than 0"),
    ],
)
def test_parameters_that_are_wrong(host: Host, params: dict[str, Any], says: str) -> None:
    path = host.file()
    answer = host.run(**params)
    assert answer["failed"]
    assert says in answer["msg"]
    assert path.exists()


def test_a_host_without_systemd(host: Host) -> None:
    host.booted = False
    assert "booted with systemd" in host.run()["msg"]


def test_a_socket_in_a_given_folder(host: Host) -> None:
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(host.tmp / "ours-1"))
    os.chown(host.tmp / "ours-1", GONE, GONE)
    answer = host.run(patterns=[{"path": f"{host.tmp}/ours-*", "kind": "socket"}])
    assert paths(answer["removed"]) == [str(host.tmp / "ours-1")]


def test_what_a_running_process_has_closed_stays_with_what_it_keeps(host: Host) -> None:
    names = [f"38854032-d4e7-4838-b8d4-8480950cf93{number}" for number in range(2)]
    closed, kept = [socket.socket(socket.AF_UNIX) for _name in names]
    with closed, kept:
        for one, name in {closed: names[0], kept: names[1]}.items():
            one.bind(str(host.tmp / name))
            os.chown(host.tmp / name, GONE, GONE)
        closed.close()
        assert [row["why"] for row in host.run()["kept"]] == ["made together with a socket that is in use", "bound"]
    assert paths(host.run()["removed"]) == [str(host.tmp / name) for name in names]
