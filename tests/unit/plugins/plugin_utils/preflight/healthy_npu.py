# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What npu_info and hccn_info return of healthy hosts. `number` tells hosts of one cluster apart."""

from __future__ import annotations

from typing import Any

Facts = dict[str, Any]

MIB = 1024 * 1024
ASCEND = "/usr/local/Ascend"
BUSES = ("C1", "C2", "81", "82", "01", "02", "41", "42")


def npu(number: int = 1, **changes: Any) -> Facts:
    """npu_info of an A3 host: 16 chips on 8 cards."""
    chips = [
        _chip(i, card=i // 2, chip=i % 2, name="Ascend910", power=165.5 if i % 2 == 0 else None) for i in range(16)
    ]
    superpod = [
        {"chip": i, "superpod": 7, "sdid": 117440512 + number * 4194304 + i, "size": 384, "server_index": number}
        for i in range(16)
    ]
    return {**_npu(number, chips), "superpod": superpod, "generation": "A3", **changes}


def npu_a2(number: int = 1, **changes: Any) -> Facts:
    """npu_info of an A2 host: 8 chips."""
    chips = [_chip(i, card=i, chip=0, name="910B3", power=92.5) for i in range(8)]
    return {**_npu(number, chips), "superpod": [], "generation": "A2", **changes}


def hccn(number: int = 1, **changes: Any) -> Facts:
    """hccn_info of an A3 host."""
    return {**_hccn([_port(number, i, vnic=f"198.18.{number}.{110 + i}") for i in range(16)]), **changes}


def hccn_a2(number: int = 1, **changes: Any) -> Facts:
    """hccn_info of an A2 host."""
    return {**_hccn([_port(number, i, vnic="") for i in range(8)]), **changes}


def pings(peer: str, number: int, chips: int = 16) -> list[Facts]:
    """The rail pings of an A3 host to the host `number`, in hccn's `pings`."""
    return [
        {
            "chip": i,
            "address": f"198.18.{number}.{110 + i}",
            "plane": "hccs",
            "peer": peer,
            "ok": True,
            "loss": None,
            "time": None,
        }
        for i in range(chips)
    ]


def pings_a2(peer: str, number: int, chips: int = 8) -> list[Facts]:
    """The rail pings of an A2 host to the host `number`."""
    return [
        {
            "chip": i,
            "address": f"198.18.{number}.{10 + i}",
            "plane": "roce",
            "peer": peer,
            "ok": True,
            "loss": 0.0,
            "time": 0.08,
        }
        for i in range(chips)
    ]


def _chip(number: int, **more: Any) -> Facts:
    return {
        "id": number,
        "phy_id": number,
        "health": "OK",
        "bus_id": f"0000:{BUSES[more['card'] % 8]}:0{more['chip']}.0",
        "aicore": 0,
        "hbm_used": (3100 + number) * MIB,
        "hbm_total": 65536 * MIB,
        "temperature": 36,
        **more,
    }


def _npu(number: int, chips: list[Facts]) -> Facts:
    numbers = [str(chip["id"]) for chip in chips]
    return {
        "tool": {"path": "/usr/local/bin/npu-smi", "version": "25.5.0"},
        "chips": chips,
        "processes": [],
        "driver": {"version": "25.5.0", "path": f"{ASCEND}/driver/version.info"},
        "firmware": {"version": "7.8.0.5.216", "path": f"{ASCEND}/firmware/version.info"},
        "cann": [
            {
                "path": f"{ASCEND}/ascend-toolkit/9.1.0",
                "package": "Ascend-cann-toolkit",
                "version": "9.1.0",
                "set_env": f"{ASCEND}/ascend-toolkit/set_env.sh",
                "arch": "aarch64",
            },
            {
                "path": f"{ASCEND}/nnal/atb/9.1.0",
                "package": "atb",
                "version": "9.1.0",
                "set_env": f"{ASCEND}/nnal/atb/set_env.sh",
                "arch": None,
            },
        ],
        "devices": {
            "davinci": [int(n) for n in numbers],
            "manager": _node("/dev/davinci_manager"),
            "devmm_svm": _node("/dev/devmm_svm"),
            "hisi_hdc": _node("/dev/hisi_hdc"),
            "group": "HwHiAiUser",
            "members": ["HwHiAiUser", "pd"],
        },
        "hccn_conf": {
            "type": "file",
            "crlf": False,
            "addresses": {n: f"198.18.{number}.{10 + int(n)}" for n in numbers},
            "netmasks": dict.fromkeys(numbers, "255.255.0.0"),
            "gateways": dict.fromkeys(numbers, "198.18.0.1"),
            "netdetect": dict.fromkeys(numbers, "198.18.0.1"),
            "tls": dict.fromkeys(numbers, "0"),
            "repeated": [],
            "bad_lines": [],
            "empty": [],
        },
        "unknown": [],
    }


def _node(path: str) -> Facts:
    return {"path": path, "exists": True, "mode": "0660", "owner": "HwHiAiUser", "group": "HwHiAiUser"}


def _hccn(chips: list[Facts]) -> Facts:
    return {"tool": f"{ASCEND}/driver/tools/hccn_tool", "chips": chips, "pings": [], "unknown": []}


def _port(number: int, chip: int, vnic: str) -> Facts:
    return {
        "id": chip,
        "link": "UP",
        "net_health": "Success",
        "lldp": {"port": f"200GE2/0/{chip // 2 + 1}:{chip % 2 + 1}", "switch": f"leaf-{chip % 4 + 1}"},
        "netdetect": "198.18.0.1",
        "gateway": "198.18.0.1",
        "address": f"198.18.{number}.{10 + chip}",
        "netmask": "255.255.0.0",
        "tls": 0,
        "vnic": vnic,
        "speed": 200000,
        "mtu": 4200,
    }
