# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is only looked at: who keeps the time, who else tunes, and on which NUMA node the devices lie."""

from __future__ import annotations

import os
import re
from typing import Any, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree

# names of the processes, as /proc/PID/comm has them
_KEEPERS = ("chronyd", "ntpd", "ntpsec", "openntpd", "ptp4l", "phc2sys", "systemd-timesyn", "systemd-timesyncd")
# pci.ids: Huawei; class 0x1200 is a processing accelerator
_HUAWEI, _ACCELERATOR = "0x19e5", "0x1200"
_NICS, _PCI = "/sys/class/net", "/sys/bus/pci/devices"


def keepers(tree: Tree) -> list[str]:
    """Processes that keep the time, in this very host or container."""
    found = set()
    for name in tree.listing("/proc"):
        comm = (tree.read(f"/proc/{name}/comm") or "").strip() if name.isdigit() else ""
        if comm in _KEEPERS:
            found.add("systemd-timesyncd" if comm.startswith("systemd-timesyn") else comm)
    return sorted(found)


def tuned(tree: Tree) -> Optional[str]:
    """Profile of a running tuned, which sets such values, too, and may set them back."""
    if not tree.exists("/run/tuned/tuned.pid"):
        return None
    return (tree.read("/etc/tuned/active_profile") or "").strip() or None


def _node(tree: Tree, folder: str) -> Optional[int]:
    text = (tree.read(f"{folder}/numa_node") or "").strip()
    return int(text) if text.isdigit() else None  # -1: the firmware does not say


def numa(tree: Tree) -> dict[str, Any]:
    nodes = [int(name[4:]) for name in tree.listing("/sys/devices/system/node") if re.fullmatch(r"node\d+", name)]
    nics = [
        {"name": name, "node": _node(tree, f"{_NICS}/{name}/device")}
        for name in tree.listing(_NICS)
        if tree.exists(f"{_NICS}/{name}/device")
    ]
    npus = [
        {"address": name, "node": _node(tree, f"{_PCI}/{name}")}
        for name in tree.listing(_PCI)
        if (tree.read(f"{_PCI}/{name}/vendor") or "").strip() == _HUAWEI
        and (tree.read(f"{_PCI}/{name}/class") or "").startswith(_ACCELERATOR)
    ]
    return {"nodes": sorted(nodes), "nics": nics, "npus": npus}


def capable(tree: Tree, bit: int, pid: str = "self") -> bool:
    """Whether a process has a capability, by its number in capabilities(7)."""
    match = re.search(r"^CapEff:\s+([0-9a-f]+)", tree.read(f"/proc/{pid}/status") or "", re.MULTILINE)
    return bool(match and int(match.group(1), 16) >> bit & 1)


def mounted(tree: Tree, place: str) -> Optional[tuple[str, list[str]]]:
    """Type and options of what is mounted there, the topmost."""
    found = None
    for line in (tree.read("/proc/self/mounts") or "").splitlines():
        words = line.split()
        if len(words) > 3 and words[1] == place:
            found = (words[2], words[3].split(","))
    return found


def space(tree: Tree, place: str) -> tuple[int, int]:
    """Bytes in all and in use."""
    state = os.statvfs(tree.at(place))
    return state.f_blocks * state.f_frsize, (state.f_blocks - state.f_bfree) * state.f_frsize
