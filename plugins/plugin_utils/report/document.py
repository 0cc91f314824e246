# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as one JSON document. The table and the page are drawn from it and from nothing else."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan

SCHEMA = 1  # goes up when a key is renamed, removed or means something else

Document = dict[str, Any]

# start.yml: a wave is proven ready before the next begins
_WAVE_OF = {
    "etcd": "etcd",
    "master": "master",
    "store": "store",
    "prefill": "prefill",
    "decode": "decode",
    "router": "router",
    "frontend": "router",
}
_WAVES = ("etcd", "master", "store", "prefill", "decode", "router")


def document(plan: Plan) -> Document:
    """The manual of its shape is the RETURN of the module plan_report."""
    hosts = {name: _host(plan, name) for name in plan.topology.hosts}
    return {
        "schema": SCHEMA,
        "cluster": {**plan.cluster(), "instances": plan.instances()},
        "hosts": hosts,
        "start_order": start_order(hosts),
        "warnings": [{**problem.as_dict(), "line": problem.line} for problem in plan.warnings],
        "waived": [{**item.as_dict(), "line": item.problem.line} for item in plan.waived],
        "choices": [choice.as_dict() for choice in plan.choices],
    }


def to_json(content: Document) -> str:
    """Keys stand as the plan orders them, hosts and instances as the file does."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def start_order(hosts: dict[str, Any]) -> list[dict[str, Any]]:
    """The waves that have something to start; all processes of one instance start together."""
    waves: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in _WAVES}
    kinds = {process["instance"]: process["kind"] for host in hosts.values() for process in host["processes"]}
    for host in hosts.values():
        for process in host["processes"]:
            name = process["instance"] or process.get("supervises") or process["name"]
            # a supervisor starts with what it supervises
            members = waves[_WAVE_OF[kinds[name] if process.get("supervises") else process["kind"]]]
            member = members.setdefault(name, {"name": name, "hosts": [], "processes": []})
            if host["name"] not in member["hosts"]:
                member["hosts"].append(host["name"])
            member["processes"].append(process["name"])
    filled = [(name, list(members.values())) for name, members in waves.items() if members]
    return [{"wave": number, "name": name, "members": members} for number, (name, members) in enumerate(filled, 1)]


def summary(content: Document) -> dict[str, int]:
    hosts = content["hosts"].values()
    processes = [process for host in hosts for process in host["processes"]]
    return {
        "hosts": len(content["hosts"]),
        "processes": len(processes),
        "prefill": sum(instance["kind"] == "prefill" for instance in content["cluster"]["instances"]),
        "decode": sum(instance["kind"] == "decode" for instance in content["cluster"]["instances"]),
        "devices": sum(len(process["devices"]) for process in processes),
        "warnings": len(content["warnings"]),
        "waived": len(content["waived"]),
        "choices": len(content["choices"]),
    }


def _host(plan: Plan, name: str) -> dict[str, Any]:
    planned: dict[str, Any] = plan.hostvars(name)["pd_host"]
    return planned
