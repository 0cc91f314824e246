# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide on the controller who loses what in a drill, or say everything that speaks against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.mooncake.pd.plugins.plugin_utils.drill import guard, text
from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.known import DRILLS, Asked, Known, Limits
from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.plan import planned

LIMITS: dict[str, Any] = {
    "leader": {"type": "float", "default": 30},
    "etcd": {"type": "float", "default": 5},
    "back": {"type": "float", "default": 60},
    "pool": {"type": "float", "default": 45},
    "requests": {"type": "int", "default": 0},
    "lost": {"type": "float", "default": -1},
    "refused": {"type": "float", "default": 0.2},
}
REGISTERED = {
    "reached": "__drill_tool",
    "master": "__drill_master",
    "etcd": "__etcd_asked",
    "tool": "__drill_tool",
}
ARGUMENTS: dict[str, Any] = {
    "drill": {"type": "str", "choices": list(DRILLS), "required": True},
    "confirm": {"type": "bool", "default": False},
    "host": {"type": "str", "default": ""},
    "objects": {"type": "int", "default": 64},
    "size": {"type": "int", "default": 1 << 20},
    "most": {"type": "int", "default": 64 << 30},
    "hold": {"type": "float", "default": 15},
    "router_url": {"type": "str", "default": ""},
    "limits": {"type": "dict", "apply_defaults": True, "options": LIMITS},
    **{name: {"type": "str", "default": default} for name, default in REGISTERED.items()},
}

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENTS)
        known = _known(task_vars, options)
        names = ("drill", "host", "objects", "size", "most", "hold")
        asked = Asked(limits=Limits(**options["limits"]), **{name: options[name] for name in names})
        name = known.cluster["name"]
        found = guard.refusals(asked, known)
        if found:
            told = "\n".join(refusal.text for refusal in found)
            message = f"drill {asked.drill} of {name}: refused, nothing was changed.\n{told}"
            return {**result, "failed": True, "msg": message, "refusals": [refusal.as_dict() for refusal in found]}
        drill = planned(asked, known).as_dict()
        go = options["confirm"] and not self._task.check_mode
        for line in text.announced(drill, name, go):
            display.display(line)
        return {**result, "changed": False, "go": go, "drill": drill}


def _known(task_vars: Mapping[str, Any], options: Mapping[str, Any]) -> Known:
    """What the hosts registered. Raw, for nothing in it is a template."""
    hostvars = task_vars["hostvars"]
    planned = list(task_vars.get("groups", {}).get("pd") or ())
    if not planned:
        raise AnsibleActionFail("The inventory gives no host in group pd, so there is nothing to try.")
    variables = {host: hostvars.raw_get(host) for host in planned}
    told = {
        key: {host: own[options[key]] for host, own in variables.items() if own.get(options[key])}
        for key in ("reached", "master", "etcd", "tool")
    }
    etcd = [one for one in told["etcd"].values() if "members" in one]
    return Known(
        cluster=variables[planned[0]]["pd_cluster"],
        hosts={host: own["pd_host"] for host, own in variables.items()},
        played=frozenset(host for host, own in told["reached"].items() if not own.get("unreachable")),
        masters={host: one for host, one in told["master"].items() if "running" in one},
        # any of those that saw most of it
        etcd=max(etcd, key=lambda one: len(one["answering"]), default=None),
        tools=frozenset(host for host, own in told["tool"].items() if (own.get("stat") or {}).get("exists")),
        router_url=options["router_url"].rstrip("/"),
    )
