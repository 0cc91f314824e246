# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the instances are: their units, their APIs, the routers that send to them, and the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.status import problem
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.problem import NOTICE, Problem
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.seen import Facts, Seen

HEALTHY, DOWN, UNHEALTHY, UNKNOWN = "healthy", "down", "not healthy", "unknown"
AS_PLANNED, OTHER, MISSING, NOT_RUNNING = "as planned", "other arguments", "not installed", "not running"
IN, OUT, NOT_IN = "yes", "out", "no"
LOADING = "it may still be loading: wait, and read the log of its unit; one that hangs has to be restarted"

Parts = Sequence[tuple[str, Facts]]  # host and process


def describe(item: Facts, parts: Parts, seen: Seen) -> dict[str, Any]:
    units = [seen.unit(host, process["unit"]["name"]) for host, process in parts]
    known = [unit for unit in units if unit is not None]
    complete = len(known) == len(units)
    engine = next((each for each in seen.engines or () if each["name"] == item["name"]), None)
    since = [unit["since"] for unit in known if unit["since"] is not None]
    memory = [unit["memory"] for unit in known]
    tokens = [server["prompt_tokens"] for server in (engine or {}).get("servers", ())]
    up = sum(unit["active_state"] == "active" for unit in known)
    return {
        "name": item["name"],
        "kind": item["kind"],
        "hosts": list(item["hosts"]),
        "planned": len(units),
        "up": up if complete else None,
        "health": _health(engine, _answers(parts, seen), up, complete),
        "in_router": _in_router(item, seen),
        "version": _versions(engine),
        "running": engine and engine["running"],
        "waiting": engine and engine["waiting"],
        "kv_usage": engine and engine["kv_usage"],
        "external_tokens": _sum(tokens, "external_kv_transfer"),
        "local_tokens": _sum(tokens, "local_compute"),
        # an instance is as old as its youngest process
        "since": max(since) if complete and since and up == len(units) else None,
        "restarts": sum(unit["restarts"] for unit in known) if complete else None,
        "memory": sum(memory) if complete and None not in memory else None,
        "plan": _plan(parts, known, complete, seen),
        "units": [
            {"host": host, "unit": process["unit"]["name"], "ranks": list(process["ranks"]), "state": _state(unit)}
            for (host, process), unit in zip(parts, units, strict=True)
        ],
        "servers": list((engine or {}).get("servers", ())),
    }


def problems(item: Facts, told: Mapping[str, Any], parts: Parts, seen: Seen) -> Iterator[Problem]:
    """Of the instance itself: a host that is not seen and routers that are not asked are told once, not here."""
    name = item["name"]
    down = False
    for host, process in parts:
        unit = seen.unit(host, process["unit"]["name"])
        if unit is None:
            continue
        found = list(problem.of_unit(name, host, unit, seen.now))
        down = down or any(each.severity == problem.ERROR for each in found)
        yield from found
        yield from _drift(name, host, unit, seen)
    if not down:
        yield from _unhealthy(item, told, seen) if seen.engines is not None else _unanswered(item, parts, seen)
    yield from _rotation(name, told, seen)


def _answers(parts: Parts, seen: Seen) -> list[Facts | None]:
    """What the processes said to their own hosts; all of a group give the address of its head."""
    return [seen.asked.get(host, {}).get(process["name"]) for host, process in parts]


def _health(engine: Facts | None, answers: Sequence[Facts | None], up: int, complete: bool) -> str:
    if engine["healthy"] if engine is not None else all(each is not None and each["ok"] for each in answers):
        return HEALTHY
    if complete and up == 0:
        return DOWN
    return UNKNOWN if engine is None and None in answers else UNHEALTHY


def _in_router(item: Facts, seen: Seen) -> str | None:
    """None where there is no router to be in, or this run was to leave it out."""
    planned = seen.cluster.get("router")
    if not planned or seen.left_out(planned["host"]):
        return None
    if seen.routers is None:
        return UNKNOWN
    if item["name"] in seen.routers["out"]:
        return OUT
    ready = [router for router in seen.routers["routers"] if router["ready"]]
    if not ready:
        return UNKNOWN
    having = sum(
        {worker["url"] for worker in router["workers"] if worker["instance"] == item["name"]} >= set(item["api_urls"])
        for router in ready
    )
    if having == len(ready):
        return IN
    return f"{having} of {len(ready)}" if having else NOT_IN


