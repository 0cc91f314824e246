# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys of sysctl, and what the files that are read at boot make of them.

Rules: sysctl.d(5). A file hides those of the same name in later folders, files are read in the order of their names,
the last assignment counts, and one by its full name beats one by a pattern.
"""

from __future__ import annotations

import fnmatch
import os
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree

FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
MAIN = "/etc/sysctl.conf"
FILE = "/etc/sysctl.d/95-mooncake-pd.conf"
RESERVED = "net.ipv4.ip_local_reserved_ports"
EPHEMERAL = "net.ipv4.ip_local_port_range"
# Set by options of their own, which know more about them.
ELSEWHERE = {
    RESERVED: "reserved_ports, which keeps what others have reserved",
    "vm.nr_hugepages": "hugepages, which reads back how many there are",
    "vm.nr_overcommit_hugepages": "hugepages",
}


@dataclass(frozen=True)
class Assignment:
    key: str  # as a path below /proc/sys; may be a pattern
    value: Optional[str]  # None: a line `-key`, which takes the key out of patterns
    path: str
    line: int

    @property
    def where(self) -> str:
        return f"{self.path} line {self.line}"


def key_path(name: str) -> str:
    """net.ipv4.conf.eth0/100.mtu -> net/ipv4/conf/eth0.100/mtu: the first separator decides which is which."""
    separators = [mark for mark in name if mark in "./"]
    if separators and separators[0] == ".":
        return name.translate(str.maketrans("./", "/."))
    return name


def proc_path(name: str) -> str:
    return f"/proc/sys/{key_path(name)}"


def plain(value: Any) -> str:
    """Several values in one are told with single spaces here and with tabs by the kernel."""
    return " ".join(str(value).split())


def parse(text: str, path: str) -> Iterator[Assignment]:
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        name, equals, value = line.partition("=")
        name = name.strip()
        if equals:
            yield Assignment(key_path(name.lstrip("-")), plain(value), path, number)
        elif name.startswith("-"):
            yield Assignment(key_path(name[1:]), None, path, number)


def files(tree: Tree) -> list[str]:
    """In the order in which they are read."""
    named: dict[str, str] = {}
    for folder in FOLDERS:
        for name in tree.listing(folder):
            if name.endswith(".conf"):
                named.setdefault(name, f"{folder}/{name}")
    paths = [path for _name, path in sorted(named.items())]
    real = {os.path.realpath(tree.at(path)) for path in paths}
    # `sysctl --system` reads it last; systemd reads it only where a link in sysctl.d leads to it
    if tree.exists(MAIN) and os.path.realpath(tree.at(MAIN)) not in real:
        paths.append(MAIN)
    return paths


def assignments(tree: Tree, leave_out: Sequence[str] = ()) -> list[Assignment]:
    return [row for path in files(tree) if path not in leave_out for row in parse(tree.read(path) or "", path)]


def effective(rows: Sequence[Assignment], key: str) -> Optional[Assignment]:
    """The one that counts at boot for this key, a path below /proc/sys."""
    exact = [row for row in rows if row.key == key]
    if exact:
        return exact[-1] if exact[-1].value is not None else None
    found = [row for row in rows if row.value is not None and fnmatch.fnmatchcase(key, row.key)]
    return found[-1] if found else None


def with_ours(rows: Sequence[Assignment], values: Mapping[str, str]) -> list[Assignment]:
    """The rows of others with ours at the place at which our file is read."""
    ours = [Assignment(key_path(name), value, FILE, 0) for name, value in values.items()]

    def place(row: Assignment) -> tuple[bool, str]:
        return (row.path == MAIN, os.path.basename(row.path))

    return sorted([*rows, *ours], key=place)  # stable: rows of a file keep their order
