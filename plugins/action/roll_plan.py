# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put the instances that have to restart into waves, or say everything that speaks against it. On the controller."""

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.mooncake.pd.plugins.plugin_utils.controller_files import FilesError, refuse_inventory
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.archive import Archive
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.capacity import ratio
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.inventory import NoPlan, Planned
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.roll import Known, lines, plan_roll

ARGUMENTS: dict[str, Any] = {
    "health": {"type": "list", "elements": "dict"},
    "out": {"type": "list", "elements": "str"},
    "only": {"type": "raw"},
    "restart": {"type": "bool", "default": False},
    "batch": {"type": "str", "default": "1"},
    "canary": {"type": "int", "default": 1},
    "min_healthy": {
        "type": "dict",
        "apply_defaults": True,
        "options": {kind: {"type": "str", "default": "1"} for kind in ("prefill", "decode")},
    },
    "downtime": {"type": "bool", "default": False},
    "mix": {"type": "bool", "default": False},
    "left_out": {"type": "list", "elements": "str"},
    "passports": {"type": "path"},
}

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENTS)
        try:
            planned = Planned.of(task_vars)
            archive = Archive.of(planned.cluster["name"], options.get("passports"))
            last = archive.last()
            begun = archive.restart() if options["restart"] else None
        except (NoPlan, FilesError) as error:
            raise AnsibleActionFail(str(error)) from None
        played = frozenset(task_vars.get("ansible_play_hosts_all") or ())
        left_out = options.get("left_out")
        known = Known(
            running=planned.running(),
            health=planned.seen("roll_engines", "instances") if options["health"] is None else options["health"],
            out=frozenset(planned.seen("roll_routers", "out") if options["out"] is None else options["out"]),
            left_out=planned.left_out(played) if left_out is None else frozenset(left_out),
            passport=last[1] if last else None,
            against=str(last[0]) if last else None,
            begun=begun,
        )
        roll = plan_roll(planned.instances, known, options)
        result.update(changed=False, coherence=roll.coherence.as_dict(), notes=list(roll.notes))
        if roll.refusals:
            refusals = [refusal.as_dict() for refusal in roll.refusals]
            if self._task.check_mode:  # where it does not end the run, nobody would see it
                display.warning(roll.summary)
            return {**result, "failed": True, "msg": roll.summary, "refusals": refusals}
        for line in lines(roll):
            display.display(line)
        if roll.begins is not None and not self._task.check_mode:
            try:
                refuse_inventory(archive.home, task_vars.get("ansible_inventory_sources") or ())
                archive.begin_restart(roll.begins, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
            except FilesError as error:
                raise AnsibleActionFail(str(error)) from None
        before = last[1]["instances"] if last else None
        result.update(
            # the hosts of a wave have no pd_instances, and need it for the routers
            instances=[dict(instance) for instance in planned.listed],
            out=sorted(known.out),
            note=str(archive.note) if options["restart"] else None,
            waves=[
                {**wave.as_dict(number), "returns": wave.canary and planned.can_return(wave.restart)}
                for number, wave in enumerate(roll.waves, 1)
            ],
            summary=roll.summary,
            ratio=ratio(planned.instances, before).as_dict(),
        )
        return result
