# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Answer
from ansible_collections.mooncake.pd.plugins.module_utils.host import services
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees

RUNS = """Id=mooncake-pd-p1.service
LoadState=loaded
ActiveState=active
SubState=running
Result=success
NRestarts=2
MainPID=4711
ExecMainStartTimestampMonotonic=5000000
LimitMEMLOCK=infinity
LimitMEMLOCKSoft=65536
LimitNOFILE=1048576
LimitNOFILESoft=1024
DropInPaths=/etc/systemd/system/mooncake-pd-.service.d/10-a.conf /run/systemd/system/service.d/b.conf
NeedDaemonReload=yes
FragmentPath=/etc/systemd/system/mooncake-pd-p1.service
Environment=MC_TE_METRIC=1 "NOTE=a b"
ControlGroup=/system.slice/mooncake-pd-p1.service
"""
GONE = """Id=gone.service
LoadState=not-found
ActiveState=inactive
SubState=dead
Result=success
NRestarts=0
MainPID=0
ExecMainStartTimestampMonotonic=0
LimitMEMLOCK=8388608
LimitNOFILE=524288
NeedDaemonReload=no
"""
# neither soft limits nor restarts, and infinity is a number
OLD = """Id=old.service
LoadState=loaded
ActiveState=inactive
SubState=dead
Result=success
MainPID=0
ExecMainStartTimestampMonotonic=0
LimitMEMLOCK=18446744073709551615
LimitNOFILE=4096
NeedDaemonReload=no
FragmentPath=/usr/lib/systemd/system/old.service
"""
INACTIVE = "Id={}\nLoadState=not-found\nActiveState=inactive\n"
LIMITS = "Max open files            1024                 1048576              files     \n"
LIMITS += "Max locked memory         65536                unlimited            bytes     \n"


class Clocks(trees.Told):
    def now(self) -> float:
        return 1_796_000_100.0

    def monotonic(self) -> float:
        return 105.0


def firewall(name: str, state: str = "inactive") -> str:
    return f"Id={name}.service\nLoadState=loaded\nActiveState={state}\n"


def shown(*blocks: str, **firewalls: str) -> Answer:
    rows = [firewall(name, firewalls.get(name, "inactive")) for name in services.FIREWALLS]
    return Answer(out="\n".join([*blocks, *rows]))


def test_unit_that_runs(tmp_path: Path) -> None:
    look = trees.look(
        tmp_path,
        {
            "/proc/4711/limits": LIMITS,
            "/proc/4711/environ": "LANG=C\0PATH=/bin\0",
            "/sys/fs/cgroup/system.slice/mooncake-pd-p1.service/memory.events": "low 0\noom 3\noom_kill 2\n",
        },
        Clocks({"systemctl": shown(RUNS)}),
    )
    units, _shown = services.units(look, ["mooncake-pd-p1.service"])
    assert units["mooncake-pd-p1.service"] == {
        "load_state": "loaded",
        "active_state": "active",
        "sub_state": "running",
        "result": "success",
        "n_restarts": 2,
        "main_pid": 4711,
        "started": 1_796_000_000.0,
        "memlock": {"soft": 65536, "hard": -1},
        "nofile": {"soft": 1024, "hard": 1048576},
        "drop_ins": ["/etc/systemd/system/mooncake-pd-.service.d/10-a.conf", "/run/systemd/system/service.d/b.conf"],
        "needs_reload": True,
        "fragment": "/etc/systemd/system/mooncake-pd-p1.service",
        "environment_names": ["LANG", "MC_TE_METRIC", "NOTE", "PATH"],
        "process": {"memlock": {"soft": 65536, "hard": -1}, "nofile": {"soft": 1024, "hard": 1048576}},
        "oom_kills": 2,
        "pool_bytes": None,
    }
    assert look.unknowns == []


def test_kills_for_memory_in_version_1_of_control_groups(tmp_path: Path) -> None:
    group = "/sys/fs/cgroup/memory/system.slice/mooncake-pd-p1.service/memory.oom_control"
    files = {"/proc/4711/limits": LIMITS, "/proc/4711/environ": "", group: "under_oom 0\noom_kill 5\n"}
    look = trees.look(tmp_path, files, Clocks({"systemctl": shown(RUNS)}))
    assert services.units(look, ["u"])[0]["u"]["oom_kills"] == 5
    trees.tree(tmp_path, {group: "oom_kill_disable 0\nunder_oom 0\n"})  # Linux before 4.13
    assert services.units(look, ["u"])[0]["u"]["oom_kills"] is None
    assert trees.what(look.unknowns) == set()


