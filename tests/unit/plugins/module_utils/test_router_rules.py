# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import router_out
from ansible_collections.mooncake.pd.plugins.module_utils.router_look import Seen, Worker
from ansible_collections.mooncake.pd.plugins.module_utils.router_rules import (
    Drain,
    held,
    too_few,
    under_way,
    unwell,
)
from ansible_collections.mooncake.pd.tests.sim.router.harness import load_pd_router

PREFILL = {"name": "p1", "kind": "prefill", "api_urls": ["http://p1"], "bootstrap_urls": ["http://b1"]}
DECODE = {"name": "d1", "kind": "decode", "api_urls": ["http://d1:1", "http://d1:2"]}
OTHER = {"name": "d2", "kind": "decode", "api_urls": ["http://d2"]}


def server(**facts: Any) -> dict[str, Any]:
    idle = {"url": "http://d1:1", "refused": False, "error": None, "running": 0, "waiting": 0, "kv_usage": 0.0}
    return {**idle, **facts}


def facts(*servers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"healthy": True, "engine_ids": ["e"], "problems": [], "servers": list(servers), **more}


def router(**health: bool | None) -> Seen:
    urls = {"p1": ["http://p1"], "d1": DECODE["api_urls"], "d2": ["http://d2"]}
    workers = [Worker(url, name, healthy) for name, healthy in health.items() for url in urls[name]]
    return Seen("router-a", "http://r", ready=True, workers=workers)


def test_prefill_without_its_engine_id_is_unwell() -> None:
    assert unwell(PREFILL, facts()) == ""
    assert unwell(PREFILL, facts(engine_ids=[])) == "its bootstrap servers do not tell their engine ids"
    assert unwell(PREFILL, facts(healthy=False, problems=["a", "b"])) == "a; b"
    assert unwell(DECODE, facts(engine_ids=[])) == ""


@pytest.mark.parametrize(
    ("seen", "sick", "change", "least", "refused"),
    [
        (router(p1=True, d1=True, d2=True), {}, (["d1"], []), 1, False),
        (router(p1=True, d1=True, d2=True), {}, (["d1"], []), 2, True),
        (router(p1=True, d1=True, d2=False), {}, (["d1"], []), 1, True),  # this router holds d2 for dead
        (router(p1=True, d1=True), {}, (["d1"], []), 1, True),  # this router does not have d2
        (router(p1=True, d1=True, d2=True), {"d2": "x"}, (["d1"], []), 1, True),
        (router(p1=True, d1=True, d2=True), {"d1": "x", "d2": "x"}, (["d1"], []), 1, False),  # nothing is lost
        (router(p1=True, d1=True), {}, (["d1"], ["d2"]), 1, False),
        (router(p1=None, d1=None, d2=None), {}, (["d1"], []), 1, False),  # it does not look at health
        (router(), {}, (["d1"], []), 1, False),  # it does not run
    ],
)
def test_too_few(seen: Seen, sick: dict[str, str], change: Any, least: int, refused: bool) -> None:
    texts = too_few([PREFILL, DECODE, OTHER], sick, [seen], change, {"prefill": 1, "decode": least})
    assert bool(texts) is refused
    assert all("min_healthy wants" in text for text in texts)


def test_what_may_be_under_way() -> None:
    idle, dead = server(), server(url="http://d1:2", refused=True, running=None, waiting=None)
    assert under_way(DECODE, facts(idle, dead), [router(p1=True)]) == []
    busy = facts(server(running=2, waiting=1))
    assert under_way(DECODE, busy, []) == ["http://d1:1 has 2 requests running and 1 waiting"]
    silent = facts(server(running=None, error="timed out"))
    assert under_way(DECODE, silent, []) == ["http://d1:1 does not tell what it runs: timed out"]
    chosen = Seen("router-a", "http://r", busy={"http://d1:2": 3, "http://d2": 1})
    assert under_way(DECODE, facts(idle), [chosen]) == ["router-a has 3 requests under way with http://d1:2"]


def test_held_is_that_of_the_fullest() -> None:
    assert held(facts(server(kv_usage=0.1), server(kv_usage=0.4))) == 0.4
    assert held(facts(server(kv_usage=0.1), server(kv_usage=None))) is None
    assert held(facts(server(refused=True, kv_usage=None))) == 0.0


def test_idle_counts_only_when_it_lasts() -> None:
    drain = Drain(DECODE, 0.0, settle=1.0, kv_timeout=5.0)
    for now, texts, done in [(0.0, [], False), (0.9, [], False), (1.0, ["busy"], False), (1.5, [], False)]:
        drain.see(now, texts, 0.0)
        assert drain.done is done
    drain.see(2.6, [], 0.3)
    assert drain.facts() == {"name": "d1", "seconds": 2.6, "kv_waited_out": False}
    assert drain.done


@pytest.mark.parametrize("usage", [0.2, None])
def test_blocks_of_a_prefill_are_waited_out(usage: float | None) -> None:
    drain = Drain(PREFILL, 0.0, settle=1.0, kv_timeout=5.0)
    for now in (0.0, 2.0, 4.9):
        drain.see(now, [], usage)
        assert not drain.done
        assert drain.patient
    assert drain.texts[0].startswith("p1 still holds ")
    drain.see(5.0, [], usage)
    assert (drain.done, drain.kv_waited_out) == (True, True)
    drain.see(5.5, [], 0.0)
    assert (drain.done, drain.kv_waited_out) == (True, False)


def test_the_launcher_reads_what_is_written(tmp_path: Path) -> None:
    launcher = load_pd_router()
    path = tmp_path / "folder" / "out.json"
    assert str(launcher.OUT) == router_out.FILE
    old = os.umask(0o077)
    router_out.write(str(path), {"d1": ["http://d1:1", "http://d1:2"], "p1": ["http://p1"]})
    assert launcher.read_out(path) == ({"http://d1:1", "http://d1:2", "http://p1"}, "")
    os.umask(old)
    assert [its.stat().st_mode & 0o777 for its in (path, path.parent)] == [0o644, 0o755], "whatever umask root has"
    assert [item.name for item in path.parent.iterdir()] == ["out.json"]
    router_out.write(str(path), {})
    router_out.write(str(path), {})
    assert launcher.read_out(path) == (set(), "")
    assert router_out.read(str(path)) == {}
