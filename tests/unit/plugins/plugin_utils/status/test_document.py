# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.status.document import SCHEMA, document, to_json
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.problem import age
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.seen import LEFT_OUT, instances_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.text import text

from .clusters import NOW, Cluster, process, unit

GROUPS = ("p1-0", "p1-1", "d1-0", "d1-1")


def told(content: dict[str, Any], severity: str = "error") -> list[tuple[str, str]]:
    return [(each["rule"], each["name"]) for each in content["problems"] if each["severity"] == severity]


def instance(content: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (each for each in content["instances"] if each["name"] == name)
    return found


def test_cluster_that_is_well() -> None:
    content = document(Cluster(2, 2, hosts=2).seen())
    assert (content["ok"], content["problems"], content["left_out"]) == (True, [], [])
    assert content["schema"] == SCHEMA
    assert content["summary"] == {
        "hosts": 9,
        "looked_at": 9,
        "instances": 4,
        "judged": 4,
        "as_planned": 4,
        "errors": 0,
        "notices": 0,
    }
    first = instance(content, "p1")
    assert (first["planned"], first["up"], first["health"], first["in_router"]) == (2, 2, "healthy", "yes")
    assert (first["memory"], first["since"], first["plan"]) == (2 << 30, NOW - 3900, "as planned")
    assert instance(content, "d2")["external_tokens"] == 1234
    assert [service["kind"] for service in content["services"]] == ["frontend", "router", "router", "watcher", "master"]
    assert json.loads(to_json(content)) == content


def test_killed_process() -> None:
    cluster = Cluster()
    cluster.end("npu2")
    content = document(cluster.seen())
    assert (content["ok"], told(content)) == (False, [("failed", "d1")])
    found = instance(content, "d1")
    assert (found["ok"], found["up"], found["health"], found["plan"], found["since"]) == (
        *(False, 0, "down", "not running"),
        None,
    )
    (problem,) = content["problems"]
    assert "mooncake-pd-d1.service on npu2 failed: killed by SIGKILL" in problem["what"]
    assert "/var/log/mooncake-pd/mooncake-pd-d1.log" in problem["fix"]
    assert instance(content, "p1")["ok"]


def test_one_rank_of_two_is_down() -> None:
    cluster = Cluster(hosts=2)
    cluster.unit("npu4").update(active_state="inactive", running=False)
    cluster.sicken("d1", "HTTP 500")
    content = document(cluster.seen())
    found = instance(content, "d1")
    assert (found["up"], found["planned"], found["health"]) == (1, 2, "not healthy")
    assert told(content) == [("stopped", "d1")]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"waits_for_restart": True, "active_state": "activating", "running": False}, "restarting"),
        ({"active_state": "activating"}, "changing"),
        ({"active_state": "inactive", "running": False}, "stopped"),
        ({"installed": False, "active_state": "inactive", "running": False}, "not-installed"),
    ],
)
def test_unit_that_does_not_run(change: dict[str, Any], rule: str) -> None:
    cluster = Cluster()
    cluster.unit("npu1").update(change)
    assert told(document(cluster.seen())) == [(rule, "p1")]


def test_engine_that_is_still_loading() -> None:
    cluster = Cluster()
    cluster.unit("npu2")["since"] = NOW - 12
    cluster.sicken("d1", "connection refused")
    content = document(cluster.seen())
    assert told(content) == [("not-healthy", "d1")]
    assert content["problems"][0]["what"] == "http://npu2:8100 is not healthy: connection refused, up for 12s"


def test_restarted_and_not_enabled_are_notices() -> None:
    cluster = Cluster()
    cluster.unit("npu1").update(restarts=2, enabled=False)
    content = document(cluster.seen())
    assert (content["ok"], told(content, "notice")) == (True, [("restarted", "p1"), ("not-enabled", "p1")])
    assert "2 times, the last one 1h 5m ago" in content["problems"][0]["what"]


