# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.drill import judge, text
from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.known import Asked
from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.plan import planned

from .clusters import known

STRIKE = {"unit": "u", "at": 1000.0, "how": "kill", "lost": True, "by": "itself", "runs": True, "seconds": 2.0}
POOL = {"kept": 64, "kept_at": 995.0, "there": 0, "removed": 72, "stuck": 0, "error": ""}
FILLED = {"filled": {"put": 90, "refused": 10, "failed": 0, "bytes": 90 << 20}, "evicted": 7, "removed": 90, "stuck": 0}


def seen(name: str, **changes: Any) -> dict[str, Any]:
    calm = {"asked": 90, "failed": 0, "since": 990.0, "before": True, "recovered": True, "outage": 0.0}
    return {"name": name, **calm, "answers": [], "reasons": [], **changes}


def watched(**changes: dict[str, Any]) -> list[dict[str, Any]]:
    names = ("leader", "etcd", "target", "requests", "pool")
    return [seen(name, **changes.get(name, {})) for name in names]


def rows(
    drill: str = "master", ready: bool = True, strike: Any = STRIKE, pool: Any = POOL, **changes: Any
) -> dict[str, judge.Row]:
    plan = planned(Asked(drill), known()).as_dict()
    results = {plan["watcher"]: {"watched": watched(**changes), "pool": pool}, plan["target"]: {"strike": strike}}
    return {row.measure: row for row in judge.rows(plan, results, ready)}


def test_a_drill_within_its_limits() -> None:
    found = rows(leader={"outage": 10.3, "failed": 40, "answers": ["http://a", "http://b"]})
    assert judge.good(list(found.values())), found
    assert found["a master serves again"].seen == "10.3 s, then http://b"
    assert found["objects that were lost"].seen == "64 of 64"
    assert set(found) == {
        *("mooncake-pd-master.service was lost on b", "a master serves again", "etcd serves"),
        *("what was lost is back", "requests that failed", "the KV pool serves again", "objects that were lost"),
        *("objects of the drill that stay", "put back"),
    }


@pytest.mark.parametrize(
    ("changes", "measure", "verdict"),
    [
        ({"leader": {"outage": 30.1, "failed": 1}}, "a master serves again", "BROKEN"),
        ({"leader": {"recovered": False, "failed": 1}}, "a master serves again", "BROKEN"),
        ({"leader": {"before": False}}, "a master serves again", "UNKNOWN"),
        # nobody saw how it was when it was lost
        ({"leader": {"since": 1001.5}}, "a master serves again", "UNKNOWN"),
        ({"leader": {"asked": 0}}, "a master serves again", "UNKNOWN"),
        ({"etcd": {"outage": 5.1, "failed": 2}}, "etcd serves", "BROKEN"),
        ({"target": {"outage": 61.0, "failed": 2}}, "what was lost is back", "BROKEN"),
        ({"requests": {"failed": 1, "reasons": ["HTTP 503"]}}, "requests that failed", "BROKEN"),
        ({"pool": {"outage": 45.1, "failed": 2}}, "the KV pool serves again", "BROKEN"),
        ({"ready": False}, "put back", "BROKEN"),
        ({"strike": None}, "mooncake-pd-master.service was lost on b", "UNKNOWN"),
        ({"strike": {**STRIKE, "lost": False}}, "mooncake-pd-master.service was lost on b", "UNKNOWN"),
        ({"pool": {"reasons": ["x"]}, "pool_told": {**POOL, "stuck": 1}}, "objects of the drill that stay", "BROKEN"),
        ({"pool_told": {**POOL, "kept_at": 1001.5}}, "objects that were lost", "UNKNOWN"),
        ({"pool_told": {"error": "no way in"}}, "objects that were lost", "UNKNOWN"),
    ],
)
def test_what_is_not_as_stated(changes: dict[str, Any], measure: str, verdict: str) -> None:
    more = dict(changes)
    told = more.pop("pool_told", POOL)
    plan = planned(Asked("master"), known()).as_dict()
    names = {name: value for name, value in more.items() if name not in ("ready", "strike")}
    results = {plan["watcher"]: {"watched": watched(**names), "pool": told}}
    results[plan["target"]] = {"strike": more.get("strike", STRIKE)}
    found = {row.measure: row for row in judge.rows(plan, results, more.get("ready", True))}
    assert found[measure].verdict == verdict
    assert not judge.good(list(found.values()))


def test_a_watcher_that_was_lost_makes_all_of_it_unknown() -> None:
    plan = planned(Asked("master"), known()).as_dict()
    results = {plan["watcher"]: {"unreachable": True, "msg": "no route"}, plan["target"]: {"strike": STRIKE}}
    found = judge.rows(plan, results, ready=True)
    unknown = [row for row in found if row.verdict == judge.UNKNOWN]
    assert len(unknown) == 7
    assert {row.why for row in unknown} == {"no route"}


def test_etcd_may_lose_no_object() -> None:
    found = rows("etcd", pool={**POOL, "there": 63})
    assert found["the other members of etcd serve"].verdict == "good"
    assert found["objects that were lost"].verdict == "BROKEN"


@pytest.mark.parametrize(
    ("changes", "measure", "verdict"),
    [
        ({}, "the master evicts", "good"),
        ({"evicted": 0}, "the master evicts", "BROKEN"),
        ({"evicted": None}, "the master evicts", "UNKNOWN"),
        ({"filled": {"put": 79, "refused": 20, "failed": 1, "bytes": 1}}, "puts without room", "BROKEN"),
        ({"filled": None, "error": "crashed"}, "the pool was filled", "UNKNOWN"),
        ({"stuck": 3}, "objects of the drill that stay", "BROKEN"),
    ],
)
def test_filling(changes: dict[str, Any], measure: str, verdict: str) -> None:
    found = rows("fill", strike=None, pool={**FILLED, **changes})
    assert found[measure].verdict == verdict
    assert judge.good(list(found.values())) is (verdict == "good")


def test_nothing_seen_is_not_good() -> None:
    assert not judge.good([])


def test_for_people() -> None:
    found = list(rows(requests={"failed": 2, "reasons": ["HTTP 503"]}).values())
    plan = planned(Asked("master"), known()).as_dict()
    assert text.summary(plan, found, "lab") == "drill master of lab: NOT as stated (8 of 9)"
    lines = text.table(found)
    assert (lines[0][0].split(), lines[0][1]) == (["MEASURE", "SEEN", "LIMIT"], None)
    assert ("  HTTP 503", False) in lines
    content = text.document(plan, found, "lab", "now")
    assert (content["good"], content["target"], len(content["rows"])) == (False, "b", 9)
