# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One process of the plan: what is started, what it claims, and what proves it ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import Claim

UNIT_PREFIX = "mooncake-pd-"


@dataclass(frozen=True)
class LogLine:
    """A line that has to stand in the log of this start, count times."""

    pattern: str
    count: int = 1
    text: str = ""  # what people call it


@dataclass(frozen=True)
class State:
    """One of several ways to be ready. A list among the values of json means one of them."""

    name: str
    json: Mapping[str, Any]
    without: tuple[str, ...] = ()  # purposes of ports that are not open in it


@dataclass(frozen=True)
class Health:
    url: str
    json: Mapping[str, Any] = field(default_factory=dict)
    states: tuple[State, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        states = [
            {"name": state.name, "json": dict(state.json), "without": list(state.without)} for state in self.states
        ]
        return {"url": self.url, "json": dict(self.json), **({"states": states} if states else {})}


@dataclass(frozen=True)
class Endpoint:
    """The API of one process, and the bootstrap port of a prefill that has one."""

    address: str
    port: int
    bootstrap: int | None = None

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}"


@dataclass(frozen=True)
class ConfigFile:
    """A file that a process reads; its path has to tell its content, as only the path is part of the unit."""

    path: str
    content: str


@dataclass(frozen=True)
class Disk:
    path: str
    quota: int  # bytes


@dataclass(frozen=True)
class PoolShare:
    """What a process takes of its host for the KV pool."""

    memory: int  # bytes: segments and buffers
    disk: Disk | None = None

    def as_dict(self) -> dict[str, Any]:
        disk = {"path": self.disk.path, "quota": self.disk.quota} if self.disk else None
        return {"memory": self.memory, "disk": disk}


@dataclass(frozen=True)
class Process:
    name: str
    kind: str  # prefill | decode | supervisor | etcd | master | store | router | frontend
    host: str
    where: str
    description: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]  # complete
    timeout_stop: int
    claims: tuple[Claim, ...]
    health: Health | None
    lines: tuple[LogLine, ...] = ()
    instance: str | None = None
    # the instance whose processes on this host a supervisor watches; they are the instance, it is not a part of it
    supervises: str | None = None
    # seconds after its end in which systemd starts it again, where the role's own do not fit
    restart_after: int | None = None
    # of an engine: head and headless with internal data parallelism, else rank; which ranks and devices it serves
    role: str | None = None
    ranks: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    endpoint: Endpoint | None = None
    files: tuple[ConfigFile, ...] = ()
    pool: PoolShare | None = None
    # what all processes of its kind have in their environment; told once, not with every one of thousands
    shared: Mapping[str, str] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        return f"{UNIT_PREFIX}{self.name}.service"

    def as_dict(self) -> dict[str, Any]:
        held = (claim for claim in self.claims if claim.kind == "exact" and claim.held)
        return {
            "name": self.name,
            "kind": self.kind,
            "instance": self.instance,
            "supervises": self.supervises,
            "where": self.where,
            "role": self.role,
            "ranks": list(self.ranks),
            "devices": list(self.devices),
            "unit": {
                "name": self.unit,
                "description": self.description,
                "argv": list(self.argv),
                "environment": {
                    name: value for name, value in self.environment.items() if self.shared.get(name) != value
                },
                "timeout_stop": self.timeout_stop,
                **(
                    {"files": [{"path": file.path, "content": file.content} for file in self.files]}
                    if self.files
                    else {}
                ),
                **({"sections": {"Service": {"RestartSec": str(self.restart_after)}}} if self.restart_after else {}),
            },
            **({"pool": self.pool.as_dict()} if self.pool else {}),
            "claims": {
                "name": self.name,
                "unit": self.unit,
                "ports": [claim.as_dict() for claim in self.claims if claim.kind == "exact"],
            },
            "ready": {
                "name": self.name,
                "unit": self.unit,
                "lines": [
                    {"pattern": line.pattern, "count": line.count, "text": line.text or line.pattern}
                    for line in self.lines
                ],
                "ports": [claim.listening() for claim in held],
                "health": self.health.as_dict() if self.health else None,
            },
        }
