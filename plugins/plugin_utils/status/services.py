# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the processes beside the engines are: master, front door, routers and what watches them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.status import etcd, problem
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.instances import (
    AS_PLANNED,
    HEALTHY,
    MISSING,
    NOT_RUNNING,
    OTHER,
    UNHEALTHY,
    UNKNOWN,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.problem import Problem
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.seen import Facts, Seen

LEADER, STANDBY = "leader", "standby"
_ORDER = ("frontend", "router", "watcher", "master", "store", "etcd", "supervisor")
_PREFIX, _ENDING = "mooncake-pd-", ".service"


def found(seen: Seen) -> list[dict[str, str]]:
    """Those of the plan, and those that a role adds to it: they were asked for with the units of the plan."""
    services = [
        {"name": process["name"], "kind": process["kind"], "host": host, "unit": process["unit"]["name"]}
        for host, process in seen.processes()
        if process["kind"] not in ("prefill", "decode")
    ]
    planned = {process["unit"]["name"] for _host, process in seen.processes()}
    for host, answer in seen.units.items():
        for unit in answer["units"]:
            if unit["name"] not in planned:
                name = unit["name"].removeprefix(_PREFIX).removesuffix(_ENDING)
                services.append({"name": name, "kind": "watcher", "host": host, "unit": unit["name"]})
    return sorted(services, key=lambda item: _ORDER.index(item["kind"]) if item["kind"] in _ORDER else len(_ORDER))


def describe(service: Mapping[str, str], seen: Seen) -> dict[str, Any]:
    unit = seen.unit(service["host"], service["unit"])
    health, why = _health(service, seen)
    return {
        **service,
        "state": UNKNOWN if unit is None else unit["active_state"],
        "health": health,
        **etcd.describe(service, seen),
        # of one of several masters
        **({"role": _role(service, seen)} if service["kind"] == "master" else {}),
        "why": why,
        "since": unit["since"] if unit is not None and unit["active_state"] == "active" else None,
        "restarts": unit and unit["restarts"],
        "memory": unit and unit["memory"],
        "plan": _plan(unit),
    }


def problems(service: Mapping[str, str], told: Mapping[str, Any], seen: Seen) -> Iterator[Problem]:
    name, host = service["name"], service["host"]
    unit = seen.unit(host, service["unit"])
    if unit is None:
        return
    wrong = list(problem.of_unit(name, host, unit, seen.now))
    # routers are told to end whenever what they know is no longer true, so their restarts say nothing
    yield from (each for each in wrong if service["kind"] != "router" or each.rule != problem.RESTARTED)
    if any(each.severity == problem.ERROR for each in wrong):
        return
    # that nobody asked the routers is told once
    asked = service["kind"] != "router" or seen.routers is not None
    if told["health"] in (UNHEALTHY, UNKNOWN) and asked:
        what = f"{name} on {host} is not {HEALTHY}: {told['why']}"
        yield Problem("not-healthy", name, host, what, f"read {unit['log']} on {host}")
    if unit["outdated"]:
        fix = f"start.yml restarts it; of the front door it leaves that to you: systemctl restart {unit['name']}"
        yield Problem("other-arguments", name, host, f"{unit['name']} on {host} runs an older unit file", fix)


def _health(service: Mapping[str, str], seen: Seen) -> tuple[str | None, str]:
    """None where there is nothing to ask."""
    if service["kind"] in ("watcher", "supervisor", "store"):
        return None, ""
    if service["kind"] == "router":
        if seen.routers is None:
            return UNKNOWN, seen.routers_unknown
        router = next((each for each in seen.routers["routers"] if each["name"] == service["name"]), None)
        if router is None:
            return UNKNOWN, "it was not asked"
        return (HEALTHY, "") if router["ready"] else (UNHEALTHY, "it is not ready to serve")
    answer: Facts | None = seen.asked.get(service["host"], {}).get(service["name"])
    if answer is None:
        return UNKNOWN, "it was not asked"
    return (HEALTHY, "") if answer["ok"] else (UNHEALTHY, answer["why"])


def _role(service: Mapping[str, str], seen: Seen) -> str | None:
    """Of one of several that stand by for each other."""
    if service["kind"] != "master" or not (seen.cluster.get("master") or {}).get("ha"):
        return None
    told = seen.asked.get(service["host"], {}).get(service["name"], {}).get("json")
    if not isinstance(told, Mapping):
        return None
    return LEADER if told.get("role") == LEADER and told.get("service_ready") is True else STANDBY


def leaderless(told: Sequence[Mapping[str, Any]], seen: Seen) -> Iterator[Problem]:
    """Masters of which none leads answer all the same, and those that stand by keep the name of the last leader."""
    masters = [one for one in told if one["kind"] == "master"]
    planned = (seen.cluster.get("master") or {}).get("hosts", [])
    if not (seen.cluster.get("master") or {}).get("ha") or len(masters) < len(planned):
        return
    # one that did not answer may lead, unless it does not run
    if all(one["role"] == STANDBY or one["plan"] in (MISSING, NOT_RUNNING) for one in masters):
        what = f"none of the masters on {', '.join(planned)} leads, so no client of the store is served"
        yield Problem(
            "no-leader", "master", None, what, "look at etcd, through which they elect one, then at their logs"
        )


def _plan(unit: Facts | None) -> str:
    """Against the file on the host: what the file should be only the role knows."""
    if unit is None:
        return UNKNOWN
    if not unit["installed"]:
        return MISSING
    if not unit["running"]:
        return NOT_RUNNING
    return OTHER if unit["outdated"] else AS_PLANNED
