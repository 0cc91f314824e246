# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits and hugepages as running processes have them, whatever a unit file says, and why they have less."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping

from ansible_collections.mooncake.pd.plugins.module_utils.host.limits import NAMES, amount, parse
from ansible_collections.mooncake.pd.plugins.module_utils.tuning import observed
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree

Run = Callable[[list[str]], tuple[int, str, str]]
Pair = tuple[int, int]  # soft and hard; -1 is without limit

_SCALES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SYS_RESOURCE = 24
_BYTES = ("memlock", "core", "stack")


@dataclass(frozen=True)
class Lack:
    name: str
    wanted: Pair
    got: Pair
    pid: int
    comm: str

    @property
    def text(self) -> str:
        return (
            f"{self.name} {shown(self.name, self.wanted)} is wanted, and process {self.pid} ({self.comm}) has"
            f" {shown(self.name, self.got)}"
        )


def _one(text: str) -> int:
    scale = _SCALES.get(text[-1:].upper(), 1)
    number = amount(text[:-1] if scale > 1 else text)
    if number is None:
        raise ValueError(text)
    return number * scale if number >= 0 else number


def wanted(limits: Mapping[str, Any]) -> dict[str, Pair]:
    """As a unit is told: infinity, 1048576, 8M, 1024:1048576 (soft and hard)."""
    found = {}
    for name, given in limits.items():
        if name not in NAMES:
            raise ValueError(f"limits: {name!r} is none of {', '.join(NAMES)}")
        words = str(given).strip().split(":")
        try:
            found[name] = (_one(words[0]), _one(words[-1]))
        except ValueError:
            raise ValueError(f"limits: {name}: {given!r} is no limit, like infinity, 1048576 or 8M") from None
    return found


def shown(name: str, pair: Pair) -> str:
    def one(value: int) -> str:
        if value < 0:
            return "infinity"
        if name in _BYTES and value >= 1 << 20 and value % (1 << 20) == 0:
            return f"{value >> 20}M"
        return str(value)

    return one(pair[0]) if pair[0] == pair[1] else f"{one(pair[0])}:{one(pair[1])}"


def _less(got: int, asked: int) -> bool:
    return got >= 0 and (asked < 0 or got < asked)


def below(got: Pair, asked: Pair) -> bool:
    return _less(got[0], asked[0]) or _less(got[1], asked[1])


def lacks(tree: Tree, pids: Iterable[int], limits: Mapping[str, Pair]) -> list[Lack]:
    """The first process that has less, for each limit. One that has ended has nothing to say."""
    found: dict[str, Lack] = {}
    for pid in pids:
        given = parse(tree.read(f"/proc/{pid}/limits") or "") if limits else {}
        for name, asked in limits.items():
            if name in given and name not in found:
                got = (given[name]["soft"], given[name]["hard"])
                if below(got, asked):
                    comm = (tree.read(f"/proc/{pid}/comm") or "?").strip()
                    found[name] = Lack(name, asked, got, pid, comm)
    return list(found.values())


def children(tree: Tree, pid: int) -> list[int]:
    return [int(word) for word in (tree.read(f"/proc/{pid}/task/{pid}/children") or "").split()]


def hugepages(tree: Tree, pids: Iterable[int]) -> int:
    """Bytes of hugepages that processes have mapped and touched."""
    found = 0
    for pid in pids:
        match = re.search(r"^HugetlbPages:\s+(\d+) kB", tree.read(f"/proc/{pid}/status") or "", re.MULTILINE)
        found += int(match.group(1)) * 1024 if match else 0
    return found


def explain(tree: Tree, run: Run, unit: str, lacking: Iterable[Lack]) -> str:
    """Who holds the limits down, and the way out."""
    lacking = list(lacking)
    keys = [f"Limit{lack.name.upper()}" for lack in lacking]
    wanted_keys = ",".join([*keys, *(f"{key}Soft" for key in keys), "DropInPaths"])
    code, out, _err = run(["systemctl", "show", "--no-pager", f"--property={wanted_keys}", "--", unit])
    said = dict(line.partition("=")[::2] for line in out.splitlines()) if code == 0 else {}
    rows = []
    for lack, key in zip(lacking, keys):
        hard = amount(said.get(key, ""))
        if hard is None:
            rows.append(f"systemctl does not say what {key} of the unit is")
            continue
        soft = amount(said.get(f"{key}Soft", ""))
        pair = (hard if soft is None else soft, hard)
        if below(pair, lack.wanted):
            drop_ins = said.get("DropInPaths", "")
            where = f"a drop-in lowers it ({drop_ins})" if drop_ins else "its unit file or a default of systemd says so"
            rows.append(
                f"systemd itself has {key}={shown(lack.name, pair)} for the unit: {where}. `systemctl cat {unit}` shows"
                " it; take it out, systemctl daemon-reload, and restart the unit"
            )
        else:
            rows.append(f"`systemctl show` says {key}={shown(lack.name, pair)} all the same: {_withheld(tree, lack)}")
    return " ".join(f"{row}." for row in dict.fromkeys(rows))


def _withheld(tree: Tree, lack: Lack) -> str:
    """Why a process has less than systemd wants to give it."""
    first = parse(tree.read("/proc/1/limits") or "").get(lack.name)
    most = (first["hard"], first["hard"]) if first else None
    if most and _less(most[1], lack.wanted[1]) and not _may_raise(tree):
        return (
            f"process 1 has {shown(lack.name, most)} at most and may not raise it (no CAP_SYS_RESOURCE), so this host"
            " is a container or something like it whose hard limit counts. Start it with"
            f" --ulimit {lack.name}={_ulimit(lack.wanted)}, or ask for no more than {shown(lack.name, most)}"
        )
    return (
        "the process was started before that was set, or a program in between (a wrapper with ulimit, a container"
        f" runtime) lowers it. Restart the unit; `grep '{NAMES[lack.name]}' /proc/{lack.pid}/limits` shows what it has"
        " then"
    )


def _may_raise(tree: Tree) -> bool:
    return observed.capable(tree, _SYS_RESOURCE, pid="1")


def _ulimit(pair: Pair) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}:{pair[1]}"
