# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the module mooncake.pd.wait_ready in slices, so that a long wait shows what it waits for, and ends when the same
task has failed on another host.

The hosts meet in the folder for temporary files of this ansible-playbook: every fork has it, and it goes with the run.
It is looked at between slices and not more often: shorter slices would cost every start, on every host, several times
as many module runs, only to end a run that has failed a few seconds earlier. The host that failed is shown at once.
"""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

from ansible import constants as C
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

MODULE = "mooncake.pd.wait_ready"
SLICE = 10
GLANCE = 0.1  # a slice that looks once, when another host has failed already
QUIET = 30  # seconds after which an unchanged state is said again

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = {"slice": SLICE, **self._task.args}
        host = str(task_vars.get("inventory_hostname", ""))
        shown: dict[str, tuple[str, float]] = {}
        if self._failed_host(host):
            arguments["slice"] = GLANCE
        while True:
            try:
                answer: dict[str, Any] = self._execute_module(
                    module_name=MODULE, module_args=dict(arguments), task_vars=task_vars
                )
            except Exception:  # unreachable, for example
                self._tell_others(host)
                raise
            if not answer.get("waiting"):
                if answer.get("failed"):
                    other = self._failed_host(host)
                    if other:
                        # the ranks of a group do not outlive each other
                        answer["msg"] = f"stopped waiting: {other} failed (see there). Since then: {answer['msg']}"
                    self._tell_others(host)
                break
            failed = self._failed_host(host)
            if failed:
                answer.update(failed=True, msg=f"stopped waiting: {failed} failed (see there)")
                break
            arguments["seen"] = answer["seen"]
            self._show(host, answer["progress"], shown)
        for key in ("waiting", "progress", "seen"):
            answer.pop(key, None)
        result.update(answer)
        return result

    @property
    def _note(self) -> str | None:
        """File that says which host has failed in this task; None when the others go on without it."""
        task = self._task
        forgiven = task.ignore_errors or task.ignore_unreachable or task.failed_when or task.until
        if forgiven or not task.any_errors_fatal or not os.path.isdir(C.DEFAULT_LOCAL_TMP):
            return None
        return os.path.join(C.DEFAULT_LOCAL_TMP, f"wait_ready-{task._uuid}")

    def _failed_host(self, host: str) -> str | None:
        path = self._note
        if not path or not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as note:
            other = note.read()
        return other if other != host else None  # its own is of another item of a loop

    def _tell_others(self, host: str) -> None:
        note = self._note
        if not note or os.path.exists(note):  # the first one is the cause
            return
        handle, fresh = tempfile.mkstemp(dir=C.DEFAULT_LOCAL_TMP)
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            target.write(host)
        os.replace(fresh, note)

    @staticmethod
    def _show(host: str, progress: list[dict[str, Any]], shown: dict[str, tuple[str, float]]) -> None:
        for process in progress:
            text = ", ".join(process["waiting_for"])
            before, said = shown.get(process["name"], ("", 0.0))
            if text == before and time.monotonic() - said < QUIET:
                continue
            shown[process["name"]] = (text, time.monotonic())
            display.display(f"[{host}] {process['name']}: waiting {process['seconds']} s: {text}")
