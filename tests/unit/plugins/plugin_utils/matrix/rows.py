# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every documented topology of vLLM-Ascend with prefill and decode apart, as the files beside this one write them.

Keys of a row:
  id            its number in the list of documents: A guides, B models, C earlier releases, D and E CI
  source        document and lines
  engine, mooncake, generation, chips, data_parallel, connector, features, extra_config, also, environment, master,
  kv_load_failure_policy, module_path
                what it runs; defaults stand at the head of the file
  prefill, decode
                the groups of data-parallel ranks:
                dp, tp, pp, dcp  sizes
                ranks            for each host of the group, in order, the global ranks on it
                api              for each of these hosts its API ports, none where it is headless
                kv, rpc, engine_id, devices   as the document writes them, absent where it does not
                listen           for each of these hosts the ports that its workers bind, on the side that listens
                at               number of the host; without it each host of a group is another one
  errors, warnings
                what the plan must report, and nothing else: rule -> places, p0.kv_port means prefill[0].kv_port
  defect        why, unless `defects` at the head of the file says it for the rule
  mended        what has to be written instead; the plan of that is compared with the row
  unseen        what is wrong with the document, but cannot be said in a topology
  unplanned     why this document has no topology to plan
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import yaml

Raw = dict[str, Any]
FILES = ("features.yml", "models.yml", "releases.yml", "ci_internal.yml", "ci_external.yml")
KEYS = {
    *("id", "source", "engine", "mooncake", "generation", "chips", "data_parallel", "connector", "module_path"),
    *("features", "extra_config", "also", "environment", "master", "kv_load_failure_policy", "prefill", "decode"),
    *("errors", "warnings", "defect", "mended", "unseen", "unplanned"),
}
GROUP_KEYS = {"dp", "tp", "pp", "dcp", "ranks", "api", "kv", "rpc", "engine_id", "devices", "listen", "at"}
_SIDES = {"p": "prefill", "d": "decode"}


def numbers(text: Any) -> list[int]:
    """3-5 -> 3, 4, 5"""
    if text == "none":
        return []
    first, _dash, last = str(text).partition("-")
    return list(range(int(first), int(last or first) + 1))


def each(text: Any) -> list[list[int]]:
    return [numbers(part) for part in str(text).split()]


def place(short: str) -> str:
    """p0.kv_port -> prefill[0].kv_port"""
    head, dot, rest = short.partition(".")
    return f"{_SIDES[head[0]]}[{head[1:]}]{dot}{rest}" if head[0] in _SIDES and head[1:].isdigit() else short


@dataclass(frozen=True)
class Group:
    """One instance as the document lays it out."""

    kind: str
    name: str
    where: str
    hosts: tuple[str, ...]
    said: Mapping[str, Any]

    @property
    def width(self) -> int:
        """Workers, and so devices, of a rank."""
        return int(self.said["tp"]) * int(self.said.get("pp", 1))

    @property
    def ranks(self) -> list[list[int]]:
        return each(self.said["ranks"])

    @property
    def api(self) -> list[list[int]] | None:
        return each(self.said["api"]) if "api" in self.said else None

    @property
    def devices(self) -> list[int]:
        given = self.said.get("devices")
        return list(range(len(self.ranks[0]) * self.width)) if given is None else numbers(given)

    def listen(self, moved: int = 0) -> list[list[int]]:
        """The ports of each host, moved by what the base was mended."""
        if "listen" not in self.said:
            return [[] for _host in self.hosts]
        return [[port + moved for port in ports] for ports in each(self.said["listen"])]

    def raw(self) -> Raw:
        said = self.said
        instance: Raw = {"name": self.name, "hosts": list(self.hosts)}
        instance |= {size: said[size] for size in ("dp", "tp", "pp", "dcp", "engine_id") if size in said}
        if "devices" in said:
            instance["devices"] = self.devices
        if self.api:
            instance["api_port"] = self.api[0][0]
        if "kv" in said:
            instance["kv_port"] = said["kv"]
        if "rpc" in said:
            instance["dp_rpc_port"] = said["rpc"]
        return instance


@dataclass(frozen=True)
class Row:
    said: Mapping[str, Any]
    defects: Mapping[str, str]
    groups: tuple[Group, ...] = field(default=())

    @property
    def label(self) -> str:
        return f"{self.said['id']} {self.said['source']}"

    def side(self, kind: str) -> list[Group]:
        return [group for group in self.groups if group.kind == kind]

    def problems(self, severity: str) -> set[tuple[str, str]]:
        return {(rule, place(at)) for rule, places in (self.said.get(severity) or {}).items() for at in places}

    def mended(self, group: Group, key: str) -> Any:
        places = {place(short): value for short, value in (self.said.get("mended") or {}).items()}
        return places.get(f"{group.where}.{key}")

    def moved(self, group: Group) -> int:
        """How far the kv ports of a group lie from those of the document."""
        value = self.mended(group, "kv_port")
        return value - group.said["kv"] if value else 0

    def raw(self) -> Raw:
        said = self.said
        engine = {"kind": "vllm_ascend", "version": said["engine"], "data_parallel": said["data_parallel"]}
        connector = {"name": said["connector"]}
        connector |= {key: said[key] for key in ("extra_config", "also") if key in said}
        model: Raw = {"path": "/models/m", "served_name": "m"}
        if said.get("features"):
            model["features"] = said["features"]
        names = sorted({name for group in self.groups for name in group.hosts}, key=lambda name: int(name[1:]))
        raw: Raw = {
            "plugin": "mooncake.pd.topology",
            "name": "matrix",
            "engine": engine,
            "connector": connector,
            "mooncake": {"version": said["mooncake"]},
            "hardware": {"generation": said["generation"], "chips": said["chips"]},
            "model": model,
            "hosts": {name: {"address": f"192.0.2.{name[1:]}", "interface": "eth0"} for name in names},
            "prefill": [group.raw() for group in self.side("prefill")],
            "decode": [group.raw() for group in self.side("decode")],
        }
        if "environment" in said:
            raw["engine_environment"] = said["environment"]
        if "master" in said:
            raw["master"] = {"host": "n1", **said["master"]}
        if "kv_load_failure_policy" in said:
            for instance in (*raw["prefill"], *raw["decode"]):
                instance["kv_load_failure_policy"] = said["kv_load_failure_policy"]
        return copy.deepcopy(raw)

    def mended_raw(self) -> Raw:
        raw = self.raw()
        for short, value in (self.said.get("mended") or {}).items():
            head, _dot, key = short.partition(".")
            entry = raw[_SIDES[head[0]]][int(head[1:])] if head[0] in _SIDES and head[1:].isdigit() else raw[head]
            entry[key] = value
        return raw


def _groups(said: Mapping[str, Any]) -> Iterator[Group]:
    fresh = count(1)
    for kind in ("prefill", "decode"):
        for index, group in enumerate(said.get(kind) or ()):
            places = [group["at"]] if "at" in group else [next(fresh) for _host in each(group["ranks"])]
            hosts = tuple(f"n{number}" for number in places)
            yield Group(kind, f"{kind[0]}{index + 1}", f"{kind}[{index}]", hosts, group)


def load() -> list[Row]:
    rows = []
    for name in FILES:
        content = yaml.safe_load((Path(__file__).parent / name).read_text(encoding="utf-8"))
        for entry in content["rows"]:
            said = {**content["defaults"], **entry}
            rows.append(Row(said, content.get("defects", {}), tuple(_groups(said))))
    return rows
