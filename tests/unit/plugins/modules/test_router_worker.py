# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""router_worker with the real launcher and watcher, before stand-ins for routers and instances."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import router_out
from ansible_collections.mooncake.pd.plugins.modules import router_worker
from ansible_collections.mooncake.pd.tests.sim.router.harness import (
    STAND_IN_LAYERWISE,
    Cluster,
    Instance,
    get_json,
    request,
    wait_until,
)
from ansible_collections.mooncake.pd.tests.sim.router.rotation import Rotation

from .conftest import RunModule


@pytest.fixture
def make_rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_module: RunModule) -> Iterator[Any]:
    made: list[Cluster] = []

    def make(prefill: int = 2, decode: int = 2, watcher: bool = True, router: list[str] | None = None) -> Rotation:
        cluster = Cluster(tmp_path, prefill, decode, router)
        made.append(cluster)
        cluster.start()
        if watcher:
            cluster.watch()
        monkeypatch.setattr(router_worker, "INTERVAL", 0.05)
        return Rotation(cluster, run_module, monkeypatch, watcher)

    yield make
    for cluster in made:
        cluster.stop()
        print(cluster.logs())


def hold(cluster: Cluster, worker: Instance, seconds: float) -> threading.Thread:
    """A request that router-a has under way with a worker."""
    path = f"/hold?seconds={seconds}&worker={worker.url}"
    thread = threading.Thread(target=request, args=(cluster.ports[0], path), kwargs={"timeout": 60}, daemon=True)
    thread.start()
    return thread


def test_out_and_back(make_rotation: Any) -> None:
    rotation = make_rotation()
    assert rotation.run("listed")["out"] == []

    foretold = rotation.run("drained", "d1", check=True)
    assert (foretold["changed"], foretold["out"], foretold["drained"]) == (True, ["d1"], [])
    assert foretold["diff"] == {"before": "", "after": "d1 is out\n"}
    assert not rotation.cluster.out_file.exists()
    assert rotation.workers() == [{"p1", "p2", "d1", "d2"}] * 2

    answer = rotation.run("drained", "d1")
    assert not answer["failed"], answer
    assert (answer["changed"], answer["out"], rotation.starts) == (True, ["d1"], [1, 1])
    assert [item["name"] for item in answer["drained"]] == ["d1"]
    assert rotation.workers() == [{"p1", "p2", "d2"}] * 2
    for router in answer["routers"]:
        assert router["ready"]
        assert not router["restarted"]
        assert {worker["instance"] for worker in router["workers"]} == {"p1", "p2", "d2"}
        assert all(worker["healthy"] for worker in router["workers"])

    again = rotation.run("drained", "d1")
    assert (again["failed"], again["changed"], again["out"]) == (False, False, ["d1"])
    assert rotation.run("listed")["out"] == ["d1"]

    foretold = rotation.run("present", "d1", check=True)
    assert (foretold["changed"], foretold["out"]) == (True, [])
    assert [router["restarted"] for router in foretold["routers"]] == [True, True]
    answer = rotation.run("present", "d1")
    assert not answer["failed"], answer
    assert [router["restarted"] for router in answer["routers"]] == [True, True]
    assert (answer["changed"], answer["out"], rotation.starts) == (True, [], [2, 2])
    assert rotation.workers() == [{"p1", "p2", "d1", "d2"}] * 2
    assert not rotation.cluster.out_file.exists()

    again = rotation.run("present", "d1")
    assert (again["failed"], again["changed"], rotation.starts) == (False, False, [2, 2])


def test_restarted_prefill_comes_back_with_its_new_engine_id(make_rotation: Any) -> None:
    rotation = make_rotation()
    first = rotation.cluster.prefill[0]
    assert not rotation.run("drained", "p1")["failed"]
    first.kill()
    first.start(health_delay=1.0)
    time.sleep(1.2)
    assert rotation.starts == [1, 1], "healthy again, but out"
    assert not rotation.run("present", "p1")["failed"]
    assert rotation.cluster.current()
    assert rotation.starts == [2, 2]


def test_drain_waits_for_what_runs(make_rotation: Any) -> None:
    rotation = make_rotation()
    first = rotation.cluster.decode[0]
    # one that pulls from nowhere runs until its client goes
    client = http.client.HTTPConnection("127.0.0.1", first.port, timeout=60)
    client.request("POST", "/v1/completions", json.dumps({"model": "tiny", "prompt": "x"}))
    wait_until(lambda: get_json(first.port, "/stand-in")["running"] == 1, "it runs")
    answer = rotation.run("drained", "d1", drain_timeout=1)
    assert answer["failed"]
    assert f"{first.url} has 1 requests running and 0 waiting" in answer["msg"]
    client.close()
    wait_until(lambda: get_json(first.port, "/stand-in")["running"] == 0, "it has ended")
    assert not rotation.run("drained", "d1")["failed"]


