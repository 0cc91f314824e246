# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host made of files, whose kernel gives what it is told to give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.work import Tuning

GIB = 1 << 30
PARAMS: dict[str, Any] = {
    "state": "present",
    "sysctl": {},
    "reserved_ports": [],
    "hugepages": [],
    "hugepages_compact": False,
    "shm_size": None,
    "transparent_hugepages": None,
    "governor": None,
    "limits": [],
    "files": [],
}
POOLS = "/sys/kernel/mm/hugepages/hugepages-2048kB"
FILES = {
    "/proc/sys/vm/max_map_count": "65530\n",
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/compact_memory": "",
    "/proc/sys/net/core/somaxconn": "4096\n",
    "/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
    "/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
    "/proc/sys/net/ipv4/ip_local_reserved_ports": "\n",
    "/proc/sys/fs/nr_open": "1048576\n",
    "/proc/meminfo": f"MemTotal: {64 << 20} kB\nMemAvailable: {32 << 20} kB\nHugepagesize: 2048 kB\n",
    "/proc/self/status": "CapEff:\t000001ffffffffff\n",
    "/proc/self/mounts": "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=32g 0 0\n",
    "/proc/1/limits": "Max locked memory         8388608              8388608              bytes\n"
    "Max open files            1024                 20000                files\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "/etc/fstab": "UUID=0 / ext4 defaults 0 1\n",
    "/etc/pam.d/su": "session    required   pam_limits.so\n",
    "/dev/shm/here": "",
    **{f"{POOLS}/{name}_hugepages": "0\n" for name in ("nr", "free", "resv")},
    **{
        f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/{name}_hugepages": "0\n"
        for node in (0, 1)
        for name in ("nr", "free")
    },
    **{
        f"/sys/devices/system/cpu/cpufreq/policy{cpu}/{name}": text
        for cpu in (0, 1)
        for name, text in (
            ("scaling_governor", "powersave\n"),
            ("scaling_available_governors", "performance powersave\n"),
        )
    },
}


class Kernel(Tree):
    """`most` is what a value can become; `deaf` are values that take everything and stay as they are."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.path = root
        self.most: dict[str, int] = {}
        self.compacted: dict[str, int] = {}  # what `most` becomes when free memory is put together
        self.deaf: set[str] = set()
        self.writes: list[str] = []
        self.shm, self.shm_used, self.mounts = 32 * GIB, 0, 0
        for path, text in FILES.items():
            self.file(path, text)

    def file(self, path: str, text: str, mode: int = 0o644) -> None:
        target = self.path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def text(self, path: str) -> str:
        return (self.path / path.lstrip("/")).read_text()

    def set(self, path: str, value: str) -> str | None:
        self.writes.append(f"{path} {value}")
        if path.endswith("compact_memory"):
            self.most.update(self.compacted)
        if path in self.deaf:
            return None
        if path.endswith("transparent_hugepage/enabled"):
            words = self.text(path).replace("[", "").replace("]", "").split()
            value = " ".join(f"[{word}]" if word == value else word for word in words)
        given = str(min(int(value), self.most[path])) if path in self.most else value
        return super().set(path, given)

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        assert argv[:2] == ["mount", "-o"]
        self.mounts += 1
        size = argv[2].rpartition("size=")[2]
        scale = {"G": GIB, "M": 1 << 20}.get(size[-1], 1)
        self.shm = int(size.rstrip("GM")) * scale
        return 0, "", ""

    def tuning(self, **params: Any) -> Tuning:
        given: Mapping[str, Any] = {**PARAMS, **params}
        made = Tuning(self, given, self.run, space=lambda _tree, _place: (self.shm, self.shm_used))
        made.plan()
        return made

    def tune(self, **params: Any) -> Tuning:
        made = self.tuning(**params)
        made.apply()
        return made

    def snapshot(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.path)): path.read_text() for path in self.path.rglob("*") if path.is_file()
        } | {"shm": str(self.shm)}
