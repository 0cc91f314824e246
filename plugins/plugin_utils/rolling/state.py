# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances of the plan, each with what runs of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.refusals import Refusal, joined

Running = Mapping[str, Sequence[Mapping[str, Any]]]  # by host, what its play has set as instance_running


@dataclass(frozen=True)
class Seen:
    name: str
    kind: str
    hosts: tuple[str, ...]
    processes: int  # planned
    active: tuple[str, ...]
    idle: tuple[str, ...]  # planned and not active
    outdated: tuple[str, ...]
    installed: bool  # whether any unit of it is there
    untold: tuple[str, ...]  # hosts that did not say what runs, or not of every process
    left_out: tuple[str, ...]  # hosts that --limit leaves out
    healthy: bool | None
    problems: tuple[str, ...]
    out: bool

    @property
    def new(self) -> bool:
        """Never started; the routers do not know it either."""
        return self.known and not self.installed and not self.active and not self.out

    @property
    def known(self) -> bool:
        return not self.untold and not self.left_out

    @property
    def serves(self) -> bool:
        return self.healthy is True and not self.out

    @property
    def old(self) -> bool:
        return bool(self.outdated)

    @property
    def current(self) -> bool:
        """Whether all of it runs as planned."""
        return self.known and not self.idle and not self.outdated

    @property
    def needs(self) -> bool:
        return self.known and (self.out or not self.current)

    @property
    def stands(self) -> bool:
        """Taken out by an earlier run and started by it, too: there is nothing left to restart."""
        return self.out and self.current

    def why(self, restart: bool) -> str:
        """Why it is rolled, the strongest reason."""
        reasons = (
            (
                self.stands and not restart,
                "is out of the router since an earlier run and runs as planned: it is proven and put back",
            ),
            (self.out, "is out of the router since an earlier run"),
            (self.idle and not self.active, "does not run"),
            (self.idle, f"runs in part, without {joined(self.idle, 4)}"),
            (
                self.outdated and self.healthy is not True,
                "runs something else than planned and is not healthy, so nothing is lost by beginning with it",
            ),
            (self.outdated, "runs something else than planned"),
        )
        asked = "runs as planned and is restarted because restart asks for it"
        return next((reason for holds, reason in reasons if holds), asked)


def look(
    instances: Iterable[Mapping[str, Any]],
    running: Running,
    health: Iterable[Mapping[str, Any]],
    out: Collection[str],
    left_out: Collection[str],
) -> list[Seen]:
    """instances: those of the plan, with name, kind, hosts and processes of {name, host}."""
    told = {item["name"]: item for item in health}
    return [_seen(item, running, told.get(item["name"], {}), item["name"] in out, left_out) for item in instances]


def _seen(
    item: Mapping[str, Any], running: Running, health: Mapping[str, Any], out: bool, left_out: Collection[str]
) -> Seen:
    states = {(host, state["name"]): state for host in item["hosts"] for state in running.get(host, ())}
    planned = [(process["host"], process["name"]) for process in item["processes"]]
    told = [key for key in planned if key in states]

    def those(fact: str) -> Iterator[str]:
        return (name for host, name in told if states[host, name].get(fact))

    absent = {host for host in item["hosts"] if host in left_out}
    active = tuple(those("active"))
    return Seen(
        name=item["name"],
        kind=item["kind"],
        hosts=tuple(item["hosts"]),
        processes=len(planned),
        active=active,
        idle=tuple(name for _host, name in told if name not in active),
        outdated=tuple(those("outdated")),
        installed=bool(active) or any(states[key].get("installed", True) for key in told),
        untold=tuple(
            dict.fromkeys(host for host, name in planned if (host, name) not in states and host not in absent)
        ),
        left_out=tuple(host for host in item["hosts"] if host in absent),
        healthy=health.get("healthy"),
        problems=tuple(str(problem) for problem in health.get("problems") or ()),
        out=out,
    )


def check_known(
    seen: Iterable[Seen], selected: Collection[str], health: Iterable[Mapping[str, Any]]
) -> Iterator[Refusal]:
    """What has to be known before anything is taken out: UNKNOWN is never OK."""
    asked = {item["name"] for item in health}
    for item in seen:
        if item.name not in asked:
            yield Refusal(
                "health-unknown",
                item.name,
                "nobody asked whether it is healthy, so it is not known who would serve.",
                "ask all instances of the plan with mooncake.pd.vllm_info; with --limit, name the router's host too.",
            )
        if item.name not in selected or len(item.left_out) == len(item.hosts):
            continue
        if item.left_out:
            yield Refusal(
                "limit-splits",
                item.name,
                f"all of it restarts together, but --limit leaves out {joined(item.left_out)}.",
                f"add instance_{item.name} to --limit, or leave it out with all its hosts.",
            )
        if item.untold:
            yield Refusal(
                "state-unknown",
                item.name,
                f"{joined(item.untold)} did not say what runs there, it cannot be reached perhaps.",
                "make it reachable, or leave the instance out with only or --limit.",
            )
