# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import options


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "ON"),
        (False, "OFF"),
        ("yes", "ON"),
        ("False", "OFF"),
        ("Release", "Release"),
        (4000, "4000"),
        ("1", "1"),
        (["a", 2], "a;2"),
    ],
)
def test_values_have_one_spelling(value: Any, text: str) -> None:
    assert options.normalised({"X": value}) == ({"X": text}, [])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"a b": 1}, "'a b' is no name of a CMake variable"),
        ({"X": None}, "the value of X is neither a text nor a number nor a boolean"),
        ({"X": {"a": 1}}, "the value of X is neither a text nor a number nor a boolean"),
        ({"X": "a\nb"}, "the value of X has a line break"),
        ({"CMAKE_INSTALL_PREFIX": "/x"}, "CMAKE_INSTALL_PREFIX cannot be set here, it is the prefix"),
    ],
)
def test_what_is_no_option_is_named_and_the_others_stay(given: dict[str, Any], why: str) -> None:
    assert options.normalised({**given, "USE_TCP": True}) == ({"USE_TCP": "ON"}, [why])


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"USE_ASCEND": "ON"}, "transport_mem.h"),
        ({"USE_ASCEND": "1"}, "transport_mem.h"),
        ({"USE_ASCEND_DIRECT": "ON", "BUILD_SHARED_LIBS": "OFF"}, "BUILD_SHARED_LIBS"),
        ({"WITH_STORE": "OFF", "WITH_STORE_RUST": "ON"}, "WITH_STORE_RUST"),
    ],
)
def test_what_cannot_come_to_a_good_end_is_refused(given: dict[str, str], word: str) -> None:
    assert [word in what for what, _fix in options.refused(given)] == [True]


def test_what_can_is_not() -> None:
    given = {"USE_ASCEND": "OFF", "USE_ASCEND_DIRECT": "ON", "BUILD_SHARED_LIBS": "ON", "WITH_STORE_RUST": "OFF"}
    assert options.refused(given) == []


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, []),
        ({"USE_ETCD": "OFF"}, []),
        ({"USE_ETCD": "ON", "USE_ETCD_LEGACY": "ON"}, []),
        ({"USE_ETCD": "ON"}, ["USE_ETCD"]),
        ({"STORE_USE_ETCD": "ON", "WITH_P2P_STORE": "ON"}, ["STORE_USE_ETCD", "WITH_P2P_STORE"]),
    ],
)
def test_go_is_needed_only_where_an_option_builds_go(given: dict[str, str], names: list[str]) -> None:
    assert options.needs_go(given) == names


def test_cann_is_needed_only_by_transports_of_npus() -> None:
    assert options.needs_cann({"USE_ASCEND_DIRECT": "ON"})
    assert options.needs_cann({"USE_UBSHMEM": "ON"})
    assert not options.needs_cann({"USE_ASCEND_DIRECT": "OFF", "USE_TCP": "ON"})