def test_drain_that_does_not_end_leaves_it_out(make_rotation: Any) -> None:
    """The instance itself is idle: the router has chosen it, but prefill is not done."""
    rotation = make_rotation()
    hold(rotation.cluster, rotation.cluster.decode[0], 60)
    wait_until(lambda: rotation.run("listed")["routers"][0]["ready"], "router-a answers")
    answer = rotation.run("drained", "d1", drain_timeout=1)
    assert answer["failed"]
    assert "d1 is not proven idle after 1 s" in answer["msg"]
    assert f"router-a has 1 requests under way with {rotation.cluster.decode[0].url}" in answer["msg"]
    assert "stays out. Mend: " in answer["msg"]
    assert (answer["out"], answer["drained"]) == (["d1"], [])
    assert rotation.workers() == [{"p1", "p2", "d2"}] * 2


def test_blocks_of_a_prefill_are_waited_for_so_long(make_rotation: Any) -> None:
    rotation = make_rotation()
    for instance in (rotation.cluster.prefill[0], rotation.cluster.decode[0]):
        instance.kill()
        instance.start(kv_usage=0.2)
    wait_until(rotation.cluster.current, "taken in again")
    answer = rotation.run("drained", "p1", "d1", kv_timeout=1)
    assert not answer["failed"], answer
    waited = {item["name"]: item for item in answer["drained"]}
    assert waited["p1"]["kv_waited_out"]
    assert waited["p1"]["seconds"] >= 1
    assert not waited["d1"]["kv_waited_out"], "nobody fetches from a decode"


def test_dead_instance_is_drained_but_a_silent_one_is_not(make_rotation: Any, monkeypatch: Any) -> None:
    rotation = make_rotation(2, 3)
    dead = rotation.cluster.decode[0]
    dead.kill()
    assert not rotation.run("drained", "d1")["failed"]
    silent = rotation.cluster.decode[1]
    monkeypatch.setattr(router_worker, "ANSWER_TIMEOUT", 0.3)
    assert silent.unit is not None
    assert silent.unit.process is not None
    silent.unit.process.send_signal(19)
    answer = rotation.run("drained", "d2", drain_timeout=1)
    silent.unit.process.send_signal(18)
    assert answer["failed"]
    assert f"{silent.url} does not tell what it runs" in answer["msg"]
    assert answer["out"] == ["d1", "d2"]


def test_refusals_change_nothing(make_rotation: Any) -> None:
    rotation = make_rotation(1, 2)
    rotation.cluster.decode[1].kill()
    wait_until(
        lambda: [w["healthy"] for w in rotation.run("listed")["routers"][0]["workers"]].count(False) == 1, "seen"
    )
    cases = [
        (
            ("drained", "d1"),
            {},
            "router-a would keep no decode at all that is healthy.*min_healthy wants 1 decode.*Mend",
        ),
        (("drained", "p1"), {}, "router-b would keep no prefill at all"),
        (("drained", "x"), {}, "names: x is no instance"),
        (("drained", "d1"), {"back": ["d2"]}, "back: d2 cannot serve: .*cannot be read"),
        (("drained", "d1"), {"back": ["d1"]}, "d1 is in names and in back"),
        (("present",), {"back": ["d1"]}, "back: goes with state drained only"),
        (("present",), {}, "d2 cannot serve: .*Mend: make it healthy"),
    ]
    for (state, *names), options, text in cases:
        answer = rotation.run(state, *names, **options)
        assert answer["failed"], (state, names)
        assert not answer["changed"]
        assert answer["msg"].startswith("Nothing was changed.\n")
        with pytest.raises(AssertionError, match=f"(?s){text}"):
            raise AssertionError(answer["msg"])
    assert not rotation.cluster.out_file.exists()
    assert rotation.workers() == [{"p1", "d1", "d2"}] * 2
    # what serves nothing costs nothing, and the service may be let down on purpose
    assert not rotation.run("drained", "d2")["failed"]
    assert not rotation.run("drained", "d1", min_healthy={"decode": 0})["failed"]
    assert rotation.workers() == [{"p1"}] * 2


