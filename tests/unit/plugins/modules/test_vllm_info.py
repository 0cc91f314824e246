# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.modules import vllm_info

from .conftest import Answer, RunModule
from .fake_engines import Engines

DEAD = "http://127.0.0.1:1"
UNKNOWN = ("version", "models", "running", "waiting", "kv_usage", "prompt_tokens", "transfers", "started")


@pytest.fixture
def engines() -> Iterator[Engines]:
    its = Engines("p1", "p1b", "d1", "d1b")
    its.bootstraps = {"b1": {"1": {"engine_id": "second"}, "0": {"engine_id": "first"}}}
    its.its["d1"].external = 40
    yield its
    its.close()


def instances(engines: Engines, **urls: list[str]) -> list[dict[str, Any]]:
    told = {"p1": ["p1"], "d1": ["d1"], **urls}
    return [
        {
            "name": name,
            "kind": {"p": "prefill", "d": "decode"}[name[0]],
            "api_urls": [url if "//" in url else f"{engines.url}/{url}" for url in servers],
            "bootstrap_urls": [f"{engines.url}/b1"] if name == "p1" else [],
            "hosts": ["h1"],
            "shape": {"dp": 1},
        }
        for name, servers in told.items()
    ]


def look(run_module: RunModule, its: list[dict[str, Any]], **params: Any) -> Answer:
    answer = run_module(vllm_info, instances=its, **{"timeout": 3, **params})
    assert (answer["failed"], answer.get("changed")) == (False, False)
    return answer


def test_healthy_instances(run_module: RunModule, engines: Engines) -> None:
    prefill, decode = look(run_module, instances(engines, p1=["p1/"]))["instances"]
    assert prefill["engine_ids"] == ["first", "second"]
    assert prefill["servers"][0]["url"] == f"{engines.url}/p1"
    assert decode == {
        "name": "d1",
        "kind": "decode",
        "healthy": True,
        "running": 1,
        "waiting": 2,
        "kv_usage": 0.25,
        "engine_ids": [],
        "problems": [],
        "servers": [
            {
                "url": f"{engines.url}/d1",
                "healthy": True,
                "refused": False,
                "status": 200,
                "error": None,
                "version": "0.32.0",
                "models": ["tiny"],
                "running": 1,
                "waiting": 2,
                "kv_usage": 0.25,
                "prompt_tokens": {"external_kv_transfer": 40, "local_compute": 0},
                "transfers": None,
                "started": None,
            }
        ],
    }


def test_several_servers_of_an_instance(run_module: RunModule, engines: Engines) -> None:
    engines.its[
        "d1b"
    ].metrics = "vllm:num_requests_running 4\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.5\n"
    decode = look(run_module, instances(engines, d1=["d1", "d1b"]))["instances"][1]
    assert (decode["running"], decode["waiting"], decode["kv_usage"]) == (5, 2, 0.5)
    assert [server["running"] for server in decode["servers"]] == [1, 4]
    assert decode["problems"] == []


def test_one_server_that_is_unknown_makes_the_sum_unknown(run_module: RunModule, engines: Engines) -> None:
    decode = look(run_module, instances(engines, d1=["d1", DEAD]))["instances"][1]
    assert (decode["healthy"], decode["running"], decode["waiting"], decode["kv_usage"]) == (False, None, None, None)
    assert [server["healthy"] for server in decode["servers"]] == [True, False]
    assert decode["problems"] == [f"{DEAD}/health cannot be read: [Errno 111] Connection refused"]
    dead = decode["servers"][1]
    assert (dead["refused"], dead["status"], dead["error"]) == (True, None, decode["problems"][0])
    assert [dead[name] for name in UNKNOWN] == [None] * len(UNKNOWN)


def test_a_server_that_hangs_is_unknown_and_not_dead(run_module: RunModule, engines: Engines) -> None:
    engines.its["d1"].hangs = True
    decode = look(run_module, instances(engines), timeout=0.5)["instances"][1]
    (server,) = decode["servers"]
    assert (server["healthy"], server["refused"], server["status"]) == (False, False, None)
    assert decode["problems"] == [f"{engines.url}/d1/health cannot be read: timed out"]
    assert server["error"] == decode["problems"][0]


def test_an_engine_that_is_dead_behind_its_api(run_module: RunModule, engines: Engines) -> None:
    engines.its["d1"].health = 503
    decode = look(run_module, instances(engines))["instances"][1]
    (server,) = decode["servers"]
    assert (server["healthy"], server["status"], server["running"]) == (False, 503, 1)
    assert decode["problems"] == [server["error"]] == [f"{engines.url}/d1/health answered 503"]


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b'{"version"', b'{"data": [{}]}', b"null"])
def test_answers_without_sense(run_module: RunModule, engines: Engines, answer: bytes) -> None:
    engines.its["d1"].version = engines.its["d1"].models = answer
    decode = look(run_module, instances(engines))["instances"][1]
    (server,) = decode["servers"]
    assert (server["healthy"], server["version"], server["models"], server["running"]) == (True, None, None, 1)
    problems = [problem.partition(" ")[0] for problem in decode["problems"]]
    assert problems == [f"{engines.url}/d1/version", f"{engines.url}/d1/v1/models"]


def test_metrics_without_numbers(run_module: RunModule, engines: Engines) -> None:
    engines.its["d1"].metrics = "python_info 1\nvllm:num_requests_waiting NaN\n"
    decode = look(run_module, instances(engines))["instances"][1]
    said = f"{engines.url}/d1/metrics does not tell running, waiting, kv_usage; is --disable-log-stats set?"
    assert decode["problems"] == [said]
    assert decode["healthy"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "/b1/query answered 404: an empty body"),
        ({}, "/b1/query knows no engine"),
        ("text", "instead of engine ids"),
    ],
)
def test_a_bootstrap_server_without_engines(run_module: RunModule, engines: Engines, answer: Any, said: str) -> None:
    engines.bootstraps["b1"] = answer
    prefill = look(run_module, instances(engines))["instances"][0]
    assert (prefill["healthy"], prefill["engine_ids"]) == (True, [])
    (problem,) = prefill["problems"]
    assert said in problem


def test_everything_is_asked_at_the_same_time(run_module: RunModule, engines: Engines) -> None:
    """Each of these waits for the other before it answers."""
    engines.its["p1"].meet = engines.its["d1"].meet = Barrier(2)
    assert [its["healthy"] for its in look(run_module, instances(engines))["instances"]] == [True, True]


@pytest.mark.parametrize(("params", "said"), [({"timeout": 0}, "timeout must be more"), ({}, "d1 has no api_urls")])
def test_wrong_parameters(run_module: RunModule, engines: Engines, params: dict[str, Any], said: str) -> None:
    answer = run_module(vllm_info, instances=instances(engines, d1=[] if not params else ["d1"]), **params)
    assert answer["failed"]
    assert said in answer["msg"]
