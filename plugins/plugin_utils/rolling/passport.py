# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The passport of a cluster: what was proven when, kept so that later runs know what they change. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils import supervisor
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import UNIT_PREFIX
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.capacity import ratio
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.classes import FREE
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.coherence import NONE, Change, changes, worst_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.hiding import hidden_tree, hidden_yaml

SCHEMA = 1
# they tell of the moment, and differ from proof to proof
_OF_THE_MOMENT = ("written", "proof")

Passport = dict[str, Any]


def passport_of(
    cluster: Mapping[str, Any],
    instances: Sequence[Mapping[str, Any]],
    services: Sequence[Mapping[str, Any]],
    topology: str,
    proof: Mapping[str, Any],
) -> Passport:
    """instances and services: as planned.py gives them; topology: the text of the file."""
    kept = hidden_yaml(topology)
    return {
        "schema": SCHEMA,
        "cluster": cluster["name"],
        "written": None,
        "versions": {
            "engine": f"{cluster['engine']['kind']} {cluster['engine']['version']}",
            "mooncake": cluster["mooncake"]["version"],
        },
        "router": {key: cluster["router"][key] for key in ("kind", "contract", "url")},
        "instances": [_entry(item) for item in instances],
        "processes": [dict(service) for service in services],
        # a text without its secrets is not one to deploy from
        "topology": {"source": cluster["source"], "text": kept, "complete": kept == topology},
        "proof": hidden_tree(proof),
    }


def with_stale(passport: Passport, before: Passport | None, stale: Collection[str]) -> Passport:
    """What still runs as it did is what was proven of it before; of what never was nothing is claimed.

    A topology of which a part is not proven is none to go back to, so that of before stays.
    """
    old = {item["name"]: item for item in before["instances"]} if before else {}
    kept = [old.get(item["name"]) if item["name"] in stale else item for item in passport["instances"]]
    topology = before["topology"] if before and stale else passport["topology"]
    return {**passport, "instances": [item for item in kept if item], "topology": topology}


def with_leaving(passport: Passport, before: Passport | None) -> Passport:
    """What has left the plan and was not removed yet; without it nobody would know that it still runs."""
    planned = {(item["name"], item["kind"]) for item in passport["instances"]}
    old = before["instances"] if before else []
    leaving = [item for item in old if (item["name"], item["kind"]) not in planned]
    return {**passport, "instances": [*passport["instances"], *leaving]}


def same(one: Passport | None, other: Passport) -> bool:
    """Whether two tell the same about the cluster, whenever that was proven."""
    return one is not None and _lasting(one) == _lasting(other)


def _lasting(passport: Passport) -> Passport:
    return {key: value for key, value in passport.items() if key not in _OF_THE_MOMENT}


def _entry(item: Mapping[str, Any]) -> dict[str, Any]:
    hosts = [{"name": host, "address": item["addresses"][host]} for host in item["hosts"]]
    told = ("name", "kind", "shape", "api_urls", "bootstrap_urls", "processes", "facts")
    return {**{key: item[key] for key in told}, "hosts": hosts}


@dataclass(frozen=True)
class Comparison:
    added: tuple[Mapping[str, Any], ...]
    removed: tuple[Mapping[str, Any], ...]
    changed: tuple[tuple[Mapping[str, Any], tuple[Change, ...]], ...]
    moved: tuple[tuple[Mapping[str, Any], list[str], list[str]], ...]
    unchanged: tuple[str, ...]
    ratio: dict[str, Any]

    @property
    def turned(self) -> list[dict[str, str]]:
        """What became one of the other kind: both have the same units, so one is in the way of the other."""
        before = {item["name"]: item["kind"] for item in self.removed}
        return [{**_who(item), "before": before[item["name"]]} for item in self.added if item["name"] in before]

    @property
    def verdict(self) -> str:
        worst = worst_of(change for _item, found in self.changed for change in found)
        return FREE if worst == NONE and self.changed else worst

    def as_dict(self) -> dict[str, Any]:
        return {
            "added": list(self.added),
            "removed": list(self.removed),
            "leaving": [_for_routers(item) for item in self.removed],
            "added_hosts": _by_host(self.added),
            "removed_hosts": _by_host(self.removed),
            "turned": self.turned,
            "changed": [
                {**_who(item), "changes": [change.as_dict() for change in found]} for item, found in self.changed
            ],
            "moved": [{**_who(item), "before": before, "after": after} for item, before, after in self.moved],
            "unchanged": list(self.unchanged),
            "verdict": self.verdict,
            "ratio": self.ratio,
        }


