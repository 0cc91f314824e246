# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import words
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight.report import verdicts

ANY = st.text(st.characters(exclude_categories=()), max_size=60)  # halves of surrogate pairs too


@given(ANY)
def test_nothing_that_cannot_be_seen_is_shown(text: str) -> None:
    shown = words.printable(text)
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char not in "\n\t"]
    shown.encode("utf-8")
    assert words.printable(shown) == shown


@given(ANY, st.integers(4, 40))
def test_one_line_is_one_and_not_longer(text: str, most: int) -> None:
    shown = words.one_line(text, most)
    assert len(shown) <= most
    assert len(shown.splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\n", "a\tb\n"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb", "a\\u202eb"),
        ("caf\u00e9 \u4e2d\u3000x", "caf\u00e9 \u4e2d\u3000x"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert words.printable(text) == shown


def test_where_names_the_fleet_when_no_host_is_meant() -> None:
    assert words.where([None]) == "the fleet"
    assert words.where(["npu1", None, "npu2", "npu1"]) == "the fleet, npu[1-2]"


def test_the_most_frequent_text_comes_first() -> None:
    findings = [{"what": what, "host": verdicts.FAMILIES[0]} for what in ("one", "two", "two")]
    assert [(what, len(saying)) for what, saying in words.by_what(findings)] == [("two", 2), ("one", 1)]
