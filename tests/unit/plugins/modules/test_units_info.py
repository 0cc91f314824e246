# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import unit_state
from ansible_collections.mooncake.pd.plugins.modules import units_info

from .conftest import RunModule

P1, P2, GONE = "mooncake-pd-p1.service", "mooncake-pd-p2.service", "mooncake-pd-p9.service"
OURS = "# Managed by mooncake.pd: changes by hand are lost\n[Service]\nExecStart=/bin/true\n"
BOOTED = 1_000_000.0  # the moment of the boot


class Host:
    """systemctl and the folders that units lie in."""

    def __init__(self, root: Path) -> None:
        self.units, self.run_dir = root / "units", root / "run"
        self.units.mkdir()
        self.run_dir.mkdir()
        self.told: dict[str, dict[str, str]] = {}
        self.calls: list[str] = []
        self.fails = ""

    def write(self, name: str, text: str = OURS, runs: str | None = None, **properties: str) -> None:
        (self.units / name).write_text(text)
        self.told[name] = properties
        if runs is not None:
            folder = self.run_dir / name.removesuffix(".service")
            folder.mkdir()
            (folder / "digest").write_text(hashlib.sha256(runs.encode()).hexdigest() + "\n")

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        verb = command[1]
        self.calls.append(verb)
        if verb == self.fails:
            return 1, "", "System has not been booted with systemd as init system"
        if verb == "list-units":
            rows = [
                f"{name} {own.get('LoadState', 'loaded')} {own.get('ActiveState', 'inactive')} dead Some words\n"
                for name, own in self.told.items()
                if name.startswith("mooncake-pd-")
            ]
            return 0, "".join(rows), ""
        names = command[command.index("--") + 1 :]
        blocks = ("".join(f"{key}={value}\n" for key, value in self.told.get(name, {}).items()) for name in names)
        return 0, "\n".join(f"Id={name}\n{block}" for name, block in zip(names, blocks, strict=True)), ""


ACTIVE = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "MainPID": "4711",
    "NRestarts": "2",
    "UnitFileState": "enabled",
    "ActiveEnterTimestampMonotonic": "5500000",
    "InactiveEnterTimestampMonotonic": "2000000",
    "MemoryCurrent": "1533214720",
    "InvocationID": "c" * 32,
}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(tmp_path)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda self, command: made(command))
    monkeypatch.setattr(units_info, "UNIT_DIR", str(made.units))
    monkeypatch.setattr(units_info, "RUN_DIR", str(made.run_dir))
    monkeypatch.setattr(unit_state, "offset", lambda: BOOTED)
    return made


def only(answer: dict[str, Any]) -> dict[str, Any]:
    (unit,) = answer["units"]
    return unit


def test_running_unit(run_module: RunModule, host: Host) -> None:
    host.write(P1, OURS, runs=OURS, **ACTIVE)
    answer = run_module(units_info, units=[P1])
    assert not answer["changed"]
    unit = only(answer)
    assert unit == {
        "name": P1,
        "installed": True,
        "ours": True,
        "enabled": True,
        "active_state": "active",
        "sub_state": "running",
        "running": True,
        "waits_for_restart": False,
        "result": "success",
        "main_pid": 4711,
        "since": BOOTED + 5.5,
        "restarts": 2,
        "exit_code": None,
        "exit_text": None,
        "advice": None,
        "digest_running": hashlib.sha256(OURS.encode()).hexdigest(),
        "digest_file": hashlib.sha256(OURS.encode()).hexdigest(),
        "outdated": False,
        "log": f"journalctl -u {P1}",
        "memory": 1533214720,
        "invocation_id": "c" * 32,
    }
    assert answer["now"] > BOOTED
    assert host.calls == ["list-units", "show"]


def test_unit_that_runs_something_else(run_module: RunModule, host: Host) -> None:
    host.write(P1, OURS + "# by hand\n", runs=OURS, **ACTIVE)
    assert only(run_module(units_info, units=[P1]))["outdated"]


def test_unit_that_does_not_say_what_it_runs(run_module: RunModule, host: Host) -> None:
    host.write(P1, **ACTIVE)
    unit = only(run_module(units_info, units=[P1]))
    assert (unit["digest_running"], unit["outdated"]) == (None, True)


