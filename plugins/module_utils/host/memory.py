# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory: how much, on which NUMA node, and the huge pages that were asked for and that there are."""

from __future__ import annotations

import os
import re
from typing import Any, Iterator, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.host.kernel import numbers
from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_POOLS = "/sys/kernel/mm/hugepages"
_NODES = "/sys/devices/system/node"
# sysctl.d(5): a file hides those of the same name in later folders; procps reads /etc/sysctl.conf last
_SYSCTL_D = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")


def parse_meminfo(text: str) -> dict[str, int]:
    """Bytes, or a count for lines without a unit; also of a node (`Node 0 MemTotal: 1 kB`)."""
    found = {}
    for name, value, unit in re.findall(r"^(?:Node \d+ )?([\w()]+):\s+(\d+)[ \t]*(kB)?", text, re.MULTILINE):
        found[name] = int(value) * (1024 if unit else 1)
    return found


def size(text: str) -> Optional[int]:
    """2M, 1G, 524288K as the kernel's command line has it."""
    match = re.fullmatch(r"(\d+)([kmgt]?)", text.strip().lower())
    return int(match.group(1)) * _UNITS[match.group(2)] if match else None


def asked_at_boot(cmdline: str, default: Optional[int]) -> list[dict[str, Any]]:
    """hugepages= counts for the hugepagesz= before it; it may be told per node (hugepages=0:512,1:512)."""
    found = []
    current = default
    for word in cmdline.split():
        key, _equals, value = word.partition("=")
        if key == "hugepagesz":
            current = size(value)
        elif key == "hugepages" and current:
            pages = [int(part.rpartition(":")[2]) for part in value.split(",") if part.rpartition(":")[2].isdigit()]
            if pages:
                found.append({"size": current, "pages": sum(pages), "where": "/proc/cmdline"})
    return found


def asked_by_sysctl(text: str) -> list[int]:
    return [int(pages) for pages in re.findall(r"^\s*-?vm[./]nr_hugepages\s*=\s*(\d+)\s*$", text, re.MULTILINE)]


def memory(look: Look) -> dict[str, Optional[int]]:
    keys = {"total": "MemTotal", "available": "MemAvailable", "swap_total": "SwapTotal", "swap_free": "SwapFree"}
    text = look.text("/proc/meminfo", "memory")
    found = parse_meminfo(text or "")
    for key, name in keys.items():
        if text is not None and name not in found:
            look.unknown(f"memory.{key}", f"/proc/meminfo has no {name}.", text)
    return {key: found.get(name) for key, name in keys.items()}


def _nodes(look: Look) -> list[int]:
    if not look.exists(_NODES):
        return []
    return sorted(int(name[4:]) for name in look.listing(_NODES) if re.fullmatch(r"node\d+", name))


def numa(look: Look) -> list[dict[str, Optional[int]]]:
    """Empty where the kernel knows of no NUMA."""
    if not look.exists(os.path.dirname(_NODES)):
        look.unknown("numa", f"There is no {os.path.dirname(_NODES)}.")
    entries = []
    for node in _nodes(look):
        cpus = look.text(f"{_NODES}/node{node}/cpulist", "numa")
        text = look.text(f"{_NODES}/node{node}/meminfo", "numa")
        found = parse_meminfo(text or "")
        if text is not None and not {"MemTotal", "MemFree"} <= found.keys():
            look.unknown("numa", f"The memory of node {node} is told in a way that is not understood.", text)
        entries.append(
            {
                "node": node,
                "cpus": len(numbers(cpus)) if cpus is not None else None,
                "memory_total": found.get("MemTotal"),
                "memory_free": found.get("MemFree"),
            }
        )
    return entries


def hugepages(look: Look) -> dict[str, Any]:
    text = look.text("/proc/meminfo", "hugepages")
    meminfo = parse_meminfo(text or "")
    default = meminfo.get("Hugepagesize")  # a kernel may be built without
    cmdline = look.text("/proc/cmdline", "hugepages.asked")
    asked = asked_at_boot(cmdline or "", default)
    for path, content in _sysctl_files(look):
        for pages in asked_by_sysctl(content):
            asked.append({"size": default, "pages": pages, "where": path})
    sizes = [_pool(look, pool) for pool in look.listing(_POOLS)] if look.exists(_POOLS) else []
    if default and not sizes:  # sysfs may be hidden in a container
        keys = {"total": "Total", "free": "Free", "reserved": "Rsvd", "surplus": "Surp"}
        counts = {key: meminfo.get(f"HugePages_{name}") for key, name in keys.items()}
        sizes = [{"size": default, **counts, "nodes": []}]
        look.unknown("hugepages.sizes", f"{_POOLS} lists none: other sizes, and the nodes, cannot be told.")
    sizes.sort(key=lambda entry: int(entry["size"]))
    return {"default_size": default, "sizes": sizes, "asked": asked}


def _pool(look: Look, name: str) -> dict[str, Any]:
    def count(folder: str, what: str) -> Optional[int]:
        return look.number(f"{folder}/{name}/{what}_hugepages", "hugepages.sizes")

    bytes_ = int(name[len("hugepages-") : -len("kB")]) * 1024
    nodes = [node for node in _nodes(look) if look.exists(f"{_NODES}/node{node}/hugepages/{name}")]
    return {
        "size": bytes_,
        "total": count(_POOLS, "nr"),
        "free": count(_POOLS, "free"),
        "reserved": count(_POOLS, "resv"),
        "surplus": count(_POOLS, "surplus"),
        "nodes": [
            {
                "node": node,
                "total": count(f"{_NODES}/node{node}/hugepages", "nr"),
                "free": count(f"{_NODES}/node{node}/hugepages", "free"),
            }
            for node in nodes
        ],
    }


def _sysctl_files(look: Look) -> Iterator[tuple[str, str]]:
    """In the order in which they are applied: the last one counts."""
    files: dict[str, str] = {}
    for folder in _SYSCTL_D:
        for name in look.listing(folder) if look.exists(folder) else []:
            if name.endswith(".conf"):
                files.setdefault(name, f"{folder}/{name}")
    paths = [path for _name, path in sorted(files.items())]
    # 99-sysctl.conf is often a link to it
    main = "/etc/sysctl.conf"
    if look.exists(main) and not any(_same(look, path, main) for path in paths):
        paths.append(main)
    if not look.exists("/etc"):
        look.unknown("hugepages.asked", "There is no /etc.")
    for path in paths:
        if look.exists(path):  # a link to /dev/null hides a file
            text = look.text(path, "hugepages.asked")
            if text:
                yield path, text


def _same(look: Look, one: str, other: str) -> bool:
    return os.path.realpath(look.at(one)) == os.path.realpath(look.at(other))


def transparent(look: Look) -> Optional[str]:
    text = look.optional("/sys/kernel/mm/transparent_hugepage/enabled", "transparent_hugepages")
    if text is None:
        return None
    match = re.search(r"\[(\w+)\]", text)
    if not match:
        look.unknown("transparent_hugepages", "The kernel's text marks none of them.", text)
        return None
    return match.group(1)