def test_other_arguments() -> None:
    cluster = Cluster()
    cluster.running["npu2"][0]["outdated"] = True
    content = document(cluster.seen())
    assert (told(content), instance(content, "d1")["plan"]) == ([("other-arguments", "d1")], "other arguments")
    assert "roll.yml" in content["problems"][0]["fix"]


def test_host_that_could_not_be_compared() -> None:
    cluster = Cluster()
    cluster.running.pop("npu2")
    content = document(cluster.seen(uncompared={"npu2": "no CANN in /usr/local"}))
    assert (told(content), instance(content, "d1")["plan"]) == ([("not-compared", "d1")], "unknown")
    assert "no CANN" in content["problems"][0]["what"]


def test_unreachable_host() -> None:
    cluster = Cluster(hosts=2)
    absent = cluster.lose("npu4", "it cannot be reached: no route")
    content = document(cluster.seen(absent=absent))
    assert told(content) == [("not-seen", "npu4")]
    found = instance(content, "d1")
    # the API answers, and still nobody knows how the other rank is
    assert (found["ok"], found["up"], found["health"], found["plan"]) == (False, None, "healthy", "unknown")
    assert instance(content, "p1")["ok"]


def test_unreachable_control_host() -> None:
    cluster = Cluster()
    absent = cluster.lose("control", "it cannot be reached: no route")
    content = document(cluster.seen(absent=absent, routers=None, routers_unknown="no route", asked={}))
    assert told(content) == [("not-seen", "control"), ("not-asked", "routers")]
    assert {service["state"] for service in content["services"]} == {"unknown"}
    assert not any(service["ok"] for service in content["services"])
    assert instance(content, "p1")["in_router"] == "unknown"


def test_nobody_answers() -> None:
    cluster = Cluster()
    absent = {host: "no route" for host in cluster.plans}
    content = document(cluster.seen(units={}, running={}, absent=absent, engines=None, routers=None, asked={}))
    assert not content["ok"]
    assert {rule for rule, _name in told(content)} == {"not-seen", "not-asked"}
    assert [item["ok"] for item in content["instances"]] == [False, False]


def test_limit_is_told_and_the_rest_judged() -> None:
    cluster = Cluster()
    absent = {**cluster.lose("control", LEFT_OUT), **cluster.lose("npu2", LEFT_OUT)}
    content = document(cluster.seen(absent=absent, routers=None, asked={}))
    assert (content["ok"], content["left_out"]) == (True, ["control", "npu2"])
    assert [item["name"] for item in content["instances"]] == ["p1"]
    assert (instance(content, "p1")["in_router"], content["services"]) == (None, [])


def test_nothing_was_looked_at() -> None:
    cluster = Cluster()
    content = document(
        cluster.seen(units={}, absent=dict.fromkeys(cluster.plans, LEFT_OUT), engines=None, routers=None)
    )
    assert (content["ok"], content["problems"]) == (False, [])


def test_engines_were_not_asked() -> None:
    content = document(Cluster().seen(engines=None, engines_unknown="it broke"))
    assert told(content) == [("not-asked", "engines")]
    assert [item["health"] for item in content["instances"]] == ["unknown", "unknown"]
    assert not any(item["ok"] for item in content["instances"])


def test_engines_that_only_their_hosts_could_ask() -> None:
    """No router's host is there that asks them for numbers."""
    cluster = Cluster(hosts=2)
    asked = {f"npu{number}": {name: {"ok": True, "why": ""}} for number, name in enumerate(GROUPS, 1)}
    absent = cluster.lose("control", LEFT_OUT)
    seen = cluster.seen(absent=absent, engines=None, routers=None, asked=asked)
    content = document(seen)
    assert (content["ok"], told(content)) == (True, [])
    assert [item["health"] for item in content["instances"]] == ["healthy", "healthy"]
    asked["npu4"]["d1-1"] = {"ok": False, "why": "refused"}
    assert told(document(seen)) == [("not-healthy", "d1")]
    asked.pop("npu4")
    assert told(document(seen)) == [("not-asked", "engines")]


