# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status as one JSON document. The table is drawn from it and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.status import etcd, instances, services
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.problem import ERROR, NOTICE, Problem
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.seen import Facts, Seen

SCHEMA = 1  # goes up when a key is renamed, removed or means something else

Document = dict[str, Any]


def document(seen: Seen) -> Document:
    parts: dict[str, list[tuple[str, Facts]]] = {item["name"]: [] for item in seen.instances}
    for host, process in seen.processes():
        if process["instance"] in parts:
            parts[process["instance"]].append((host, process))
    # those of which this run was to leave out a host cannot be judged, and are not
    looked = [item for item in seen.instances if not any(seen.left_out(host) for host, _process in parts[item["name"]])]
    told = [instances.describe(item, parts[item["name"]], seen) for item in looked]
    found = [service for service in services.found(seen) if not seen.left_out(service["host"])]
    services_told = [services.describe(service, seen) for service in found]
    problems = [
        *_hosts(seen),
        *_unasked(seen, told, any(service["kind"] == "router" for service in found)),
        *(
            each
            for item, one in zip(looked, told, strict=True)
            for each in instances.problems(item, one, parts[item["name"]], seen)
        ),
        *(
            each
            for service, one in zip(found, services_told, strict=True)
            for each in services.problems(service, one, seen)
        ),
        *etcd.problems(services_told, seen),
        *services.leaderless(services_told, seen),
        *_strays(seen),
    ]
    wrong = {each.name for each in problems if each.severity == ERROR}
    # supervisors of one instance have one name
    ill = {(each.name, each.host) for each in problems if each.severity == ERROR}
    lost = {host for host in seen.absent if not seen.left_out(host)}
    for one in told:
        healthy = one["health"] == instances.HEALTHY
        one["ok"] = healthy and one["name"] not in wrong and not lost & set(one["hosts"])
    for one in services_told:
        healthy = one["health"] in (instances.HEALTHY, None)
        one["ok"] = healthy and (one["name"], one["host"]) not in ill and one["host"] not in lost
    errors = sum(each.severity == ERROR for each in problems)
    return {
        "schema": SCHEMA,
        "cluster": seen.cluster["name"],
        "topology": seen.cluster.get("source"),
        "seen": f"{datetime.fromtimestamp(seen.now, timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        "now": seen.now,
        "ok": errors == 0 and bool(told or services_told),
        "summary": {
            "hosts": len(seen.plans),
            "looked_at": len(seen.units),
            "instances": len(seen.instances),
            "judged": len(told),
            "as_planned": sum(one["ok"] for one in told),
            "errors": errors,
            "notices": len(problems) - errors,
        },
        "instances": told,
        "services": services_told,
        "left_out": sorted(host for host in seen.plans if seen.left_out(host)),
        "problems": [each.as_dict() for each in sorted(problems, key=lambda each: each.severity != ERROR)],
    }


def to_json(content: Document) -> str:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    # halves of surrogate pairs, out of bytes that were no UTF-8: \udcff is an escape of JSON too
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _hosts(seen: Seen) -> Iterable[Problem]:
    for host, why in seen.absent.items():
        if not seen.left_out(host):
            fix = "bring it back or mend the way to it, then look again; what runs there is unknown until then"
            yield Problem("not-seen", host, host, f"{host} could not be looked at: {why}", fix)


def _unasked(seen: Seen, told: Sequence[Document], routers: bool) -> Iterable[Problem]:
    if seen.engines is None and any(one["health"] == instances.UNKNOWN for one in told):
        what = f"the engines were not asked whether they are healthy: {seen.engines_unknown}"
        yield Problem("not-asked", "engines", None, what, "mend what is said there, then look again")
    if routers and seen.routers is None:
        what = f"the routers were not asked whom they send to: {seen.routers_unknown}"
        yield Problem("not-asked", "routers", None, what, "mend what is said there, then look again")


def _strays(seen: Seen) -> Iterable[Problem]:
    for host, answer in seen.units.items():
        for unit in answer["strays"]:
            what = f"{unit['name']} on {host} is {unit['active_state']}, and the topology has no such unit"
            fix = f"if nobody needs it: systemctl disable --now {unit['name']}; else put it into the topology"
            yield Problem("stray", unit["name"], host, what, fix, NOTICE)
