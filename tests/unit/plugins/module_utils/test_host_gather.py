# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What cannot be found out is null and told, and nothing else is: on hosts where nothing can be read, where single
files or commands fail, and on this machine."""

import json
import os
import random
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Answer
from ansible_collections.mooncake.pd.plugins.module_utils.host import filesystems
from ansible_collections.mooncake.pd.plugins.module_utils.host.gather import gather
from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight import healthy_host

# null says here that there is none: each is so in the documentation of host_info
NONE = re.compile(
    r"""
    clock\.controller | kernel\.numa_balancing | os\.version_id | hugepages\.default_size | hugepages\.asked\.\d+\.size
    | transparent_hugepages
    | limits\.environment\.[^.]+
    | units\..*\.service\.(started|fragment|process|oom_kills|pool_bytes|memlock|nofile)
    | paths\.\d+\.(readable|writable)
    | interfaces\.\d+\.(carrier|speed|master|driver|numa_node) | default_routes\.\d+\.gateway
    | peers\.\d+\.(source|interface|gateway|mtu) | peers\.\d+\.ports\.\d+\.error
    | names\.resolved\.\d+\.error
    | containers\.inside | containers\.runtimes\.\d+\.socket | libc\.libstdcxx
    | tools\.[^.]+ | tools\.(numactl|ibv_devinfo|ib_write_bw|rping)\.version
    | libraries\.[^.]+ | engines\.\d+\.(unit|container)
    """,
    re.VERBOSE,
)
PARAMS = {
    **trees.PARAMS,
    "units": ["mooncake-pd-p1.service"],
    "paths": [{"path": "/data/model", "purpose": "model", "user": None}],
    "names": [{"name": "d1", "address": "192.0.2.21"}],
    "peers": [{"name": "d1", "address": "127.0.0.1", "ports": {"api": 1}}],
    "peer_timeout": 0.3,
    "settings": {"a": 1},
}


def untold(facts: dict[str, Any]) -> list[str]:
    """Nulls that nothing explains."""
    known = {key: value for key, value in facts.items() if key not in ("unknown", "settings")}
    return [
        path for path in trees.nulls(known) if not NONE.fullmatch(path) and not trees.covered(path, facts["unknown"])
    ]


def shape(value: Any) -> Any:
    """Keys, however deep; of a list those of its first element."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else None


def test_an_empty_host_is_unknown_throughout_and_raises_nothing(tmp_path: Path) -> None:
    facts = gather(Look(str(tmp_path), trees.Broken()), PARAMS)
    assert untold(facts) == []
    # what is a list, or may be null where it is absent, has to be told as well
    for path in (
        *("kernel.uptime", "kernel.numa_balancing", "os", "cpus", "numa", "memory", "hugepages", "hugepages.asked"),
        *("transparent_hugepages", "sysctl", "limits", "units", "shm", "tmp", "paths.0", "clock.synchronized"),
        *("clock.timezone", "interfaces", "default_routes", "peers.0.source", "names.own", "names.hosts_loopback"),
        *("proxies", "systemd.version", "systemd.failed", "cgroup", "containers.inside", "libc.name", "libc.libstdcxx"),
        *("pythons", "tools", "libraries", "engines", "security.selinux", "security.apparmor", "security.firewall"),
        *("kubernetes", "governor", "modules"),
    ):
        assert trees.covered(path, facts["unknown"]), path
    assert facts["settings"] == {"a": 1}
    assert all(entry["why"].endswith(".") and set(entry) == {"what", "why", "raw"} for entry in facts["unknown"])


def test_every_fact_of_a_healthy_host_has_the_form_that_is_returned(tmp_path: Path) -> None:
    facts = gather(Look(str(tmp_path), trees.Broken()), {**PARAMS, "units": []})
    healthy = healthy_host.host()
    assert set(facts) == set(healthy)
    facts = gather(Look(), {**PARAMS, "units": []})
    for key, value in facts.items():
        expected = healthy[key]
        if isinstance(value, dict) and key not in ("sysctl", "governor", "tools", "settings"):
            assert set(value) == set(expected), key
    for key in ("interfaces", "peers", "paths", "default_routes", "pythons", "numa"):
        if facts[key]:
            assert shape(facts[key][:1])[0].keys() == shape(healthy[key][:1])[0].keys(), key
    assert facts["sysctl"].keys() <= healthy["sysctl"].keys()
    assert set(facts["tools"]) == set(healthy["tools"])
    assert untold(healthy) == []


