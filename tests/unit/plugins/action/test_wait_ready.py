# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from typing import Any

import pytest
from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.action import wait_ready


class Task:
    args = {"processes": [], "timeout": 60}  # noqa: RUF012


def waiting(seconds: int, *texts: str) -> dict[str, Any]:
    progress = [{"name": "p1", "seconds": seconds, "waiting_for": list(texts)}]
    return {"waiting": True, "changed": False, "ready": False, "progress": progress, "seen": {"slice": seconds}}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(wait_ready.display, "display", lambda text, **more: lines.append(text))
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    return lines


def run(answers: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    action = wait_ready.ActionModule.__new__(wait_ready.ActionModule)
    action._task = Task()
    asked: list[dict[str, Any]] = []

    def execute(module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        assert module_name == "mooncake.pd.wait_ready"
        asked.append(module_args)
        return answers[len(asked) - 1]

    monkeypatch.setattr(action, "_execute_module", execute)
    return action.run(task_vars={"inventory_hostname": "h1"}), asked


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
