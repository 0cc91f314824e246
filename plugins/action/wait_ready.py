# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the module mooncake.pd.wait_ready in slices, so that a long wait shows what it waits for."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

MODULE = "mooncake.pd.wait_ready"
SLICE = 10
QUIET = 30  # seconds after which an unchanged state is said again

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = {"slice": SLICE, **self._task.args}
        shown: dict[str, tuple[str, float]] = {}
        while True:
            answer: dict[str, Any] = self._execute_module(
                module_name=MODULE, module_args=dict(arguments), task_vars=task_vars
            )
            if not answer.get("waiting"):
                break
            arguments["seen"] = answer["seen"]
            self._show(str(task_vars.get("inventory_hostname", "")), answer["progress"], shown)
        for key in ("waiting", "progress", "seen"):
            answer.pop(key, None)
        result.update(answer)
        return result

    @staticmethod
    def _show(host: str, progress: list[dict[str, Any]], shown: dict[str, tuple[str, float]]) -> None:
        for process in progress:
            text = ", ".join(process["waiting_for"])
            before, said = shown.get(process["name"], ("", 0.0))
            if text == before and time.monotonic() - said < QUIET:
                continue
            shown[process["name"]] = (text, time.monotonic())
            display.display(f"[{host}] {process['name']}: waiting {process['seconds']} s: {text}")
