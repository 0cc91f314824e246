# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters to roll: instances as planned, and a world in which waves are carried out."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.roll import Known, Roll, plan_roll

OPTIONS: dict[str, Any] = {
    "only": None,
    "restart": False,
    "batch": "1",
    "canary": 1,
    "min_healthy": {},
    "downtime": False,
    "mix": False,
}
FACTS = {"engine.version": "0.32.0", "args.--max-num-seqs": "4"}


def instance(name: str, kind: str, *hosts: str, facts: dict[str, Any] | None = None) -> dict[str, Any]:
    places = hosts or (f"host-{name}",)
    names = [name] if len(places) == 1 else [f"{name}-{number}" for number in range(len(places))]
    return {
        "name": name,
        "kind": kind,
        "hosts": list(places),
        "shape": {"dp": 1, "tp": 1, "pp": 1, "pcp": 1, "dcp": 1},
        "processes": [{"name": process, "host": host} for process, host in zip(names, places, strict=True)],
        "facts": {**FACTS, **(facts or {})},
    }


def cluster(prefill: int = 2, decode: int = 2) -> list[dict[str, Any]]:
    return [
        *(instance(f"p{number}", "prefill") for number in range(1, prefill + 1)),
        *(instance(f"d{number}", "decode") for number in range(1, decode + 1)),
    ]


@dataclass
class State:
    active: list[bool]
    outdated: bool = True
    healthy: bool | None = True
    out: bool = False

    @property
    def serves(self) -> bool:
        return self.healthy is True and not self.out


@dataclass
class World:
    """What runs, and what a playbook does to it."""

    instances: list[dict[str, Any]]
    states: dict[str, State] = field(default_factory=dict)
    renewed: set[str] = field(default_factory=set)
    # a passport of before, in which these facts differ from the plan
    differing: dict[str, Any] = field(default_factory=lambda: {"args.--max-num-seqs": "2"})
    passport: bool = True
    # by instance, in the passport
    addresses: dict[str, dict[str, Any]] = field(default_factory=dict)
    # by instance, whether its units are there; by default they are
    installed: dict[str, bool] = field(default_factory=dict)
    # how often each was started, and what ran when a restart began
    started: dict[str, int] = field(default_factory=dict)
    begun: dict[str, Any] | None = None
    ids: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in self.instances:
            self.states.setdefault(item["name"], State([True] * len(item["processes"])))

    def copy(self) -> World:
        return deepcopy(self)

    def plan(
        self, left_out: frozenset[str] = frozenset(), untold: frozenset[str] = frozenset(), **options: Any
    ) -> Roll:
        running: dict[str, list[dict[str, Any]]] = {
            host: [] for item in self.instances for host in item["hosts"] if host not in left_out | untold
        }
        for item in self.instances:
            state = self.states[item["name"]]
            for process, active in zip(item["processes"], state.active, strict=True):
                if process["host"] in running:
                    told = {"active": active, "outdated": active and state.outdated}
                    told["installed"] = self.installed.get(item["name"], True)
                    told["invocation_id"] = f"{process['name']}-{self.ids.get(item['name'], 0)}"
                    running[process["host"]].append({"name": process["name"], **told})
        health = [
            {"name": item["name"], "healthy": self.states[item["name"]].healthy, "problems": []}
            for item in self.instances
        ]
        before = [
            {**item, "facts": {**item["facts"], **self.differing}, **self.addresses.get(item["name"], {})}
            for item in self.instances
        ]
        known = Known(
            running=running,
            health=health,
            out=frozenset(name for name, state in self.states.items() if state.out),
            left_out=left_out,
            passport={"instances": before} if self.passport else None,
            against="passport.json" if self.passport else None,
            begun={"ran": self.begun, "began": "2026-03-01T10:00:00Z"} if self.begun else None,
        )
        return plan_roll(self.instances, known, {**OPTIONS, **options})

    def kind(self, name: str) -> str:
        return next(item["kind"] for item in self.instances if item["name"] == name)

    def serving(self) -> dict[str, int]:
        return {
            kind: sum(self.states[item["name"]].serves for item in self.instances if item["kind"] == kind)
            for kind in ("prefill", "decode")
        }

    def take_out(self, wave: dict[str, Any]) -> None:
        for name in wave["back"]:
            self.states[name].out = False
        for name in wave["instances"]:
            self.states[name].out = True

    def renew(self, wave: dict[str, Any]) -> None:
        for name in wave["instances"]:
            state = self.states[name]
            if name not in wave["restart"]:
                assert all(state.active), f"{name} does not run and is not to be started"
                assert not state.outdated, f"{name} is outdated and is not to be restarted"
            else:
                self.start(name)
            state.active = [True] * len(state.active)
            state.outdated, state.healthy = False, True
        self.renewed |= set(wave["restart"])

    def start(self, name: str) -> None:
        self.started[name] = self.started.get(name, 0) + 1
        self.ids[name] = self.ids.get(name, 0) + 1

    def break_off(self, wave: dict[str, Any], where: str) -> None:
        """A run ends in the middle of a wave: it is out of the routers, stopped as well, or started again as well."""
        self.take_out(wave)
        if where == "stopped":
            for name in wave["restart"]:
                self.states[name].active = [False] * len(self.states[name].active)
                self.states[name].healthy = False
        if where == "renewed":
            self.renew(wave)

    def put_back(self, wave: dict[str, Any]) -> None:
        if not wave["hold"]:
            for name in wave["instances"]:
                self.states[name].out = False

    def carry_out(self, wave: dict[str, Any]) -> None:
        self.take_out(wave)
        self.renew(wave)
        self.put_back(wave)

    def mixed(self) -> bool:
        """Whether what was renewed meets what is old."""
        inside = [name for name, state in self.states.items() if not state.out]
        return any(name in self.renewed for name in inside) and any(self.states[name].outdated for name in inside)


def waves(roll: Roll) -> list[dict[str, Any]]:
    assert not roll.refusals, roll.summary
    return [wave.as_dict(number) for number, wave in enumerate(roll.waves, 1)]


def names(roll: Roll) -> list[list[str]]:
    return [wave["instances"] for wave in waves(roll)]


def rules(roll: Roll) -> list[tuple[str, str]]:
    assert not roll.waves
    return [(refusal.rule, refusal.where) for refusal in roll.refusals]
