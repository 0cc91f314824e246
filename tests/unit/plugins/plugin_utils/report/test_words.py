# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.report import words
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.report import documents


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a"], "a"),
        (["p1", "p2"], "p1 p2"),
        (["p1", "p2", "p3"], "p1..p3"),
        (["p1", "p2", "p3", "gpu", "p5"], "p1..p3 gpu p5"),
        (["n-08", "n-09", "n-10"], "n-08..n-10"),
        (["n8", "n9", "n010"], "n8 n9 n010"),
        (["p1-0", "p1-1", "p2-1", "p3-1", "p4-1"], "p1-0 p1-1 p2-1..p4-1"),
        (["d1", "p1", "d2", "p2"], "d1 p1 d2 p2"),
        (["p3", "p2", "p1"], "p3 p2 p1"),
        ([], ""),
    ],
)
def test_listing(names: list[str], said: str) -> None:
    assert words.listing(names) == said


def test_listing_ends() -> None:
    assert words.listing([f"h{n}" for n in range(0, 40, 2)], 3) == "h0 h2 h4 and 17 more"
    assert words.listing(["a", "b", "c"], 2) == "a b c"


def test_spans_merge_what_touches() -> None:
    assert words.spans([(20400, 20800), (20000, 20399), (7, 7), (9, 9)]) == "7,9,20000-20800"


@pytest.mark.parametrize(
    ("process", "said"),
    [
        ({"kind": "prefill", "role": None, "ranks": []}, "prefill"),
        ({"kind": "prefill", "role": "rank", "ranks": [3]}, "prefill rank 3"),
        ({"kind": "decode", "role": "head", "ranks": [0, 1]}, "decode head, ranks 0-1"),
        ({"kind": "decode", "role": "headless", "ranks": [2]}, "decode headless, rank 2"),
        ({"kind": "master", "role": None, "ranks": []}, "Mooncake master"),
    ],
)
def test_role(process: dict[str, object], said: str) -> None:
    assert words.role(process) == said


def test_ports_say_where_they_are_bound_when_it_is_not_the_host() -> None:
    process = documents.process(
        "x",
        "prefill",
        [
            documents.claim("api", 7100, address="192.0.2.1"),
            documents.claim("bootstrap", 8998),
            documents.claim("router", 18001, address="127.0.0.1"),
        ],
    )
    said = [words.said(port) for port in words.ports([process], "192.0.2.1")]
    assert said == ["api 7100", "bootstrap *:8998", "router 127.0.0.1:18001"]


def test_pools_that_touch_are_one() -> None:
    pools = [{"purpose": "rpc", "first": first, "last": last} for first, last in ((15000, 16000), (16001, 17000))]
    assert [words.said(port) for port in words.pools({"pools": pools})] == ["rpc 15000-17000"]


def test_many_ranks_of_an_instance_on_a_host_are_one_row() -> None:
    ranks = [documents.engine(f"d1-{n}", "decode", "192.0.2.1", [n], [n]) for n in range(5)]
    router = documents.process("router", "frontend", [])
    assert [len(row) for row in words.rows([*ranks, router])] == [5, 1]
    assert words.row_role(ranks) == "decode ranks 0-4"
    assert [len(row) for row in words.rows(ranks[:4])] == [1, 1, 1, 1]


def test_hosts_are_alike_when_only_names_and_addresses_differ() -> None:
    content = documents.large(8)
    assert words.alike(content, 8) == [[f"npu{n}"] for n in range(1, 9)]
    assert words.alike(content, 7) == [["npu1", "npu2", "npu3", "npu4"], ["npu5", "npu6", "npu7", "npu8"]]
    changes = {
        "npu2": lambda host: host["processes"][0]["claims"]["ports"][0].update(first=7101, last=7101),
        "npu3": lambda host: host["processes"][0].update(devices=[8]),
        "npu4": lambda host: host.update(chips=16),
        "npu6": lambda host: host["processes"][0].update(role="headless"),
    }
    for name, change in changes.items():
        change(content["hosts"][name])
    assert words.alike(content, 7) == [["npu1"], ["npu2"], ["npu3"], ["npu4"], ["npu5", "npu7", "npu8"], ["npu6"]]
