# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.guard import refusals
from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.known import DRILLS, Asked

from .clusters import ETCD, GIB, MASTERS, TOPOLOGY, known

STANDBY_DOWN = {**MASTERS, "a": {"running": False, "role": None, "service_ready": None, "error": ""}}
TWO_LEAD = {**MASTERS, "a": {**MASTERS["b"]}}
FULL = {**MASTERS, "b": {**MASTERS["b"], "bytes": 7 * GIB}}
SILENT = {**MASTERS, "b": {**MASTERS["b"], "bytes": None, "capacity": None}}
ONE_ILL = {
    **ETCD,
    "healthy": False,
    "problems": ["a does not answer"],
    "members": [{**member, "healthy": member["name"] != "a"} for member in ETCD["members"]],
}
ONE_NODE = {**TOPOLOGY["store"], "nodes": TOPOLOGY["store"]["nodes"][:1]}
ONLY = {**MASTERS, "b": {**MASTERS["b"], "capacity": 6 * GIB}}


@pytest.mark.parametrize("drill", DRILLS)
def test_nothing_speaks_against_it_where_all_is_well(drill: str) -> None:
    assert refusals(Asked(drill), known()) == []


@pytest.mark.parametrize(
    ("drill", "topology", "changes", "rules"),
    [
        ("master", {"master": {"host": "a"}, "etcd": {"hosts": ["a", "b", "c"]}}, {}, ["drill-alone"]),
        ("master", {}, {"masters": STANDBY_DOWN}, ["drill-alone"]),
        ("master", {}, {"masters": TWO_LEAD}, ["drill-no-leader"]),
        ("master", {}, {"masters": {}}, ["drill-no-leader"]),
        ("master", {}, {"etcd": ONE_ILL}, ["drill-etcd"]),
        ("master", {}, {"etcd": None}, ["drill-etcd"]),
        ("master", {}, {"played": frozenset({"b", "c"})}, ["drill-unseen"]),
        ("etcd", {"etcd": {"hosts": ["a"]}}, {}, ["drill-quorum"]),
        ("etcd", {"etcd": {"hosts": ["a", "b"]}}, {}, ["drill-quorum"]),
        ("etcd", {}, {"etcd": ONE_ILL}, ["drill-etcd", "drill-quorum"]),
        ("etcd", {"etcd": {"endpoints": ["192.0.2.99:2379"]}}, {}, ["drill-none"]),
        ("store", {"store": {"segment_size": "1GiB"}}, {}, ["drill-none"]),
        ("store", {"store": ONE_NODE}, {"masters": ONLY}, ["drill-alone"]),
        ("store", {}, {"masters": FULL}, ["drill-headroom"]),
        ("store", {}, {"masters": SILENT}, ["drill-unknown"]),
        ("fill", {}, {"masters": SILENT}, ["drill-unknown"]),
    ],
)
def test_what_would_not_be_survived(
    drill: str, topology: dict[str, Any], changes: dict[str, Any], rules: list[str]
) -> None:
    found = refusals(Asked(drill), known(topology, **changes))
    assert [refusal.rule for refusal in found] == rules
    assert all(f"[{refusal.rule}]" in refusal.text and " Mend: " in refusal.text for refusal in found)


def test_the_pool_has_room_to_the_last_byte_and_no_further() -> None:
    """The others keep 2 of 8 GiB and evict from 0.8 of it on, so 0.8 of what is used may be there."""
    for used, rules in ((int(6.4 * GIB), []), (int(6.5 * GIB), ["drill-headroom"])):
        masters = {**MASTERS, "b": {**MASTERS["b"], "bytes": used}}
        assert [refusal.rule for refusal in refusals(Asked("store"), known(masters=masters))] == rules


def test_filling_has_a_limit() -> None:
    """0.8 and 0.1 of 8 GiB, of which 1 GiB is used."""
    needed = int(8 * GIB * 0.9) - GIB
    assert refusals(Asked("fill", most=needed), known()) == []
    (refusal,) = refusals(Asked("fill", most=needed - 1), known())
    assert refusal.rule == "drill-large"
    assert f"drill_fill_most={needed}" in refusal.fix


@pytest.mark.parametrize(
    ("drill", "host", "refused"),
    [("etcd", "a", False), ("etcd", "p", True), ("store", "t", False), ("store", "a", True), ("master", "a", True)],
)
def test_who_may_be_named(drill: str, host: str, refused: bool) -> None:
    assert [r.rule for r in refusals(Asked(drill, host=host), known())] == (["drill-host"] if refused else [])


def test_all_is_told_at_once() -> None:
    found = refusals(Asked("master", host="a"), known(masters=TWO_LEAD, etcd=ONE_ILL))
    assert [refusal.rule for refusal in found] == ["drill-host", "drill-no-leader", "drill-etcd"]
