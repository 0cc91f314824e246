# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the module mooncake.pd.transfer_proof with what the peers have offered, which only the controller knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.plugins.action import ActionBase

MODULE = "mooncake.pd.transfer_proof"
REGISTER = "__transport_offered"


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if not arguments.get("offers"):
            register = str(arguments.get("register") or REGISTER)
            name = str(arguments.get("name"))
            hosts = [*map(str, arguments.get("peers") or ()), name]
            arguments["offers"] = _offers(task_vars.get("hostvars") or {}, hosts, name, register)
        result.update(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars))
        return result


def _offers(hostvars: Any, hosts: Iterable[str], name: str, register: str) -> dict[str, Any]:
    """Read as they are: a template over all hosts would cost each of them that many."""
    found: dict[str, Any] = {}
    for host in hosts:
        answer = hostvars.raw_get(host).get(register) if host in hostvars else None
        offer = answer.get("offer") if isinstance(answer, Mapping) else None
        if isinstance(offer, Mapping):
            found[host] = {**offer, "protocols": _for(name, offer.get("protocols") or {})}
    return found


def _for(name: str, protocols: Mapping[str, Any]) -> dict[str, Any]:
    """Without the places of all other hosts: with those of every peer it would be the square of them."""
    return {
        protocol: {**told, "slots": {name: told["slots"][name]}} if name in told.get("slots", ()) else told
        for protocol, told in protocols.items()
    }
