# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils import baseline
from ansible_collections.mooncake.pd.plugins.plugin_utils.baseline import Limits, Row

LIMITS = Limits()


def result(bandwidth: float | None = 10e9, latency: float | None = 50e-6, **more: Any) -> dict[str, Any]:
    blank = {"plane": "tcp", "tool": "bench", "settings": {"block": 1}, "problem": "", "optional": False}
    return {**blank, "bandwidth": bandwidth, "latency": latency, **more}


def pair(*results: dict[str, Any], name: str = "p1-d1") -> dict[str, Any]:
    source, _dash, peer = name.partition("-")
    return {"pair": name, "source": source, "peer": peer, "results": list(results)}


def good(*results: dict[str, Any]) -> dict[str, Any]:
    return {"schema": baseline.SCHEMA, "pairs": {"p1-d1": pair(*results)}}


def row(now: dict[str, Any], before: dict[str, Any] | None = None, limits: Limits = LIMITS) -> Row:
    (only,) = baseline.compare([pair(now)], good(before) if before else None, limits)
    return only


def test_first_run_makes_the_baseline() -> None:
    first = row(result())
    assert (first.state, first.last_bandwidth, first.last_latency) == (baseline.NEW, None, None)
    fresh = baseline.new_last_good([pair(result())], [first], None, "today", accept=False)
    assert fresh == {"schema": 1, "pairs": {"p1-d1": pair({**result(), "run": "today"})}}
    assert row(result(), fresh["pairs"]["p1-d1"]["results"][0]).state == baseline.GOOD


@pytest.mark.parametrize(
    ("bandwidth", "latency", "why"),
    [
        (8.1e9, 74e-6, ""),
        (20e9, 5e-6, ""),
        (7.9e9, 50e-6, "bandwidth lower by 21%"),
        (10e9, 76e-6, "latency higher by 52%"),
        (5e9, 100e-6, "bandwidth lower by 50%; latency higher by 100%"),
        (None, 50e-6, "bandwidth is missing"),
    ],
)
def test_beside_the_last_good_run(bandwidth: float | None, latency: float, why: str) -> None:
    seen = row(result(bandwidth, latency), result())
    assert (seen.state, seen.why) == (baseline.WORSE if why else baseline.GOOD, why)
    assert (seen.last_bandwidth, seen.last_latency) == (10e9, 50e-6)


def test_limits() -> None:
    assert row(result(9e9), result(), Limits(bandwidth=0.05)).state == baseline.WORSE
    assert row(result(latency=60e-6), result(), Limits(latency=0.1)).state == baseline.WORSE


def test_tools_with_one_figure() -> None:
    assert row(result(None, 60e-6), result(None, 50e-6)).state == baseline.GOOD
    assert row(result(10e9, None), result(20e9, None)).state == baseline.WORSE
    assert row(result(10e9, None), result(None, 5e-6)).why == "latency is missing"


def test_what_cannot_be_compared() -> None:
    other = row(result(1e9, settings={"block": 2}), result())
    assert (other.state, other.last_bandwidth) == (baseline.CHANGED, None)
    assert row(result(1e9, tool="other"), result()).state == baseline.NEW
    assert baseline.compare([pair(result(1e9), name="p2-d1")], good(result()), LIMITS)[0].state == baseline.NEW


def test_what_was_not_measured() -> None:
    assert row(result(None, None, problem="refused"), result()).state == baseline.UNMEASURED
    assert row(result(None, None, problem="no tool", optional=True), result()).state == baseline.ABSENT
    assert row(result(None, None)).state == baseline.UNMEASURED


def test_what_a_run_fails_for() -> None:
    pairs = [pair(result(1e9), result(None, None, tool="x", problem="gone"), result(1, 1, tool="y", optional=True))]
    rows = baseline.compare(pairs, good(result()), LIMITS)
    assert baseline.failures(rows, strict=False) == ["p1-d1 tcp (x): gone"]
    assert baseline.failures(rows, strict=True) == ["p1-d1 tcp (bench): bandwidth lower by 90%", "p1-d1 tcp (x): gone"]


