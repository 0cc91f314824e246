# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What rules look at: the plan of a host beside the facts of that host, and all hosts together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

LEFT_OUT = "the run left it out (--limit)"  # why a host was not looked at
ENGINES = ("prefill", "decode")


@dataclass(frozen=True)
class Host:
    name: str
    plan: Mapping[str, Any]  # pd_host
    cluster: Mapping[str, Any]  # pd_cluster
    facts: Mapping[str, Any]  # host, ports, npu, hccn, rdma; what was not looked at is not there

    def fact(self, path: str) -> Any:
        """A fact by its path, `host.memory.total`; None when it is unknown or was not looked at."""
        value: Any = self.facts
        for key in path.split("."):
            if not isinstance(value, Mapping):
                return None
            value = value.get(key)
        return value

    def each(self, path: str) -> list[Any]:
        """A fact that is a list; none when it is unknown."""
        return list(self.fact(path) or ())

    @property
    def address(self) -> str:
        return str(self.plan["address"])

    @cached_property
    def processes(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.plan["processes"])

    @cached_property
    def kinds(self) -> frozenset[str]:
        """prefill, decode, master, store, router, frontend"""
        return frozenset(process["kind"] for process in self.processes)

    @cached_property
    def engine(self) -> bool:
        return not self.kinds.isdisjoint(ENGINES)

    @cached_property
    def ascend(self) -> bool:
        """NPUs do the work here."""
        return self.engine and self.cluster["engine"]["kind"] == "vllm_ascend"

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """The NPUs that the plan uses."""
        return tuple(sorted({device for process in self.processes for device in process.get("devices") or ()}))

    @cached_property
    def environments(self) -> tuple[Mapping[str, Any], ...]:
        """What each engine process of the host gets, as far as the plan says."""
        shared = self.cluster.get("environment") or {}
        return tuple(
            {**shared, **(process["unit"].get("environment") or {})}
            for process in self.processes
            if process["kind"] in ENGINES
        )

    def sysctl(self, name: str) -> str | None:
        """fact() cannot find it: such names have dots in them."""
        return (self.fact("host.sysctl") or {}).get(name)

    @property
    def units(self) -> Mapping[str, Any]:
        """Planned units as they are on the host; none when that is unknown."""
        return self.fact("host.units") or {}

    @cached_property
    def running(self) -> bool:
        """Units of the plan run and hold memory and ports already."""
        return any(unit["active_state"] == "active" for unit in self.units.values())

    @property
    def protocol(self) -> str:
        """tcp, rdma, ascend"""
        return str(self.cluster["connector"]["protocol"])

    @property
    def generation(self) -> str | None:
        return self.plan.get("generation") or (self.cluster.get("hardware") or {}).get("generation")


@dataclass(frozen=True)
class Fleet:
    cluster: Mapping[str, Any]
    hosts: Mapping[str, Host]  # that were looked at
    absent: Mapping[str, str] = field(default_factory=dict)  # host of the plan -> why it was not looked at

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts.values())

    @cached_property
    def engines(self) -> tuple[Host, ...]:
        return tuple(host for host in self if host.engine)

    @cached_property
    def ascend(self) -> tuple[Host, ...]:
        return tuple(host for host in self if host.ascend)
