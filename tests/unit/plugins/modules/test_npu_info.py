# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With the twin's npu-smi, run as a program."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import procs
from ansible_collections.mooncake.pd.plugins.modules import npu_info

from .conftest import RunModule
from .npu_tools import NpuHost, of_this_host

MIB = 1024 * 1024
Facts = dict[str, Any]
Look = Callable[..., Facts]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NpuHost:
    host = NpuHost(tmp_path, monkeypatch)
    monkeypatch.setattr(npu_info, "ROOT", str(host.root))
    monkeypatch.setattr(npu_info, "TOOL_FOLDERS", ())
    host.file("/usr/local/Ascend/driver/version.info", "Version=25.5.0\n")
    host.file("/usr/local/Ascend/firmware/version.info", "Version=7.8.0.5.216\n")
    return host


@pytest.fixture
def look(run_module: RunModule) -> Look:
    def run(**params: Any) -> Facts:
        answer = run_module(npu_info, **params)
        assert (answer["failed"], answer["changed"]) == (False, False)
        return dict(answer["npu"])

    return run


def reasons(npu: Facts) -> dict[str, str]:
    assert all(len(entry["raw"]) <= 2000 for entry in npu["unknown"])
    return {entry["what"]: entry["why"] for entry in npu["unknown"]}


@pytest.mark.parametrize(
    ("generation", "chips", "version"),
    [("A2", 8, "25.5.0"), ("A3", 16, "25.5.0"), ("A3", 16, "26.0.1"), ("A5", 8, "26.0.1"), ("A2", 8, "24.1.rc3")],
)
def test_a_healthy_host(host: NpuHost, look: Look, generation: str, chips: int, version: str) -> None:
    host.tell("npu-smi", generation=generation, npu_smi=version, super_pod=5, server_index=3)
    npu = look(timeout=30)
    assert npu["unknown"] == []
    assert npu["tool"] == {"path": str(host.bin / "npu-smi"), "version": version}
    assert npu["generation"] == generation
    assert [chip["id"] for chip in npu["chips"]] == [chip["phy_id"] for chip in npu["chips"]] == list(range(chips))
    assert {chip["health"] for chip in npu["chips"]} == {"OK"}
    assert npu["chips"][2]["hbm_used"] == (3120 + 14) * MIB
    assert npu["processes"] == []
    assert npu["driver"] == {"version": "25.5.0", "path": "/usr/local/Ascend/driver/version.info"}
    if generation == "A3":
        assert [pod["chip"] for pod in npu["superpod"]] == list(range(16))
        assert len({pod["sdid"] for pod in npu["superpod"]}) == 16
        assert npu["superpod"][15] == {
            "chip": 15,
            "superpod": 5,
            "sdid": 117440512 + 3 * 4194304 + 15,
            "size": 384,
            "server_index": 3,
        }
    else:
        assert npu["superpod"] == []


def test_in_check_mode(host: NpuHost, run_module: RunModule) -> None:
    host.tell("npu-smi", generation="A2")
    assert len(run_module(npu_info, check=True)["npu"]["chips"]) == 8


