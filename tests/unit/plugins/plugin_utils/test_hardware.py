# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.hardware import GENERATIONS


@pytest.mark.parametrize(
    "row",
    [
        ("A2", 8, "HCCS", "RoCE", "-ip", "-ping", False, True),
        ("A3", 16, "HCCS", "HCCS", "-vnic", "-hccs_ping", True, False),
        ("A5", 8, "UB", "UB", None, None, False, False),
    ],
)
def test_generations(row):
    name, chips, inside, between, address, ping, superpod, link = row
    generation = GENERATIONS[name]
    assert (generation.name, generation.chips) == (name, chips)
    assert (generation.inside, generation.between) == (inside, between)
    assert (generation.address, generation.ping) == (address, ping)
    assert (generation.superpod, generation.link_must_be_up) == (superpod, link)
    assert "@182b75ea" in generation.source


def test_no_other_generation():
    assert list(GENERATIONS) == ["A2", "A3", "A5"]
