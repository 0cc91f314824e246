# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the module mooncake.pd.host_info, and note the controller's clock before and after: the host's lies between."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase

MODULE = "mooncake.pd.host_info"


class ActionModule(ActionBase):  # type: ignore[misc]
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        sent = time.time()
        answer = self._execute_module(module_name=MODULE, module_args=dict(self._task.args), task_vars=task_vars)
        result.update(answer)
        clock = (result.get("host") or {}).get("clock")
        if clock is not None:
            clock["controller"] = {"sent": sent, "received": time.time()}
        return result