def test_faults_of_chips_and_foreign_processes(host: NpuHost, look: Look) -> None:
    with subprocess.Popen(["sleep", "30"]) as sleeper:
        processes = [
            {"chip": 3, "pid": sleeper.pid, "name": "", "memory": 40000},
            {"chip": 9, "pid": 4194303, "name": "VLLMWorker_TP", "memory": 129},
        ]
        faults = {"health": {"3": "Alarm"}, "aicore": {"3": 77}, "hbm": {"4": 41052}, "processes": processes}
        host.tell("npu-smi", generation="A3", faults=faults)
        npu = look(timeout=30)
        sleeper.kill()
    assert npu["unknown"] == []
    chip = npu["chips"][3]
    assert (chip["health"], chip["aicore"], chip["hbm_used"]) == ("Alarm", 77, (3120 + 21 + 40000) * MIB)
    assert npu["chips"][4]["hbm_used"] == 41052 * MIB
    ours, gone = npu["processes"]
    assert (ours["chip"], ours["pid"], ours["name"], ours["memory"]) == (3, sleeper.pid, "", 40000 * MIB)
    assert ours["command"] == "sleep 30"
    assert ours["user"]
    assert gone == {
        "chip": 9,
        "pid": 4194303,
        "name": "VLLMWorker_TP",
        "memory": 129 * MIB,
        "container_pid": None,
        "command": None,
        "user": None,
        "unit": None,
        "container": None,
    }


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("dcmi-8020", "npu-smi failed with -8020: the NPUs are in use by another container that has them for itself"),
        ("dcmi-8005", "npu-smi failed with -8005"),
        ("failed", "npu-smi failed: Command execute failed!"),
        ("unknown-layout", "npu-smi printed no table of NPUs that is understood"),
        ("missing", "npu-smi info ended with code 127"),
        ("exit:3", "npu-smi info ended with code 3"),
        ("exit:0", "npu-smi printed no table of NPUs that is understood"),
    ],
)
def test_a_tool_that_says_nothing_about_npus(host: NpuHost, look: Look, fault: str, why: str) -> None:
    host.tell("npu-smi", generation="A3", faults={"npu-smi": fault})
    npu = look(timeout=30)
    assert npu["chips"] == npu["processes"] == npu["superpod"] == []
    assert npu["tool"]["path"]
    told = reasons(npu)
    assert told["chips"].startswith(why)
    assert {"chips", "processes", "generation", "superpod"} <= set(told)
    assert (npu["generation"], npu["driver"]["version"]) == (None, "25.5.0")
    if fault == "unknown-layout":
        entry = next(entry for entry in npu["unknown"] if entry["what"] == "chips")
        assert "npu=0 chip=0" in entry["raw"]


def test_no_secret_is_told(host: NpuHost, look: Look) -> None:
    host.script("npu-smi", "#!/bin/sh\necho 'Authorization: Bearer hunter2'\n")
    assert "Authorization: Bearer ***" in {entry["raw"] for entry in look()["unknown"]}


def test_no_tool(host: NpuHost, look: Look) -> None:
    npu = look()
    assert npu["tool"] is None
    assert "npu-smi is neither in PATH nor in" in reasons(npu)["tool"]
    assert {"tool", "chips", "processes", "generation", "superpod"} == set(reasons(npu))


def test_a_tool_that_hangs_costs_its_time_once(host: NpuHost, look: Look) -> None:
    host.script("npu-smi", "#!/bin/sh\n# npu-smi-that-hangs\nsleep 300 &\nwait\n")
    begun = time.monotonic()
    npu = look(timeout=1.0)
    assert time.monotonic() - begun < 15  # others may be at work beside us
    # what finding the tool took is taken off
    assert re.match(r"npu-smi info gave no answer in (0\.[5-9]|1\.\d) s", reasons(npu)["chips"])
    assert of_this_host(str(host.bin)) == []


def test_a_superpod_that_is_not_told(host: NpuHost, look: Look) -> None:
    host.tell("npu-smi", generation="A3")
    twin = host.bin / "twin"
    (host.bin / "npu-smi").rename(twin)
    host.script(
        "npu-smi", f'#!/bin/sh\n[ "$5 $7" = "1 0" ] && echo "Command execute failed!" && exit 0\nexec {twin} "$@"\n'
    )
    npu = look(timeout=30)
    assert npu["superpod"][2] == {"chip": 2, "superpod": None, "sdid": None, "size": None, "server_index": None}
    assert reasons(npu) == {"superpod": "NPU 2: npu-smi failed: Command execute failed!"}


def test_versions_by_the_tool_where_a_container_has_no_files(host: NpuHost, look: Look) -> None:
    host.tell("npu-smi", generation="A2", npu_smi="25.2.0", firmware="7.7.0.1")
    for name in ("driver", "firmware"):
        (host.root / f"usr/local/Ascend/{name}/version.info").unlink()
    npu = look(timeout=30)
    tool = str(host.bin / "npu-smi")
    assert npu["driver"] == {"version": "25.2.0", "path": tool}
    assert npu["firmware"] == {"version": "7.7.0.1", "path": tool}
    assert npu["unknown"] == []


