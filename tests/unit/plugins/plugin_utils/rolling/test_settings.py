# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a roll is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.settings import Settings, read_settings
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.rolling.worlds import OPTIONS, cluster


def read(prefill: int = 4, decode: int = 3, **options: Any) -> Settings:
    settings, refusals = read_settings({**OPTIONS, **options}, cluster(prefill, decode))
    assert refusals == []
    return settings


@pytest.mark.parametrize(
    ("only", "selected"),
    [
        (None, "p1 p2 p3 p4 d1 d2 d3"),
        ("", "p1 p2 p3 p4 d1 d2 d3"),
        ([], "p1 p2 p3 p4 d1 d2 d3"),
        ("p1, d2,", "p1 d2"),
        (["decode", "p4"], "d1 d2 d3 p4"),
        (["p1,p2", "p2"], "p1 p2"),
    ],
)
def test_only(only: Any, selected: str) -> None:
    assert read(only=only).selected == set(selected.split())


@pytest.mark.parametrize(
    ("batch", "numbers"),
    [("1", (1, 1)), ("3", (3, 3)), ("50%", (2, 1)), ("1%", (1, 1)), ("100%", (4, 3)), (" 2 ", (2, 2))],
)
def test_batch_is_rounded_down(batch: str, numbers: tuple[int, int]) -> None:
    assert tuple(read(batch=batch).batch.values()) == numbers


@pytest.mark.parametrize(("least", "number"), [("1", 1), ("2", 2), ("50%", 2), ("51%", 3), ("1%", 1), (None, 1)])
def test_min_healthy_is_rounded_up(least: str | None, number: int) -> None:
    assert read(min_healthy={"prefill": least}).min_healthy == {"prefill": number, "decode": 1}


@pytest.mark.parametrize(
    "options",
    [
        {"batch": "0"},
        {"batch": "0%"},
        {"batch": "-1"},
        {"batch": "1.5"},
        {"batch": "many"},
        {"batch": "101%"},
        {"canary": -1},
        {"min_healthy": {"decode": "0"}},
        {"min_healthy": {"decode": "0%"}},
        {"min_healthy": {"decode": "all"}},
        {"min_healthy": {"decode": "120%"}},
    ],
)
def test_what_is_no_setting(options: dict[str, Any]) -> None:
    _settings, refusals = read_settings({**OPTIONS, **options}, cluster(4, 3))
    assert [refusal.rule for refusal in refusals] == ["setting-invalid"]


def test_a_name_that_is_almost_right() -> None:
    _settings, refusals = read_settings({**OPTIONS, "only": "prefil"}, cluster(1, 1))
    assert refusals[0].text() == (
        "only: [only-unknown] there is no instance and no kind prefil. Mend: did you mean prefill?"
    )