def test_a_healthy_host_takes_changes_of_what_there_is_only() -> None:
    assert healthy_host.host(memory__available=1)["memory"]["available"] == 1
    assert healthy_host.host()["memory"]["available"] > 1
    assert healthy_host.host("192.0.2.21")["names"]["hostname"] == "d1"
    with pytest.raises(KeyError):
        healthy_host.host(nonsense=1)
    with pytest.raises(KeyError):
        healthy_host.host(memory__nonsense=1)


def test_this_machine(tmp_path: Path) -> None:
    begun = time.monotonic()
    facts = gather(Look(), PARAMS)
    assert time.monotonic() - begun < 10  # shared with others
    assert untold(facts) == []
    assert json.loads(json.dumps(facts)) == facts
    assert len(json.dumps(facts)) < 60_000


# one server of which everything can be read; single files of it are broken below
PAGES = {f"{name}_hugepages": "0\n" for name in ("nr", "free", "resv", "surplus")}
FILES: dict[str, str] = {
    "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 8 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nHugepagesize: 2048 kB\n",
    "/proc/cmdline": "ro hugepages=2\n",
    "/proc/uptime": "100.0 100.0\n",
    "/proc/modules": "ib_core 1 0 - Live 0x0\n",
    "/proc/sys/kernel/random/boot_id": "a\n",
    "/proc/sys/kernel/numa_balancing": "0\n",
    "/proc/sys/vm/max_map_count": "65530\n",
    "/proc/self/mountinfo": "21 1 8:2 / / rw - ext4 /dev/sda2 rw\n",
    "/proc/1/comm": "systemd\n",
    "/proc/1/environ": "A=1\0",
    "/proc/7/comm": "VLLM::EngineCor\n",
    "/proc/7/cmdline": "VLLM::EngineCore\0",
    "/proc/7/stat": "7 (x) S " + "0 " * 18 + "100 0\n",
    "/proc/7/limits": "Max open files 1 1 files\nMax locked memory 1 1 bytes\n",
    "/proc/7/environ": "B=1\0",
    "/sys/devices/system/cpu/online": "0-3\n",
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "performance\n",
    "/sys/devices/system/cpu/cpufreq/policy0/affected_cpus": "0 1 2 3\n",
    "/sys/devices/system/node/node0/cpulist": "0-3\n",
    "/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 9 kB\nNode 0 MemFree: 8 kB\n",
    **{f"/sys/kernel/mm/hugepages/hugepages-2048kB/{name}": text for name, text in PAGES.items()},
    **{f"/sys/devices/system/node/node0/hugepages/hugepages-2048kB/{name}": text for name, text in PAGES.items()},
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "/sys/fs/cgroup/cgroup.controllers": "memory\n",
    "/sys/fs/cgroup/memory.max": "max\n",
    "/sys/fs/cgroup/system.slice/u.service/memory.events": "oom_kill 0\n",
    "/sys/fs/selinux/enforce": "1",
    "/sys/module/apparmor/parameters/enabled": "Y\n",
    "/sys/class/net/x/y": "",
    "/etc/os-release": "ID=openEuler\nVERSION_ID=22.03\nPRETTY_NAME=x\n",
    "/etc/hosts": "127.0.1.1 p1\n",
    "/etc/environment": "http_proxy=http://192.0.2.3\n",
    "/etc/timezone": "Asia/Shanghai\n",
    "/etc/ufw/ufw.conf": "ENABLED=yes\n",
    "/dev/shm/psm_1": "x",
    "/tmp/x": "",
    "/data/model/config.json": "{}",
    "/usr/lib64/libstdc++.so.6": "\0GLIBCXX_3.4.30\0",
    "/usr/bin/python3.9": "",
}
UNIT = (
    "Id=u.service\nLoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nNRestarts=0\nMainPID=7\n"
    "ExecMainStartTimestampMonotonic=1\nLimitMEMLOCK=1\nLimitNOFILE=1\nNeedDaemonReload=no\n"
    "FragmentPath=/etc/systemd/system/u.service\nControlGroup=/system.slice/u.service\n"
)
FIREWALLS = "".join(f"\nId={name}.service\nActiveState=active\n" for name in ("firewalld", "ufw", "nftables"))
LIMITS = "".join(
    f"Max {name}    1    1    x\n"
    for name in ("stack size", "core file size", "processes", "open files", "locked memory", "realtime timeout")
)


