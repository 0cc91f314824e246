# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Large topologies of mixed shapes, and what their plans must count, worked out without the planner.

One cluster has one model, so all prefill instances have the same sizes, and so have all decode instances; what is
mixed is how many prefills stand beside a decode and how an instance lies on hosts of 16 NPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

Raw = dict[str, Any]

RATIOS = (1, 2, 4, 8, 12, 18)  # prefills for one decode: 1P1D to 18P1D
PREFILL_SIZES = {"dp": 2, "tp": 4}
DECODE_SIZES = {"dp": 16, "tp": 1}
CHIPS = 16


@dataclass(frozen=True)
class Style:
    """How ranks are run and which side moves the KV."""

    data_parallel: str
    transfer: str
    connector: str
    version: str = "0.23.0"
    mooncake: str = "0.3.11.post1"

    @property
    def name(self) -> str:
        return f"{self.data_parallel}-{self.transfer}"

    @property
    def binds(self) -> str:
        return "prefill" if self.transfer == "pull" else "decode"


STYLES = {
    style.name: style
    for style in (
        Style("external", "pull", "MooncakeConnectorV1"),
        Style("external", "push", "MooncakeLayerwiseConnector"),
        Style("internal", "pull", "MooncakeConnectorV1"),
        Style("internal", "push", "MooncakeLayerwiseConnector"),
    )
}


def topology(hosts: int, style: Style) -> Raw:
    """A cluster of exactly so many hosts, the first of which has the router and the master."""
    names = [f"n{number}" for number in range(hosts)]
    sides: dict[str, list[Raw]] = {"prefill": [], "decode": []}
    free = iter(names[1:])
    for group in _groups():
        taken = list(islice(free, group.hosts))
        if len(taken) < group.hosts:
            sides["prefill"] += [_instance([name], PREFILL_SIZES, 0) for name in taken]
            break
        for side, instance in group.instances(taken):
            sides[side].append(instance)
    for side, instances in sides.items():
        for number, instance in enumerate(instances):
            instance["name"] = f"{side[0]}{number}"
    return {
        "plugin": "mooncake.pd.topology",
        "name": "scale",
        "engine": {"kind": "vllm_ascend", "version": style.version, "data_parallel": style.data_parallel},
        "connector": {"name": style.connector},
        "mooncake": {"version": style.mooncake},
        "hardware": {"generation": "A3"},
        "model": {"path": "/srv/models/moe", "served_name": "moe", "features": ["moe"]},
        "hosts": {
            name: {"address": f"10.{number // 62500}.{number // 250 % 250}.{number % 250 + 1}", "interface": "eth0"}
            for number, name in enumerate(names)
        },
        **sides,
        # as many settings as worked configurations have
        "engine_args": ["--max-model-len", "32768", "--trust-remote-code", "--enable-expert-parallel"],
        "engine_environment": {f"SOME_SETTING_{number}": "1" for number in range(10)},
        "router": {"host": names[0]},
        "master": {"host": names[0]},
    }


def faulty(hosts: int, style: Style) -> Raw:
    """The same with one fault in every instance of the side that listens: a port that Mooncake draws from."""
    raw = topology(hosts, style)
    for instance in raw[style.binds]:
        instance["kv_port"] = 20050 + 100 * min(instance.get("devices", [0]))
    return raw


@dataclass(frozen=True)
class _Group:
    """Some prefills and one decode, and on how many hosts each of them lies."""

    prefills: int
    prefill_hosts: int
    decode_hosts: int

    @property
    def hosts(self) -> int:
        return self._beside() + self.decode_hosts

    def _beside(self) -> int:
        """Hosts of the prefills. A host takes two that are its own, or a share of four that lie on two hosts."""
        each = 2 * self.prefill_hosts
        return -(-self.prefills // each) * self.prefill_hosts

    def instances(self, names: list[str]) -> Iterator[tuple[str, Raw]]:
        each = 2 * self.prefill_hosts
        for number in range(self.prefills):
            first = number // each * self.prefill_hosts
            yield "prefill", _instance(names[first : first + self.prefill_hosts], PREFILL_SIZES, number % each)
        yield "decode", _instance(names[self._beside() :], DECODE_SIZES, 0)


def _groups() -> Iterator[_Group]:
    """Every ratio on one host and on two, again and again."""
    for decode_hosts, prefill_hosts in cycle(((1, 1), (2, 1), (1, 2), (2, 2))):
        for ratio in RATIOS:
            yield _Group(ratio, prefill_hosts, decode_hosts)


def _instance(hosts: list[str], sizes: dict[str, int], place: int) -> Raw:
    """place: which part of each host's devices, counted in instances."""
    width = sizes["dp"] * sizes["tp"] // len(hosts)
    where = {"host": hosts[0]} if len(hosts) == 1 else {"hosts": hosts}
    devices = {} if width == CHIPS else {"devices": list(range(place * width, (place + 1) * width))}
    return {"name": "", **where, **sizes, **devices}


def _places(instance: Raw) -> int:
    return len(instance.get("hosts", [None]))


def counts(raw: Raw) -> dict[str, int]:
    """What a plan of this topology has: processes, and how many single ports of each purpose."""
    external = raw["engine"]["data_parallel"] == "external"
    binds = "decode" if raw["connector"]["name"] == "MooncakeLayerwiseConnector" else "prefill"
    instances = [*raw["prefill"], *raw["decode"]]
    units = [one["dp"] if external else _places(one) for one in instances]
    # where there are several units, a supervisor on each host
    supervisors = [_places(one) for one, count in zip(instances, units, strict=True) if count > 1]
    return {
        "hosts": len(raw["hosts"]),
        "instances": len(instances),
        # two routers with a front door, and the master
        "processes": sum(units) + sum(supervisors) + 4,
        "api": sum(one["dp"] if external else 1 for one in instances),
        "kv": sum(one["dp"] * one["tp"] for one in raw[binds]),
        "dp-rpc": sum(one["dp"] > 1 for one in instances),
    }
