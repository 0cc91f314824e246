# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from ansible import constants
from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.action import wait_ready


class Task:
    def __init__(self, uuid: str = "task-1", any_errors_fatal: bool = True, **forgiven: Any) -> None:
        self.args = {"processes": [], "timeout": 60}
        self._uuid = uuid
        self.any_errors_fatal = any_errors_fatal
        self.ignore_errors = self.ignore_unreachable = False
        self.failed_when: list[str] = []
        self.until: list[str] = []
        vars(self).update(forgiven)


def waiting(seconds: int, *texts: str) -> dict[str, Any]:
    progress = [{"name": "p1", "seconds": seconds, "waiting_for": list(texts)}]
    return {"waiting": True, "changed": False, "ready": False, "progress": progress, "seen": {"slice": seconds}}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr(wait_ready.display, "display", lambda text, **more: lines.append(text))
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    return lines


def run(
    answers: list[Any], monkeypatch: pytest.MonkeyPatch, host: str = "h1", task: Task | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    action = wait_ready.ActionModule.__new__(wait_ready.ActionModule)
    action._task = task or Task()
    asked: list[dict[str, Any]] = []

    def execute(module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        assert module_name == "mooncake.pd.wait_ready"
        asked.append(module_args)
        answer = answers[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer  # type: ignore[no-any-return]

    monkeypatch.setattr(action, "_execute_module", execute)
    return action.run(task_vars={"inventory_hostname": host}), asked


def test_slices_until_ready_and_hands_on_what_was_seen(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    done = {"ready": True, "changed": False, "processes": [{"name": "p1"}]}
    result, asked = run(
        [waiting(10, "log 0/1", "port 8100 not open"), waiting(20, "health refused"), done], monkeypatch
    )
    assert result == done
    assert [call.get("seen") for call in asked] == [None, {"slice": 10}, {"slice": 20}]
    assert all(call["slice"] == 10 and call["timeout"] == 60 for call in asked)
    assert shown == [
        "[h1] p1: waiting 10 s: log 0/1, port 8100 not open",
        "[h1] p1: waiting 20 s: health refused",
    ]


def test_unchanged_progress_is_said_again_after_a_while_only(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 10.0, 20.0, 31.0, 31.0, 31.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    run([*(waiting(seconds, "log 0/1") for seconds in (10, 20, 30, 40)), {"ready": True}], monkeypatch)
    assert shown == ["[h1] p1: waiting 10 s: log 0/1", "[h1] p1: waiting 40 s: log 0/1"]


def test_failure_is_passed_on(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = run([{"failed": True, "msg": "p1 died", "ready": False}], monkeypatch)
    assert result == {"failed": True, "msg": "p1 died", "ready": False}
    assert len(asked) == 1


DIED = {"failed": True, "msg": "p1 died", "ready": False}
READY = {"ready": True, "changed": False}


def test_wait_ends_when_another_host_has_failed(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def second_slice() -> dict[str, Any]:
        run([DIED], monkeypatch, host="h2")
        return waiting(20, "log 0/1")

    result, asked = run([waiting(10, "log 0/1"), second_slice, READY], monkeypatch)
    assert len(asked) == 2
    assert result == {"failed": True, "ready": False, "changed": False, "msg": "stopped waiting: h2 failed (see there)"}
    # a host that begins later looks once; being stopped is no failure to point at
    result, asked = run([waiting(0, "log 0/1")], monkeypatch, host="h3")
    assert asked[0]["slice"] < 1
    assert result["msg"] == "stopped waiting: h2 failed (see there)"
    assert run([READY], monkeypatch, host="h4")[0] == READY


def test_first_failure_is_pointed_at_and_an_unreachable_host_is_one(
    shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConnectionError):
        run([ConnectionError("gone")], monkeypatch, host="h2")
    run([DIED], monkeypatch, host="h3")
    assert run([waiting(0, "x")], monkeypatch)[0]["msg"] == "stopped waiting: h2 failed (see there)"


def test_other_tasks_and_own_failures_do_not_end_a_wait(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run([DIED], monkeypatch, host="h2")
    assert run([waiting(10, "x"), READY], monkeypatch, task=Task("task-2"))[0] == READY
    assert run([waiting(10, "x"), READY], monkeypatch, host="h2")[0] == READY  # the next item of its loop


@pytest.mark.parametrize(
    "task",
    [
        {"any_errors_fatal": False},
        {"ignore_errors": True},
        {"ignore_unreachable": True},
        {"failed_when": ["false"]},
        {"until": ["x is succeeded"]},
    ],
    ids=lambda task: next(iter(task)),
)
def test_hosts_that_go_on_without_the_failed_one_are_left_alone(
    task: dict[str, Any], shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run([DIED], monkeypatch, host="h2", task=Task(**task))
    assert run([waiting(10, "x"), READY], monkeypatch, task=Task(**task))[0] == READY


def test_who_failed_first_is_said_where_the_rest_of_the_group_ends(
    shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def while_waiting() -> dict[str, Any]:
        run([DIED], monkeypatch, host="h2")
        return dict(DIED, msg="p1 was ended")

    result, _asked = run([while_waiting], monkeypatch)
    assert result["msg"] == "stopped waiting: h2 failed (see there). Since then: p1 was ended"
    assert result["failed"]
