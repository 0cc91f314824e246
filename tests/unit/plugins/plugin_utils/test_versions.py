# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least, normal, value_at, version_key


def test_order():
    ordered = ["0.3.7.post2", "0.3.8rc1", "0.3.8", "0.3.8.post1", "0.3.13", "0.12.0rc1", "v0.12.0", "0.12.1"]
    assert sorted(reversed(ordered), key=version_key) == ordered


@pytest.mark.parametrize(("one", "other"), [("0.32", "0.32.0"), ("v0.3.8", "0.3.8"), ("0.32.0+cpu", "0.32.0")])
def test_spellings_of_one_version(one, other):
    assert version_key(one) == version_key(other)


@pytest.mark.parametrize("text", ["main", "", "0.3.x", "1.2-3", "0.3.8 "])
def test_what_is_no_version(text):
    with pytest.raises(ValueError, match="is not a version number"):
        version_key(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.3.13", "0.3.13"),
        ("v0.3.13", "0.3.13"),
        ("v0.3.7.post2", "0.3.7.post2"),
        ("0.3.7-post.2", "0.3.7.post2"),
        ("0.23.0-rc.1", "0.23.0rc1"),
        ("0.32.0+a1.rc.1", "0.32.0+a1.rc.1"),
    ],
)
def test_the_spelling_of_packages(text, expected):
    assert normal(text) == expected
    assert version_key(normal(text)) == version_key(text)


def test_a_candidate_comes_before_its_release():
    assert not at_least("0.12.0rc1", "0.12.0")
    assert at_least("0.12.0", "0.12.0rc1")


def test_table():
    table = (("0.0", "old"), ("0.3.8", "new"))
    assert [value_at(table, version) for version in ("0.3.7.post2", "0.3.8", "1.0")] == ["old", "new", "new"]
