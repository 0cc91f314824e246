# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as the variables of a run have it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.planned import instances_of, services_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.state import Running

# of what the role smoke returns; the rest is about the task
_PROOF = ("question", "answer", "prompt_tokens", "requests", "by_source", "matches_prefill", "recovered_seconds")


class NoPlan(Exception):
    """The inventory lacks what is needed; the text is the message."""


@dataclass(frozen=True)
class Planned:
    cluster: Mapping[str, Any]
    hosts: Mapping[str, Mapping[str, Any]]  # every pd_host
    listed: tuple[Mapping[str, Any], ...]  # pd_instances
    variables: Mapping[str, Mapping[str, Any]]  # of every host
    engine: tuple[str, ...]  # hosts that run instances
    router: str

    @classmethod
    def of(cls, task_vars: Mapping[str, Any]) -> Planned:
        """Read raw, for nothing in a plan is a template and 1,000 hosts are many."""
        groups = task_vars.get("groups", {})
        names = list(groups.get("pd") or ())
        if not names:
            raise NoPlan(
                "The inventory gives no host in group pd, so there is no plan. Mend: let -i name a topology.yml."
            )
        router = list(groups.get("router") or ())
        if not router:
            raise NoPlan(
                "The topology has no router, so no instance can be taken out of one, and nothing can be proven. "
                "Mend: add a router."
            )
        variables = {name: task_vars["hostvars"].raw_get(name) for name in names}
        return cls(
            cluster=variables[names[0]]["pd_cluster"],
            hosts={name: own["pd_host"] for name, own in variables.items()},
            listed=tuple(variables[router[0]]["pd_instances"]),
            variables=variables,
            engine=tuple(groups.get("engine") or ()),
            router=router[0],
        )

    @cached_property
    def instances(self) -> list[dict[str, Any]]:
        return instances_of(self.cluster, self.listed, self.hosts)

    @cached_property
    def services(self) -> list[dict[str, Any]]:
        return services_of(self.cluster, self.hosts)

    def running(self) -> Running:
        """What the hosts said they run. One that said nothing is not in it."""
        told = {host: self.variables[host].get("instance_running") for host in self.engine}
        return {host: states for host, states in told.items() if states is not None}

    def seen(self, variable: str, key: str) -> list[Any]:
        """What a task on the router's host has registered; nothing when it did not run."""
        told = self.variables[self.router].get(variable)
        return list(told.get(key) or ()) if isinstance(told, Mapping) else []

    def proof(self) -> dict[str, Any]:
        """What the proof of this run was; nothing when none ran."""
        told = self.variables[self.router].get("smoke_result")
        return {key: told[key] for key in _PROOF if key in told} if isinstance(told, Mapping) else {}

    def stale(self) -> list[str]:
        """Instances of which not every process runs as planned, or did not say so, once any host has said something."""
        running = self.running()
        fine = {
            (host, state["name"])
            for host, told in running.items()
            for state in told
            if state["active"] and not state["outdated"]
        }
        return [
            item["name"]
            for item in self.instances
            if running and any((process["host"], process["name"]) not in fine for process in item["processes"])
        ]

    def can_return(self, names: Collection[str]) -> bool:
        """Whether all of these instances run, and something of them as it was before: then there is a way back."""
        states = [state for told in self.running().values() for state in told if state["instance"] in names]
        return all(state["active"] for state in states) and any(state["outdated"] for state in states)

    def left_out(self, played: frozenset[str]) -> frozenset[str]:
        """Hosts that the play of this task leaves out; a play on the controller alone leaves out none."""
        return frozenset(self.engine) - played if played & {*self.engine} else frozenset()
