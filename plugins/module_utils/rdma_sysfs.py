# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""RDMA devices as the kernel shows them in /sys, below any root."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional

from ansible_collections.mooncake.pd.plugins.module_utils import masking, rdma_gids

# Those that matter to transfers; what is built into the kernel has a folder in /sys/module as well.
MODULES = (
    "ib_core",
    "ib_uverbs",
    "rdma_cm",
    "rdma_ucm",
    "mlx5_core",
    "mlx5_ib",
    "erdma",
    "hns_roce_hw_v2",
    "irdma",
    "bnxt_re",
    "efa",
    "rdma_rxe",
    "siw",
    "nvidia",
    "nvidia_peermem",
    "nv_peer_mem",
)
_CLASS = "sys/class/infiniband"
_PCI = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_STATE = re.compile(r"\d+:\s*(\S+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class Tree:
    """Reads below one root, and remembers what could not be found out."""

    def __init__(self, root: str = "/", mooncake_version: str = "") -> None:
        self.root = root
        self.mooncake_version = mooncake_version
        self.unknown: List[Dict[str, str]] = []

    def doubt(self, what: str, why: str, raw: str = "") -> None:
        self.unknown.append({"what": what, "why": masking.masked(why), "raw": masking.raw(raw)})

    def path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def names(self, *parts: str) -> List[str]:
        try:
            return sorted(os.listdir(self.path(*parts)), key=_natural)
        except OSError:
            return []

    def text(self, *parts: str) -> Optional[str]:
        try:
            with open(self.path(*parts), encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:  # not there, or an empty entry of a table
            return None

    def number(self, *parts: str) -> Optional[int]:
        value = self.text(*parts)
        return int(value) if value and re.fullmatch(r"-?\d+", value) else None

    def link(self, *parts: str) -> Optional[str]:
        """Name of what a link leads to."""
        path = self.path(*parts)
        return os.path.basename(os.path.realpath(path)) if os.path.lexists(path) else None

    def modules(self) -> List[str]:
        loaded = {name for name in MODULES if os.path.isdir(self.path("sys/module", name))}
        if os.path.isdir(self.path("sys/class/infiniband_verbs")):
            loaded.add("ib_uverbs")  # makes that class, also where it is built in and shows no folder
        return sorted(loaded)

    def devices(self) -> List[Dict[str, Any]]:
        try:
            names = os.listdir(self.path(_CLASS))
        except FileNotFoundError:
            return []
        except OSError as error:
            self.doubt("devices", f"/{_CLASS} cannot be read: {error.strerror}.")
            return []
        return [self._device(name) for name in sorted(names, key=_natural)]

    def _device(self, name: str) -> Dict[str, Any]:
        place = f"{_CLASS}/{name}"
        what = f"devices.{name}"
        pci = self._pci(place, what)
        numa_node = self.number(place, "device/numa_node")
        if numa_node is None and self._on_pci(place):
            self.doubt(f"{what}.numa_node", "The kernel does not tell the NUMA node of the PCI device.")
        netdevs = self.names(place, "device/net")
        guid = self.text(place, "node_guid")
        if guid is None:
            self.doubt(f"{what}.guid", "sysfs shows no node_guid of the device.")
        ports = [self._port(place, what, int(port), netdevs) for port in self.names(place, "ports") if port.isdigit()]
        if not ports:
            self.doubt(f"{what}.ports", "sysfs shows no port of the device.")
        seen = {gid["netdev"] for port in ports for gid in port["gids"] if gid["netdev"]}
        return {
            "name": name,
            "driver": self.link(place, "device/driver"),
            "firmware": self.text(place, "fw_ver") or None,
            "board": self.text(place, "board_id") or None,
            "numa_node": numa_node,
            "netdevs": sorted({*netdevs, *seen}, key=_natural),
            "guid": guid,
            "pci": pci,
            "max_mr_size": None,
            "ports": ports,
        }

    def _pci(self, place: str, what: str) -> Optional[Dict[str, Any]]:
        """The PCI link; None for devices without one: in software, or part of the CPU as those of a Kunpeng are."""
        # a virtual function has no link of its own
        link = "device/physfn" if os.path.exists(self.path(place, "device/physfn")) else "device"
        pci: Dict[str, Any] = {
            "address": self.link(place, "device"),
            "speed": self._speed(place, link, "current_link_speed"),
            "width": self._width(place, link, "current_link_width"),
            "max_speed": self._speed(place, link, "max_link_speed"),
            "max_width": self._width(place, link, "max_link_width"),
        }
        if not self._on_pci(place) or (pci["max_speed"] is None and pci["max_width"] is None):
            return None
        for key, name in (("speed", "current_link_speed"), ("width", "current_link_width")):
            if pci[key] is None:
                raw = self.text(place, link, name) or ""
                self.doubt(f"{what}.pci.{key}", f"The PCI link tells no {name}.", raw)
        for key in ("max_speed", "max_width"):
            if pci[key] is None:
                self.doubt(f"{what}.pci.{key}", "The PCI link does not tell what it is capable of.")
        return pci

    def _on_pci(self, place: str) -> bool:
        return bool(_PCI.fullmatch(self.link(place, "device") or ""))

    def _speed(self, *parts: str) -> Optional[float]:
        match = _NUMBER.match(self.text(*parts) or "")  # "16.0 GT/s PCIe"; "Unknown"
        return float(match[0]) if match else None

    def _width(self, *parts: str) -> Optional[int]:
        width = self.number(*parts)
        return width if width and width < 255 else None  # 0 and 255 stand for unknown

    def _port(self, device: str, what: str, number: int, netdevs: List[str]) -> Dict[str, Any]:
        place = f"{device}/ports/{number}"
        what = f"{what}.ports.{number}"
        link_layer = self.text(place, "link_layer")
        port: Dict[str, Any] = {
            "port": number,
            "state": self._state(place, "state"),
            "phys_state": self._state(place, "phys_state"),
            "link_layer": link_layer,
            "rate": self._speed(place, "rate"),
            "active_mtu": None,
            "max_mtu": None,
        }
        for key in ("state", "phys_state", "link_layer", "rate"):
            if port[key] is None:
                self.doubt(f"{what}.{key}", f"/sys/class/infiniband does not tell {key}.", self.text(place, key) or "")
        gids, complete = self._gids(place, what)
        choice = rdma_gids.chosen(gids, link_layer or "", self.mooncake_version) if complete else None
        netdev = self._netdev(gids, choice, number, netdevs)
        mtu = self.number("sys/class/net", netdev, "mtu") if netdev else None
        if netdev and mtu is None:
            self.doubt(f"{what}.netdev_mtu", f"The MTU of {netdev} cannot be read; it may lie in a network namespace.")
        shown = [gid.as_dict() for gid in gids]
        taken = next((gid for gid in shown if choice and gid["index"] == choice.index), None)
        return {
            **port,
            "netdev": netdev,
            "netdev_mtu": mtu,
            "gids": shown,
            "chosen": {key: taken[key] for key in ("index", "gid", "address")} if taken else None,
        }

    def _state(self, place: str, name: str) -> Optional[str]:
        match = _STATE.match(self.text(place, name) or "")  # "4: ACTIVE"
        return match[1] if match else None

    def _gids(self, place: str, what: str) -> tuple[List[rdma_gids.Gid], bool]:
        """The entries in use, and whether these are all."""
        found = []
        complete = True
        names = [name for name in self.names(place, "gids") if name.isdigit()]
        if not names:
            self.doubt(f"{what}.gids", "sysfs shows no GID table.")
            self.doubt(f"{what}.chosen", "Which GID Mooncake takes cannot be told without the GID table.")
            return [], False
        for name in names:
            raw = self.text(place, "gids", name)
            gid = rdma_gids.parse_gid(raw or "")
            if gid is None:
                complete = False
                self.doubt(f"{what}.gids", f"Entry {name} of the GID table is not understood.", raw or "")
                continue
            kind = self.text(place, "gid_attrs/types", name)
            if not kind:
                if any(char not in "0:" for char in gid):
                    complete = False
                    self.doubt(f"{what}.gids", f"Entry {name} of the GID table ({gid}) tells no type.")
                continue  # the kernel tells no type of an empty entry
            found.append(rdma_gids.Gid(int(name), gid, kind, self.text(place, "gid_attrs/ndevs", name) or None))
        if not complete:
            self.doubt(f"{what}.chosen", "Which GID Mooncake takes cannot be told without the whole GID table.")
        return found, complete

    def _netdev(
        self, gids: List[rdma_gids.Gid], choice: Optional[rdma_gids.Gid], number: int, netdevs: List[str]
    ) -> Optional[str]:
        if choice and choice.netdev:
            return choice.netdev
        told = next((gid.netdev for gid in gids if gid.netdev), None)
        if told:
            return told
        # ports of one adapter are told apart by dev_port, which counts from 0
        own = [name for name in netdevs if self.number("sys/class/net", name, "dev_port") == number - 1]
        return own[0] if own else netdevs[0] if len(netdevs) == 1 and number == 1 else None


def _natural(name: str) -> List[Any]:
    """mlx5_2 before mlx5_10"""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
