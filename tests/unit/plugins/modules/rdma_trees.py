# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders that look like /sys of hosts with RDMA devices, and texts as ibv_devinfo -v prints them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

V1, V2 = "IB/RoCE v1", "RoCE v2"
EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"
LOCAL = "fe80:0000:0000:0000:0a00:5eff:fe00:0001"
LINK = {"current_link_speed": "16.0 GT/s PCIe", "current_link_width": "16"}
LINK_MAX = {"max_link_speed": "16.0 GT/s PCIe", "max_link_width": "16"}

Entry = tuple[str, str, str]  # GID, type, network interface


def mapped(address: str) -> str:
    a, b, c, d = (int(part) for part in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def roce(address: str, netdev: str) -> dict[int, Entry]:
    """The table of a port with one IPv4 address."""
    return {
        0: (LOCAL, V1, netdev),
        1: (LOCAL, V2, netdev),
        2: (mapped(address), V1, netdev),
        3: (mapped(address), V2, netdev),
    }


def port(
    device: Path, gids: dict[int, Entry], number: int = 1, table: int = 8, link: str = "Ethernet", **files: str
) -> None:
    place = device / "ports" / str(number)
    told = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "200 Gb/sec (4X HDR)",
        "link_layer": link,
        **files,
    }
    for name, text in told.items():
        write(place / name, text)
    for index in range(table):
        gid, kind, netdev = gids.get(index, (EMPTY, "", ""))
        write(place / "gids" / str(index), gid)
        if kind:  # the kernel refuses to tell those of an empty entry
            write(place / "gid_attrs/types" / str(index), kind)
            if netdev:
                write(place / "gid_attrs/ndevs" / str(index), netdev)


def device(
    root: Path,
    name: str,
    *,
    pci: str | None = "0000:5e:00.0",
    driver: str = "mlx5_core",
    numa: str | None = "0",
    netdevs: dict[str, dict[str, str]] | None = None,
    pci_files: dict[str, str] | None = None,
    **files: str,
) -> Path:
    """A device; `netdevs` are the network interfaces of its PCI function."""
    parent = root / "sys/devices/pci0000:5d" / pci if pci else root / "sys/devices/virtual"
    real = parent / "infiniband" / name
    told = {"fw_ver": "28.41.1000", "board_id": "MT_0000000838", "node_guid": "0a00:5e03:0000:0001", **files}
    for key, text in told.items():
        write(real / key, text)
    if pci:
        if numa is not None:
            write(parent / "numa_node", numa)
        for key, text in ({**LINK, **LINK_MAX} if pci_files is None else pci_files).items():
            write(parent / key, text)
        (root / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
        link(parent / "driver", root / "sys/bus/pci/drivers" / driver)
        link(real / "device", parent)
    for netdev, attributes in (netdevs or {}).items():
        (parent / "net" / netdev).mkdir(parents=True)
        network(root, netdev, **attributes)
    link(root / "sys/class/infiniband" / name, real)
    (root / "sys/class/infiniband_verbs").mkdir(parents=True, exist_ok=True)
    return real


def network(root: Path, name: str, mtu: str = "9000", dev_port: str = "0") -> None:
    write(root / "sys/class/net" / name / "mtu", mtu)
    write(root / "sys/class/net" / name / "dev_port", dev_port)


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_symlink():
        path.symlink_to(target)


def devinfo(*devices: dict[str, Any]) -> str:
    """What ibv_devinfo -v says; each device: name, mr (text), ports {number: (max, active)}."""
    lines = []
    for told in devices:
        lines += [f"hca_id:\t{told['name']}", "\ttransport:\t\t\tInfiniBand (0)", "\tfw_ver:\t\t\t\t28.41.1000"]
        lines += [f"\tmax_mr_size:\t\t\t{told.get('mr', '0xffffffffffffffff')}", "\tmax_qp:\t\t\t\t131072"]
        lines += [f"\tphys_port_cnt:\t\t\t{len(told['ports'])}"]
        for number, (largest, active) in told["ports"].items():
            lines += [f"\t\tport:\t{number}", "\t\t\tstate:\t\t\tPORT_ACTIVE (4)"]
            lines += [f"\t\t\tmax_mtu:\t\t{largest}", f"\t\t\tactive_mtu:\t\t{active}", "\t\t\tlink_layer:\t\tEthernet"]
            lines += [f"\t\t\tGID[  0]:\t\t{LOCAL}, RoCE v1"]
        lines += [""]
    return "\n".join(lines)