@pytest.mark.parametrize(
    ("line", "config", "brought"),
    [
        ("ExecStart=/x/mooncake_client --port=1 --global_segment_size=4096", "", 4096),
        ("Environment=MOONCAKE_CONFIG_PATH={path}", '{"global_segment_size": 40, "local_buffer_size": 2}', 42),
        ("ExecStart=/usr/bin/podman run --volume={path}:{path}:ro i", '{"global_segment_size": 0', None),
        ("Environment=MOONCAKE_CONFIG_PATH={path}", "{}", None),
        ("Environment=MOONCAKE_CONFIG_PATH=/gone/mooncake-0123456789abcdef.json", "", None),
    ],
)
def test_what_a_unit_has_brought_into_a_pool(tmp_path: Path, line: str, config: str, brought: int | None) -> None:
    path = "/etc/mooncake-pd/pool/mooncake-0123456789abcdef.json"
    files = {"/proc/4711/limits": LIMITS, "/proc/4711/environ": "", path: config}
    files["/etc/systemd/system/mooncake-pd-p1.service"] = f"[Service]\n{line.format(path=path)}\n"
    look = trees.look(tmp_path, files, Clocks({"systemctl": shown(RUNS)}))
    assert services.units(look, ["u"])[0]["u"]["pool_bytes"] == brought
    assert trees.what(look.unknowns) == set()


def test_unit_that_is_not_there_is_not_unknown(tmp_path: Path) -> None:
    look = trees.look(tmp_path, system=Clocks({"systemctl": shown(GONE)}))
    unit = services.units(look, ["gone.service"])[0]["gone.service"]
    assert (unit["load_state"], unit["memlock"], unit["nofile"], unit["process"]) == ("not-found", None, None, None)
    assert look.unknowns == []


def test_unit_of_an_old_systemd(tmp_path: Path) -> None:
    look = trees.look(tmp_path, system=Clocks({"systemctl": shown(OLD)}))
    unit = services.units(look, ["old.service"])[0]["old.service"]
    assert unit["memlock"] == {"soft": -1, "hard": -1}
    assert unit["nofile"] == {"soft": 4096, "hard": 4096}
    assert unit["n_restarts"] is None
    assert trees.what(look.unknowns) == {"units.old.service.n_restarts"}


@pytest.mark.parametrize(
    "answer",
    [
        Answer(1, err="System has not been booted with systemd as init system (PID 1).\n"),
        Answer(None, why="gave no answer in 3.0 s", seconds=3),
        Answer(out=RUNS),  # less than was asked for
    ],
    ids=["no systemd", "hangs", "too short"],
)
def test_systemctl_that_gives_no_answer(answer: Answer, tmp_path: Path) -> None:
    look = trees.look(tmp_path, system=trees.Told({"systemctl": answer}))
    assert services.units(look, ["u"]) == ({}, None)
    (entry,) = look.unknowns
    assert entry["what"] == "units"
    assert entry["raw"] == answer.text


def test_firewalls_that_are_active(tmp_path: Path) -> None:
    look = trees.look(tmp_path, system=trees.Told({"systemctl": shown(firewalld="active", ufw="active")}))
    _units, found = services.units(look, [])
    assert services.firewalls(look, found) == ["firewalld", "ufw"]
    trees.tree(tmp_path, {"/etc/ufw/ufw.conf": "# x\nENABLED=no\nLOGLEVEL=low\n"})
    assert services.firewalls(look, found) == ["firewalld"]
    trees.tree(tmp_path, {"/etc/ufw/ufw.conf": "ENABLED=yes\n"})
    assert services.firewalls(look, found) == ["firewalld", "ufw"]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("systemd 252 (252.38-1~deb12u1)\n+PAM +AUDIT", 252),
        ("systemd 219\n+PAM", 219),
        ("systemd 249 (v249-43.oe2203)", 249),
        ("bash: systemctl", None),
    ],
)
def test_version(text: str, version: int | None) -> None:
    assert services.parse_version(text) == version


def systemctl(version: Answer, state: Answer, failed: Answer) -> trees.Told:
    def run(argv: Sequence[str]) -> Answer:
        return {"--version": version, "is-system-running": state, "list-units": failed}[argv[1]]

    return trees.Told({"systemctl": run})


def test_manager(tmp_path: Path) -> None:
    failed = Answer(out="● a.service loaded failed failed Something\nb.mount loaded failed failed /b\n")
    told = systemctl(Answer(out="systemd 239 (239-45.oe1)\n"), Answer(1, out="degraded\n"), failed)
    look = trees.look(tmp_path, {"/proc/1/comm": "systemd\n"}, told)
    assert services.manager(look) == {
        "version": 239,
        "state": "degraded",
        "failed": ["a.service", "b.mount"],
        "pid1": "systemd",
    }
    assert look.unknowns == []


def test_manager_that_cannot_be_asked(tmp_path: Path) -> None:
    no = Answer(None, why="cannot be started: No such file or directory")
    look = trees.look(tmp_path, {"/proc/1/comm": "tini\n"}, systemctl(no, no, no))
    assert services.manager(look) == {"version": None, "state": None, "failed": [], "pid1": "tini"}
    assert trees.what(look.unknowns) == {"systemd.version", "systemd.state", "systemd.failed"}


def test_a_process_without_the_time_of_its_start_is_unknown_in_that(tmp_path: Path) -> None:
    text = RUNS.replace("Monotonic=5000000", "Monotonic=0")
    look = trees.look(
        tmp_path, {"/proc/4711/limits": LIMITS, "/proc/4711/environ": ""}, Clocks({"systemctl": shown(text)})
    )
    name = "mooncake-pd-p1.service"
    assert services.units(look, [name])[0][name]["started"] is None
    assert f"units.{name}.started" in trees.what(look.unknowns)
