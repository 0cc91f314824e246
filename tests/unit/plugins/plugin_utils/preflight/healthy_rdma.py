# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What rdma_info says of a healthy host: one RoCE adapter, whose RoCE v2 GID has the host's address."""

from __future__ import annotations

from typing import Any

V1, V2 = "IB/RoCE v1", "RoCE v2"
ADDRESS = "192.0.2.11"


def mapped(address: str) -> str:
    """The GID of an IPv4 address, as sysfs writes it."""
    numbers = [int(part) for part in address.split(".")]
    return "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*numbers)


def gid(index: int, kind: str, address: str, netdev: str | None = "ens10np0") -> dict[str, Any]:
    """`address` is an IPv4 address or a whole GID."""
    ipv4 = "." in address
    return {
        "index": index,
        "gid": mapped(address) if ipv4 else address,
        "type": kind,
        "address": address if ipv4 else None,
        "netdev": netdev,
    }


def chosen(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in ("index", "gid", "address")}


def port(address: str = ADDRESS, number: int = 1, netdev: str = "ens10np0", **changes: Any) -> dict[str, Any]:
    """An active RoCE port. What Mooncake would take is the entry with the address, unless `chosen` says otherwise."""
    local = "fe80:0000:0000:0000:0a00:5eff:fe00:0001"
    gids = [
        gid(0, V1, local, netdev),
        gid(1, V2, local, netdev),
        gid(2, V1, address, netdev),
        gid(3, V2, address, netdev),
    ]
    return {
        "port": number,
        "state": "ACTIVE",
        "phys_state": "LinkUp",
        "link_layer": "Ethernet",
        "rate": 200.0,
        "active_mtu": 4096,
        "max_mtu": 4096,
        "netdev": netdev,
        "netdev_mtu": 9000,
        "gids": gids,
        "chosen": chosen(gids[3]),
        **changes,
    }


def device(name: str = "mlx5_0", address: str = ADDRESS, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "driver": "mlx5_core",
        "firmware": "28.41.1000",
        "board": "MT_0000000838",
        "numa_node": 0,
        "netdevs": ["ens10np0"],
        "guid": "0a00:5e03:0000:0001",
        "pci": {"address": "0000:5e:00.0", "speed": 16.0, "width": 16, "max_speed": 16.0, "max_width": 16},
        "max_mr_size": 2**64 - 1,
        "ports": [port(address)],
        **changes,
    }


def rdma(address: str = ADDRESS, **changes: Any) -> dict[str, Any]:
    return {
        "devices": [device(address=address)],
        "tools": {"ibv_devinfo": "/usr/bin/ibv_devinfo", "ib_write_bw": "/usr/bin/ib_write_bw"},
        "modules": ["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib", "rdma_cm"],
        "unknown": [],
        **changes,
    }
