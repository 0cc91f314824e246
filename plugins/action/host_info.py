# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the module mooncake.pd.host_info with what only the controller knows.

That is where the planned peers are, and its clock before and after: the host's lies between.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.plugin_utils.peers import to_try

MODULE = "mooncake.pd.host_info"


class ActionModule(ActionBase):  # type: ignore[misc]
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        names = arguments.pop("planned_peers", None) or []
        if not isinstance(names, list):
            return {**result, "failed": True, "msg": f"planned_peers: {names!r} is no list of hosts"}
        plans = {str(name): _plan(task_vars.get("hostvars") or {}, str(name)) for name in names}
        if plans:
            planned = [to_try(plan, task_vars.get("pd_host")) for plan in plans.values() if plan is not None]
            arguments["peers"] = [*(arguments.get("peers") or []), *planned]
        sent = time.time()
        answer = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
        result.update(answer)
        host = result.get("host") or {}
        if host.get("clock") is not None:
            host["clock"]["controller"] = {"sent": sent, "received": time.time()}
        if "unknown" in host:
            host["unknown"] += [_untried(name) for name, plan in plans.items() if plan is None]
        return result


def _plan(hostvars: Any, host: str) -> Mapping[str, Any] | None:
    """As it is: nothing in it is a template, and one over all hosts would cost each of them that many."""
    plan = hostvars.raw_get(host).get("pd_host") if host in hostvars else None
    return plan if isinstance(plan, Mapping) else None


def _untried(name: str) -> dict[str, str]:
    return {"what": "peers", "why": f"{name} was not tried: the inventory has no plan (pd_host) of it", "raw": ""}
