# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory, hugepages, /dev/shm and what the kernel does with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import GIB, MIB, size, some

_HUGEPAGES = "MC_STORE_USE_HUGEPAGE"
_KERNEL_HUGEPAGES = "https://docs.kernel.org/admin-guide/mm/hugetlbpage.html"
# seen with a wheel of 0.3.13: without pages the engine ends with MemoryError
_POOL_HUGEPAGES = "mooncake-store of Mooncake 0.3.13.post1: MC_STORE_USE_HUGEPAGE counts by being set"


def _wants_hugepages(host: Host) -> bool:
    return any(_HUGEPAGES in environment for environment in host.environments)


@rule(
    "hugepages-given",
    family="host",
    severity="warning",
    about="the kernel gave the hugepages that it was asked for",
    why="Memory was in pieces when they were asked for; who counts on the number in sysctl.d runs out of them.",
    source=_KERNEL_HUGEPAGES,
    cases=("C-015",),
)
def hugepages_given(host: Host) -> Iterator[Found]:
    given = {entry["size"]: entry["total"] for entry in host.each("host.hugepages.sizes")}
    # what is read last wins: files of sysctl.d come after the command line, in the order of their names
    for page, asked in {entry["size"]: entry for entry in host.each("host.hugepages.asked")}.items():
        if given.get(page, 0) < asked["pages"]:
            yield Found(
                what=f"{given.get(page, 0)} of {asked['pages']} hugepages of {size(page)} are there",
                evidence=f"asked for by {asked['where']}",
                fix=(
                    "ask for them on the kernel command line (hugepages=N) and reboot, or free memory, then"
                    " `echo 1 > /proc/sys/vm/compact_memory` and apply the sysctl again."
                ),
            )


@rule(
    "hugepages-pool",
    family="host",
    about="a store that uses hugepages has free ones",
    why="The store maps its segment with hugepages only: the engine ends with 'mmap failed ... errno=12'.",
    source=_POOL_HUGEPAGES,
    cases=("C-015", "C-070"),
)
def hugepages_pool(host: Host) -> Iterator[Found]:
    sizes = host.fact("host.hugepages.sizes")
    if not _wants_hugepages(host) or sizes is None or host.running:
        return  # the service has what is taken
    if not any(entry["free"] - entry["reserved"] > 0 for entry in sizes):
        total = sum(entry["total"] for entry in sizes)
        yield Found(
            what=f"{_HUGEPAGES} is planned and no hugepage is free ({total} in all)",
            evidence=some(f"{size(e['size'])}: {e['free']} free, {e['reserved']} reserved" for e in sizes),
            fix=f"set vm.nr_hugepages for the segments of this host, or take {_HUGEPAGES} out of the topology.",
        )


@rule(
    "hugepages-uneven",
    family="host",
    severity="warning",
    about="hugepages lie on all NUMA nodes",
    why="Workers of a node without any fetch from another one, or fail where they are bound to theirs.",
    source=_KERNEL_HUGEPAGES,
    cases=("C-015",),
)
def hugepages_uneven(host: Host) -> Iterator[Found]:
    for entry in host.each("host.hugepages.sizes"):
        empty = [node["node"] for node in entry["nodes"] if not node["total"]]
        if entry["total"] and empty and _wants_hugepages(host):
            yield Found(
                what=f"NUMA node {some(empty)} has none of the {entry['total']} hugepages of {size(entry['size'])}",
                fix="set them for each node: /sys/devices/system/node/node*/hugepages/hugepages-*/nr_hugepages.",
            )


@rule(
    "hugepages-greedy",
    family="host",
    severity="warning",
    about="hugepages leave memory for everything else",
    why="Weights are read and tensors are pinned outside of hugepages; what is reserved cannot be used for them.",
    source="docs/source/user_guide/feature_guide/kv_pool.md@v0.23.0 of vllm-ascend asks for 200000 pages",
)
def hugepages_greedy(host: Host) -> Iterator[Found]:
    total, reserved = (
        host.fact("host.memory.total"),
        sum(e["size"] * (e["total"] or 0) for e in host.each("host.hugepages.sizes")),
    )
    if total and reserved > 0.8 * total:
        yield Found(
            what=f"hugepages take {size(reserved)} of {size(total)}",
            fix="lower vm.nr_hugepages to what the segments of this host need.",
        )


