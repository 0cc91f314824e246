# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.host import surroundings
from ansible_collections.mooncake.pd.plugins.module_utils.host.surroundings import Process
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees


@pytest.mark.parametrize(
    ("argv", "comm"),
    [
        (["VLLM::EngineCore_DP0"], "VLLM::EngineCor"),
        (["/opt/engine/bin/python3", "/opt/engine/bin/vllm", "serve", "/data/model"], "vllm"),
        (["vllm", "serve", "x"], "vllm"),
        (["python3", "-m", "vllm.entrypoints.openai.api_server", "--port", "1"], "python3"),
        (["python3", "-u", "-m", "sglang.launch_server"], "python3"),
        (["sglang::scheduler"], "sglang::schedul"),
        (["/usr/local/bin/mooncake_master", "--rpc_port=50051"], "mooncake_master"),
        (["python3", "/opt/engine/bin/mooncake_client"], "mooncake_client"),
        (["python3", "-m", "mooncake.mooncake_store_service"], "python3"),
        (["/opt/router/bin/python", "/opt/router/bin/vllm-router"], "vllm-router"),
    ],
)
def test_engines(argv: list[str], comm: str) -> None:
    assert surroundings.is_engine(Process(1, comm, argv))


@pytest.mark.parametrize(
    ("argv", "comm"),
    [
        (["bash", "-c", "vllm serve x"], "bash"),
        (["vllm", "bench", "serve"], "vllm"),
        (["less", "/var/log/mooncake_master.log"], "less"),
        (["python3", "-m", "pip", "install", "vllm"], "python3"),
        (["grep", "-m", "1", "vllm.entrypoints"], "grep"),
        ([""], "kworker/0:1"),
    ],
)
def test_what_is_no_engine(argv: list[str], comm: str) -> None:
    assert not surroundings.is_engine(Process(1, comm, argv))


def process(pid: int, argv: str, comm: str, start: int = 36000) -> dict[str, str]:
    fields = " ".join(["S", "1", *["0"] * 17, str(start), "0"])
    return {
        f"/proc/{pid}/cmdline": argv.replace(" ", "\0") + "\0",
        f"/proc/{pid}/comm": comm + "\n",
        f"/proc/{pid}/stat": f"{pid} ({comm}) {fields}\n",
        f"/proc/{pid}/status": "Name:\tx\nUid:\t0\t0\t0\t0\n",
        f"/proc/{pid}/cgroup": "0::/system.slice/mooncake-pd-p1.service\n",
    }


def test_workload(tmp_path: Path) -> None:
    look = trees.look(
        tmp_path,
        {
            "/proc/uptime": "3660.50 1.0\n",
            **process(10, "VLLM::Worker_TP0", "VLLM::Worker TP) 0"),
            **process(11, "/usr/bin/kubelet --config=x", "kubelet"),
            **process(12, "vllm serve /m --api-key=abc", "vllm"),
            "/proc/13/comm": "gone",
        },
    )
    engines, kubernetes = surroundings.workload(look)
    assert kubernetes == {"kubelet": True, "kube_proxy": False}
    assert [(entry["pid"], entry["age"], entry["unit"], entry["container"]) for entry in engines] == [
        (10, 3300, "mooncake-pd-p1.service", None),
        (12, 3300, "mooncake-pd-p1.service", None),
    ]
    assert engines[0]["title"] == "VLLM::Worker TP) 0"
    assert engines[1]["command"] == "vllm serve /m --api-key=***"
    assert look.unknowns == []


V2 = "/sys/fs/cgroup"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({f"{V2}/cgroup.controllers": "cpu memory\n"}, (2, -1)),
        ({f"{V2}/cgroup.controllers": "", f"{V2}/memory.max": "max\n"}, (2, -1)),
        (
            {
                f"{V2}/cgroup.controllers": "",
                f"{V2}/memory.max": "1000000\n",
                f"{V2}/system.slice/memory.max": "500000\n",
            },
            (2, 500000),
        ),
        ({f"{V2}/memory/memory.limit_in_bytes": "9223372036854771712\n"}, (1, -1)),
        ({f"{V2}/memory/memory.limit_in_bytes": "9223372036854710272\n"}, (1, -1)),  # pages of 64 KiB
        ({f"{V2}/memory/memory.limit_in_bytes": "4096\n", f"{V2}/unified/cgroup.controllers": ""}, (1, 4096)),
    ],
)
def test_control_groups(files: dict[str, str], found: tuple[int, int], tmp_path: Path) -> None:
    look = trees.look(tmp_path, files)
    assert tuple(surroundings.cgroup(look).values()) == found
    assert look.unknowns == []


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"/.dockerenv": ""}, "docker"),
        ({"/run/.containerenv": ""}, "podman"),
        ({"/run/systemd/container": "lxc\n"}, "lxc"),
        ({"/proc/1/environ": "A=1\0container=podman\0"}, "podman"),
        ({"/proc/1/environ": "HOME=/\0mycontainer=x\0"}, None),
    ],
)
def test_inside(files: dict[str, str], found: str | None, tmp_path: Path) -> None:
    look = trees.look(tmp_path, files)
    assert surroundings.inside(look) == found
    assert look.unknowns == []


def test_inside_cannot_be_told(tmp_path: Path) -> None:
    look = trees.look(tmp_path)
    assert surroundings.inside(look) is None
    assert trees.what(look.unknowns) == {"containers.inside"}


def test_runtimes(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/run/docker.sock": ""})
    docker = {"path": "/usr/bin/docker", "version": "18.09.0"}
    podman = {"path": "/usr/bin/podman", "version": None}
    assert surroundings.runtimes(look, {"docker": docker, "podman": podman, "containerd": None}) == [
        {"name": "docker", "socket": "/run/docker.sock", "version": "18.09.0"},
        {"name": "podman", "socket": None, "version": None},
    ]
    assert look.unknowns == []
    assert surroundings.runtimes(look, {})[0]["version"] is None
    assert trees.what(look.unknowns) == {"containers.runtimes"}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"/sys/fs/selinux/enforce": "1"}, "enforcing"),
        ({"/sys/fs/selinux/enforce": "0"}, "permissive"),
        ({"/sys/fs/ext4/x": ""}, "disabled"),
    ],
)
def test_selinux(files: dict[str, str], found: str, tmp_path: Path) -> None:
    look = trees.look(tmp_path, files)
    assert surroundings.selinux(look) == found
    assert look.unknowns == []


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"/sys/module/apparmor/parameters/enabled": "Y\n"}, True),
        ({"/sys/module/apparmor/parameters/enabled": "N\n"}, False),
        ({"/sys/module/ext4/x": ""}, False),
    ],
)
def test_apparmor(files: dict[str, str], found: bool, tmp_path: Path) -> None:
    look = trees.look(tmp_path, files)
    assert surroundings.apparmor(look) is found
    assert look.unknowns == []