def test_killed_unit(run_module: RunModule, host: Host) -> None:
    ended = {"ActiveState": "failed", "Result": "signal", "ExecMainCode": "2", "ExecMainStatus": "9"}
    host.write(P1, **ended, InactiveEnterTimestampMonotonic="7000000", MemoryCurrent="[not set]")
    unit = only(run_module(units_info, units=[P1]))
    assert (unit["running"], unit["outdated"], unit["main_pid"], unit["exit_code"]) == (False, False, None, None)
    assert unit["exit_text"] == "killed by SIGKILL, result signal"
    assert unit["since"] == BOOTED + 7
    assert unit["memory"] is None


def test_unit_that_exited_with_advice(run_module: RunModule, host: Host) -> None:
    ended = {"ActiveState": "failed", "Result": "exit-code", "ExecMainCode": "1", "ExecMainStatus": "203"}
    host.write(P1, **ended)
    unit = only(run_module(units_info, units=[P1]))
    assert unit["exit_code"] == 203
    assert "missing" in unit["advice"]


def test_memory_that_old_releases_do_not_count(run_module: RunModule, host: Host) -> None:
    host.write(P1, **{**ACTIVE, "MemoryCurrent": str(2**64 - 1)})
    assert only(run_module(units_info, units=[P1]))["memory"] is None


def test_unit_between_two_starts(run_module: RunModule, host: Host) -> None:
    host.write(P1, ActiveState="activating", SubState="auto-restart")
    unit = only(run_module(units_info, units=[P1]))
    assert (unit["running"], unit["waits_for_restart"]) == (False, True)


def test_unit_that_is_not_there(run_module: RunModule, host: Host) -> None:
    unit = only(run_module(units_info, units=[P1]))
    assert (unit["installed"], unit["ours"], unit["enabled"], unit["running"]) == (False, False, False, False)
    assert (unit["since"], unit["digest_file"], unit["invocation_id"]) == (None, None, None)


def test_log_is_where_the_file_says(run_module: RunModule, host: Host) -> None:
    host.write(P1, OURS + "StandardOutput=append:/srv/log/mooncake-pd-p1.log\n", **ACTIVE)
    assert only(run_module(units_info, units=[P1]))["log"] == "/srv/log/mooncake-pd-p1.log"


def test_strays(run_module: RunModule, host: Host) -> None:
    host.write(P1, **ACTIVE)
    host.write(GONE, UnitFileState="enabled")  # left the plan, and is stopped
    host.told["mooncake-pd-try.service"] = ACTIVE  # systemd-run, without a file
    host.told["mooncake-pd-named.service"] = {"LoadState": "not-found"}  # in somebody's After= only
    host.write("mooncake-pd-logs.service", LoadState="loaded")
    host.told["mooncake-pd-baseline-target.service"] = ACTIVE
    host.write("haproxy.service", "[Service]\n", **ACTIVE)
    (host.units / "mooncake-pd-theirs.service").write_text("[Service]\n")  # of somebody else, not even loaded
    answer = run_module(units_info, units=[P1])
    assert [unit["name"] for unit in answer["strays"]] == [GONE, "mooncake-pd-try.service"]
    assert [unit["running"] for unit in answer["strays"]] == [False, True]
    assert run_module(units_info, units=[P1, GONE], known=["mooncake-pd-[bt]*", "mooncake-pd-logs*"])["strays"] == []


def test_same_name_twice_is_one_unit(run_module: RunModule, host: Host) -> None:
    assert len(run_module(units_info, units=[P1, P2, P1])["units"]) == 2


def test_bad_names_are_told_together(run_module: RunModule, host: Host) -> None:
    answer = run_module(units_info, units=["p1", "a b.service", P1])
    assert answer["failed"]
    assert "'p1'" in answer["msg"]
    assert "'a b.service'" in answer["msg"]


@pytest.mark.parametrize("verb", ["list-units", "show"])
def test_host_without_systemd(run_module: RunModule, host: Host, verb: str) -> None:
    host.fails = verb
    answer = run_module(units_info, units=[P1])
    assert answer["failed"]
    assert "booted with systemd" in answer["msg"]


def test_offset_is_that_of_this_boot() -> None:
    since_epoch = unit_state.offset()
    (boot,) = (float(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if "btime" in line)
    assert abs(since_epoch - boot) < 600