def commands() -> dict[str, Any]:
    said = {"show": UNIT + FIREWALLS, "--version": "systemd 249\n", "is-system-running": "degraded\n", "list-units": ""}
    return {
        "systemctl": lambda argv: Answer(out=said.get(argv[1], "")),
        "systemd-run": Answer(out=LIMITS + "A=1\0"),
        "python3.9": Answer(out="Python 3.9.9\n"),
    }


def server(root: Path) -> Look:
    told = trees.Told(commands())
    told.resolves = {"p1": ("p1", ["127.0.1.1"])}
    look = trees.look(root, FILES, told)
    (root / "proc/7/maps").write_text("")
    (root / "proc/7/fd").mkdir(exist_ok=True)
    (root / "proc/1/maps").write_text("")
    (root / "proc/1/fd").mkdir(exist_ok=True)
    return look


CASE = {**PARAMS, "units": ["u.service"], "peers": []}


def test_a_server_of_which_all_can_be_read_has_nothing_unknown(tmp_path: Path) -> None:
    facts = gather(server(tmp_path), CASE)
    assert facts["unknown"] == []
    assert facts["security"] == {"selinux": "enforcing", "apparmor": True, "firewall": ["firewalld", "ufw", "nftables"]}
    assert facts["engines"][0]["pid"] == 7
    assert facts["shm"]["segments_total"]["unused_count"] == 1


# nobody reads these, or they may be anything
FREE = {"/data/model/config.json", "/dev/shm/psm_1", "/tmp/x", "/sys/class/net/x/y", "/usr/bin/python3.9"}
NODE = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB"
FREE |= {f"{NODE}/resv_hugepages", f"{NODE}/surplus_hugepages", "/sys/fs/cgroup/cgroup.controllers"}


@pytest.mark.parametrize("path", sorted(FILES.keys() - FREE))
def test_a_file_that_cannot_be_read_is_told(path: str, tmp_path: Path) -> None:
    look = server(tmp_path)
    (tmp_path / path.lstrip("/")).unlink()
    (tmp_path / path.lstrip("/")).mkdir()  # it is there, and also root cannot read it
    facts = gather(look, CASE)
    assert untold(facts) == []
    assert facts["unknown"]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe nonsense: -\n"], ids=["empty", "nonsense"])
@pytest.mark.parametrize("path", sorted(FILES.keys() - FREE))
def test_a_file_of_nonsense_makes_nothing_null_without_a_word(path: str, content: bytes, tmp_path: Path) -> None:
    look = server(tmp_path)
    (tmp_path / path.lstrip("/")).write_bytes(content)
    assert untold(gather(look, CASE)) == []


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.1, 0.9))
def test_whatever_is_missing(seed: int, share: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    chance = random.Random(seed)
    root = tmp_path_factory.mktemp("host")
    files = {path: text for path, text in FILES.items() if chance.random() < share}
    told = trees.Told({name: answer for name, answer in commands().items() if chance.random() < share})
    facts = gather(trees.look(root, files, told), CASE)
    assert untold(facts) == []
    json.dumps(facts)


@pytest.mark.skipif(os.geteuid() != 0, reason="root becomes another user before there are threads")
def test_access_comes_before_the_first_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    access = filesystems.access

    def noted(*arguments: Any) -> Any:
        seen.append(threading.active_count())
        return access(*arguments)

    before = threading.active_count()
    monkeypatch.setattr(filesystems, "access", noted)
    gather(server(tmp_path), CASE)
    assert seen == [before]
