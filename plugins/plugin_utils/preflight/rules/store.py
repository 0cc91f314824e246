# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory and disks for what the plan brings into the KV pool."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import sizes
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import size, some

_HUGEPAGES, _PAGE_SIZE, _PAGE_DEFAULT = "MC_STORE_USE_HUGEPAGE", "MC_STORE_HUGEPAGE_SIZE", "2MB"
_SEGMENT = "--global_segment_size="
_MEMORY_FILESYSTEMS = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
_STORAGE = "mooncake-store/src/file_storage.cpp and storage_backend.cpp@v0.3.11"


def _shares(host: Host, hugepages: bool) -> list[Mapping[str, Any]]:
    """Processes that bring memory from the one place or the other, with what they have not taken yet."""
    shared = host.cluster.get("environment") or {}
    found: list[Mapping[str, Any]] = []
    for process in host.processes:
        memory = _to_take(host, process)
        if not memory:
            continue
        own = process["unit"].get("environment") or {}
        # engines alone have the environment that all of them share
        merged = own if process["kind"] == "store" else {**shared, **own}
        if (_HUGEPAGES in merged) == hugepages:
            found.append({"name": process["name"], "memory": memory, "environment": merged})
    return found


def _to_take(host: Host, process: Mapping[str, Any]) -> int:
    """Of what runs, what a restart as planned would take more than it has; nothing when that is not told."""
    if not process.get("pool"):
        return 0
    memory = int(process["pool"]["memory"])
    if not _runs(host, process):
        return memory
    planned, taken = _of_a_worker(process["unit"]), host.units[process["unit"]["name"]].get("pool_bytes")
    return 0 if taken is None or planned <= taken else memory * (planned - taken) // planned


def _of_a_worker(unit: Mapping[str, Any]) -> int:
    """As host_info reads it of what runs."""
    for word in unit.get("argv") or ():
        if word.startswith(_SEGMENT):
            return int(word[len(_SEGMENT) :])
    told = (json.loads(file["content"]) for file in unit.get("files") or ())
    return sum(int(each[name]) for each in told for name in ("global_segment_size", "local_buffer_size"))


def _runs(host: Host, process: Mapping[str, Any]) -> bool:
    unit = host.units.get(process["unit"]["name"])
    return bool(unit and unit["active_state"] == "active")


def _told(shares: list[Mapping[str, Any]]) -> str:
    return some(f"{share['name']} {size(share['memory'])}" for share in shares)


@rule(
    "store-memory-short",
    family="host",
    about="there is memory for the segments and buffers of the pool",
    why="A client ends with 'Failed to allocate segment memory', or the kernel kills engines once the pool is full.",
    source="mooncake-store/src/real_client.cpp of 0.3.13.post1; segments are per worker and not per host",
)
def memory_short(host: Host) -> Iterator[Found]:
    shares, available = _shares(host, hugepages=False), host.fact("host.memory.available")
    needed = sum(share["memory"] for share in shares)
    if available is not None and needed > available:
        yield Found(
            what=f"segments and buffers of the pool need {size(needed)}, and {size(available)} is available",
            evidence=_told(shares),
            fix="lower segment_size or buffer_size of store in the topology, or end what else takes memory.",
        )


