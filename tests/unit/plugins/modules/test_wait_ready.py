# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import watch
from ansible_collections.mooncake.pd.plugins.modules import unit_log_info, wait_ready

from .conftest import RunModule

UNIT = "mooncake-pd-p1.service"
ID = "a" * 32
MARK = f"--- mooncake-pd start unit={UNIT} invocation={ID} digest=0123456789ab\n"
PROCESS = {"name": "p1", "unit": UNIT, "lines": [{"pattern": "startup complete"}]}


class Host:
    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.show = f"Id={UNIT}\nLoadState=loaded\nActiveState=active\nMainPID=1\nInvocationID={ID}\n"
        self.journal: list[str] = []

    def log_line(self, text: str) -> None:
        if not text.startswith("Invoked with"):  # what every module says of itself
            self.journal.append(text)

    def log(self, text: str) -> None:
        (self.logs / "mooncake-pd-p1.log").write_text(MARK + text)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(tmp_path)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda self, command, **more: (0, made.show, ""))
    monkeypatch.setattr(AnsibleModule, "log", lambda self, text, **more: made.log_line(text))
    monkeypatch.setattr(watch, "_GRACE", 0.0)
    run_dir = tmp_path / "run"
    (run_dir / "mooncake-pd-p1").mkdir(parents=True)
    monkeypatch.setattr(unit_log_info, "RUN_DIR", str(run_dir))
    monkeypatch.setattr(watch.Watcher.__init__, "__kwdefaults__", {**defaults(), "run_dir": str(run_dir)})
    return made


def defaults() -> dict[str, Any]:
    return dict(watch.Watcher.__init__.__kwdefaults__ or {})


def wait(run_module: Callable[..., dict[str, Any]], host: Host, **more: Any) -> dict[str, Any]:
    return run_module(wait_ready, log_dir=str(host.logs), **{"processes": [PROCESS], "interval": 0.05, **more})


def test_ready_is_proven_and_told_to_the_journal(run_module: RunModule, host: Host) -> None:
    host.log("startup complete\n")
    answer = wait(run_module, host, timeout=5)
    assert (answer["failed"], answer["ready"], answer["changed"]) == (False, True, False)
    assert answer["processes"][0]["invocation_id"] == ID
    assert host.journal == [f"proven ready p1 {UNIT} invocation={ID}"]
    assert (host.logs / "run" / "mooncake-pd-p1" / "ready").read_text().startswith(ID + " ")


def test_timeout_without_slices(run_module: RunModule, host: Host) -> None:
    host.log("first\nloading 1/3\nloading 2/3\nwaiting for a peer\n")
    answer = wait(run_module, host, timeout=0.3)
    assert answer["failed"]
    assert ".log:\n  loading 1/3\n  loading 2/3\n  waiting for a peer\n" in answer["msg"]
    assert "first" not in answer["msg"]
    assert answer["msg"].startswith("Not ready after 0.3 s.")
    assert 'log 0/1 "startup complete"' in answer["msg"]
    assert not answer["ready"]


def test_slices_go_on_and_end_with_the_timeout(run_module: RunModule, host: Host) -> None:
    host.log("loading\n")
    first = wait(run_module, host, timeout=0.5, slice=0.2)
    assert first["waiting"]
    assert not first["failed"]
    assert first["progress"][0]["waiting_for"] == ['log 0/1 "startup complete"']
    second = wait(run_module, host, timeout=0.5, slice=0.2, seen=first["seen"])
    third = wait(run_module, host, timeout=0.5, slice=0.2, seen=second.get("seen", first["seen"]))
    assert third["failed"]
    assert "Not ready after 0.5 s." in third["msg"]


def test_restart_between_slices_fails(run_module: RunModule, host: Host) -> None:
    host.log("loading\n")
    first = wait(run_module, host, timeout=60, slice=0.1)
    host.show = host.show.replace(ID, "b" * 32)
    answer = wait(run_module, host, timeout=60, slice=0.1, seen=first["seen"])
    assert answer["failed"]
    assert "restarted while we waited" in answer["msg"]


def test_process_that_was_ready_is_told_once(run_module: RunModule, host: Host) -> None:
    host.log("startup complete\n")
    both = [PROCESS, {**PROCESS, "name": "p2", "lines": [{"pattern": "never"}]}]
    first = wait(run_module, host, processes=both, timeout=60, slice=0.1)
    second = wait(run_module, host, processes=both, timeout=60, slice=0.1, seen=first["seen"])
    assert second["waiting"]
    assert host.journal == [f"proven ready p1 {UNIT} invocation={ID}"]


