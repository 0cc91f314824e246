# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What proves a process ready and what proves it dead: rules over observations, no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils import sockets
from ansible_collections.mooncake.pd.plugins.module_utils.signatures import FALSE_READY
from ansible_collections.mooncake.pd.plugins.module_utils.systemd import Unit
from ansible_collections.mooncake.pd.plugins.module_utils.tuning import effective


@dataclass(frozen=True)
class Port:
    purpose: str
    address: str
    port: int


@dataclass(frozen=True)
class State:
    """One of several ways to be healthy, and which ports are not open then."""

    name: str
    json: Mapping[str, Any]
    without: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Expected:
    """One element of wait_ready's `processes`."""

    name: str
    unit: str
    lines: tuple[tuple[re.Pattern[str], int], ...] = ()
    texts: tuple[str, ...] = ()  # what people call these lines
    ports: tuple[Port, ...] = ()
    health_url: Optional[str] = None
    health_json: Optional[Mapping[str, Any]] = None
    states: tuple[State, ...] = ()
    limits: Mapping[str, effective.Pair] = field(default_factory=dict)
    hugepages: int = 0

    @staticmethod
    def of(process: Mapping[str, Any], limits: Optional[Mapping[str, Any]] = None) -> Expected:
        """limits: of all processes; what is told of one wins."""
        health = process.get("health") or {}
        return Expected(
            name=process["name"],
            unit=process["unit"],
            lines=tuple(
                (re.compile(line["pattern"]), int(line.get("count") or 1)) for line in process.get("lines") or ()
            ),
            texts=tuple(line.get("text") or line["pattern"] for line in process.get("lines") or ()),
            ports=tuple(
                Port(claim["purpose"], claim["address"], port)
                for claim in process.get("ports") or ()
                for port in range(claim["first"], claim["last"] + 1)
            ),
            health_url=health.get("url"),
            health_json=health.get("json") or {},
            states=tuple(
                State(state["name"], state.get("json") or {}, frozenset(state.get("without") or ()))
                for state in health.get("states") or ()
            ),
            limits=effective.wanted({**(limits or {}), **(process.get("limits") or {})}),
            hugepages=int(process.get("hugepages") or 0),
        )

    @property
    def varying(self) -> frozenset[str]:
        """Purposes of ports that are open in some of the states only."""
        return frozenset(purpose for state in self.states for purpose in state.without)


@dataclass(frozen=True)
class First:
    """What the first look saw of a running unit; any change since is a death."""

    invocation: str
    main_pid: int
    restarts: int


def death(first: Optional[First], now: Unit) -> Optional[str]:
    """Why the process we wait for does not live (any more), or None."""
    if now.LoadState != "loaded":
        return f"the unit does not exist on this host (LoadState {now.LoadState}): create and start it first"
    return _ended(now) or (_changed(first, now) if first else None)


def _ended(now: Unit) -> Optional[str]:
    reason = None
    if now.waits_for_restart:
        reason = f"it died: {now.exit_text}; systemd is about to start it again"
    elif now.ActiveState == "failed" or (now.ActiveState == "inactive" and now.Result != "success"):
        reason = f"it died: {now.exit_text}"
    elif now.ActiveState in ("inactive", "deactivating") or now.SubState == "exited":
        if now.ExecMainCode:
            reason = f"its main process ended: {now.exit_text}"
        elif now.ActiveState == "deactivating":
            reason = "it is being stopped"
        else:
            reason = "it is not running: nobody started it, or it was stopped"
    return reason


def _changed(first: First, now: Unit) -> Optional[str]:
    if now.NRestarts > first.restarts:
        return f"it died and systemd started it again ({now.NRestarts} times by now)"
    if now.InvocationID != first.invocation:
        return "it was restarted while we waited for it"
    if first.main_pid and now.MainPID and now.MainPID != first.main_pid:
        return f"its main process changed from {first.main_pid} to {now.MainPID}"
    return None


def count(expected: Expected, counts: list[int], lines: Sequence[str]) -> None:
    """Add the wanted lines among `lines` to `counts` (one number for each pattern)."""
    for line in lines:
        if FALSE_READY.match(line):
            continue
        for index, (pattern, _wanted) in enumerate(expected.lines):
            if pattern.search(line):
                counts[index] += 1


def lines_missing(expected: Expected, counts: Sequence[int], found: bool, where: str) -> list[str]:
    missing = [
        f'log {counts[index]}/{wanted} "{expected.texts[index]}"'
        for index, (_pattern, wanted) in enumerate(expected.lines)
        if counts[index] < wanted
    ]
    if missing and not found:
        missing.append(f"no mark of this start in {where}")
    return missing


def port_states(
    ports: Sequence[Port], rows: Sequence[sockets.Row], mine: Optional[set[int]], holder: Mapping[int, str]
) -> dict[Port, Optional[str]]:
    """None for a port that the unit's own sockets serve (`mine`; None = not looked at yet), else what is wrong."""
    states: dict[Port, Optional[str]] = {}
    for port in ports:
        here = sockets.listeners(rows, port.port)
        serving = [row for row in here if sockets.satisfies(row.address, port.address)]
        foreign = [row for row in serving if mine is not None and row.inode not in mine]
        if not here:
            states[port] = "not open"
        elif not serving:
            states[port] = f"open on {', '.join(sorted({row.address for row in here}))} only"
        elif foreign:
            states[port] = "held by " + "; ".join(
                sorted({holder.get(row.inode, "a process that cannot be seen") for row in foreign})
            )
        else:
            states[port] = None
    return states


def ports_missing(states: Mapping[Port, Optional[str]]) -> list[str]:
    """One text for all ports of a purpose that lack the same."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for port, wrong in states.items():
        if wrong:
            groups.setdefault((port.purpose, port.address, wrong), []).append(port.port)
    return [
        f"{purpose} port{'s' if len(ports) > 1 else ''} {sockets.ranges(ports)} on {address} {wrong}"
        for (purpose, address, wrong), ports in groups.items()
    ]


def json_missing(wanted: Mapping[str, Any], body: Any) -> Optional[str]:
    """The first key whose value is not the wanted one, or none of those in a list."""
    for key, value in wanted.items():
        if not isinstance(body, Mapping):
            return "the answer is no JSON object"
        seen = body.get(key)
        choices = value if isinstance(value, list) else [value]
        # true == 1 in Python, not in JSON
        if not any(seen == choice and isinstance(seen, bool) == isinstance(choice, bool) for choice in choices):
            return f"{key} is {seen!r} and not {' or '.join(map(repr, choices))}"
    return None


def state_of(states: Sequence[State], body: Any) -> tuple[Optional[State], str]:
    """The state that an answer tells, or why it tells none."""
    wrong = [(state, json_missing(state.json, body)) for state in states]
    fitting = next((state for state, missing in wrong if missing is None), None)
    return fitting, "" if fitting else "; ".join(f"no {state.name}, {missing}" for state, missing in wrong)
