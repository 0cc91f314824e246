# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prefill against decode."""

from __future__ import annotations

from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.capacity import ratio
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.rolling.worlds import cluster


def sized(prefill: int, decode: int, **sizes: int) -> list[dict[str, Any]]:
    return [{**item, "shape": {**item["shape"], **sizes}} for item in cluster(prefill, decode)]


def test_the_sentence() -> None:
    found = ratio(sized(4, 2, tp=8), sized(2, 2, tp=8))
    assert found.text == (
        "P:D is 4 prefill to 2 decode, 2:1 (workers 32 to 16); "
        "before it was 2 prefill to 2 decode, 1:1 (workers 16 to 16)."
    )
    assert found.warnings == ()
    assert found.now.as_dict() == {"prefill": 4, "decode": 2, "workers": {"prefill": 32, "decode": 16}}


def test_nothing_is_said_of_before_when_it_was_the_same_or_is_not_known() -> None:
    assert (
        ratio(cluster(), cluster()).text
        == ratio(cluster()).text
        == "P:D is 2 prefill to 2 decode, 1:1 (workers 2 to 2)."
    )
    assert ratio(cluster()).before is None


def test_a_kind_that_is_gone() -> None:
    (warning,) = ratio(cluster(0, 2), cluster(3, 2)).warnings
    assert warning == "No prefill instance is left, so nothing can be served."


def test_less_than_half() -> None:
    assert ratio(cluster(2, 2), cluster(4, 4)).warnings == ()
    assert ratio(cluster(1, 2), cluster(3, 2)).warnings == ("1 prefill instances are left of 3, less than 50%.",)
    assert ratio(sized(1, 1, dp=2), sized(1, 1, dp=8)).warnings == (
        "2 workers of prefill are left of 8, less than 50%.",
        "2 workers of decode are left of 8, less than 50%.",
    )