def test_only_good_figures_replace_the_last_good_ones() -> None:
    last = {"schema": 1, "pairs": {name: pair(result(), name=name) for name in ("a-b", "c-d", "e-f", "g-h")}}
    pairs = [
        pair(result(11e9), name="a-b"),
        pair(result(1e9), name="c-d"),
        pair(result(12e9), result(None, None, tool="x", problem="gone"), name="e-f"),
        pair(result(None, None, problem="gone"), name="i-j"),
    ]
    rows = baseline.compare(pairs, last, LIMITS)

    def kept(accept: bool) -> dict[str, float]:
        fresh = baseline.new_last_good(pairs, rows, last, "today", accept)
        return {name: item["results"][0]["bandwidth"] for name, item in fresh["pairs"].items()}

    assert kept(accept=False) == {"a-b": 11e9, "c-d": 10e9, "e-f": 12e9, "g-h": 10e9}
    assert kept(accept=True) == {"a-b": 11e9, "c-d": 1e9, "e-f": 12e9, "g-h": 10e9}
    assert last["pairs"]["a-b"]["results"][0]["bandwidth"] == 10e9  # what was given stays as it is


def test_planes_that_are_left_out_keep_their_figures() -> None:
    both = [result(plane="tcp"), result(plane="rdma", problem="")]
    last = baseline.new_last_good([pair(*both)], baseline.compare([pair(*both)], None, LIMITS), None, "first", False)
    now = [pair(result(11e9, plane="tcp"))]
    fresh = baseline.new_last_good(now, baseline.compare(now, last, LIMITS), last, "second", False)
    seen = [(item["plane"], item["bandwidth"], item["run"]) for item in fresh["pairs"]["p1-d1"]["results"]]
    assert seen == [("rdma", 10e9, "first"), ("tcp", 11e9, "second")]


FIGURES = st.one_of(st.none(), st.floats(1e-9, 1e12))


@given(FIGURES, FIGURES, FIGURES, FIGURES)
def test_better_is_never_worse(bandwidth: Any, latency: Any, before: Any, earlier: Any) -> None:
    seen = row(result(bandwidth, latency), result(before, earlier))
    if seen.state == baseline.WORSE:
        lower = before is not None and (bandwidth is None or bandwidth < before)
        assert lower or (earlier is not None and (latency is None or latency > earlier))


def ping(chip: int, ok: bool | None = True, time: float | None = 0.2) -> dict[str, Any]:
    return {"chip": chip, "address": "198.18.0.1", "plane": "roce", "peer": "d1", "ok": ok, "loss": 0, "time": time}


def test_network_of_the_npus() -> None:
    told = baseline.npu_result([ping(0, time=0.3), ping(1, time=0.1), ping(2, time=0.2)], [])
    assert (told["latency"], told["problem"], told["settings"]) == (pytest.approx(0.2e-3), "", {"npus": 3})
    for lost in (ping(5, ok=False, time=None), ping(5, ok=None, time=None)):
        told = baseline.npu_result([ping(0), lost], [])
        assert (told["latency"], told["problem"]) == (None, "NPU 5: no answer to a ping")
    assert baseline.npu_result([], [{"what": "pings", "why": "d1 is silent", "raw": ""}])["problem"] == "d1 is silent"
    untold = {"what": "pings", "why": "NPU 7 of d1 is not pinged", "raw": ""}
    assert baseline.npu_result([ping(0)], [untold])["problem"] == "NPU 7 of d1 is not pinged"
    assert baseline.npu_result([ping(0)], [{**untold, "what": "chips"}])["problem"] == ""
    assert baseline.npu_result([], [])["problem"] == "no NPU was pinged"


def test_table() -> None:
    pairs = [pair(result(1e9, 2e-3), result(5e6, None, tool="x"), result(None, None, tool="y", problem="gone"))]
    lines = baseline.table(baseline.compare(pairs, good(result(2e9, 1e-3)), LIMITS))
    assert [state for _text, state in lines] == ["title", baseline.WORSE, baseline.NEW, baseline.UNMEASURED]
    assert re.split(" {2,}", lines[1][0]) == [
        *("p1-d1", "tcp", "bench", "1.00 GB/s", "2.00 GB/s", "2.00 ms", "1.00 ms"),
        "worse: bandwidth lower by 50%; latency higher by 100%",
    ]
    assert "5.00 MB/s" in lines[2][0]
    assert lines[3][0].endswith("not measured: gone")
