# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge the transfers of all pairs of hosts, once, on the controller; show and write them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.mooncake.pd.plugins.plugin_utils import transport
from ansible_collections.mooncake.pd.plugins.plugin_utils.controller_files import (
    FilesError,
    Reports,
    folder,
)

ARGUMENTS: dict[str, Any] = {
    "cluster": {"type": "str", "required": True},
    "protocols": {"type": "list", "elements": "str", "required": True},
    **{name: {"type": "str", "default": f"__transport_{name}"} for name in ("peers", "offered", "proven", "witness")},
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
            return {**result, "skipped": True, "msg": "check mode moves nothing"}
        hosts = _hosts(task_vars, options)
        rows = transport.rows(hosts, options["protocols"])
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        document = transport.document(rows, options["cluster"], when)
        home = Path(options.get("dest") or Path("transport", folder(options["cluster"]))).absolute()
        try:
            reports = Reports.outside(
                task_vars.get("ansible_inventory_sources") or (),
                home,
                {home / "transport.json": json.dumps(document, indent=2) + "\n"},
            )
            reports.write()
        except FilesError as error:
            raise AnsibleActionFail(str(error)) from None

        display.display(transport.summary(rows, options["cluster"]), color=_COLOURS[document["proven"]])
        for text, proven in transport.table(rows) if rows else []:
            display.display(text, color=_COLOURS[proven])
        for finding in transport.findings(rows):
            for line in transport.said(finding):
                display.display(line, color="red")
        display.display(f"{home / 'transport.json'}  written")
        result.update(rows=document["rows"], findings=document["findings"], files=reports.results())
        if not document["proven"]:
            told = "; ".join(f"[{one.rule}] {one.where}{one.problem}" for one in transport.findings(rows))
            result.update(
                failed=True, msg=f"{transport.summary(rows, options['cluster'])}{': ' if told else ''}{told}."
            )
        return result


def _hosts(task_vars: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, transport.Told]:
    """What the hosts of this play registered. Raw, for nothing in it is a template."""
    hostvars = task_vars["hostvars"]
    found = {}
    for host in task_vars.get("ansible_play_hosts_all") or ():
        variables = hostvars.raw_get(host)
        offered, proven, witness = (variables.get(names[key]) or {} for key in ("offered", "proven", "witness"))
        failed = next((one for one in (offered, proven, witness) if one.get("failed") or one.get("unreachable")), {})
        found[host] = transport.Told(
            peers=variables.get(names["peers"]),
            results=(proven.get("proof") or {}).get("results"),
            witness=witness.get("witness"),
            why=" ".join(str(failed.get("msg") or "").split()),
        )
    return found
