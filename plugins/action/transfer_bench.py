# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the module mooncake.pd.transfer_bench with what the peer has started, which only the controller knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase

MODULE = "mooncake.pd.transfer_bench"
REGISTER = "__baseline_target"


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if not arguments.get("target"):
            register = str(arguments.get("register") or REGISTER)
            arguments["target"] = _started(task_vars.get("hostvars") or {}, str(arguments.get("peer")), register)
        result.update(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars))
        return result


def _started(hostvars: Any, peer: str, register: str) -> dict[str, Any]:
    """Read as it is: a template over all hosts would cost each of them that many."""
    if peer not in hostvars:
        return {}
    answer = hostvars.raw_get(peer).get(register)
    target = answer.get("target") if isinstance(answer, Mapping) else None
    return dict(target) if isinstance(target, Mapping) else {}
