# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What only verbs tell: the text of `ibv_devinfo -v`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, Optional

# libibverbs/examples/devinfo.c@rdma-core-50.0
_LINE = re.compile(r"\s*(\w+):\s*(.*?)\s*$")
_MTU = re.compile(r"(\d+)(?: \(\d+\))?$")


@dataclass
class Port:
    active_mtu: Optional[int] = None
    max_mtu: Optional[int] = None


@dataclass
class Device:
    firmware: Optional[str] = None
    max_mr_size: Optional[int] = None
    ports: Dict[int, Port] = field(default_factory=dict)


def parse_devinfo(text: str) -> Dict[str, Device]:
    """Devices by name; what the text does not tell, or not in a way that is understood, is None."""
    devices: Dict[str, Device] = {}
    device: Optional[Device] = None
    port: Optional[Port] = None
    for line in text.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        key, value = match.groups()
        if key == "hca_id":
            device = devices.setdefault(value, Device())
            port = None
        elif device is None:
            continue
        elif key == "fw_ver":
            device.firmware = value or None
        elif key == "max_mr_size":
            device.max_mr_size = _number(value)
        elif key == "port" and value.isdigit():
            port = device.ports.setdefault(int(value), Port())
        elif port is not None and key in ("active_mtu", "max_mtu"):
            mtu = _MTU.match(value)
            setattr(port, key, int(mtu[1]) if mtu else None)
    return devices


def _number(text: str) -> Optional[int]:
    try:
        return int(text, 0)
    except ValueError:
        return None
