# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import evidence, sweep

UNIX = """Num       RefCount Protocol Flags    Type St Inode Path
000000009fac2f02: 00000002 00000000 00010000 0001 01 101 /tmp/e81f57fc
000000008fb6cfeb: 00000003 00000000 00000000 0001 03 102
0000000014fe9ddb: 00000002 00000000 00010000 0001 01 103 @mooncake_client_50052.sock
00000000447fe9dd: 00000002 00000000 00010000 0001 01 104 run/own folder/b.sock
"""
LOCKS = """1: FLOCK  ADVISORY  WRITE 41 00:1a:1234 0 EOF
1: -> FLOCK  ADVISORY  WRITE 42 00:1a:1234 0 EOF
2: POSIX  ADVISORY  READ  43 103:02:77 128 128
3: OFDLCK ADVISORY  WRITE -1 00:1a:5 0 EOF
4: LEASE  ACTIVE    READ  44 00:1a:6 0 EOF
5: nonsense
"""


def test_bound_sockets_by_the_last_part_of_their_path() -> None:
    assert evidence.bound(UNIX.splitlines()) == [("e81f57fc", "101"), ("b.sock", "104")]


def test_locks() -> None:
    device = os.makedev(0, 0x1A)
    assert evidence.locks(LOCKS.splitlines()) == [
        ((device, 1234), 41),
        ((device, 1234), 42),
        ((os.makedev(0x103, 2), 77), 43),
        ((device, 5), -1),
        ((device, 6), 44),
    ]


def stat_line(pid: int, comm: str, ticks: int, flags: int = 0x400040) -> str:
    return f"{pid} ({comm}) S 1 {pid} {pid} 0 -1 {flags} {'0 ' * 12}{ticks} 0 0\n"


