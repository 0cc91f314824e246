# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Show the plan of a topology and write it as plan.json and plan.html. All of it happens on the controller.

The topology is planned again, for one file is read faster than the variables of a thousand hosts.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan, plan_of
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
        content = document.document(self._plan(options.get("topology") or _source(task_vars)))
        dest = Path(options.get("dest") or Path("plan", _folder(content["cluster"]["name"]))).absolute()
        _refuse_inventory(dest, task_vars)

        for line in table.joined(table.lines(content, options["apart"])):
            # Display adds no end of line to what seems to have one
            display.display(line.text + "\n" * line.text.endswith("\n"), color=_COLOURS[line.style])
        texts = {dest / "plan.json": document.to_json(content), dest / "plan.html": page.page(content)}
        before = {path: _read(path) for path in texts}
        files = [{"path": str(path), "changed": before[path] != text} for path, text in texts.items()]
        if not self._task.check_mode:
            _write({path: text for path, text in texts.items() if before[path] != text})
        for file in files:
            display.display(_said(file, self._task.check_mode))
        result.update(
            changed=any(file["changed"] for file in files),
            files=files,
            summary=document.summary(content),
            table=table.text(content, options["apart"]),
        )
        if self._task.diff:
            path, text = next(iter(texts.items()))
            headers = {"before_header": str(path), "after_header": str(path)}
            result["diff"] = [{"before": before[path] or "", "after": text, **headers}]
        return result

    def _plan(self, path: str) -> Plan:
        path = os.path.abspath(path)
        if not os.path.isfile(path):
            raise AnsibleActionFail(f"topology: there is no file {path}. Mend: name a topology.yml.")
        raw = self._loader.load_from_file(path, cache="none", unsafe=True)
        try:
            return plan_of(raw, Path(path).read_text(encoding="utf-8"), path)
        except PlanError as error:
            raise AnsibleActionFail(str(error)) from None


def _source(task_vars: dict[str, Any]) -> str:
    """The file that the inventory was made from; it stands on every host of the plan, so one is asked."""
    planned = task_vars.get("groups", {}).get("pd")
    if not planned:
        raise AnsibleActionFail(
            "The inventory gives no host in group pd, so there is no plan to show. Mend: let -i name a folder or file "
            "with a topology.yml, or set topology."
        )
    return str(task_vars["hostvars"][planned[0]]["pd_cluster"]["source"])


def _folder(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "cluster"


def _refuse_inventory(dest: Path, task_vars: dict[str, Any]) -> None:
    """Ansible reads every file below a folder that it was given, and .json as an inventory."""
    real = dest.resolve()
    for source in task_vars.get("ansible_inventory_sources") or ():
        folder = Path(str(source)).resolve()
        if real == folder or folder in real.parents:
            raise AnsibleActionFail(
                f"dest: {dest} lies in the inventory {folder}, where Ansible would read plan.json as an inventory. "
                "Mend: choose a folder outside of it."
            )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        return ""  # whatever it is, it is no plan
    except OSError as error:
        raise AnsibleActionFail(f"dest: {path} cannot be read: {error.strerror}.") from error


def _write(texts: dict[Path, str]) -> None:
    for path, text in texts.items():
        fresh = path.with_name(f".{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(path)  # whoever looks at it meanwhile sees all of it
        except OSError as error:
            raise AnsibleActionFail(
                f"dest: {path} cannot be written: {error.strerror}. Mend: choose another folder."
            ) from error


def _said(file: dict[str, Any], check_mode: bool) -> str:
    path = os.path.relpath(file["path"])
    shown = file["path"] if path.startswith("..") else path
    state = ("would be written" if check_mode else "written") if file["changed"] else "unchanged"
    return f"{shown}  {state}"
