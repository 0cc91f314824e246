# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.host import filesystems, identity
from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.plugins.module_utils.host.system import User
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees

MOUNTS = r"""21 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro
22 21 0:20 / /dev/shm rw,nosuid,nodev - tmpfs tmpfs rw,size=65536k
23 21 0:40 / /data rw - nfs4 192.0.2.9:/export rw,vers=4.1
24 23 8:17 / /data/with\040blank ro,noatime - xfs /dev/sdb1 ro
25 21 0:41 / /dev/shm rw,relatime - tmpfs shm rw,size=131072k
no line at all
"""
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")


def test_mounts_innermost_and_last() -> None:
    mounts = filesystems.parse_mounts(MOUNTS)
    assert len(mounts) == 5
    for path, point, kind in (
        ("/data/with blank/x", "/data/with blank", "xfs"),
        ("/data/with", "/data", "nfs4"),
        ("/database", "/", "ext4"),
        ("/", "/", "ext4"),
    ):
        mount = filesystems.mount_of(path, mounts)
        assert mount is not None
        assert (mount.point, mount.filesystem) == (point, kind)
    shm = filesystems.mount_of("/dev/shm", mounts)
    assert shm is not None
    assert shm.options == ["rw", "relatime", "size=131072k"]
    assert filesystems.mount_of("/x", []) is None


def maps(entry: os.stat_result) -> str:
    device = f"{os.major(entry.st_dev):02x}:{os.minor(entry.st_dev):02x}"
    return (
        "7f0000000000-7f0000001000 r-xp 00000000 08:02 9 /usr/lib/x.so\n"
        f"7f0000001000-7f0000002000 rw-s 00000000 {device} {entry.st_ino} /dev/shm/psm_mapped (deleted)\n"
    )


def shared(root: Path) -> Look:
    look = trees.look(
        root,
        {
            "/dev/shm/psm_mapped": b"x" * 40000,
            "/dev/shm/psm_open": b"x" * 20000,
            "/dev/shm/psm_left": b"x" * 80000,
            "/dev/shm/sub/sem.one": b"x",
            "/proc/self/mountinfo": MOUNTS,
            "/proc/20/maps": "",
            "/proc/20/fd/.keep": "",
            "/proc/meminfo": "",
        },
    )
    trees.tree(root, {"/proc/10/maps": maps(os.stat(root / "dev/shm/psm_mapped"))})
    (root / "proc/10/fd").mkdir()
    (root / "proc/20/fd/3").symlink_to(root / "dev/shm/psm_open")
    (root / "proc/20/fd/4").symlink_to("socket:[1]")
    os.utime(root / "dev/shm/psm_left", (0, look.system.now() - 90))
    return look


def test_segments_that_nobody_uses(tmp_path: Path) -> None:
    look = shared(tmp_path)
    found = filesystems.shm(look)
    by_name = {entry["name"]: entry for entry in found["segments"]}
    assert {name: entry["open"] for name, entry in by_name.items()} == {
        "psm_mapped": True,
        "psm_open": True,
        "psm_left": False,
        "sub/sem.one": False,
    }
    left = by_name["psm_left"]
    assert (found["segments"][0], left["owner"]) == (left, look.system.user_name(os.geteuid()))
    assert left["size"] >= 80000
    assert 90 <= left["age"] < 100
    assert found["segments_total"]["count"] == 4
    assert found["segments_total"]["unused_count"] == 2
    assert found["segments_total"]["unused_size"] == left["size"] + by_name["sub/sem.one"]["size"]
    assert found["options"] == ["rw", "relatime", "size=131072k"]
    assert look.unknowns == []


def test_long_tables_of_mappings_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystems, "_PIECE", 7)
    look = shared(tmp_path)
    assert {entry["name"] for entry in filesystems.shm(look)["segments"] if entry["open"]} == {"psm_mapped", "psm_open"}


def test_a_segment_that_was_never_written_takes_nothing(tmp_path: Path) -> None:
    look = shared(tmp_path)
    with open(tmp_path / "dev/shm/hole", "wb") as hole:
        hole.truncate(1 << 30)
    sizes = {entry["name"]: entry["size"] for entry in filesystems.shm(look)["segments"]}
    assert sizes["hole"] == 0


def test_at_most_the_biggest_segments_but_all_are_counted(tmp_path: Path) -> None:
    files = {f"/dev/shm/s{number}": b"x" for number in range(60)}
    look = trees.look(tmp_path, {**files, "/proc/meminfo": "", "/proc/self/mountinfo": MOUNTS})
    found = filesystems.shm(look)
    assert len(found["segments"]) == 50
    assert found["segments_total"]["unused_count"] == 60


def test_processes_that_may_not_be_asked_make_it_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = shared(tmp_path)

    def refuse(*arguments: Any) -> Iterator[Any]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(filesystems, "_mapped", refuse)
    found = filesystems.shm(look)
    assert {entry["open"] for entry in found["segments"]} == {None}
    assert found["segments_total"]["unused_size"] is None
    assert trees.what(look.unknowns) == {"shm.segments", "shm.segments_total"}