class Proc:
    """A folder that looks like /proc; what is in `fd` and `ns` are links that lead to anything."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "net").mkdir()
        (root / "locks").write_text("")
        self.add(1, "systemd", 0)

    def add(self, pid: int, comm: str, ticks: int, flags: int = 0x400040, namespace: str = "net:[1]") -> Path:
        folder = self.root / str(pid)
        for name in ("fd", "ns", "net"):
            (folder / name).mkdir(parents=True)
        (folder / "stat").write_text(stat_line(pid, comm, ticks, flags))
        (folder / "status").write_text(f"Name:\t{comm}\nUid:\t990\t990\t990\t990\nNSpid:\t{pid}\t7\n")
        (folder / "maps").write_text("")
        (folder / "net" / "unix").write_text("")
        (folder / "ns" / "net").symlink_to(namespace)
        return folder


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    (tmp_path / "proc").mkdir()
    return Proc(tmp_path / "proc")


def test_processes_and_their_start(proc: Proc) -> None:
    proc.add(41, "a) (b", 100 * os.sysconf("SC_CLK_TCK"))
    proc.add(2, "kthreadd", 0, flags=0x208040)
    found = evidence.Look([], proc=str(proc.root)).run()
    assert set(found.processes) == {1, 41}
    own = found.processes[41]
    assert (own.comm, own.users, own.pids) == ("a) (b", {990}, {41, 7})
    assert own.started - found.processes[1].started == pytest.approx(100)
    assert found.boot == found.processes[1].started
    assert found.complete


def test_what_is_open_mapped_locked_and_a_folder_of_work(proc: Proc, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("open", "mapped", "locked", "folder")]
    for path in files[:3]:
        path.write_text("")
    files[3].mkdir()
    ids = [(path.stat().st_dev, path.stat().st_ino) for path in files]
    device = f"{os.major(ids[0][0]):02x}:{os.minor(ids[0][0]):02x}"
    folder = proc.add(41, "python3", 1)
    (folder / "fd" / "3").symlink_to(files[0])
    (folder / "fd" / "4").symlink_to("/nonexistent/gone (deleted)")
    (folder / "cwd").symlink_to(files[3])
    (folder / "maps").write_text(f"7f0000000000-7f0000001000 rw-s 00000000 {device} {ids[1][1]}    /x (deleted)\n")
    (proc.root / "locks").write_text(f"1: FLOCK  ADVISORY  WRITE 43 {device}:{ids[2][1]} 0 EOF\n")
    found = evidence.Look(ids, proc=str(proc.root)).run()
    assert found.open == {ids[0]: {41}, ids[3]: {41}}
    assert found.mapped == {ids[1]: {41}}
    assert found.locked == {ids[2]: {43}}


def test_maps_of_an_engine_are_longer_than_a_piece(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "7f0000000000-7f0000001000 rw-s 00000000 00:27 {}    /dev/shm/psm_{}\n"
    (proc.add(41, "VLLM::Worker", 1) / "maps").write_text("".join(row.format(n, n) for n in range(50)))
    monkeypatch.setattr(evidence, "_PIECE", 100)
    device = os.makedev(0, 0x27)
    found = evidence.Look([(device, 4), (device, 49), (device, 50)], ["/dev/shm/psm_31"], str(proc.root)).run()
    assert found.mapped == {(device, 4): {41}, (device, 49): {41}}
    assert found.mapped_paths == {"/dev/shm/psm_31": {41}}


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/opt/engine/lib/python3.11/site-packages/mooncake/engine.so", True),
        ("/opt/engine/bin/mooncake_master", True),
        ("/srv/mooncake/model.safetensors", False),
    ],
)
def test_processes_with_mooncake_in_them(proc: Proc, path: str, seen: bool) -> None:
    (proc.add(41, "x", 1) / "maps").write_text(f"7f00-7f01 r-xp 00000000 08:02 9 {path}\n")
    assert evidence.Look([], proc=str(proc.root)).run().mooncake == ({41} if seen else set())


def test_sockets_of_each_network_namespace(proc: Proc) -> None:
    for pid, space in ((41, "net:[1]"), (42, "net:[2]")):
        folder = proc.add(pid, "x", 1, namespace=space)
        (folder / "fd" / "5").symlink_to(f"socket:[{pid}]")
    (proc.root / "1" / "net" / "unix").write_text("0: 2 0 00010000 0001 01 41 /tmp/a.sock\n")
    (proc.root / "42" / "net" / "unix").write_text("0: 2 0 00010000 0001 01 42 /tmp/b.sock\n0: 2 0 0 1 1 99 /c.sock\n")
    found = evidence.Look([], proc=str(proc.root)).run()
    assert found.bound == {"a.sock": {41}, "b.sock": {42}, "c.sock": set()}


def denied(path: str, *_arguments: Any) -> Any:
    raise PermissionError(errno.EACCES, "Permission denied", path)


def test_a_process_that_may_not_be_looked_into(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.add(41, "x", 1)
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: denied(path) if str(path).endswith("41/fd") else listdir(path))
    found = evidence.Look([], proc=str(proc.root)).run()
    assert found.unknown == [("processes", "1 processes may not be looked into, pid 41 for one: run as root.")]


def test_a_file_system_that_does_not_answer_hides_what_a_process_has_open(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc.add(41, "x", 1)
    (proc.root / "41/fd").mkdir(exist_ok=True)
    (proc.root / "41/fd/7").symlink_to("/mnt/stale/file")
    stat = os.stat

    def stale(path: Any, *rest: Any, **more: Any) -> os.stat_result:
        if str(path).endswith("41/fd/7"):
            raise OSError(errno.ESTALE, "Stale file handle", path)
        return stat(path, *rest, **more)

    monkeypatch.setattr(os, "stat", stale)
    assert "pid 41" in evidence.Look([], proc=str(proc.root)).run().unknown[0][1]


def test_processes_that_are_hidden(proc: Proc) -> None:
    for path in (proc.root / "1" / "stat", proc.root / "1" / "status"):
        path.unlink()
    assert "hidepid" in str(evidence.Look([], proc=str(proc.root)).run().unknown)


@pytest.mark.parametrize("name", ["locks", "1/net/unix"])
def test_tables_that_cannot_be_read(proc: Proc, name: str) -> None:
    (proc.root / name).unlink()
    assert name.rsplit("/", maxsplit=1)[-1] in str(evidence.Look([], proc=str(proc.root)).run().unknown)


def test_a_process_that_hangs_makes_all_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_SECONDS", 0.05)
    monkeypatch.setattr(evidence.Look, "run", lambda _self: time.sleep(2))
    assert "took more than" in str(sweep.look([], "/proc", {}).unknown)


def test_a_pass_over_this_host_is_fast(tmp_path: Path) -> None:
    """200 processes in less than 100 ms, where the machine is not busy with other things."""
    (tmp_path / "x").write_text("")
    status = (tmp_path / "x").stat()
    children = [subprocess.Popen(["sleep", "60"]) for _number in range(50)]
    try:
        begin = time.process_time()
        found = evidence.Look([(status.st_dev, status.st_ino)]).run()
        spent = time.process_time() - begin
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert {child.pid for child in children} <= set(found.processes)
    assert spent / len(found.processes) < 0.002


def test_a_real_listener_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind('a.sock'); s.listen(); print(); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path) as other:
        assert other.stdout
        other.stdout.readline()
        found = evidence.Look([]).run()
        other.kill()
    assert found.bound["a.sock"] == {other.pid}
    with socket.socket(socket.AF_UNIX) as client:
        monkeypatch.chdir(tmp_path)
        assert client.connect_ex("a.sock") == errno.ECONNREFUSED
