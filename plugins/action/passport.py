# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keep what was proven of a cluster on the controller, and compare a plan with it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.mooncake.pd.plugins.plugin_utils.controller_files import FilesError, refuse_inventory
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling import passport as passports
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.archive import Archive
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.inventory import NoPlan, Planned

ARGUMENTS: dict[str, Any] = {
    "state": {"type": "str", "required": True, "choices": ["proven", "latest", "compare"]},
    "dest": {"type": "path"},
    "keep": {"type": "int", "default": 10},
    "proof": {"type": "dict"},
    "stale": {"type": "list", "elements": "str"},
    "removed": {"type": "bool", "default": False},
}

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENTS)
        if options["keep"] < 1:
            raise AnsibleActionFail(f"keep: {options['keep']} would keep no passport. Mend: write 1 or more.")
        try:
            planned = Planned.of(task_vars)
            archive = Archive.of(planned.cluster["name"], options.get("dest"))
            if options["state"] == "proven":
                refuse_inventory(archive.home, task_vars.get("ansible_inventory_sources") or ())
                return {**result, **self._proven(planned, archive, options)}
            last = archive.last()
        except (NoPlan, FilesError) as error:
            raise AnsibleActionFail(str(error)) from None
        result.update(changed=False, file=str(last[0]) if last else None, passport=last[1] if last else None)
        if options["state"] == "compare":
            result["comparison"] = passports.compare(last[1], planned.instances).as_dict() if last else None
        return result

    def _proven(self, planned: Planned, archive: Archive, options: dict[str, Any]) -> dict[str, Any]:
        last = archive.last()
        before = last[1] if last else None
        text = _topology(planned.cluster["source"])
        proof = planned.proof() if options["proof"] is None else options["proof"]
        stale = planned.stale() if options["stale"] is None else options["stale"]
        told = passports.passport_of(planned.cluster, planned.instances, planned.services, text, proof)
        told = passports.with_stale(told, before, stale)
        if not options["removed"]:
            told = passports.with_leaving(told, before)
        fresh = not passports.same(before, told)
        if fresh or not last:
            told["written"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            path = archive.next(told["written"])
        else:
            path, told = last
        old = archive.surplus(options["keep"], fresh)
        if not self._task.check_mode:
            if fresh:
                archive.write(path, told)
            archive.remove(old)
        state = ("would be written" if self._task.check_mode else "written") if fresh else "unchanged"
        display.display(f"{path}  {state}")
        answer: dict[str, Any] = {
            "changed": fresh or bool(old),
            "file": str(path),
            "removed": [str(item) for item in old],
            "passport": told,
        }
        if self._task.diff and fresh:
            answer["diff"] = [_diff(last, path, told)]
        return answer


def _topology(source: str) -> str:
    try:
        return Path(source).read_text(encoding="utf-8")
    except OSError as error:
        raise AnsibleActionFail(f"{source} cannot be read: {error.strerror}. Mend: restore it.") from None


def _diff(last: tuple[Path, passports.Passport] | None, path: Path, told: passports.Passport) -> dict[str, Any]:
    """Of the facts and digests; the rest of it says them again in other words."""
    return {
        **{"before": passports.outline(last[1]) if last else "", "after": passports.outline(told)},
        **{"before_header": str(last[0]) if last else "no passport", "after_header": str(path)},
    }