def _versions(engine: Facts | None) -> str | None:
    found = {server["version"] for server in (engine or {}).get("servers", ()) if server["version"]}
    return ", ".join(sorted(found)) or None


def _sum(tokens: Sequence[Facts | None], source: str) -> int | None:
    known = [each for each in tokens if each is not None]
    return sum(each.get(source, 0) for each in known) if known and len(known) == len(tokens) else None


def _plan(parts: Parts, known: Sequence[Facts], complete: bool, seen: Seen) -> str:
    if not complete:
        return UNKNOWN
    if not all(unit["installed"] for unit in known):
        return MISSING
    if not all(unit["running"] for unit in known):
        return NOT_RUNNING
    compared = [seen.compared(host, process["unit"]["name"]) for host, process in parts]
    if any(each is not None and each["outdated"] for each in compared):
        return OTHER
    return UNKNOWN if None in compared else AS_PLANNED


def _state(unit: Facts | None) -> str:
    return UNKNOWN if unit is None else unit["active_state"]


def _drift(name: str, host: str, unit: Facts, seen: Seen) -> Iterator[Problem]:
    compared = seen.compared(host, unit["name"])
    who = f"{unit['name']} on {host}"
    if compared is None:
        why = seen.uncompared.get(host, "it was not looked at")
        what = f"whether {who} is as planned is unknown: {why}"
        yield Problem("not-compared", name, host, what, "mend what is said there, then look again")
    elif unit["running"] and compared["outdated"]:
        yield Problem("other-arguments", name, host, f"{who} runs with other arguments than planned", problem.ROLL)


def _unanswered(item: Facts, parts: Parts, seen: Seen) -> Iterator[Problem]:
    for (host, process), answer in zip(parts, _answers(parts, seen), strict=True):
        if answer is not None and not answer["ok"]:
            what = f"{process['name']} on {host} is not healthy: {answer['why']}"
            yield Problem("not-healthy", item["name"], host, what, LOADING)


def _unhealthy(item: Facts, told: Mapping[str, Any], seen: Seen) -> Iterator[Problem]:
    name, engine = item["name"], next((each for each in seen.engines or () if each["name"] == item["name"]), None)
    if engine is None:
        yield Problem("not-asked", name, None, f"{name} was not asked whether it is healthy", "look again")
        return
    for server in engine["servers"]:
        if not server["healthy"]:
            up = f", up for {problem.age(seen.now - told['since'])}" if told["since"] else ""
            what = f"{server['url']} is not healthy: {server['error']}{up}"
            yield Problem("not-healthy", name, None, what, LOADING)
    if engine["healthy"] and item["bootstrap_urls"] and not engine["engine_ids"]:
        what = f"{name} is healthy, but its bootstrap server {item['bootstrap_urls'][0]} gives no engine id"
        yield Problem("no-engine-id", name, None, what, f"no decode can pull from it: {problem.ROLL}")
    elif engine["healthy"]:
        for text in engine["problems"]:
            yield Problem("not-told", name, None, text, "the numbers that lack are unknown, not zero", NOTICE)


def _rotation(name: str, told: Mapping[str, Any], seen: Seen) -> Iterator[Problem]:
    where = told["in_router"]
    if where == OUT:
        what = f"{name} was taken out of the routers and gets no requests"
        yield Problem("out-of-router", name, None, what, "roll.yml puts it back when it is healthy")
    elif where not in (IN, UNKNOWN, None) and told["health"] == HEALTHY:
        what = f"{name} is healthy but {'not in every router' if where != NOT_IN else 'in no router'}"
        fix = "start.yml brings the routers up to date"
        yield Problem("not-in-router", name, None, what, fix)
    elif where == IN and told["health"] == HEALTHY:
        for router in (seen.routers or {}).get("routers", ()):
            for worker in router["workers"]:
                if worker["instance"] == name and worker["healthy"] is False:
                    what = f"{router['name']} takes {worker['url']} for unhealthy, which answers /health"
                    yield Problem("router-disagrees", name, None, what, "wait for its next check, and look again")
