# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.tuning import pages
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.pages import Ask, Short

MB2, GB1 = 2 << 20, 1 << 30


@pytest.mark.parametrize("given", ["2MB", "2M", "2MiB", "2048kB", "hugepages-2048kB", "2097152", 2097152])
def test_sizes_by_all_names(given):
    assert pages.size(given) == MB2


@pytest.mark.parametrize("given", ["", "big", "0MB", "2TB", "-2MB"])
def test_what_is_no_size(given):
    with pytest.raises(ValueError, match="size of a page"):
        pages.size(given)


@pytest.mark.parametrize(("bytes_", "text"), [(MB2, "2MB"), (GB1, "1GB"), (65536, "64kB"), (536870912, "512MB")])
def test_labels(bytes_, text):
    assert pages.label(bytes_) == text


def test_words_of_the_command_line():
    wanted = [Ask(GB1, 4, 0), Ask(GB1, 2, 1), Ask(MB2, 512)]
    assert pages.boot_words(wanted) == "hugepagesz=2M hugepages=512 hugepagesz=1G hugepages=0:4,1:2"


def test_advice_has_the_numbers_and_the_ways_out():
    text = pages.advice([Short(Ask(MB2, 512), 512, 300, {0: 300, 1: 0})], [Ask(MB2, 512)], "FILE")
    assert "hugepages of 2MB: 300 of 512 are there, 212 are missing (node 0: 300, node 1: 0)" in text
    assert "compact_memory" in text
    assert "reboot: FILE" in text
    assert "hugepagesz=2M hugepages=512" in text


def test_compaction_is_not_advised_for_large_pages():
    assert "compact" not in pages.advice([Short(Ask(GB1, 4), 4, 1, {})], [Ask(GB1, 4)], "FILE")
