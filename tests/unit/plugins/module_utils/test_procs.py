# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import procs

ID = "3f" * 32
OTHER = "a7" * 32

V2 = "0::/system.slice/mooncake-pd-p1.service\n"
V1 = (
    "11:memory:/system.slice/mooncake-pd-p1.service\n4:cpu,cpuacct:/\n"
    "1:name=systemd:/system.slice/mooncake-pd-p1.service\n"
)
HYBRID = V1 + "0::/\n"


@pytest.mark.parametrize("text", [V2, V1, HYBRID], ids=["v2", "v1", "hybrid"])
def test_unit_in_every_kind_of_control_group(text: str) -> None:
    paths = procs.cgroup_paths(text)
    assert procs.unit_of(paths) == "mooncake-pd-p1.service"
    assert procs.container_of(paths) is None


@pytest.mark.parametrize(
    ("text", "unit", "container"),
    [
        (f"0::/system.slice/docker-{ID}.scope", f"docker-{ID}.scope", ID[:12]),
        (f"0::/docker/{ID}", None, ID[:12]),
        (f"5:memory:/docker/{ID}\n0::/", None, ID[:12]),
        (f"12:pids:/docker/{ID}\n1:name=systemd:/docker/{ID}", None, ID[:12]),
        (f"0::/machine.slice/libpod-{ID}.scope/container", f"libpod-{ID}.scope", ID[:12]),
        (
            f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope",
            f"cri-containerd-{ID}.scope",
            ID[:12],
        ),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/lab.service", "lab.service", None),
        ("0::/user.slice/user-1000.slice/session-3.scope", "session-3.scope", None),
        ("0::/init.scope", "init.scope", None),
        ("0::/", None, None),
    ],
)
def test_unit_and_container(text: str, unit: str | None, container: str | None) -> None:
    paths = procs.cgroup_paths(text)
    assert (procs.unit_of(paths), procs.container_of(paths)) == (unit, container)


