# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import sizes
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.estimate import estimate
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import CapacityError
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.figures import Figure, combine, unknown
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.watermark import advice, watermark
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.capacity import configs

FIGURES = ("bytes", "usable", "tokens", "sequences", "new_tokens", "new_bytes", "kept_least", "kept_most")


def pool(config: configs.Raw | None = None, **options: Any) -> dict[str, Any]:
    return dict(estimate(config or configs.dense(), options)["pool"])


def numbers(told: dict[str, Any], *names: str) -> list[Any]:
    return [told[name]["value"] for name in names]


def test_five_terabytes_of_long_requests() -> None:
    whole = pool(length=32768, pool_bytes="5TB", watermark=1.0)
    assert numbers(whole, "sequences", "tokens") == [512, 512 * 32768]
    told = pool(length=32768, pool_bytes="5TB", watermark=0.9)
    assert numbers(told, "usable", "sequences") == [int(5 * 1024**4 * 0.9), 460]
    assert all(told[name]["unit"] for name in FIGURES)


def test_how_long_it_stays() -> None:
    given_rate = pool(pool_bytes="1TB", watermark=0.9, eviction_ratio=0.1, tokens_per_second=1000)
    assert numbers(given_rate, "new_bytes") == [327680000.0]
    assert numbers(given_rate, "kept_least", "kept_most") == pytest.approx([2684.35, 3019.90], abs=0.01)
    requests = pool(pool_bytes="1TB", watermark=0.9, eviction_ratio=0.1, requests_per_second=2, length=500)
    assert numbers(requests, *FIGURES[4:]) == numbers(given_rate, *FIGURES[4:])


@pytest.mark.parametrize(
    ("options", "untold"),
    [
        ({}, {*FIGURES}),
        ({"pool_bytes": "1GB"}, {*FIGURES} - {"bytes"}),
        ({"pool_bytes": "1GB", "mooncake_version": "0.3.12"}, {*FIGURES[3:]}),
        ({"pool_bytes": "1GB", "watermark": 0.9, "length": 10}, {*FIGURES[4:]}),
        ({"pool_bytes": "1GB", "watermark": 0.9, "requests_per_second": 1}, {*FIGURES[3:]}),
        ({"tokens_per_second": 1, "watermark": 0.9, "length": 1}, {*FIGURES} - {"new_tokens", "new_bytes"}),
    ],
)
def test_what_was_not_given_is_unknown(options: dict[str, Any], untold: set[str]) -> None:
    told = pool(**options)
    assert {name for name in FIGURES if told[name]["value"] is None} == untold
    assert all(bool(told[name]["unknown"]) == (name in untold) for name in FIGURES)


def test_pool_of_a_model_with_states() -> None:
    told = pool(configs.stateful(), pool_bytes="1TB", watermark=0.9, length=10, tokens_per_second=5)
    assert numbers(told, "tokens", "sequences", "new_bytes", "kept_most") == [None] * 4
    assert "36 layers keep a state" in told["tokens"]["unknown"]
    assert numbers(told, "bytes", "new_tokens") == [1024**4, 5]


@pytest.mark.parametrize(
    ("version", "high", "lease"),
    [("0.3.7.post2", 0.95, 5), ("0.3.11.post1", 0.95, 5), ("0.3.12", 0.90, 10), ("0.3.13.post1", 0.90, 10)],
)
def test_defaults_of_releases(version: str, high: float, lease: int) -> None:
    mark = watermark(None, None, version)
    assert (mark.high, mark.evicted, mark.lease, mark.source) == (high, 0.05, lease, f"default of Mooncake {version}")
    assert watermark(0.5, None, version).high == 0.5
    # what the plan starts the master with, in its milliseconds
    assert watermark(None, None, version, 35000).lease == 35


@pytest.mark.parametrize(
    ("high", "rate", "expected"),
    [
        (0.9, 1, []),
        (0.85, 1, []),
        (0.95, 1, ["0.95 leaves 5% free"]),
        (1.0, 1, ["only after a put has failed"]),
        (0.9, 2e9, ["fills in 5 s", "ratio=0.80 or lower"]),
        (0.95, 2e9, ["0.95 leaves 5% free", "ratio=0.80 or lower"]),
        (0.9, 2e10, ["Mend: enlarge the pool."]),
    ],
)
def test_advice(high: float, rate: float, expected: list[str]) -> None:
    found = list(
        advice(watermark(high, None, "0.3.12"), Figure(100_000_000_000, "bytes"), Figure(rate, "bytes/second"))
    )
    text = "\n".join(f"{item['message']} Mend: {item['fix']}" for item in found)
    assert [piece for piece in expected if piece in text] == expected
    assert bool(found) == bool(expected)


