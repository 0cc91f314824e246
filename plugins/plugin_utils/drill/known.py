# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked for, and what is known of the cluster before anything is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MASTER, ETCD, STORE, FILL = "master", "etcd", "store", "fill"
DRILLS = (MASTER, ETCD, STORE, FILL)


@dataclass(frozen=True)
class Limits:
    """What a drill may cost: seconds, numbers, and shares of one."""

    leader: float = 30
    etcd: float = 5
    back: float = 60
    pool: float = 45
    requests: int = 0
    lost: float = -1
    refused: float = 0.2


@dataclass(frozen=True)
class Asked:
    drill: str
    host: str = ""
    objects: int = 64
    size: int = 1 << 20
    most: int = 64 << 30
    hold: float = 15
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Known:
    cluster: Mapping[str, Any]  # pd_cluster
    hosts: Mapping[str, Mapping[str, Any]]  # pd_host by name
    played: frozenset[str]  # hosts of this run that were reached
    masters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what master_info told, by host
    etcd: Mapping[str, Any] | None = None  # what etcd_info told
    tools: frozenset[str] = frozenset()  # hosts with a Python that has Mooncake
    router_url: str = ""  # where clients ask, empty without a router

    def on(self, kind: str) -> list[str]:
        """Hosts that run a process of that kind, in the order of the plan."""
        return [name for name, host in self.hosts.items() if self.process(name, kind, host) is not None]

    def process(self, name: str, kind: str, host: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        processes: Sequence[Mapping[str, Any]] = (host or self.hosts[name])["processes"]
        return next((one for one in processes if one["kind"] == kind), None)

    def url(self, name: str, kind: str) -> str:
        """Where a process of that host tells how it is."""
        process = self.process(name, kind)
        return str(process["ready"]["health"]["url"]) if process else ""

    @property
    def leaders(self) -> list[str]:
        return [name for name, told in self.masters.items() if told.get("running") and told.get("service_ready")]

    @property
    def leader(self) -> Mapping[str, Any]:
        """What the master that serves told, when there is one of them."""
        return self.masters[self.leaders[0]] if len(self.leaders) == 1 else {}