def test_versions_that_nobody_tells(host: NpuHost, look: Look) -> None:
    (host.root / "usr/local/Ascend/driver/version.info").write_text("nothing\n")
    npu = look()
    assert npu["driver"] is None
    assert reasons(npu)["driver"] == "/usr/local/Ascend/driver/version.info names no version"


def test_files_of_the_host(host: NpuHost, look: Look) -> None:
    host.chips(8)
    for name in ("davinci_manager", "devmm_svm", "hisi_hdc"):
        (host.root / "dev" / name).touch()
    host.file("/etc/hccn.conf", "address_0=203.0.113.10\r\naddress_1=\r\n")
    host.file("/usr/local/Ascend/cann-9.0.0/set_env.sh", "")
    host.file(
        "/usr/local/Ascend/cann-9.0.0/aarch64-linux/ascend_toolkit_install.info",
        "package_name=Ascend-cann-toolkit\nversion=9.0.0\narch=aarch64\n",
    )
    npu = look()
    assert npu["devices"]["davinci"] == list(range(8))
    assert npu["devices"]["hisi_hdc"]["exists"]
    assert npu["hccn_conf"]["crlf"]
    assert npu["hccn_conf"]["empty"] == ["address_1"]
    assert [package["version"] for package in npu["cann"]] == ["9.0.0"]


def test_conf_that_cannot_be_read(host: NpuHost, look: Look) -> None:
    (host.root / "etc").mkdir()
    (host.root / "etc/hccn.conf").symlink_to("hccn.conf")
    npu = look()
    assert npu["hccn_conf"]["type"] is None
    assert "cannot be read" in reasons(npu)["hccn_conf"]


@pytest.fixture
def stuck() -> Iterator[Callable[[Path], None]]:
    """Files whose reader waits for ever, like those of a dead mount."""
    made = []

    def stick(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        made.append(path)

    yield stick
    for path in made:
        os.close(os.open(path, os.O_RDWR))


@pytest.mark.parametrize(
    ("path", "unknown"),
    [
        ("usr/local/Ascend/driver/version.info", {"driver"}),
        ("etc/ascend_install.info", {"driver", "firmware"}),
        ("usr/local/Ascend/cann-9.0.0/x_install.info", {"cann"}),
    ],
)
def test_files_of_a_dead_mount_cost_no_more_than_the_timeout(
    path: str, unknown: set[str], host: NpuHost, look: Look, stuck: Callable[[Path], None]
) -> None:
    stuck(host.root / path)
    host.chips(8)
    begun = time.monotonic()
    npu = look(timeout=0.5)
    assert time.monotonic() - begun < 15
    late = {what for what, why in reasons(npu).items() if "could not be read in the time of the module" in why}
    assert late == unknown
    assert npu["devices"]["davinci"] == list(range(8))
    assert [npu[what] for what in unknown] == [[] if what == "cann" else None for what in unknown]


def test_devices_that_cannot_be_listed(host: NpuHost, look: Look) -> None:
    (host.root / "dev").rmdir()
    npu = look()
    assert npu["devices"] is None
    assert "cannot be read" in reasons(npu)["devices"]


def test_a_process_that_hangs_in_the_kernel(host: NpuHost, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    read = procs._read
    monkeypatch.setattr(
        procs, "_read", lambda pid, name, proc: release.wait(60) if name == "cmdline" else read(pid, name, proc)
    )
    me = {"chip": 3, "pid": os.getpid(), "name": "python", "memory": 129}
    host.tell("npu-smi", generation="A2", faults={"processes": [me]})
    begun = time.monotonic()
    npu = look(timeout=30)
    assert time.monotonic() - begun < 20
    release.set()
    (process,) = npu["processes"]
    assert (process["command"], process["user"]) == (None, pwd.getpwuid(os.getuid()).pw_name)
    assert "did not tell its command line" in reasons(npu)["processes.0.command"]


def test_a_path_that_hangs(host: NpuHost, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(npu_info.npu_host, "tool", lambda *_: release.wait(60))
    npu = look(timeout=0.5)
    release.set()
    assert npu["tool"] is None
    assert reasons(npu)["tool"] == "looking for npu-smi in PATH did not end in time: a mount is dead, or slow"
    assert npu["driver"]["version"] == "25.5.0"