def test_instances_where_nobody_lists_them() -> None:
    cluster = Cluster(1, 2, hosts=2)
    found = [(item["name"], item["kind"], item["hosts"]) for item in instances_of(cluster.plans)]
    assert found == [(item["name"], item["kind"], item["hosts"]) for item in cluster.instances]


def test_taken_out_of_the_routers() -> None:
    cluster = Cluster()
    cluster.routers["out"] = ["d1"]
    content = document(cluster.seen())
    assert (told(content), instance(content, "d1")["in_router"]) == ([("out-of-router", "d1")], "out")
    for router in cluster.routers["routers"]:
        router.update(ready=False, workers=[])  # without a decode
    content = document(cluster.seen())
    assert [item["in_router"] for item in content["instances"]] == ["unknown", "out"]


@pytest.mark.parametrize(("lacking", "shown"), [([0], "1 of 2"), ([0, 1], "no")])
def test_not_in_every_router(lacking: list[int], shown: str) -> None:
    cluster = Cluster()
    for number in lacking:
        cluster.routers["routers"][number]["workers"].pop()
    content = document(cluster.seen())
    assert (told(content), instance(content, "d1")["in_router"]) == ([("not-in-router", "d1")], shown)


def test_router_with_a_part_of_the_servers_has_not_the_instance() -> None:
    cluster = Cluster()
    cluster.instances[1]["api_urls"].append("http://npu2:8101")
    assert instance(document(cluster.seen()), "d1")["in_router"] == "no"


def test_router_that_takes_a_healthy_worker_for_unhealthy() -> None:
    cluster = Cluster()
    cluster.routers["routers"][1]["workers"][0]["healthy"] = False
    assert told(document(cluster.seen())) == [("router-disagrees", "p1")]


def test_router_that_cannot_tell_a_workers_health() -> None:
    cluster = Cluster()
    for router in cluster.routers["routers"]:
        for worker in router["workers"]:
            worker["healthy"] = None
    assert document(cluster.seen())["ok"]


def test_router_that_is_not_ready_does_not_count() -> None:
    cluster = Cluster()
    cluster.routers["routers"][1].update(ready=False, workers=[])
    content = document(cluster.seen())
    assert told(content) == [("not-healthy", "router-b")]
    assert instance(content, "p1")["in_router"] == "yes"


def test_prefill_without_engine_id() -> None:
    cluster = Cluster()
    cluster.engines[0]["engine_ids"] = []
    assert told(document(cluster.seen())) == [("no-engine-id", "p1")]


def test_numbers_that_are_not_told() -> None:
    cluster = Cluster()
    cluster.engines[1].update(problems=["http://npu2:8100: no metrics"], kv_usage=None)
    content = document(cluster.seen())
    assert (content["ok"], told(content, "notice")) == (True, [("not-told", "d1")])


def test_front_door_that_serves_nothing() -> None:
    cluster = Cluster()
    asked = {"control": {"router": {"ok": False, "why": "HTTP 503"}, "master": {"ok": True, "why": ""}}}
    content = document(cluster.seen(asked=asked))
    assert told(content) == [("not-healthy", "router")]
    assert "HTTP 503" in content["problems"][0]["what"]


def test_service_that_was_not_asked_is_unknown() -> None:
    content = document(Cluster().seen(asked={}))
    assert told(content) == [("not-healthy", "router"), ("not-healthy", "master")]


