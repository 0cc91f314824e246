# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.action import host_info


def run(answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    action = host_info.ActionModule.__new__(host_info.ActionModule)
    action._task = SimpleNamespace(args={"user": "mooncake"})
    asked: list[dict[str, Any]] = []
    now = iter([100.0, 103.5])
    monkeypatch.setattr(time, "time", lambda: next(now))
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})

    def execute(**asked_for: Any) -> dict[str, Any]:
        asked.append(asked_for)
        return answer

    monkeypatch.setattr(action, "_execute_module", execute)
    return action.run(task_vars={"x": 1}), asked


def test_clock_of_the_controller_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = run({"changed": False, "host": {"clock": {"epoch": 102.0, "controller": None}}}, monkeypatch)
    assert result == {
        "changed": False,
        "host": {"clock": {"epoch": 102.0, "controller": {"sent": 100.0, "received": 103.5}}},
    }
    assert asked == [
        {"module_name": "mooncake.pd.host_info", "module_args": {"user": "mooncake"}, "task_vars": {"x": 1}}
    ]


@pytest.mark.parametrize(
    "answer",
    [{"failed": True, "msg": "no python"}, {"unreachable": True, "host": None}, {"host": {"clock": None}}],
)
def test_an_answer_without_a_clock_is_handed_on(answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(dict(answer), monkeypatch)[0] == answer
