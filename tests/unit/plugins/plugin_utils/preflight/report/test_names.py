# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import names

SAID = [
    ([], ""),
    (["npu1"], "npu1"),
    (["npu1", "npu2"], "npu[1-2]"),
    ([f"npu{n}" for n in (*range(1, 41), 43)], "npu[1-40,43]"),
    (["npu9", "npu10", "npu2"], "npu[2,9-10]"),
    (["n08", "n09", "n10", "n11"], "n[08-11]"),
    (["n8", "n9", "n010"], "n[8-9,010]"),
    (["n1.rack", "n2.rack", "n3"], "n[1-2].rack,n3"),
    (["p1-0", "p1-1", "p2-1", "p3-1"], "p1-[0-1],p[2-3]-1"),
    ([f"r{rack:02}-s{n}" for rack in range(9, 12) for n in range(1, 5)], "r[09-11]-s[1-4]"),
    (["10.0.0.1", "10.0.0.2", "10.0.1.1", "10.0.1.2"], "10.0.[0-1].[1-2]"),
    (["front", "gpu1", "front", "gpu2"], "front,gpu[1-2]"),
    (["7"], "7"),
]


def expanded(told: str) -> list[str]:
    """The names that are said; for names without brackets and commas."""
    found: list[str] = []
    for word in re.findall(r"(?:\[[^\]]*\]|[^,\[])+", told):
        whole = [""]
        for literal, ranges in re.findall(r"([^\[]+)|\[([^\]]*)\]", word):
            whole = [before + after for before in whole for after in ([literal] if literal else _numbers(ranges))]
        found += whole
    return found


def _numbers(ranges: str) -> list[str]:
    found = []
    for part in ranges.split(","):
        first, _dash, last = part.partition("-")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
    return found


NAMES = st.lists(
    st.text("an01289-.", min_size=1, max_size=8).filter(lambda name: not name.startswith("-")), max_size=40
)


@pytest.mark.parametrize(("given_names", "said"), SAID)
def test_compressed(given_names: list[str], said: str) -> None:
    assert names.compressed(given_names) == said


@given(NAMES)
def test_every_name_and_no_other_is_said_once(some: list[str]) -> None:
    assert sorted(expanded(names.compressed(some))) == sorted(set(some))


@given(st.lists(st.integers(0, 1100), unique=True, max_size=200), st.integers(0, 4))
def test_numbers_in_any_order_and_padding(numbers: list[int], width: int) -> None:
    some = [f"npu{str(number).zfill(width)}" for number in numbers]
    assert sorted(expanded(names.compressed(some))) == sorted(some)


@given(st.lists(st.integers(0, 5000), unique=True, min_size=1, max_size=300))
def test_shortened_says_how_many_more_there_are(numbers: list[int]) -> None:
    some = [f"npu{number}" for number in numbers]
    told, _and, more = names.shortened(some, 60).partition(" and ")
    assert len(told) <= 60
    shown = expanded(told)
    assert set(shown) <= set(some)
    assert len(shown) + int(more.removesuffix(" more") or 0) == len(some)


def test_what_is_short_is_said_whole() -> None:
    assert names.shortened([f"npu{n}" for n in range(1, 1001)]) == "npu[1-1000]"


def test_one_name_that_is_too_long_is_said_all_the_same() -> None:
    assert names.shortened(["x" * 200]) == "x" * 200
    assert names.shortened(["x" * 200, "y"]) == "x" * 200 + " and 1 more"
