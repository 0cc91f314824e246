# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.host import memory
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees

KB = 1 << 10
MB = 1 << 20
GB = 1 << 30

# a server with base pages of 64 KiB: huge pages are 512 MiB, and there are contiguous ones of 2 MiB
BIG_PAGES = """MemTotal:       1055916032 kB
MemFree:        1001340992 kB
MemAvailable:   998765440 kB
SwapTotal:       4194240 kB
SwapFree:        4194176 kB
AnonHugePages:    524288 kB
HugePages_Total:      60
HugePages_Free:       40
HugePages_Rsvd:       10
HugePages_Surp:        0
Hugepagesize:     524288 kB
Hugetlb:        31457280 kB
"""


def pool(total: int, free: int, reserved: int = 0, surplus: int = 0) -> dict[str, str]:
    return {
        "nr_hugepages": f"{total}\n",
        "free_hugepages": f"{free}\n",
        "resv_hugepages": f"{reserved}\n",
        "surplus_hugepages": f"{surplus}\n",
    }


def below(folder: str, files: dict[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in files.items()}


def two_nodes() -> dict[str, str]:
    node = "/sys/devices/system/node/node"
    return {
        "/proc/meminfo": BIG_PAGES,
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda2 ro\n",
        "/etc/hostname": "p1\n",
        **below("/sys/kernel/mm/hugepages/hugepages-524288kB", pool(60, 40, 10)),
        **below("/sys/kernel/mm/hugepages/hugepages-2048kB", pool(0, 0)),
        **below(f"{node}0/hugepages/hugepages-524288kB", pool(60, 40)),
        **below(f"{node}1/hugepages/hugepages-524288kB", pool(0, 0)),
        **below(f"{node}0/hugepages/hugepages-2048kB", pool(0, 0)),
        **below(f"{node}1/hugepages/hugepages-2048kB", pool(0, 0)),
        f"{node}0/cpulist": "0-23,96\n",
        f"{node}1/cpulist": "\n",
        f"{node}0/meminfo": "Node 0 MemTotal:       52428800 kB\nNode 0 MemFree:        41943040 kB\n",
        f"{node}1/meminfo": "Node 1 MemTotal:       67108864 kB\nNode 1 MemFree:        67000000 kB\n",
    }


def test_memory_in_bytes(tmp_path: Path) -> None:
    look = trees.look(tmp_path, two_nodes())
    assert memory.memory(look) == {
        "total": 1055916032 * KB,
        "available": 998765440 * KB,
        "swap_total": 4194240 * KB,
        "swap_free": 4194176 * KB,
    }
    assert look.unknowns == []


def test_a_kernel_without_available_memory_is_unknown_in_that_only(tmp_path: Path) -> None:
    text = "MemTotal: 1024 kB\nMemFree: 512 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
    look = trees.look(tmp_path, {"/proc/meminfo": text})
    assert memory.memory(look) == {"total": MB, "available": None, "swap_total": 0, "swap_free": 0}
    assert look.unknowns == [{"what": "memory.available", "why": "/proc/meminfo has no MemAvailable.", "raw": text}]


def test_nodes_and_one_of_memory_alone(tmp_path: Path) -> None:
    look = trees.look(tmp_path, two_nodes())
    assert memory.numa(look) == [
        {"node": 0, "cpus": 25, "memory_total": 50 * GB, "memory_free": 40 * GB},
        {"node": 1, "cpus": 0, "memory_total": 64 * GB, "memory_free": 67000000 * KB},
    ]
    assert look.unknowns == []


def test_huge_pages_of_512_mib_and_where_they_are(tmp_path: Path) -> None:
    look = trees.look(tmp_path, two_nodes())
    found = memory.hugepages(look)
    assert found["default_size"] == 512 * MB
    small, big = found["sizes"]
    assert (small["size"], small["total"]) == (2 * MB, 0)
    assert {key: big[key] for key in ("size", "total", "free", "reserved", "surplus")} == {
        "size": 512 * MB,
        "total": 60,
        "free": 40,
        "reserved": 10,
        "surplus": 0,
    }
    assert big["nodes"] == [{"node": 0, "total": 60, "free": 40}, {"node": 1, "total": 0, "free": 0}]
    assert found["asked"] == []
    assert look.unknowns == []


def test_sysfs_is_hidden_in_a_container(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/proc/meminfo": BIG_PAGES, "/proc/cmdline": "", "/etc/hostname": ""})
    found = memory.hugepages(look)
    assert found["sizes"] == [
        {"size": 512 * MB, "total": 60, "free": 40, "reserved": 10, "surplus": 0, "nodes": []},
    ]
    assert trees.what(look.unknowns) == {"hugepages.sizes"}


def test_a_kernel_without_huge_pages_is_not_unknown(tmp_path: Path) -> None:
    files = {"/proc/meminfo": "MemTotal: 1024 kB\n", "/proc/cmdline": "", "/etc/hostname": ""}
    look = trees.look(tmp_path, files)
    assert memory.hugepages(look) == {"default_size": None, "sizes": [], "asked": []}
    assert look.unknowns == []


@pytest.mark.parametrize(
    ("cmdline", "asked"),
    [
        ("quiet hugepages=128", [(2 * MB, 128)]),
        (
            "default_hugepagesz=1G hugepagesz=1G hugepages=40 hugepagesz=2M hugepages=0:512,1:256",
            [(GB, 40), (2 * MB, 768)],
        ),
        ("hugepagesz=512M hugepages=60", [(512 * MB, 60)]),
        ("hugepagesz=1G transparent_hugepage=never", []),
        ("hugepages=many", []),
    ],
)
def test_asked_at_boot(cmdline: str, asked: list[tuple[int, int]]) -> None:
    found = memory.asked_at_boot(cmdline, 2 * MB)
    assert [(entry["size"], entry["pages"]) for entry in found] == asked
    assert {entry["where"] for entry in found} <= {"/proc/cmdline"}


def test_asked_by_sysctl_in_the_order_in_which_it_is_applied(tmp_path: Path) -> None:
    look = trees.look(
        tmp_path,
        {
            "/proc/meminfo": "Hugepagesize: 2048 kB\n",
            "/proc/cmdline": "hugepages=7",
            "/usr/lib/sysctl.d/50-vendor.conf": "vm.nr_hugepages = 1\n",
            "/etc/sysctl.d/50-vendor.conf": "# hides the vendor's\n#vm.nr_hugepages=9\nvm/nr_hugepages=2\n",
            "/usr/lib/sysctl.d/60-pool.conf": "-vm.nr_hugepages=3\nvm.nr_hugepages_mempolicy=5\n",
            "/etc/sysctl.conf": "vm.nr_hugepages=4\n",
            "/etc/sysctl.d/README": "vm.nr_hugepages=8\n",
            **below("/sys/kernel/mm/hugepages/hugepages-2048kB", pool(4, 4)),
        },
    )
    asked = memory.hugepages(look)["asked"]
    assert [(entry["pages"], entry["where"]) for entry in asked] == [
        (7, "/proc/cmdline"),
        (2, "/etc/sysctl.d/50-vendor.conf"),
        (3, "/usr/lib/sysctl.d/60-pool.conf"),
        (4, "/etc/sysctl.conf"),
    ]
    (tmp_path / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    asked = memory.hugepages(look)["asked"]
    assert [entry["where"] for entry in asked][-1] == "/etc/sysctl.d/99-sysctl.conf"
    assert len(asked) == 4
    assert look.unknowns == []


@pytest.mark.parametrize(
    ("text", "found", "unknown"),
    [
        ("[always] madvise never\n", "always", set()),
        ("always madvise [never]\n", "never", set()),
        ("always madvise never\n", None, {"transparent_hugepages"}),
    ],
)
def test_transparent_huge_pages(text: str, found: str | None, unknown: set[str], tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/sys/kernel/mm/transparent_hugepage/enabled": text})
    assert memory.transparent(look) == found
    assert trees.what(look.unknowns) == unknown


def test_no_transparent_huge_pages_in_the_kernel_is_not_unknown_but_no_sysfs_is(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/sys/kernel/mm/transparent_hugepage/defrag": "x"})
    assert memory.transparent(look) is None
    assert look.unknowns == []
    look = trees.look(tmp_path / "empty")
    assert memory.transparent(look) is None
    assert trees.what(look.unknowns) == {"transparent_hugepages"}
