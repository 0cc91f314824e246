# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Mooncake would use of a host's RDMA devices: by the plan, and by the rules of its source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

V2 = "RoCE v2"
MTUS = (4096, 2048, 1024, 512, 256)
# iboe_get_mtu, include/rdma/ib_addr.h@v6.1: GRH, UDP, BTH, XRC, AtomicETH and ICRC go off the network's MTU
_ROCE_HEADERS = 40 + 8 + 12 + 4 + 28 + 4
# Variables that name devices, separated by commas. The first keeps Mooncake from all others, and is read since 0.3.12
# (topology.cpp); the others are those of the store (client_service.cpp, mooncake_config.py).
_FILTER = "MC_TE_FILTERS"
_STORE_DEVICES = ("MC_MS_FILTERS", "MOONCAKE_DEVICE")
_FILTER_SINCE = "0.3.12"
_OPTION = re.compile(r"--?(device_names?)(?:=(.*))?")
_AUTOMATIC = ("", "auto-discovery")


@dataclass(frozen=True)
class Port:
    """A port that Mooncake would use."""

    device: Mapping[str, Any]
    facts: Mapping[str, Any]

    def __str__(self) -> str:
        number = self.facts["port"]
        return str(self.device["name"]) + (f" port {number}" if number != 1 else "")

    def __getitem__(self, key: str) -> Any:
        return self.facts[key]

    @property
    def active(self) -> bool:
        return bool(self["state"] == "ACTIVE")

    @property
    def roce(self) -> bool:
        return bool(self["link_layer"] == "Ethernet")

    def entry(self, index: int) -> Mapping[str, Any] | None:
        return next((gid for gid in self["gids"] if gid["index"] == index), None)

    def routable(self, address: str | None = None) -> list[int]:
        """RoCE v2 entries made of an IPv4 address (of this one)."""
        made = [gid for gid in self["gids"] if gid["type"] == V2 and gid["address"]]
        return [gid["index"] for gid in made if address in (None, gid["address"])]


def concerned(host: Host) -> bool:
    return host.engine and host.protocol == "rdma"


def values(host: Host, *names: str) -> list[tuple[str, str]]:
    """(name, value) of variables that the engines get; the first of the names that is set counts."""
    found: dict[tuple[str, str], None] = {}
    for environment in host.environments:
        name = next((name for name in names if name in environment), None)
        if name:
            found[name, str(environment[name])] = None
    return list(found)


def as_number(text: str) -> int:
    """As atoi reads it."""
    match = re.match(r"\s*([+-]?\d+)", text)
    return int(match[1]) if match else 0


def gid_indexes(host: Host) -> list[tuple[str, int]]:
    """config.cpp@v0.3.6: without MC_GID_INDEX that of NCCL counts; what is out of range is ignored"""
    given = [(name, as_number(value)) for name, value in values(host, "MC_GID_INDEX", "NCCL_IB_GID_INDEX")]
    return [(name, index) for name, index in given if 0 <= index < 256]


def port_number(host: Host) -> int:
    given = [number for _name, text in values(host, "MC_IB_PORT") if 0 < (number := as_number(text)) < 256]
    return given[0] if given else 1


def named_devices(host: Host) -> dict[str, str]:
    """Devices that the plan names -> where."""
    found = _filters(host)
    for name in _STORE_DEVICES:
        for where, value in values(host, name):
            found.update((device, where) for device in _split(value))
    return found


def _filters(host: Host) -> dict[str, str]:
    """Those that the engines are to use instead of all."""
    found: dict[str, str] = {}
    if at_least((host.cluster.get("mooncake") or {}).get("version") or _FILTER_SINCE, _FILTER_SINCE):
        for where, value in values(host, _FILTER):
            found.update((device, where) for device in _split(value))
    for process in host.processes:
        argv = [str(word) for word in process["unit"].get("argv") or ()]
        for word, following in pairwise([*argv, ""]):
            option = _OPTION.fullmatch(word)
            if option:
                value = following if option[2] is None else option[2]
                found.update((device, f"--{option[1]}") for device in _split(value))
            elif word == "--kv-transfer-config":
                found.update((device, "device_name in --kv-transfer-config") for device in _in_config(following))
    return found


def _split(value: str) -> list[str]:
    names = [name.strip() for name in value.split(",")]
    return [name for name in names if name not in _AUTOMATIC]


def _in_config(text: str) -> list[str]:
    """MooncakeConnector, vllm@v0.11.1: kv_connector_extra_config.device_name, in each connector of a MultiConnector"""
    try:
        config = json.loads(text)
    except ValueError:
        return []
    waiting, found = [config], []
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            found += _split(str(value.get("device_name") or ""))
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found


def devices_of(host: Host) -> list[Mapping[str, Any]]:
    """Those that Mooncake would use."""
    if not concerned(host):
        return []
    named = _filters(host)
    devices = host.each("rdma.devices")
    return [device for device in devices if device["name"] in named] if named else devices


def ports_of(host: Host) -> list[Port]:
    number = port_number(host)
    ports = (Port(device, port) for device in devices_of(host) for port in device["ports"])
    return [port for port in ports if port["port"] == number]


def active_ports(host: Host) -> list[Port]:
    return [port for port in ports_of(host) if port.active]


def taken(host: Host, port: Port) -> Mapping[str, Any] | None:
    """The GID of transfers; of an index that is set, the rule about it speaks."""
    choice = None if gid_indexes(host) else port["chosen"]
    return port.entry(choice["index"]) if choice else None


def is_link_local(gid: Mapping[str, Any]) -> bool:
    return bool(re.match(r"fe[89ab]", gid["gid"], re.IGNORECASE))


def is_unknown(host: Host, port: Port, key: str) -> bool:
    """Whether the probe could not find it out."""
    ports = f"devices.{port.device['name']}.ports"
    paths = (ports, f"{ports}.{port['port']}", f"{ports}.{port['port']}.{key}")
    return any(item["what"] in paths for item in host.each("rdma.unknown"))


def told(ports: Iterable[Port], text: str) -> str:
    return "; ".join(f"{port}: {text.format(**port.facts)}" for port in ports)


def possible_mtu(port: Port) -> int | None:
    """The largest that the port and the interface below it can carry."""
    if not port.roce or not port["netdev_mtu"] or not port["max_mtu"]:
        return None
    payload: int = port["netdev_mtu"] - _ROCE_HEADERS
    largest: int = port["max_mtu"]
    return min(largest, next((mtu for mtu in MTUS if mtu <= payload), MTUS[-1]))