def test_fatal_line_fails_with_cause_and_advice(run_module: RunModule, host: Host) -> None:
    host.log("OSError: [Errno 98] Address already in use\n")
    answer = wait(run_module, host, timeout=60)
    assert answer["failed"]
    assert answer["processes"][0]["cause"] == "OSError: [Errno 98] Address already in use"
    assert "What to do: " in answer["msg"]


def test_check_mode_looks_once_and_never_fails(run_module: RunModule, host: Host) -> None:
    host.log("startup complete\n")
    assert wait(run_module, host, check=True)["ready"]
    assert not (host.logs / "run" / "mooncake-pd-p1" / "ready").exists()
    host.show = f"Id={UNIT}\nLoadState=not-found\nActiveState=inactive\n"
    answer = wait(run_module, host, check=True)
    assert (answer["failed"], answer["ready"], answer["changed"]) == (False, False, False)
    assert "does not exist" in answer["processes"][0]["reason"]


def test_bad_pattern(run_module: RunModule, host: Host) -> None:
    answer = wait(run_module, host, processes=[{**PROCESS, "lines": [{"pattern": "("}]}])
    assert answer["failed"]
    assert "no regular expression" in answer["msg"]
    assert wait(run_module, host, fatal_patterns=["["])["failed"]
    assert wait(run_module, host, notes={"x": "["})["failed"]


# ---- unit_log_info ---------------------------------------------------------------------------------------------------


def test_log_info_finds_lines_of_this_start(run_module: RunModule, host: Host) -> None:
    (host.logs / "mooncake-pd-p1.log").write_text(
        "TcpTransport: old\n" + MARK + "".join(f"TcpTransport: {n}\n" for n in range(30)) + "client_expired\n"
    )
    patterns = {"tcp": "TcpTransport", "rdma": "RdmaTransport"}
    answer = run_module(unit_log_info, units=[UNIT], log_dir=str(host.logs), patterns=patterns)
    (unit,) = answer["units"]
    assert unit["matches"]["tcp"] == [f"TcpTransport: {n}" for n in range(10, 30)]
    assert unit["counts"] == {"tcp": 30, "rdma": 0}
    assert (unit["found"], unit["invocation_id"], unit["active_state"]) == (True, ID, "active")
    assert [(entry["kind"], entry["name"]) for entry in unit["known"]] == [("degraded", "client-expired")]


def test_log_info_says_when_the_start_is_no_longer_there(run_module: RunModule, host: Host) -> None:
    (host.logs / "mooncake-pd-p1.log").write_text("much later\n")
    answer = run_module(unit_log_info, units=[UNIT], log_dir=str(host.logs), patterns={"x": "later"})
    assert answer["units"][0]["found"] is False
    assert answer["units"][0]["matches"] == {"x": []}


def test_notes_of_the_wait_outlive_the_log_but_not_the_start(run_module: RunModule, host: Host) -> None:
    host.log("TcpTransport: first\nTcpTransport: last\nstartup complete\n")
    wanted = {"transport": "TcpTransport", "other": "RdmaTransport"}
    assert wait(run_module, host, timeout=5, notes=wanted)["ready"]
    (host.logs / "mooncake-pd-p1.log").write_text("much later\n")
    assert wait(run_module, host, timeout=5, notes=wanted)["ready"]  # proven before, so it notes nothing new
    (unit,) = run_module(unit_log_info, units=[UNIT], log_dir=str(host.logs))["units"]
    assert (unit["found"], unit["notes"]) == (False, {"transport": "TcpTransport: last"})
    host.show = host.show.replace(ID, "b" * 32)
    (unit,) = run_module(unit_log_info, units=[UNIT], log_dir=str(host.logs))["units"]
    assert unit["notes"] == {}


def test_log_info_refuses_bad_patterns(run_module: RunModule, host: Host) -> None:
    answer = run_module(unit_log_info, units=[UNIT], patterns={"a": "(", "b": "["})
    assert "patterns.a" in answer["msg"]
    assert "patterns.b" in answer["msg"]


def test_limits_of_all_and_of_one(run_module: RunModule, host: Host) -> None:
    host.log("startup complete\n")
    assert wait(run_module, host, limits={"memlock": "0"})["ready"]
    process = {**PROCESS, "limits": {"core": "infinity", "memlock": 0}}
    text = wait(run_module, host, limits={"memlock": "1M"}, processes=[process])
    assert text["ready"] or "core infinity is wanted" in text["msg"]


@pytest.mark.parametrize(("limits", "word"), [({"ram": 1}, "none of"), ({"memlock": "lots"}, "no limit")])
def test_limits_that_are_none(run_module: RunModule, host: Host, limits: dict[str, Any], word: str) -> None:
    assert word in wait(run_module, host, limits=limits)["msg"]