def test_scan_of_processes_is_bounded(tmp_path: Path) -> None:
    class Slow(trees.Told):
        def __init__(self) -> None:
            super().__init__()
            self.time = 0.0

        def monotonic(self) -> float:
            self.time += 1.0
            return self.time

    look = shared(tmp_path)
    look.system = Slow()
    filesystems.shm(look)
    assert trees.what(look.unknowns) == {"shm.segments", "shm.segments_total"}


def wish(path: str, **more: str) -> dict[str, str]:
    return {"path": path, "purpose": "model", **more}


def test_paths(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/proc/self/mountinfo": MOUNTS, "/data/models/a/config.json": "{}"})
    (tmp_path / "data/models").chmod(0o750)
    os.mkfifo(tmp_path / "data/fifo")
    (tmp_path / "data/dangling").symlink_to("nowhere")
    wishes = ["/data/models/", "/data/models/a/config.json", "/data/fifo", "/data/later/on", "/data/dangling"]
    found = filesystems.paths(look, [wish(path) for path in wishes])
    assert [(entry["type"], entry["nearest"]) for entry in found] == [
        ("directory", "/data/models"),
        ("file", "/data/models/a/config.json"),
        ("other", "/data/fifo"),
        ("missing", "/data"),
        ("missing", "/data"),
    ]
    first = found[0]
    assert (first["path"], first["mode"], first["mount"], first["filesystem"]) == (
        *("/data/models/", "0750", "/data", "nfs4"),
    )
    assert first["free"] <= first["total"]
    assert first["read_only"] is False
    assert look.unknowns == []


def test_a_mount_that_does_not_answer_is_unknown_and_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystems, "_SECONDS", 0.2)
    released = threading.Event()

    class Hanging(trees.Told):
        def statvfs(self, path: str) -> os.statvfs_result:
            if path.endswith("dead"):
                released.wait(60)
            return super().statvfs(path)

    look = trees.look(tmp_path, {"/proc/self/mountinfo": MOUNTS, "/dead/x": "", "/alive/x": ""}, Hanging())
    begun = time.monotonic()
    dead, alive = filesystems.paths(look, [wish("/dead"), wish("/alive")])
    released.set()
    assert time.monotonic() - begun < 30
    assert (dead["type"], dead["free"], alive["type"]) == (None, None, "directory")
    assert look.unknowns == [{"what": "paths.0", "why": "/dead did not answer within 0.2 s.", "raw": ""}]


def test_no_table_of_mounts(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/data/x": ""})
    (entry,) = filesystems.paths(look, [wish("/data")])
    assert (entry["type"], entry["mount"]) == ("directory", None)
    assert {"paths.0.mount", "paths.0.filesystem"} <= trees.what(look.unknowns)


@root_only
def test_access_is_that_of_the_user(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder.name.startswith(("pytest-", "popen-")):
            folder.chmod(0o755)
    told = trees.Told()
    told.users = {"mooncake": User("mooncake", 54321, 54321, (54321, 54322))}
    look = trees.look(tmp_path, {"/open/f": "", "/closed/f": "", "/group/f": "", "/shut/in/f": ""}, told)
    tmp_path.chmod(0o755)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "closed").chmod(0o755)
    os.chown(tmp_path / "group", 0, 54322)
    (tmp_path / "group").chmod(0o770)
    (tmp_path / "shut").chmod(0o700)
    wishes = [
        *(wish(path) for path in ("/open", "/closed", "/group", "/shut/in", "/open/f", "/closed/later/on")),
        wish("/open", user="nobody-of-that-name"),
    ]
    found = filesystems.access(look, wishes, "mooncake")
    assert [(entry["readable"], entry["writable"]) for entry in found] == [
        (True, True),
        (True, False),
        (True, True),
        (False, False),
        (True, False),
        (True, False),
        (None, None),
    ]
    assert look.unknowns == []
    assert os.geteuid() == 0


def test_access_that_cannot_be_tried_is_unknown(tmp_path: Path) -> None:
    class Refused(trees.Told):
        def as_user(self, *arguments: Any) -> Any:
            raise PermissionError("only root can look as another user")

    told = Refused()
    told.users = {"mooncake": User("mooncake", 54321, 54321, ())}
    look = trees.look(tmp_path, {"/x/f": ""}, told)
    assert filesystems.access(look, [wish("/x")], "mooncake") == [{"readable": None, "writable": None}]
    assert trees.what(look.unknowns) == {"paths.0.readable", "paths.0.writable"}


@root_only
def test_another_user_that_takes_too_long_is_ended() -> None:
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        identity.as_user(54321, 54321, (), lambda become: time.sleep(30), 0.1)
    assert time.monotonic() - begun < 20
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@root_only
def test_a_failure_as_another_user_is_no_answer() -> None:
    assert identity.as_user(54321, 54321, (), lambda become: 1 // 0, 1) is None


def test_kinds() -> None:
    assert filesystems.kind(stat.S_IFDIR | 0o755) == "directory"
    assert filesystems.kind(stat.S_IFREG) == "file"
    assert filesystems.kind(stat.S_IFCHR) == "other"
