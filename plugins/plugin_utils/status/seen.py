# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen of a cluster, as the modules told it, beside its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LEFT_OUT = "this run left it out (--limit)"

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Seen:
    """Everything is by host or None; what could not be seen has its reason beside it."""

    cluster: Facts
    instances: Sequence[Facts]  # pd_instances
    plans: Mapping[str, Facts]  # pd_host
    units: Mapping[str, Facts] = field(default_factory=dict)  # of units_info
    absent: Mapping[str, str] = field(default_factory=dict)  # hosts without units, and why
    running: Mapping[str, Sequence[Facts]] = field(
        default_factory=dict
    )  # how units differ from the plan, of compare.yml
    uncompared: Mapping[str, str] = field(default_factory=dict)
    # by host and process: ok, why, and json where the answer is some; also engines, when nobody could ask them more
    asked: Mapping[str, Mapping[str, Facts]] = field(default_factory=dict)
    engines: Sequence[Facts] | None = None  # of vllm_info
    engines_unknown: str = "nobody was there to ask them"
    routers: Facts | None = None  # of router_worker
    routers_unknown: str = "nobody was there to ask them"
    etcd: Facts | None = None  # of etcd_info
    etcd_unknown: str = "nobody was there to ask it"
    now: float = 0.0

    def left_out(self, host: str) -> bool:
        return self.absent.get(host) == LEFT_OUT

    def unit(self, host: str, name: str) -> Facts | None:
        return next((unit for unit in self.units.get(host, {}).get("units", ()) if unit["name"] == name), None)

    def compared(self, host: str, name: str) -> Facts | None:
        return next((unit for unit in self.running.get(host, ()) if unit["unit"] == name), None)

    def processes(self) -> Iterator[tuple[str, Facts]]:
        for host, plan in self.plans.items():
            for process in plan["processes"]:
                yield host, process


def instances_of(plans: Mapping[str, Facts]) -> list[dict[str, Any]]:
    """The instances of the plan where nobody lists them; there is no router then that would need their addresses."""
    found: dict[str, dict[str, Any]] = {}
    for host, plan in plans.items():
        for process in plan["processes"]:
            if process["instance"]:
                item = {"name": process["instance"], "kind": process["kind"], "hosts": []}
                item = found.setdefault(process["instance"], {**item, "api_urls": [], "bootstrap_urls": []})
                item["hosts"] += [host] if host not in item["hosts"] else []
    return sorted(found.values(), key=lambda item: item["kind"] != "prefill")