@rule(
    "hugepages-64k",
    family="host",
    severity="warning",
    about="hugepages have a size that the store knows",
    why="With kernel pages of 64 KiB the default hugepage is 512 MiB; the store counts in 2 MiB or 1 GiB.",
    source="https://github.com/kvcache-ai/Mooncake/pull/3789",
    cases=("C-015",),
)
def hugepages_64k(host: Host) -> Iterator[Found]:
    page, default = host.fact("host.kernel.page_size"), host.fact("host.hugepages.default_size")
    if _wants_hugepages(host) and page and default and default not in (2 * MIB, GIB):
        yield Found(
            what=f"kernel pages have {size(page)} and hugepages {size(default)}",
            fix="set MC_STORE_HUGEPAGE_SIZE to a size that both know, or boot a kernel with pages of 4 KiB.",
        )


@rule(
    "memory-low",
    family="host",
    severity="warning",
    about="there is memory to load weights with",
    why="Weights pass through the page cache and pinned buffers; the kernel kills the engine where they do not fit.",
    source="proc_meminfo(5), MemAvailable",
    cases=("C-079",),
)
def memory_low(host: Host) -> Iterator[Found]:
    total, available = host.fact("host.memory.total"), host.fact("host.memory.available")
    if host.engine and total and available is not None and available < 0.1 * total and not host.running:
        yield Found(
            what=f"{size(available)} of {size(total)} are available",
            fix="`ps aux --sort=-rss | head` shows who has it; hugepages that nobody uses count, too.",
        )


@rule(
    "memory-cgroup",
    family="host",
    severity="warning",
    about="services may use the memory of the host",
    why="At the limit of the control group the kernel kills the engine while the host has memory left.",
    source="https://docs.kernel.org/admin-guide/cgroup-v2.html (memory.max)",
    cases=("C-079",),
)
def memory_cgroup(host: Host) -> Iterator[Found]:
    total, most = host.fact("host.memory.total"), host.fact("host.cgroup.memory_max")
    if host.engine and total and most is not None and 0 <= most < total:
        yield Found(
            what=f"services may use {size(most)} of {size(total)}",
            fix="raise MemoryMax of the slice, or give the container that is this host more memory.",
        )


@rule(
    "swap-used",
    family="host",
    severity="warning",
    about="engines are not swapped out",
    why="A worker that waits for a page from the disk holds up all ranks of its group.",
    source="docs/source/developer_guide/performance_and_debug/optimization_and_tuning.md@v0.13.0 of vllm-ascend",
)
def swap_used(host: Host) -> Iterator[Found]:
    total, free = host.fact("host.memory.swap_total"), host.fact("host.memory.swap_free")
    if host.ascend and total and free is not None and free < 0.8 * total:
        yield Found(
            what=f"{size(total - free)} lie in swap",
            fix="free memory, then swapoff -a and swapon -a; sysctl -w vm.swappiness=0.",
        )


@rule(
    "shm-small",
    family="host",
    about="/dev/shm has room for the workers' messages",
    why="Workers talk through /dev/shm; a write beyond its end is a bus error without any text (exit code 135).",
    source="https://github.com/llm-d/llm-d/issues/352; docs of vllm-ascend run containers with --shm-size=1g",
    cases=("C-033",),
)
def shm_small(host: Host) -> Iterator[Found]:
    total = host.fact("host.shm.total")
    workers = len(host.devices)
    if not host.engine or total is None:
        return
    needed = GIB if workers > 1 else 32 * MIB
    if total < needed:
        yield Found(
            what=f"/dev/shm has {size(total)} for {workers or 1} worker(s)",
            fix="mount -o remount,size=50% /dev/shm (and in /etc/fstab); in a container --shm-size=16g or --ipc=host.",
        )


def _used(segment: dict[str, Any]) -> str:
    return {True: "in use", False: "no process has it open"}.get(segment["open"], "nobody knows whether it is in use")


@rule(
    "shm-full",
    family="host",
    about="/dev/shm is not full",
    why="The engine ends with 'No space left on device' or with a bus error as soon as it makes its queues.",
    source="https://github.com/llm-d/llm-d/issues/352",
    cases=("C-033",),
)
def shm_full(host: Host) -> Iterator[Found]:
    total, free, segments = (host.fact(f"host.shm.{name}") for name in ("total", "free", "segments"))
    if host.engine and total and free is not None and free < 0.1 * total:
        biggest = sorted(segments or (), key=lambda item: -item["size"])
        yield Found(
            what=f"/dev/shm has {size(free)} left of {size(total)}",
            evidence=some(f"{item['name']} ({size(item['size'])}, {item['owner']}, {_used(item)})" for item in biggest),
            fix="remove what no process has open: Seen tells it for the largest.",
        )


