# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parameters -> wishes, files and problems. Looks, and changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.tuning import pages, spans, sysctls
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.values import AT_LEAST, EXACT, UNION, Wish, shown

THP = "/sys/kernel/mm/transparent_hugepage/enabled"
GOVERNORS = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"


@dataclass
class Wishes:
    values: list[Wish] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)
    satisfied: list[str] = field(default_factory=list)  # cannot be written, and stand there all the same
    asks: dict[str, pages.Ask] = field(default_factory=dict)  # by name of the wish

    def skip(self, name: str, why: str) -> None:
        self.skipped.append({"name": name, "why": why})

    def add(self, tree: Tree, wish: Wish) -> None:
        """Where it cannot be written it is skipped, unless it stands there already."""
        why = tree.refusal(wish.path)
        if why is None:
            self.values.append(wish)
        elif _satisfied(tree, wish):
            self.satisfied.append(wish.name)
        else:
            self.skip(wish.name, why)


def _satisfied(tree: Tree, wish: Wish) -> bool:
    text = tree.read(wish.path)
    if text is None:
        return False
    now = shown(text)
    if wish.rule == EXACT:
        return now == wish.value
    if wish.rule == UNION:
        return not spans.without(spans.read(wish.value), spans.read(now))
    return now.isdigit() and int(now) >= int(wish.value)


def gather(tree: Tree, params: Mapping[str, Any]) -> Wishes:
    made = Wishes()
    rows = sysctls.assignments(tree, leave_out=[sysctls.FILE])
    _sysctl(tree, params, rows, made)
    _reserved(tree, params, rows, made)
    _hugepages(tree, params, rows, made)
    if params["transparent_hugepages"]:
        made.add(tree, Wish("transparent_hugepages", THP, EXACT, params["transparent_hugepages"]))
    _governor(tree, params, made)
    return made


def _others(rows: list[sysctls.Assignment], name: str) -> Optional[str]:
    found = sysctls.effective(rows, sysctls.key_path(name))
    return found.value if found else None


def _sysctl(tree: Tree, params: Mapping[str, Any], rows: list[sysctls.Assignment], made: Wishes) -> None:
    for name, given in params["sysctl"].items():
        if given is None:
            continue
        rule, value = EXACT, given
        if isinstance(given, Mapping):
            rule, value = AT_LEAST, given.get("at_least")
            if set(given) != {"at_least"} or not str(value).isdigit():
                made.problems.append(f"sysctl: {name} has to be a value, or {{at_least: a number}}, and is {given!r}")
                continue
        if isinstance(value, (bool, list)) or not sysctls.plain(value):
            made.problems.append(f"sysctl: {name}: {value!r} is no text and no number")
        elif name in sysctls.ELSEWHERE:
            made.problems.append(f"sysctl: {name} is set by {sysctls.ELSEWHERE[name]}")
        elif ".." in name or "*" in name or name.startswith("/"):
            made.problems.append(f"sysctl: {name!r} is no name of a key")
        else:
            others = _others(rows, name)
            path = sysctls.proc_path(name)
            text = tree.read(path)
            if rule == AT_LEAST and text is not None and not shown(text).isdigit():
                made.problems.append(f"sysctl: {name} is {shown(text)!r}, which cannot be at least {value}")
                continue
            known = others if rule == EXACT or (others or "").isdigit() else None
            made.add(tree, Wish(name, path, rule, sysctls.plain(value), known))


def _reserved(tree: Tree, params: Mapping[str, Any], rows: list[sysctls.Assignment], made: Wishes) -> None:
    wanted = []
    for given in params["reserved_ports"]:
        try:
            wanted.append(spans.parse(given))
        except ValueError as error:
            made.problems.append(f"reserved_ports: {error}")
    if not wanted:
        return
    given = params["sysctl"].get(sysctls.EPHEMERAL) or shown(tree.read(sysctls.proc_path(sysctls.EPHEMERAL)) or "")
    limits = str(given).split()
    if len(limits) != 2 or not all(word.isdigit() for word in limits):
        made.skip(sysctls.RESERVED, f"it is not known from where the kernel takes source ports: {sysctls.EPHEMERAL}")
        return
    # nothing is gained by reserving what the kernel never gives away
    inside = spans.inside(wanted, [(int(limits[0]), int(limits[1]))])
    if not inside:
        return
    others = _others(rows, sysctls.RESERVED)
    try:
        spans.read(others or "")
    except ValueError as error:
        made.problems.append(f"{sysctls.RESERVED} of another file cannot be read: {error}")
        return
    made.add(tree, Wish(sysctls.RESERVED, sysctls.proc_path(sysctls.RESERVED), UNION, spans.text(inside), others))


def _hugepages(tree: Tree, params: Mapping[str, Any], rows: list[sysctls.Assignment], made: Wishes) -> None:
    try:
        wanted = pages.asks(params["hugepages"])
    except ValueError as error:
        made.problems.append(f"hugepages: {error}")
        return
    if not wanted:
        return
    if not pages.sizes(tree):
        made.skip("hugepages", f"this kernel has none ({pages.POOLS} is empty)")
        return
    made.problems += pages.problems(tree, wanted)
    default = pages.memory(tree, "Hugepagesize")
    row = sysctls.effective(rows, "vm/nr_hugepages")
    asked = sum(ask.pages for ask in wanted if ask.size == default)
    if row and asked and row.value != str(asked):
        made.problems.append(
            f"hugepages: {row.where} sets vm.nr_hugepages = {row.value} at boot, and {asked} of"
            f" {pages.label(default or 0)} are asked for here: take that line away, or ask for the same number"
        )
    for ask in wanted:
        made.asks[ask.name] = ask
        made.add(tree, Wish(ask.name, ask.path, AT_LEAST, str(ask.pages), at_boot=True))


def _governor(tree: Tree, params: Mapping[str, Any], made: Wishes) -> None:
    wanted = params["governor"]
    if not wanted:
        return
    paths = tree.matching(GOVERNORS)
    if not paths:
        made.skip("governor", "this host does not let the kernel set the speed of its CPUs (no cpufreq)")
    for path in paths:
        folder = path.rpartition("/")[0]
        name = f"governor of {folder.rpartition('/')[2]}"
        there = (tree.read(f"{folder}/scaling_available_governors") or "").split()
        if there and wanted not in there:
            made.problems.append(f"{name}: {wanted!r} is none of {', '.join(there)}")
            continue
        made.add(tree, Wish(name, path, EXACT, wanted))
