# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.modules import units_stop

from .conftest import RunModule

D1, D2, D3 = (f"mooncake-pd-d{number}.service" for number in (1, 2, 3))
OURS = "# Managed by mooncake.pd: changes by hand are lost\n"


class Systemd:
    """Units by name, with what `systemctl show` says of them."""

    def __init__(self, root: Path) -> None:
        self.units, self.run_dir = root / "units", root / "run"
        self.units.mkdir()
        self.run_dir.mkdir()
        self.told: dict[str, dict[str, str]] = {}
        self.calls: list[str] = []
        self.ends: dict[str, dict[str, str]] = {}  # how a unit ends, when not well
        self.fails: set[str] = set()
        self.booted = True

    def has(self, name: str, state: str = "active", text: str | None = OURS, enabled: bool = True) -> None:
        if text is not None:
            (self.units / name).write_text(text)
        self.told[name] = {
            "ActiveState": state,
            "UnitFileState": "enabled" if enabled else "disabled",
            "FragmentPath": str(self.units / name),
        }

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        if not self.booted:
            return 1, "", "System has not been booted with systemd as init system"
        verb, names = command[1], command[command.index("--") + 1 :]
        if verb == "show":
            return 0, "\n".join(f"Id={name}\n" + self.block(name) for name in names), ""
        self.calls.append(" ".join([verb, *names]))
        if verb in self.fails:
            return 1, "", "Access denied"
        for name in names:
            if verb == "stop":
                self.told[name].update({"ActiveState": "inactive", **self.ends.get(name, {})})
            elif verb == "disable":
                self.told[name]["UnitFileState"] = "disabled"
            elif verb == "reset-failed":
                self.told[name].update({"ActiveState": "inactive", "Result": "success"})
        return 0, "", ""

    def block(self, name: str) -> str:
        return "".join(f"{key}={value}\n" for key, value in self.told.get(name, {}).items())


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    made = Systemd(tmp_path)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda self, command: made(command))
    monkeypatch.setattr(units_stop, "UNIT_DIR", str(made.units))
    monkeypatch.setattr(units_stop, "RUN_DIR", str(made.run_dir))
    return made


def stopped(answer: dict[str, Any]) -> list[str]:
    return [unit["name"] for unit in answer["units"] if unit["stopped"]]


def test_all_that_run_are_stopped_in_one_call(run_module: RunModule, systemd: Systemd) -> None:
    systemd.has(D1)
    systemd.has(D2, "activating")  # also what waits to be started again
    systemd.has(D3, "inactive")
    answer = run_module(units_stop, units=[D1, D2, D3, "mooncake-pd-none.service"])
    assert (answer["failed"], answer["changed"], stopped(answer)) == (False, True, [D1, D2])
    assert systemd.calls == [f"stop {D1} {D2}"]
    assert {unit["active_state"] for unit in answer["units"]} == {"inactive"}
    assert systemd.told[D1]["UnitFileState"] == "enabled"

    again = run_module(units_stop, units=[D1, D2, D3])
    assert (again["changed"], stopped(again)) == (False, [])
    assert len(systemd.calls) == 1


def test_check_mode_tells_and_does_nothing(run_module: RunModule, systemd: Systemd) -> None:
    systemd.has(D1)
    answer = run_module(units_stop, check=True, units=[D1], disable=True)
    assert (answer["changed"], stopped(answer), systemd.calls) == (True, [D1], [])
    assert answer["diff"] == {"before": f"{D1}: active, enabled\n", "after": f"{D1}: inactive, disabled\n"}
    assert answer["units"][0]["active_state"] == "active"


def test_disable(run_module: RunModule, systemd: Systemd) -> None:
    systemd.has(D1, "inactive")
    systemd.has(D2, "inactive", enabled=False)
    answer = run_module(units_stop, units=[D1, D2], disable=True)
    assert (answer["changed"], systemd.calls) == (True, [f"disable {D1}"])
    assert [unit["disabled"] for unit in answer["units"]] == [True, False]
    assert not run_module(units_stop, units=[D1, D2], disable=True)["changed"]


def test_end_that_was_asked_for_is_no_failure(run_module: RunModule, systemd: Systemd) -> None:
    """An engine may well end with another status than 0 on SIGTERM."""
    systemd.has(D1)
    systemd.ends[D1] = {"ActiveState": "failed", "Result": "exit-code"}
    answer = run_module(units_stop, units=[D1])
    assert systemd.calls == [f"stop {D1}", f"reset-failed {D1}"]
    assert (answer["units"][0]["active_state"], answer["units"][0]["cut"]) == ("inactive", False)


def test_one_that_had_to_be_killed_stays_failed_and_is_told(
    run_module: RunModule, systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda self, text: told.append(text))
    systemd.has(D1)
    systemd.ends[D1] = {"ActiveState": "failed", "Result": "timeout"}
    answer = run_module(units_stop, units=[D1])
    assert (answer["failed"], answer["units"][0]["cut"]) == (False, True)
    assert systemd.calls == [f"stop {D1}"]
    assert told == [f"{D1} did not end within its TimeoutStopSec and was killed; what it was doing is lost"]


def test_one_that_does_not_end_fails_the_call(run_module: RunModule, systemd: Systemd) -> None:
    systemd.has(D1)
    systemd.ends[D1] = {"ActiveState": "deactivating"}
    answer = run_module(units_stop, units=[D1])
    assert answer["failed"]
    assert answer["msg"] == f"{D1} is still deactivating"


def test_systemctl_that_fails(run_module: RunModule, systemd: Systemd) -> None:
    systemd.has(D1)
    systemd.fails = {"stop"}
    answer = run_module(units_stop, units=[D1])
    assert answer["failed"]
    assert f"`systemctl stop {D1}` failed: Access denied" in answer["msg"]
    assert f"{D1} is still active" in answer["msg"]


def test_units_of_others_are_refused_and_nothing_is_stopped(run_module: RunModule, systemd: Systemd) -> None:
    systemd.has(D1)
    systemd.has(D2, text="[Service]\n")
    systemd.has(D3)
    systemd.told[D3]["FragmentPath"] = "/run/systemd/transient/" + D3
    systemd.has("mooncake-pd-d4.service", text=None)
    for check in (True, False):
        answer = run_module(units_stop, check=check, units=[D1, D2, D3, "mooncake-pd-d4.service", "d5"])
        assert answer["failed"]
    assert "Nothing was stopped" in answer["msg"]
    assert "'d5'" in answer["msg"]
    answer = run_module(units_stop, units=[D1, D2, D3, "mooncake-pd-d4.service"])
    for text in (f"{D2} was not written", f"{D3} comes from /run/systemd", "mooncake-pd-d4.service has no file"):
        assert text in answer["msg"]
    assert systemd.calls == []


def test_unit_whose_file_was_deleted_is_ours_when_it_says_so(run_module: RunModule, systemd: Systemd) -> None:
    systemd.has(D1, text=None)
    (systemd.run_dir / "mooncake-pd-d1").mkdir()
    (systemd.run_dir / "mooncake-pd-d1" / "digest").write_text("0f" * 32 + "\n")
    assert stopped(run_module(units_stop, units=[D1])) == [D1]


def test_host_without_systemd(run_module: RunModule, systemd: Systemd) -> None:
    systemd.booted = False
    answer = run_module(units_stop, units=[D1])
    assert "booted with systemd" in answer["msg"]