def compare(passport: Passport, instances: Sequence[Mapping[str, Any]]) -> Comparison:
    """What the plan adds, removes, moves and changes of what was proven. An instance that became one of the other kind
    is another one."""
    before = {(item["name"], item["kind"]): item for item in passport["instances"]}
    planned = {(item["name"], item["kind"]): _entry(item) for item in instances}
    both = [(before[key], planned[key]) for key in planned if key in before]
    changed = []
    for old, new in both:
        found = changes([(new, old["facts"], new["facts"])])
        if found or _digests(old) != _digests(new):
            changed.append((new, found))
    moved = [(new, _hosts(old), _hosts(new)) for old, new in both if _hosts(old) != _hosts(new)]
    touched = {item["name"] for item, _found in changed} | {item["name"] for item, _old, _new in moved}
    return Comparison(
        added=tuple(item for key, item in planned.items() if key not in before),
        removed=tuple(item for key, item in before.items() if key not in planned),
        changed=tuple(changed),
        moved=tuple(moved),
        unchanged=tuple(new["name"] for _old, new in both if new["name"] not in touched),
        ratio=ratio(instances, passport["instances"]).as_dict(),
    )


def _for_routers(item: Mapping[str, Any]) -> dict[str, Any]:
    """As an element of pd_instances."""
    told = {key: item[key] for key in ("name", "kind", "shape", "api_urls", "bootstrap_urls")}
    return {**told, "hosts": _hosts(item)}


def _by_host(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What of these instances is on which host, to be removed there: what leaves may be in no plan any more."""
    found: dict[str, tuple[str, list[Mapping[str, Any]]]] = {}
    for item in items:
        for host in item["hosts"]:
            found.setdefault(host["name"], (host["address"], []))[1].append(item)
    return [{"name": host, "address": address, **_on_host(host, mine)} for host, (address, mine) in found.items()]


def _on_host(host: str, mine: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    # passports do not tell
    supervisors = [
        f"{UNIT_PREFIX}{supervisor.name_of(item['name'])}.service" for item in mine if len(item["processes"]) > 1
    ]
    units = [process["unit"] for item in mine for process in item["processes"] if process["host"] == host]
    return {
        "instances": [item["name"] for item in mine],
        "units": [*supervisors, *units],
        "supervisors": supervisors,
        "bootstrap_urls": [url for item in mine for url in item["bootstrap_urls"]],
    }


def _who(item: Mapping[str, Any]) -> dict[str, str]:
    return {"name": item["name"], "kind": item["kind"]}


def _hosts(item: Mapping[str, Any]) -> list[str]:
    return [host["name"] for host in item["hosts"]]


def _digests(item: Mapping[str, Any]) -> dict[str, str]:
    return {process["name"]: process["digest"] for process in item["processes"]}


def outline(passport: Passport) -> str:
    """The facts and digests of every instance, a line each, to compare by eye."""
    rows = []
    for item in passport["instances"]:
        rows += [f"{item['name']} {fact}: {value}" for fact, value in item["facts"].items()]
        rows += [f"{item['name']} on {host['name']} ({host['address']})" for host in item["hosts"]]
    processes = [process for item in passport["instances"] for process in item["processes"]]
    rows += [f"{process['name']} {process['digest'][:12]}" for process in (*processes, *passport["processes"])]
    return "\n".join(rows) + "\n"