@rule(
    "store-hugepages-short",
    family="host",
    about="there are hugepages for the segments and buffers of the pool",
    why="The store maps its memory with hugepages only: it ends with 'mmap failed ... errno=12' (std::bad_alloc).",
    source="mooncake-store of Mooncake 0.3.13.post1, seen; scripts/check_hicache_hugepage_requirements.py",
    cases=("C-015", "C-070"),
)
def hugepages_short(host: Host) -> Iterator[Found]:
    pages = {entry["size"]: entry for entry in host.each("host.hugepages.sizes")}
    if host.fact("host.hugepages.sizes") is None:
        return
    wanted: dict[int, list[Mapping[str, Any]]] = {}
    for share in _shares(host, hugepages=True):
        asked = sizes.size(share["environment"].get(_PAGE_SIZE, _PAGE_DEFAULT))
        wanted.setdefault(asked or 0, []).append(share)
    for page, shares in wanted.items():
        entry = pages.get(page)
        free = max(entry["free"] - entry["reserved"], 0) if entry else 0
        needed = sum(-(-share["memory"] // page) for share in shares) if page else 0
        if needed > free:
            yield Found(
                what=f"the pool needs {needed} hugepages of {size(page)}, and {free} are free",
                evidence=_told(shares),
                fix=f"reserve them (vm.nr_hugepages, on a busy host at boot), or take out {_HUGEPAGES}.",
            )


def _disks(host: Host) -> Iterator[tuple[dict[str, Any], int, bool]]:
    """The folder of each disk as it is, what may be written there, and whether a client has written there already."""
    asked: dict[str, tuple[int, bool]] = {}
    for process in host.processes:
        disk = (process.get("pool") or {}).get("disk")
        if disk:
            quota, used = asked.get(disk["path"], (0, False))
            asked[disk["path"]] = (quota + disk["quota"], used or _runs(host, process))
    for path in host.each("host.paths"):
        if path["purpose"] == "ssd" and path["path"] in asked:
            yield (path, *asked[path["path"]])


@rule(
    "store-disk-small",
    family="host",
    about="the disk of the pool has room for its quota",
    why="Beyond it, files are written in part or not at all, and whatever else lies on the disk has no room either.",
    source=_STORAGE,
)
def disk_small(host: Host) -> Iterator[Found]:
    for path, quota, runs in _disks(host):
        if path["free"] is None or path["total"] is None:
            continue
        # what is used may be the pool's own of an earlier run
        if quota > path["total"] or (quota > path["free"] and path["type"] == "missing"):
            severity = None
        elif quota > path["free"] and not runs:
            severity = "warning"
        else:
            continue
        yield Found(
            what=f"{path['path']} may take {size(quota)}, and {path['mount']} has {size(path['free'])} left of"
            f" {size(path['total'])}",
            fix="lower quota of ssd in the topology, free space, or name another disk.",
            severity=severity,
        )


@rule(
    "store-disk-memory",
    family="host",
    about="the disk of the pool is one",
    why="What is evicted from memory would be written to memory again, and be gone after a boot.",
    source=_STORAGE,
)
def disk_memory(host: Host) -> Iterator[Found]:
    for path, _quota, _runs_already in _disks(host):
        if path["filesystem"] in _MEMORY_FILESYSTEMS:
            yield Found(
                what=f"{path['path']} lies on {path['filesystem']} ({path['mount']})",
                fix="mount a disk there, or name a folder on one (ssd.path of the topology).",
            )


@rule(
    "store-disk-folder",
    family="host",
    about="the disk of the pool can be written",
    why="A client with a disk ends at its start ('storage_filepath does not exist') where its folder is none. Where the"
    " disk is not mounted, the file system below it would be filled instead.",
    source=_STORAGE,
)
def disk_folder(host: Host) -> Iterator[Found]:
    for path, _quota, _runs_already in _disks(host):
        if path["type"] in ("file", "other"):
            yield Found(what=f"{path['path']} is no folder", fix="move it away, or name another path.")
        elif path["type"] == "missing" and path["nearest"] not in (None, posixpath.dirname(path["path"])):
            yield Found(
                what=f"{posixpath.dirname(path['path'])} is not there, in which {path['path']} would be made",
                fix="mount the disk, or make that folder.",
            )
        elif path["type"] == "directory" and path["mount"] == path["path"]:
            yield Found(
                what=f"{path['path']} is where a disk is mounted: a boot without it would fill the file system below",
                fix="name a folder on it (ssd.path of the topology).",
            )
        elif path["read_only"]:
            yield Found(
                what=f"{path['mount']} is mounted read-only, and {path['path']} lies there",
                fix="journalctl -k shows why; repair and remount it, or choose another place.",
            )
