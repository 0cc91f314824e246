# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tell what KV the instances of a plan keep and how much of it a pool holds. All of it happens on the controller."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import document, text
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import CapacityError
from ansible_collections.mooncake.pd.plugins.plugin_utils.controller_files import (
    FilesError,
    Reports,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.plan_file import plan_of_file
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError

ASKED: dict[str, Any] = {
    "length": {"type": "int"},
    "tokens_per_second": {"type": "float"},
    "requests_per_second": {"type": "float"},
    "pool_bytes": {"type": "str"},
    "segment_bytes": {"type": "str"},
    "contributors": {"type": "list", "elements": "str"},
    "watermark": {"type": "float"},
    "eviction_ratio": {"type": "float"},
    "kv_cache_dtype": {"type": "str"},
}
ARGUMENTS: dict[str, Any] = {
    "topology": {"type": "path"},
    "config": {"type": "path"},
    "content": {"type": "str"},
    "origin": {"type": "str"},
    "problem": {"type": "str"},
    "dest": {"type": "path"},
    **ASKED,
}
_COLOURS = {text.TITLE: "bright blue", text.PLAIN: None, text.DIM: "dark gray", text.WARNING: "bright purple"}

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENTS)
        origin, config = _config(options)
        plan = self._plan(options.get("topology") or task_vars.get("pd_cluster", {}).get("source"))
        try:
            content = document.capacity(plan, config, origin, {name: options.get(name) for name in ASKED})
        except CapacityError as error:
            raise AnsibleActionFail(str(error)) from None
        reports = _reports(options.get("dest"), content, task_vars)
        shown = list(text.lines(content))
        for line, style in shown:
            display.display(line, color=_COLOURS[style])
        if not self._task.check_mode:
            try:
                reports.write()
            except FilesError as error:
                raise AnsibleActionFail(str(error)) from None
        for said in reports.said(self._task.check_mode):
            display.display(said)
        files = reports.results()
        result.update(
            changed=any(file["changed"] for file in files),
            files=files,
            capacity=content,
            table="\n".join(line for line, _style in shown),
        )
        if self._task.diff:
            result["diff"] = [
                {
                    "before_header": str(path),
                    "after_header": str(path),
                    "before": reports.before[path] or "",
                    "after": now,
                }
                for path, now in reports.after.items()
            ]
        return result

    def _plan(self, path: str | None) -> Plan:
        if not path:
            raise AnsibleActionFail("This host has no pd_cluster, so there is no plan. Mend: set topology.")
        try:
            return plan_of_file(path, lambda file: self._loader.load_from_file(file, cache="none", unsafe=True))
        except (FilesError, PlanError) as error:
            raise AnsibleActionFail(str(error)) from None


_OWN = "Mend: name a copy of the model's config.json on the controller, with -e capacity_config=FILE or config."


def _config(options: dict[str, Any]) -> tuple[str, Any]:
    """Where it was read, and what it says."""
    if options.get("config"):
        origin = str(options["config"])
        try:
            raw = Path(origin).read_bytes()
        except OSError as error:
            raise AnsibleActionFail(f"config: {origin} cannot be read: {error.strerror}. {_OWN}") from None
    elif options.get("content"):
        origin, raw = options.get("origin") or "config.json", base64.b64decode(options["content"])
    else:
        told = options.get("problem") or "neither config nor content is given"
        raise AnsibleActionFail(f"{options.get('origin') or 'config.json'} cannot be read: {told}. {_OWN}")
    try:
        return origin, json.loads(raw)
    except ValueError as error:
        raise AnsibleActionFail(f"{origin} is no JSON: {error}. {_OWN}") from None


def _reports(dest: str | None, content: dict[str, Any], task_vars: dict[str, Any]) -> Reports:
    if not dest:
        return Reports.of({})
    home = Path(dest).absolute()
    try:
        sources = task_vars.get("ansible_inventory_sources") or ()
        return Reports.outside(sources, home, {home / "capacity.json": document.to_json(content)})
    except FilesError as error:
        raise AnsibleActionFail(str(error)) from None
