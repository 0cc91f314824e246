# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about hosts: each is one function, and what it is about stands in its decorator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Fleet, Host

FAMILIES = ("host", "network", "ports", "npu", "rdma")
SEVERITIES = ("error", "warning", "notice")  # worst first


@dataclass(frozen=True)
class Found:
    """What a rule found. `what` names the thing and not the host; `fix` is the same text wherever the way out is."""

    what: str
    fix: str
    evidence: str = ""
    severity: str | None = None  # where it is not the rule's own
    host: str | None = None  # for rules over the fleet
    where: str = ""  # of what is unknown: the path of the fact


@dataclass(frozen=True)
class Rule:
    id: str
    family: str
    severity: str
    about: str  # what has to hold
    why: str  # what happens to this kind of service otherwise
    source: str
    cases: tuple[str, ...]  # numbers of the field reports that it is made from
    check: Callable[[Any], Iterable[Found]]
    over: type  # Host or Fleet


RULES: dict[str, Rule] = {}

HostCheck = Callable[[Host], Iterable[Found]]
FleetCheck = Callable[[Fleet], Iterable[Found]]


def rule(
    name: str, *, family: str, about: str, why: str, source: str, severity: str = "error", cases: tuple[str, ...] = ()
) -> Callable[[HostCheck], HostCheck]:
    """A rule about one host."""
    return _register(lambda check: Rule(name, family, severity, about, why, source, cases, check, Host))


def fleet_rule(
    name: str, *, family: str, about: str, why: str, source: str, severity: str = "error", cases: tuple[str, ...] = ()
) -> Callable[[FleetCheck], FleetCheck]:
    """A rule about all hosts together."""
    return _register(lambda check: Rule(name, family, severity, about, why, source, cases, check, Fleet))


def _register(made: Callable[[Any], Rule]) -> Callable[[Any], Any]:
    def register(check: Any) -> Any:
        new = made(check)
        if new.id in RULES:
            raise ValueError(f"two rules are called {new.id}")
        RULES[new.id] = new
        return check

    return register