def test_no_advice_about_what_is_not_known() -> None:
    nothing = unknown("bytes", "not given")
    assert list(advice(watermark(None, None, None), nothing, nothing)) == []
    assert list(advice(watermark(0.9, None, "0.3.12"), nothing, nothing)) == []


POSITIVE = st.floats(0.001, 1e6)


def pairs(one: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(one, min_size=2, max_size=2).map(sorted)


@given(pairs(POSITIVE), pairs(st.floats(0.01, 1)), pairs(st.integers(1, 2**45)))
def test_horizon_is_monotone(rates: list[float], shares: list[float], totals: list[int]) -> None:
    """More new tokens are evicted sooner; a larger pool and a higher watermark keep them longer."""
    (slow, fast), (low, high), (small, large) = rates, shares, totals
    short = pool(pool_bytes=small, watermark=low, tokens_per_second=fast)
    long = pool(pool_bytes=large, watermark=high, tokens_per_second=slow)
    for name in ("kept_least", "kept_most"):
        assert short[name]["value"] <= long[name]["value"]
    assert 0 <= short["kept_least"]["value"] <= short["kept_most"]["value"]
    assert short["tokens"]["value"] <= long["tokens"]["value"]
    assert short["tokens"]["value"] * 327680 <= small * low


def test_bad_options_tell_all_at_once() -> None:
    with pytest.raises(CapacityError) as raised:
        pool(
            **{"length": 0, "pool_bytes": "lots", "watermark": 1.5, "eviction_ratio": 0, "mooncake_version": "new"},
            **{"tokens_per_second": -1, "dtype": "fp64", "kv_cache_dtype": "fp7", "tp": 0},
        )
    text = str(raised.value)
    assert {problem.where for problem in raised.value.problems} == {
        *("length", "pool_bytes", "watermark", "eviction_ratio", "mooncake_version", "tokens_per_second"),
        *("dtype", "kv_cache_dtype", "tp"),
    }
    assert text.count("Mend: ") == 9
    assert "config.json" not in text
    with pytest.raises(CapacityError, match=r"requests_per_second: .*they say the same"):
        pool(tokens_per_second=1, requests_per_second=1, length=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((4096, 4096), ("4096", 4096), ("4GB", 4 * 1024**3), ("4 GiB", 4 * 1024**3), ("1.5g", 1536 * 1024**2)),
        *(("5TB", 5 * 1024**4), ("64b", 64), ("0", None), ("-1", None), ("GB", None), (True, None), ("4XB", None)),
        *(("1e9", None), ("", None), (None, None)),
    ],
)
def test_sizes(text: Any, expected: int | None) -> None:
    assert sizes.size(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("32768", 32768), ("32k", 32000), ("32K", 32768), ("25.6k", 25600), ("64M", 2**26), ("auto", None), ("", None)],
)
def test_numbers_of_the_engine(text: str, expected: int | None) -> None:
    assert sizes.count(text) == expected


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (70272, "bytes/token", "68.6 KiB/token"),
        (10 * 1024**3, "bytes", "10 GiB"),
        (1023, "bytes", "1,023 B"),
        (2048.0, "bytes/second", "2 KiB/second"),
        (7549747, "tokens", "7,549,747 tokens"),
        (0.25, "seconds", "0.25 s"),
        (90, "seconds", "1.5 min"),
        (7200, "seconds", "2 h"),
        (259200.0, "seconds", "3 days"),
        (None, "seconds", "UNKNOWN"),
    ],
)
def test_text_of_figures(value: float | None, unit: str, text: str) -> None:
    assert Figure(value, unit).text() == text


def test_reasons_add_up() -> None:
    one, other = unknown("a", "first", ""), unknown("b", "second", "first")
    assert combine("c", max, Figure(1, ""), one, other).why == "first; second"
    assert combine("c", lambda left, right: left + right, Figure(1, ""), Figure(2, "")) == Figure(3, "c")
