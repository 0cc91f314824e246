# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Show the plan of a topology and write it as plan.json and plan.html. All of it happens on the controller.

The topology is planned again, for one file is read faster than the variables of a thousand hosts.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
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
# Values of environment variables are in it: nothing for all users of the controller, though perhaps for a group.
MODE = 0o640
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
            path = dest / "plan.json"
            result["diff"] = [_diff(path, before[path] or "", texts[path], options["apart"])]
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


def _folder(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "cluster"


def _refuse_inventory(dest: Path, task_vars: dict[str, Any]) -> None:
    """Ansible reads every file below a folder that it was given, and .json as an inventory.

    Of a folder with a file that it was given it reads the variables only. Still, the folder itself is refused, for it
    is what -i names the next time; folders below it are not, for plan/<name> lies there when one stands beside the
    file.
    """
    real = dest.resolve()
    for source in task_vars.get("ansible_inventory_sources") or ():
        path = Path(str(source)).absolute()
        if path.is_dir():
            folder, read = path.resolve(), real.is_relative_to(path.resolve())
        elif path.is_file():
            folder = path.parent.resolve()  # a link's own, which is where Ansible looks for variables
            variables = (folder / "group_vars", folder / "host_vars")
            read = real == folder or any(real.is_relative_to(place) for place in variables)
        else:
            continue  # a list of hosts
        if read:
            raise AnsibleActionFail(
                f"dest: {dest} lies in the inventory {folder}, where Ansible would read plan.json as an inventory or "
                "as variables. Mend: choose a folder outside of it."
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
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, text)
        except OSError as error:
            raise AnsibleActionFail(
                f"dest: {path} cannot be written: {error.strerror}. Mend: choose another folder."
            ) from error


def _replace(path: Path, text: str) -> None:
    """Whoever looks at it meanwhile sees all of it, and no link that lies there is followed."""
    handle, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, MODE)
            file.write(text)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise


def _said(file: dict[str, Any], check_mode: bool) -> str:
    path = os.path.relpath(file["path"])
    shown = file["path"] if path.startswith("..") else path
    state = ("would be written" if check_mode else "written") if file["changed"] else "unchanged"
    return f"{shown}  {state}"
