# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.module_utils.pd_pairs import (
    OTHER,
    Partners,
    Server,
    pairs_of,
    servers_of,
    with_engines,
)

KINDS = ("prefill", "decode")


@pytest.mark.parametrize(
    ("bootstraps", "expected"),
    [
        (["http://b1/", "http://b2"], ["http://b1", "http://b2"]),
        (["http://b1"], ["http://b1", "http://b1"]),
        ([], [None, None]),
        (None, [None, None]),
    ],
)
def test_bootstrap_server_of_each_api_server(bootstraps: Any, expected: list[str | None]) -> None:
    instance = {"name": "p1", "kind": "prefill", "api_urls": ["http://a1/", "http://a2"], "bootstrap_urls": bootstraps}
    servers = servers_of(instance)
    assert [server.url for server in servers] == ["http://a1", "http://a2"]
    assert [server.bootstrap for server in servers] == expected


def test_a_rank_is_named_only_where_there_are_several() -> None:
    server = Server("prefill", "p1", "http://a1")
    assert with_engines(server, {0: "e"}) == [Server("prefill", "p1", "http://a1", None, "e")]
    several = with_engines(server, {0: "e", 1: "f"})
    assert [(its.engine_id, its.rank) for its in several] == [("e", 0), ("f", 1)]
    assert str(several[1]) == "prefill p1 (http://a1, rank 1)"


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Server], set[str], set[str]]:
    """Usable servers, names under test, names excluded."""
    servers = []
    for kind in KINDS:
        for number in range(draw(st.integers(0, 3))):
            name = f"{kind[0]}{number}"
            servers += [Server(kind, name, f"http://{name}-{n}") for n in range(draw(st.integers(1, 3)))]
    names = sorted({server.instance for server in servers})
    chosen = st.sets(st.sampled_from(names)) if names else st.just(set())
    return servers, draw(chosen), draw(chosen)


@given(situations())
def test_pairs(situation: tuple[list[Server], set[str], set[str]]) -> None:
    servers, under_test, excluded = situation
    partners = Partners(servers, under_test, excluded)
    chosen: Counter[Server] = Counter()
    pools: dict[str, list[Server]] = {}
    for kind in KINDS:
        side = [server for server in servers if server.kind == kind]
        others = [server for server in side if server.instance not in under_test | excluded]
        pools[kind] = others or [server for server in side if server.instance in under_test]
    for name in sorted(under_test):
        own = [server for server in servers if server.instance == name]
        pairs = list(pairs_of(name, servers, partners))
        kind, other = own[0].kind, OTHER[own[0].kind]
        # every server of the instance once, unless there is nobody to ask it with
        assert [getattr(pair, kind) for pair in pairs] == (own if pools[other] else [])
        assert all((pair.instance, pair.prefill.kind, pair.decode.kind) == (name, *KINDS) for pair in pairs)
        chosen.update(getattr(pair, other) for pair in pairs)
    assert set(chosen) <= {server for pool in pools.values() for server in pool}
    for pool in pools.values():
        # in turns
        counts = [chosen[server] for server in pool]
        assert not counts or max(counts) - min(counts) <= 1
