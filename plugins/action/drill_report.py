# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare what a drill showed with what it may cost, once, on the controller; show and write it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.mooncake.pd.plugins.plugin_utils.controller_files import (
    FilesError,
    Reports,
    folder,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.drill import judge, text

ARGUMENTS: dict[str, Any] = {
    "cluster": {"type": "str", "required": True},
    "drill": {"type": "dict", "required": True},
    "seen": {"type": "str", "default": "__drill_seen"},
    "ready": {"type": "str", "default": "__drill_ready"},
    "dest": {"type": "path"},
}
_COLOURS = {None: "bright blue", True: "green", False: "red"}

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENTS)
        result["changed"] = False
        if self._task.check_mode:
            return {**result, "skipped": True, "msg": "check mode loses nothing"}
        drill, hostvars = options["drill"], task_vars["hostvars"]
        # raw, for nothing in it is a template
        variables = {host: hostvars.raw_get(host) for host in drill["hosts"]}
        results = {host: own.get(options["seen"]) or {} for host, own in variables.items()}
        # a result of wait_ready
        proof = variables.get(drill["target"], {}).get(options["ready"]) or {}
        ready = bool(proof) and not proof.get("failed") and not proof.get("unreachable") and not proof.get("skipped")
        rows = judge.rows(drill, results, ready)
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        document = text.document(drill, rows, options["cluster"], when)
        home = Path(options.get("dest") or Path("drill", folder(options["cluster"]))).absolute()
        # the last of each kind, beside those of the others
        path = home / f"{drill['name']}.json"
        try:
            reports = Reports.outside(
                task_vars.get("ansible_inventory_sources") or (), home, {path: json.dumps(document, indent=2) + "\n"}
            )
            reports.write()
        except FilesError as error:
            raise AnsibleActionFail(str(error)) from None
        summary = text.summary(drill, rows, options["cluster"])
        display.display(summary, color=_COLOURS[document["good"]])
        for line, good in text.table(rows):
            display.display(line, color=_COLOURS[good])
        display.display(f"{path}  written")
        result.update(rows=document["rows"], good=document["good"], files=reports.results())
        if not document["good"]:
            told = "; ".join(f"{row.measure}: {row.verdict}" for row in rows if row.verdict != judge.GOOD)
            result.update(failed=True, msg=f"{summary}: {told}. Everything stands in {path}.")
        return result