def process(proc: Path, pid: int, cgroup: str, cmdline: bytes = b"python3\0-m\0x\0", uid: int = 0) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cgroup").write_text(cgroup)
    (folder / "cmdline").write_bytes(cmdline)
    (folder / "comm").write_text("kworker/0:1\n")
    (folder / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")


def test_describe(tmp_path: Path) -> None:
    process(tmp_path, 1, "0::/init.scope")
    process(tmp_path, 40, V2, b"vllm\0serve\0--api-key\0hunter2\0--hf-token=abc\0--port\x008100\0", uid=0)
    process(tmp_path, 41, f"0::/docker/{ID}", b"", uid=4294000)
    assert str(procs.describe(40, str(tmp_path))) == (
        "pid 40 (vllm serve --api-key *** --hf-token=*** --port 8100), user root, unit mooncake-pd-p1.service"
    )
    assert str(procs.describe(41, str(tmp_path))) == f"pid 41 ([kworker/0:1]), user 4294000, container {ID[:12]}"


def test_secrets_with_blanks_and_before_the_cut(tmp_path: Path) -> None:
    url = b"--redis=redis://u:" + b"p" * 170 + b"@192.0.2.3"
    process(tmp_path, 40, V2, b"vllm\0serve\0--api-key\0one two\0three\0" + url)
    assert procs.describe(40, str(tmp_path)).command == "vllm serve --api-key *** *** --redis=redis://***@192.0.2.3"


def test_process_that_hangs_in_the_kernel(tmp_path: Path) -> None:
    process(tmp_path, 40, V2)
    (tmp_path / "40/cmdline").unlink()
    os.mkfifo(tmp_path / "40/cmdline")  # nobody writes
    begun = time.monotonic()
    found = procs.describe(40, str(tmp_path), begun + 0.2)
    again = procs.describe(40, str(tmp_path), begun)
    assert 0.2 <= time.monotonic() - begun < 20
    os.close(os.open(tmp_path / "40/cmdline", os.O_RDWR))
    assert found == again
    assert (found.command, found.unit, found.late) == ("[kworker/0:1]", "mooncake-pd-p1.service", True)
    assert "late" not in found.as_dict()


def test_login_is_what_lies_below_user_slice(tmp_path: Path) -> None:
    process(tmp_path, 1, "0::/init.scope")
    process(tmp_path, 40, "0::/user.slice/user-1000.slice/user@1000.service/app.slice/lab.service")
    process(tmp_path, 41, V2)
    assert [procs.describe(pid, str(tmp_path)).login for pid in (40, 41)] == [True, False]


def test_own_container_is_no_foreign_one(tmp_path: Path) -> None:
    here = f"1:name=systemd:/libpod_parent/libpod-{ID}"
    process(tmp_path, 1, f"{here}/init.scope\n")
    process(tmp_path, 40, f"{here}/system.slice/mooncake-pd-p1.service\n")
    process(tmp_path, 41, f"{here}/system.slice/docker-{OTHER}.scope\n")
    assert procs.describe(40, str(tmp_path)).container is None
    assert procs.describe(40, str(tmp_path)).unit == "mooncake-pd-p1.service"
    assert procs.describe(41, str(tmp_path)).container == OTHER[:12]


def test_processes_of_a_control_group(tmp_path: Path) -> None:
    process(tmp_path, 40, V2)
    process(tmp_path, 41, "0::/system.slice/mooncake-pd-p1.service/worker\n")
    process(tmp_path, 42, "0::/system.slice/mooncake-pd-p1.service.d\n")
    process(tmp_path, 43, HYBRID)
    process(tmp_path, 44, f"0::/machine.slice/libpod-{ID}/system.slice/mooncake-pd-p1.service\n")
    (tmp_path / "self").mkdir()
    group = "/system.slice/mooncake-pd-p1.service"
    assert procs.in_control_group(group, str(tmp_path)) == {40, 41, 43}
    assert procs.in_control_group("", str(tmp_path)) == set()


def test_is_alive(tmp_path: Path) -> None:
    (tmp_path / "40").mkdir()
    assert procs.is_alive(40, str(tmp_path))
    assert not procs.is_alive(41, str(tmp_path))
    assert not procs.is_alive(0, str(tmp_path))


def member(root: Path, pid: int, cgroup: str) -> None:
    folder = root / str(pid)
    folder.mkdir()
    (folder / "cgroup").write_text(f"0::{cgroup}\n")
    (folder / "status").write_text("Uid:\t0\t0\t0\t0\n")
    (folder / "cmdline").write_bytes(b"vllm\0serve")


def test_a_container_below_a_service_is_part_of_it(tmp_path: Path) -> None:
    member(tmp_path, 1, "/init.scope")
    member(tmp_path, 50, f"/system.slice/mooncake-pd-p1.service/libpod-payload-{ID}")
    member(tmp_path, 51, f"/machine.slice/libpod-{ID}.scope")
    ours, theirs = procs.describe(50, str(tmp_path)), procs.describe(51, str(tmp_path))
    assert (ours.unit, ours.container) == ("mooncake-pd-p1.service", None)
    assert (theirs.unit, theirs.container) == (f"libpod-{ID}.scope", ID[:12])
    assert procs.in_control_group("/system.slice/mooncake-pd-p1.service", str(tmp_path)) == {50}


def test_a_container_of_a_daemon_is_its_units_when_the_unit_has_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc, run = tmp_path / "proc", tmp_path / "run"
    (run / "mooncake-pd-p1").mkdir(parents=True)
    (run / "mooncake-pd-p2").mkdir()
    (run / "mooncake-pd-p1" / "cid").write_text(ID)
    (run / "mooncake-pd-p2" / "cid").write_text("no id")
    proc.mkdir()
    member(proc, 1, "/init.scope")
    member(proc, 60, f"/system.slice/docker-{ID}.scope")
    member(proc, 61, f"/system.slice/docker-{'cd' * 32}.scope")
    real = procs.containers_of_units
    monkeypatch.setattr(procs, "containers_of_units", lambda: real(str(run)))
    assert real(str(run)) == {"3f" * 6: "mooncake-pd-p1.service"}
    ours, theirs = procs.describe(60, str(proc)), procs.describe(61, str(proc))
    assert (ours.unit, ours.container) == ("mooncake-pd-p1.service", None)
    assert theirs.container == "cd" * 6
    group = "/system.slice/mooncake-pd-p1.service"
    assert procs.in_control_group(group, str(proc), "mooncake-pd-p1.service") == {60}
    assert procs.in_control_group(group, str(proc), "mooncake-pd-p2.service") == set()
    assert procs.in_control_group(group, str(proc)) == set()
