# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Show the plan of a topology and write it as plan.json and plan.html. All of it happens on the controller.

The topology is planned again, for one file is read faster than the variables of a thousand hosts.
"""

from __future__ import annotations

import json
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
from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.plan_file import plan_of_file
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError
from ansible_collections.mooncake.pd.plugins.plugin_utils.report import document, page, table

ARGUMENTS: dict[str, Any] = {
    "topology": {"type": "path"},
    "dest": {"type": "path"},
    "apart": {"type": "int", "default": table.APART},
}
_COLOURS = {"title": "bright blue", "host": "green", "plain": None, "dim": "dark gray", "warning": "bright purple"}

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENTS)
        plan = self._plan(options.get("topology") or _source(task_vars))
        if not options.get("topology"):
            _refuse_second(plan, task_vars)
        content = document.document(plan)
        dest = Path(options.get("dest") or Path("plan", folder(content["cluster"]["name"]))).absolute()
        try:
            reports = Reports.outside(
                task_vars.get("ansible_inventory_sources") or (),
                dest,
                {dest / "plan.json": document.to_json(content), dest / "plan.html": page.page(content)},
            )
        except FilesError as error:
            raise AnsibleActionFail(str(error)) from None

        for line in table.joined(table.lines(content, options["apart"])):
            # Display adds no end of line to what seems to have one
            display.display(line.text + "\n" * line.text.endswith("\n"), color=_COLOURS[line.style])
        if not self._task.check_mode:
            try:
                reports.write()
            except FilesError as error:
                raise AnsibleActionFail(str(error)) from None
        for said in reports.said(self._task.check_mode):
            display.display(said)
        written = reports.results()
        result.update(
            changed=any(file["changed"] for file in written),
            files=written,
            summary=document.summary(content),
            table=table.text(content, options["apart"]),
        )
        if self._task.diff:
            path = dest / "plan.json"
            result["diff"] = [_diff(path, reports.before[path] or "", reports.after[path], options["apart"])]
        return result

    def _plan(self, path: str) -> Plan:
        try:
            return plan_of_file(path, lambda file: self._loader.load_from_file(file, cache="none", unsafe=True))
        except (FilesError, PlanError) as error:
            raise AnsibleActionFail(str(error)) from None


def _diff(path: Path, before: str, after: str, apart: int) -> dict[str, str]:
    """Of the tables where they differ: JSON of a thousand processes shows everything and tells nothing."""
    old, new = _table(before, apart), _table(after, apart)
    shown = (old, new) if old != new else (before, after)
    return {
        **{"before": shown[0], "after": shown[1]},
        **{"before_header": str(path), "after_header": str(path)},
    }


def _table(written: str, apart: int) -> str:
    """The table of a plan.json; of one that this version cannot read there is none."""
    try:
        content = json.loads(written)
        return table.text(content, apart) if content["schema"] == document.SCHEMA else ""
    except (ValueError, KeyError, TypeError):
        return ""


def _source(task_vars: dict[str, Any]) -> str:
    """The file that the inventory was made from; it stands on every host of the plan, so one is asked."""
    planned = task_vars.get("groups", {}).get("pd")
    if not planned:
        raise AnsibleActionFail(
            "The inventory gives no host in group pd, so there is no plan to show. Mend: let -i name a folder or file "
            "with a topology.yml, or set topology."
        )
    return str(task_vars["hostvars"][planned[0]]["pd_cluster"]["source"])


def _refuse_second(plan: Plan, task_vars: dict[str, Any]) -> None:
    """The variables of a group are one for all of its hosts, so of several topologies the last is every host's."""
    source = plan.topology.source
    strangers = [host for host in task_vars["groups"]["pd"] if host not in plan.topology.hosts]
    if not strangers:
        return
    told = {str(task_vars["hostvars"][host].get("pd_cluster", {}).get("source", source)) for host in strangers}
    others = sorted(told - {source}) or ["another one that the inventory holds"]
    shown = ", ".join(strangers[:3]) + (f" and {len(strangers) - 3} more" if len(strangers) > 3 else "")
    inventory = ", ".join(str(item) for item in task_vars.get("ansible_inventory_sources") or ())
    raise AnsibleActionFail(
        f"The inventory ({inventory}) is made of more than one topology: {source} does not name {shown} of group pd, "
        f"so there is also {', '.join(others)}. Mend: give one inventory a run, with -i, and in it one topology.yml."
    )