def masters(*roles: tuple[str, bool], **wrong: Any) -> dict[str, Any]:
    """Two masters that stand by for each other, on control and npu1, with what they answer and what npu1 lacks."""
    cluster = Cluster()
    cluster.plans["npu1"]["processes"].append(process("master", "master"))
    cluster.units["npu1"]["units"].append(
        unit(cluster.plans["npu1"]["processes"][-1]["unit"]["name"], **wrong.pop("unit", {}))
    )
    answers = [
        {"ok": True, "why": "", "json": {"role": role, "service_ready": ready, "leader_address": "192.0.2.10:17051"}}
        for role, ready in roles
    ]
    if "absent" in wrong:
        del cluster.units["npu1"]
    asked = {"control": {"router": {"ok": True, "why": ""}, "master": answers[0]}}
    seen = cluster.seen(asked=asked, **wrong)
    seen.asked["npu1"] = {"master": answers[1]} if len(answers) > 1 else {}
    seen.cluster["master"] = {"ha": True, "hosts": ["control", "npu1"]}
    return document(seen)


def test_masters_tell_who_leads() -> None:
    content = masters(("standby", False), ("leader", True))
    assert content["problems"] == []
    found = [(each["host"], each["role"]) for each in content["services"] if each["kind"] == "master"]
    assert found == [("control", "standby"), ("npu1", "leader")]
    assert {each["role"] for each in content["services"] if each["kind"] != "master"} == {None}
    assert "active, standby" in text(content)


@pytest.mark.parametrize("other", [("standby", False), ("leader", False)])
def test_masters_of_which_none_leads(other: tuple[str, bool]) -> None:
    """All of them answer 200, and name the leader that was."""
    assert told(masters(("standby", False), other)) == [("no-leader", "master")]


def test_a_master_that_cannot_be_asked_may_lead() -> None:
    content = masters(("standby", False), absent={"npu1": "no route to host"})
    assert "no-leader" not in {each["rule"] for each in content["problems"]}
    assert not content["ok"]
    assert told(masters(("standby", False))) == [("not-healthy", "master")]


def test_a_master_that_does_not_run_does_not_lead() -> None:
    stopped = {"active_state": "inactive", "running": False}
    assert ("no-leader", "master") in told(masters(("standby", False), unit=stopped))


def test_service_with_an_older_unit_file() -> None:
    cluster = Cluster()
    cluster.unit("control")["outdated"] = True
    assert told(document(cluster.seen())) == [("other-arguments", "router")]


def test_restarts_of_routers_say_nothing() -> None:
    cluster = Cluster()
    for number in (0, 1, 2):  # the front door and the routers
        cluster.unit("control", number)["restarts"] = 3
    assert told(document(cluster.seen()), "notice") == [("restarted", "router")]


def test_stopped_watcher() -> None:
    cluster = Cluster()
    cluster.unit("control", -1).update(active_state="inactive", running=False)
    assert told(document(cluster.seen())) == [("stopped", "router-watch")]


def test_topology_without_a_router() -> None:
    cluster = Cluster()
    cluster.plans["control"]["processes"] = cluster.plans["control"]["processes"][-1:]
    cluster.units["control"]["units"] = cluster.units["control"]["units"][3:4]
    content = document(cluster.seen(cluster={"name": "lab", "router": None}, routers=None))
    assert (content["ok"], [service["name"] for service in content["services"]]) == (True, ["master"])
    assert instance(content, "p1")["in_router"] is None


def test_strays_are_told() -> None:
    cluster = Cluster()
    cluster.units["npu1"]["strays"] = [unit("mooncake-pd-p9.service")]
    content = document(cluster.seen())
    assert (content["ok"], told(content, "notice")) == (True, [("stray", "mooncake-pd-p9.service")])


def test_json_of_any_text() -> None:
    cluster = Cluster()
    cluster.sicken("d1", "bytes \udcff")
    to_json(document(cluster.seen())).encode()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0s"),
        (-3, "0s"),
        (59, "59s"),
        (60, "1m"),
        (61, "1m 1s"),
        (3600, "1h"),
        (90061, "1d 1h"),
        (86400 * 40 + 60, "40d"),
    ],
)
def test_ages(seconds: float, said: str) -> None:
    assert age(seconds) == said
