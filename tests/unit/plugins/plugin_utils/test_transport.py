# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pairs of hosts are proven, and what makes a pair one that is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils import transport
from ansible_collections.mooncake.pd.plugins.plugin_utils.transport import Told

NAMES = st.lists(st.sampled_from([f"h{number}" for number in range(12)]), max_size=8, unique=True)


@given(NAMES, NAMES, st.sampled_from([transport.ALL, transport.SAMPLE]))
def test_peers_are_peers_of_each_other(prefill: list[str], decode: list[str], pairs: str) -> None:
    hosts = dict.fromkeys([*prefill, *decode])
    peers = {host: transport.peers(prefill, decode, host, pairs) for host in hosts}
    for host, others in peers.items():
        assert len(set(others)) == len(others)
        assert all(host in peers[other] for other in others)
    if prefill and decode:
        assert all(peers.values())  # nobody is left out


@given(NAMES, NAMES)
def test_sample_has_no_more_pairs_than_the_longer_side_has_hosts(prefill: list[str], decode: list[str]) -> None:
    found = {
        (one, other)
        for one in prefill
        for other in transport.peers(prefill, decode, one, transport.SAMPLE)
        if other in decode
    }
    sides = set(prefill) & set(decode)
    assert sides or len(found) <= max(len(prefill), len(decode))


def test_host_of_both_sides_is_its_own_peer() -> None:
    assert transport.peers(["a"], ["a"], "a") == ["a"]
    assert transport.peers(["a", "b"], ["c", "d", "e"], "a", "sample") == ["c", "e"]
    assert transport.peers(["a"], [], "a") == []


def result(**more: Any) -> dict[str, Any]:
    blank = {"peer": "d1", "protocol": "tcp", "rule": "", "problem": "", "host": ""}
    seen = {"segment": "192.0.2.21:18502", "installed": "tcp", "registered": 3 << 20}
    return {**blank, **seen, "bytes": 1000, "read": 0.5, "write": 0.25, "written": "abc", **more}


def hosts(proven: dict[str, Any] | None, seen: dict[str, Any] | None, why: str = "") -> dict[str, Told]:
    return {
        "p1": Told(["d1"], None if proven is None else [proven], why=why),
        "d1": Told([], witness=None if seen is None else {"tcp": seen}),
    }


GOOD = {"received": {"p1": "abc"}, "ended": ""}
DEAD = {"received": {}, "ended": "ended in the middle: Killed"}


def test_hosts_that_are_lost_before_they_know_their_peers_are_not_proven() -> None:
    """With a sample of pairs, two of them may be the whole of a pair."""
    fleet = {**hosts(result(), GOOD), "p2": Told(None), "d2": Told(None)}
    rows = transport.rows(fleet, ["tcp"])
    assert [(row.pair, row.rule, row.host) for row in rows] == [
        ("p1-d1", "", ""),
        ("p2-?", "lost", "p2"),
        ("d2-?", "lost", "d2"),
    ]
    assert not transport.document(rows, "lab", "now")["proven"]
    assert transport.table(rows)


def test_proven_pair_and_its_figures() -> None:
    (row,) = transport.rows(hosts(result(), GOOD), ["tcp"])
    assert (row.rule, row.read, row.write) == ("", 2000, 4000)
    assert row.as_dict() == {
        "pair": "p1-d1",
        "source": "p1",
        "peer": "d1",
        "protocol": "tcp",
        "rule": "",
        "problem": "",
        "host": "",
        "mend": "",
        "segment": "192.0.2.21:18502",
        "installed": "tcp",
        "registered": 3 << 20,
        "read": 2000,
        "write": 4000,
        "proven": True,
    }


@pytest.mark.parametrize(
    ("proven", "seen", "rule", "words"),
    [
        (None, GOOD, "lost", "nothing was proven from here: unreachable"),
        (result(peer="other"), GOOD, "lost", "nothing was proven from here"),
        (result(), None, "unknown", "did not tell what has arrived there"),
        (result(), {"received": {}, "ended": ""}, "unknown", "did not tell"),
        (result(), {"received": {"p1": "abd"}, "ended": ""}, "checksum-write", "other bytes have arrived"),
        (result(), DEAD, "died", "the engine ended in the middle: Killed"),
        (result(rule="address", problem="x"), DEAD, "died", "ended in the middle"),
        (result(rule="fallback", problem="x"), DEAD, "fallback", "x"),
        (result(rule="read", problem="x"), GOOD, "read", "x"),
        (result(rule="checksum-read", problem="x"), None, "checksum-read", "x"),
    ],
)
def test_what_makes_a_pair_unproven(proven: Any, seen: Any, rule: str, words: str) -> None:
    (row,) = transport.rows(hosts(proven, seen, "unreachable"), ["tcp"])
    assert row.rule == rule
    assert words in row.problem
    assert row.as_dict()["mend"]


def test_every_protocol_of_every_pair_has_a_row() -> None:
    rows = transport.rows(hosts(result(), GOOD), ["tcp", "rdma"])
    assert [(row.protocol, row.rule) for row in rows] == [("tcp", ""), ("rdma", "lost")]
    assert transport.summary(rows, "lab") == "transport of lab: tcp 1 of 1 pairs proven, rdma 0 of 1 pairs proven"
    document = transport.document(rows, "lab", "now")
    assert (document["proven"], [one["rule"] for one in document["findings"]]) == (False, ["lost"])
    assert transport.document(rows[:1], "lab", "now")["proven"]


def test_nothing_at_all_is_not_proven() -> None:
    assert not transport.document([], "lab", "now")["proven"]
    assert "nothing is proven" in transport.summary([], "lab")


def test_finding_is_told_once_for_all_its_pairs() -> None:
    names = [f"p{number}" for number in range(7)]
    told = {name: Told(["d1"], [result(rule="fallback", problem="tcp", host="d1")]) for name in names}
    (finding,) = transport.findings(transport.rows(told, ["tcp"]))
    text = transport.said(finding)
    assert text[0] == "ERROR [fallback] d1: tcp"
    assert text[1] == "  Pairs: p0-d1 tcp, p1-d1 tcp, p2-d1 tcp, p3-d1 tcp, p4-d1 tcp and 2 more"
    assert "MC_FORCE_TCP" in text[2]


def test_table() -> None:
    rows = transport.rows({**hosts(result(), GOOD), "x": Told(["d1"])}, ["tcp"])
    lines = transport.table(rows)
    assert [proven for _text, proven in lines] == [None, True, False]
    figures = ["0.00", "MB/s", "0.00", "MB/s"]
    seen = ["192.0.2.21:18502", "tcp", "3.0", "MiB"]
    assert lines[1][0].split() == ["p1-d1", "tcp", *figures, *seen, "proven"]
    assert lines[2][0].endswith("NOT PROVEN: lost")