def test_only_the_healthy_come_back(make_rotation: Any) -> None:
    rotation = make_rotation(2, 3)
    assert not rotation.run("drained", "d1", "d2")["failed"]
    rotation.cluster.decode[0].kill()
    answer = rotation.run("present", healthy_only=True)
    assert not answer["failed"], answer
    assert answer["out"] == ["d1"]
    assert [item["name"] for item in answer["left_out"]] == ["d1"]
    assert "cannot be read" in answer["left_out"][0]["why"]
    assert rotation.workers() == [{"p1", "p2", "d2", "d3"}] * 2


def test_swap_leaves_no_router_without_members(make_rotation: Any) -> None:
    rotation = make_rotation()
    assert not rotation.run("drained", "p1", "d1")["failed"]
    answer = rotation.run("drained", "p2", "d2", back=["p1", "d1"])
    assert not answer["failed"], answer
    assert answer["out"] == ["p2", "d2"]
    assert rotation.workers() == [{"p1", "d1"}] * 2
    assert rotation.starts == [2, 2]
    assert not rotation.cluster.said("took out " + rotation.cluster.prefill[1].url), "it left by the restart"


def test_layerwise_proxies_restart_for_it(make_rotation: Any) -> None:
    rotation = make_rotation(1, 2, router=STAND_IN_LAYERWISE)
    rotation.kind = "ascend_layerwise"
    foretold = rotation.run("drained", "d1", check=True)
    assert [router["restarted"] for router in foretold["routers"]] == [True, True]
    answer = rotation.run("drained", "d1")
    assert not answer["failed"], answer
    # the second may still be on its way up
    wait_until(lambda: rotation.workers() == [{"p1", "d2"}] * 2, "both without d1")
    assert [router["restarted"] for router in answer["routers"]] == [True, True]
    assert {worker["healthy"] for router in answer["routers"] for worker in router["workers"]} == {None}
    assert not rotation.run("drained", "d1")["changed"]
    assert not rotation.run("present", "d1")["failed"]
    assert rotation.workers() == [{"p1", "d1", "d2"}] * 2
    assert rotation.starts == [3, 3]


def test_removed_by_hand_comes_back(make_rotation: Any) -> None:
    rotation = make_rotation()
    first = rotation.cluster.decode[0]
    request(rotation.cluster.ports[1], f"/remove_worker?url={first.url}", method="POST")
    answer = rotation.run("present", "d1")
    assert not answer["failed"], answer
    assert rotation.workers() == [{"p1", "p2", "d1", "d2"}] * 2
    assert rotation.starts == [1, 2], "the other one has it"


def test_name_that_left_the_plan_is_dropped(make_rotation: Any) -> None:
    rotation = make_rotation()
    router_out.write(str(rotation.cluster.out_file), {"gone": ["http://127.0.0.1:1"], "d1": ["http://127.0.0.1:2"]})
    answer = rotation.run("drained", "d1")
    assert not answer["failed"], answer
    assert router_out.read(str(rotation.cluster.out_file)) == {"d1": [rotation.cluster.decode[0].url]}


def test_without_a_watcher_nothing_is_changed(make_rotation: Any) -> None:
    rotation = make_rotation(1, 2, watcher=False)
    answer = rotation.run("drained", "d1")
    assert answer["failed"]
    assert "mooncake-pd-router-watch.service does not run" in answer["msg"]
    assert not rotation.cluster.out_file.exists()
    assert rotation.run("listed")["failed"] is False


def test_routers_of_an_older_launcher_are_not_touched(make_rotation: Any) -> None:
    rotation = make_rotation(1, 2)
    rotation.cluster.watcher.stop()
    for router, change in zip(rotation.cluster.routers, ("workers", "pid"), strict=True):
        record = json.loads((router.runtime / "members.json").read_text())
        del record[change]
        (router.runtime / "members.json").write_text(json.dumps(record))
    answer = rotation.run("drained", "d1")
    assert answer["failed"]
    assert "router-a was started by an older launcher" in answer["msg"]
    assert "router-b runs, but was not started by the launcher" in answer["msg"]
    assert answer["msg"].count("Mend: run playbooks/start.yml") == 2


def test_file_that_cannot_be_read_is_an_error(make_rotation: Any) -> None:
    rotation = make_rotation(1, 2)
    rotation.cluster.out_file.write_text('["d1"]')
    answer = rotation.run("drained", "d1")
    assert answer["failed"]
    assert "does not tell who is out" in answer["msg"]
    assert "Mend: move it away" in answer["msg"]
    assert rotation.workers() == [{"p1", "d1", "d2"}] * 2
