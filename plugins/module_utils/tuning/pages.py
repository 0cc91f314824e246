# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hugepages: sizes by whatever name, the kernel's files for them, and what to do where it gave fewer than asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree

POOLS = "/sys/kernel/mm/hugepages"
NODES = "/sys/devices/system/node"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_FEW = 1 << 30  # pages of this size and above are rarely found once the host has run for a while


@dataclass(frozen=True)
class Ask:
    size: int
    pages: int
    node: Optional[int] = None

    @property
    def name(self) -> str:
        return f"hugepages of {label(self.size)}" + (f" on node {self.node}" if self.node is not None else "")

    @property
    def folder(self) -> str:
        kernel = f"hugepages-{self.size // 1024}kB"
        return f"{POOLS}/{kernel}" if self.node is None else f"{NODES}/node{self.node}/hugepages/{kernel}"

    @property
    def path(self) -> str:
        return f"{self.folder}/nr_hugepages"


@dataclass(frozen=True)
class Short:
    ask: Ask
    wanted: int
    got: int
    nodes: Mapping[int, int]


def size(given: Any) -> int:
    """2MB, 2M, 2048kB, hugepages-2048kB, 1GiB, 1G, or bytes."""
    match = re.fullmatch(r"(?:hugepages-)?(\d+)\s*([kmg]?)(?:i?b)?", str(given).strip().lower())
    if not match or not int(match.group(1)):
        raise ValueError(f"{given!r} is no size of a page, like 2MB or 1GB")
    return int(match.group(1)) * _UNITS[match.group(2)]


def label(bytes_: int) -> str:
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if bytes_ >= scale and bytes_ % scale == 0:
            return f"{bytes_ // scale}{unit}"
    return f"{bytes_} bytes"


def sizes(tree: Tree) -> list[int]:
    names = [re.fullmatch(r"hugepages-(\d+)kB", name) for name in tree.listing(POOLS)]
    return sorted(int(match.group(1)) * 1024 for match in names if match)


def nodes(tree: Tree) -> list[int]:
    names = [re.fullmatch(r"node(\d+)", name) for name in tree.listing(NODES)]
    return sorted(int(match.group(1)) for match in names if match)


def asks(given: Sequence[Mapping[str, Any]]) -> list[Ask]:
    return [Ask(size(one["size"]), int(one["pages"]), one.get("node")) for one in given]


def problems(tree: Tree, wanted: Sequence[Ask]) -> list[str]:
    found = []
    here, known = sizes(tree), nodes(tree)
    for ask in wanted:
        if ask.pages < 0:
            found.append(f"{ask.name}: {ask.pages} is no number of pages")
        if here and ask.size not in here:
            found.append(f"{ask.name}: this kernel has pages of {', '.join(map(label, here))} only")
        if ask.node is not None and ask.node not in known:
            found.append(f"{ask.name}: this host has the nodes {', '.join(map(str, known)) or 'none'} only")
    for page in sorted({ask.size for ask in wanted}):
        places = [ask.node for ask in wanted if ask.size == page]
        if len(set(places)) < len(places):
            found.append(f"hugepages of {label(page)}: the same place is told twice")
        elif None in places and len(places) > 1:
            found.append(
                f"hugepages of {label(page)} are told for the whole host and for a node: tell them for nodes only"
            )
    return found


def count(tree: Tree, folder: str, what: str) -> Optional[int]:
    text = (tree.read(f"{folder}/{what}_hugepages") or "").strip()
    return int(text) if text.isdigit() else None


def table(tree: Tree) -> list[dict[str, Any]]:
    """All pools of the host, with their nodes."""
    rows = []
    for page in sizes(tree):
        whole = Ask(page, 0)
        parts = [Ask(page, 0, node) for node in nodes(tree)]
        rows.append(
            {
                "size": page,
                "total": count(tree, whole.folder, "nr"),
                "free": count(tree, whole.folder, "free"),
                "reserved": count(tree, whole.folder, "resv"),
                "nodes": [
                    {
                        "node": part.node,
                        "total": count(tree, part.folder, "nr"),
                        "free": count(tree, part.folder, "free"),
                    }
                    for part in parts
                    if tree.exists(part.folder)
                ],
            }
        )
    return rows


def short(tree: Tree, ask: Ask, wanted: int) -> Optional[Short]:
    got = count(tree, ask.folder, "nr")
    if got is None or got >= wanted:
        return None
    parts = {node: count(tree, Ask(ask.size, 0, node).folder, "nr") for node in nodes(tree)}
    return Short(ask, wanted, got, {node: pages for node, pages in parts.items() if pages is not None})


def memory(tree: Tree, what: str) -> Optional[int]:
    match = re.search(rf"^{what}:\s+(\d+) kB", tree.read("/proc/meminfo") or "", re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def boot_words(wanted: Sequence[Ask]) -> str:
    """For the kernel's command line, where pages are taken before anything breaks memory up."""
    words = []
    for page in sorted({ask.size for ask in wanted}):
        same = [ask for ask in wanted if ask.size == page]
        parts = [f"{ask.node}:{ask.pages}" if ask.node is not None else str(ask.pages) for ask in same]
        unit, scale = ("G", 1 << 30) if page % (1 << 30) == 0 else ("M", 1 << 20) if page >= 1 << 20 else ("K", 1 << 10)
        words.append(f"hugepagesz={page // scale}{unit} hugepages={','.join(parts)}")
    return " ".join(words)


def advice(missing: Sequence[Short], wanted: Sequence[Ask], kept: str) -> str:
    rows = []
    for one in missing:
        spread = ", ".join(f"node {node}: {pages}" for node, pages in sorted(one.nodes.items()))
        rows.append(
            f"{one.ask.name}: {one.got} of {one.wanted} are there, {one.wanted - one.got} are missing"
            + (f" ({spread})" if len(one.nodes) > 1 else "")
        )
    ways = [f"reboot: {kept} asks for them early, before memory is in pieces"]
    if all(one.ask.size < _FEW for one in missing):
        ways.insert(
            0,
            "free memory (stop what uses it), `echo 1 > /proc/sys/vm/compact_memory` and run this again"
            " (hugepages_compact does it)",
        )
    ways.append(f"or ask on the kernel's command line, which is surest: {boot_words(wanted)}")
    return (
        "The kernel gave fewer hugepages than asked for, as free memory is in pieces or used up.\n"
        + "\n".join(rows)
        + "\nWhat to do: "
        + "; ".join(ways)
        + "."
    )