@rule(
    "shm-leftovers",
    family="host",
    severity="warning",
    about="no crashed engine left its shared memory behind",
    why="It is memory that nobody gives back; after a few crashes /dev/shm is full.",
    source="https://github.com/llm-d/llm-d/issues/352",
    cases=("C-033", "C-026"),
)
def shm_leftovers(host: Host) -> Iterator[Found]:
    sums = host.fact("host.shm.segments_total") or {}
    number, bytes_unused = sums.get("unused_count") or 0, sums.get("unused_size") or 0
    if host.engine and (bytes_unused > GIB or number > 100):
        unused = [item for item in host.each("host.shm.segments") if not item["open"]]
        yield Found(
            what=f"{number} segments of /dev/shm with {size(bytes_unused)} are used by no process",
            evidence=some(f"{item['name']} ({size(item['size'])}, {item['owner']})" for item in unused),
            fix="remove them, after `fuser -v /dev/shm/*` has shown that nobody has them open.",
        )


@rule(
    "shm-inodes",
    family="host",
    about="/dev/shm takes more files",
    why="Queues and locks are files there; without an inode none can be made.",
    source="tmpfs(5), nr_inodes",
    cases=("C-033",),
)
def shm_inodes(host: Host) -> Iterator[Found]:
    free = host.fact("host.shm.inodes_free")
    if host.engine and free is not None and 0 <= free < 1000 and host.fact("host.shm.total"):
        yield Found(what=f"/dev/shm takes {free} more files", fix="remove leftovers in /dev/shm.")


@rule(
    "map-count",
    family="host",
    severity="warning",
    about="a process may have many mappings",
    why="Each piece of a pool that is registered is a mapping; at the limit it fails with 'Invalid argument'.",
    source="docs/source/troubleshooting/troubleshooting.md@v0.3.11 of Mooncake (vm.max_map_count)",
    cases=("C-027",),
)
def map_count(host: Host) -> Iterator[Found]:
    most = host.sysctl("vm.max_map_count")
    if host.engine and host.protocol == "rdma" and most and int(most) < 262144:
        yield Found(
            what=f"a process may have {most} mappings",
            evidence=f"vm.max_map_count = {most}",
            fix="sysctl -w vm.max_map_count=16777216 (and in /etc/sysctl.d).",
        )


@rule(
    "numa-balancing",
    family="host",
    severity="notice",
    about="the kernel leaves pages where they are",
    why="Pages of pinned processes wander between nodes; each move stops a worker for a moment.",
    source="docs/source/developer_guide/performance_and_debug/optimization_and_tuning.md@v0.13.0 of vllm-ascend",
)
def numa_balancing(host: Host) -> Iterator[Found]:
    if host.ascend and host.sysctl("kernel.numa_balancing") == "1":
        yield Found(
            what="automatic NUMA balancing is on", fix="sysctl -w kernel.numa_balancing=0 (and in /etc/sysctl.d)."
        )


@rule(
    "swappiness",
    family="host",
    severity="notice",
    about="the kernel swaps late",
    why="While weights are read, the page cache pushes workers out to swap.",
    source="docs/source/developer_guide/performance_and_debug/optimization_and_tuning.md@v0.13.0 of vllm-ascend",
)
def swappiness(host: Host) -> Iterator[Found]:
    value = host.sysctl("vm.swappiness")
    if host.ascend and value and int(value) > 10 and host.fact("host.memory.swap_total"):
        yield Found(
            what=f"there is swap, and vm.swappiness is {value}", fix="sysctl -w vm.swappiness=0 (and in /etc/sysctl.d)."
        )


@rule(
    "governor",
    family="host",
    severity="notice",
    about="CPUs run at full speed",
    why="Launching kernels on NPUs is bound by a single core; a saving governor slows every token down.",
    source="docs/source/developer_guide/performance_and_debug/optimization_and_tuning.md@v0.13.0 of vllm-ascend",
)
def governor(host: Host) -> Iterator[Found]:
    saving = {name: count for name, count in (host.fact("host.governor") or {}).items() if name != "performance"}
    if host.ascend and saving:
        yield Found(
            what=f"{sum(saving.values())} CPUs have the governor {some(saving)}",
            fix="cpupower frequency-set -g performance, or set it in the firmware.",
        )
