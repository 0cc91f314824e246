# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pair_proof and vllm_info ask twins: a prefill with an API for each rank, and a decode of two hosts with one API.

The modules run as on a host: a process of its own that reads its arguments from stdin.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Fleet, Started, ask, free_port, free_range, sizes, transfer, wait_until

Home = Callable[..., Path]
P_HOSTS, D_HOSTS, HERE = ("127.0.74.1", "127.0.74.2"), ("127.0.74.11", "127.0.74.12"), "127.0.74.9"
CONNECTORS = {"nixl": "MooncakeConnectorV1", "layerwise": "MooncakeLayerwiseConnector"}
PROMPT = "the quick brown fox jumps over the lazy dog " * 20


def run(module: str, **params: Any) -> dict[str, Any]:
    arguments = {**params, "_ansible_remote_tmp": "/tmp", "_ansible_keep_remote_files": False}
    done = subprocess.run(
        [sys.executable, "-m", f"ansible_collections.mooncake.pd.plugins.modules.{module}"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.strip(), done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


class Cluster:
    """p1: ranks 0 and 1, tp 2, each with an API. d1: rank 0 with the API, rank 1 headless on another host."""

    def __init__(self, fleet: Fleet, home: Path, contract: str, **faults: str) -> None:
        self.contract = contract
        self.urls: dict[str, list[str]] = {"p1": [], "d1": []}
        self.processes: list[Started] = []
        self._fleet, self._home, self._faults = fleet, home, faults
        rpc, kv = {"p1": free_port(), "d1": free_port()}, {"p1": free_range(4), "d1": free_range(2)}

        def start(name: str, host: str, *words: str, api: bool = True, devices: str) -> None:
            role, address, tp = ("kv_producer", P_HOSTS[0], 2) if name == "p1" else ("kv_consumer", D_HOSTS[0], 1)
            if api:
                port = free_port()
                self.urls[name].append(f"http://{host}:{port}")
                words = (*words, "--host", host, "--port", str(port))
            config = transfer(CONNECTORS[contract], role, kv[name], sizes((2, 2), (2, 1)))
            process = fleet.vllm(
                home,
                *("--served-model-name", "q", "--data-parallel-size", "2", "--data-parallel-address", address),
                *("--data-parallel-rpc-port", str(rpc[name]), "-tp", str(tp), "--kv-transfer-config", config, *words),
                VLLM_HOST_IP=host,
                ASCEND_RT_VISIBLE_DEVICES=devices,
                MOONCAKE_PD_TWIN_FAULT=faults.get(name, ""),
            )
            self.processes.append(process)

        for rank, host in enumerate(P_HOSTS):
            start("p1", host, "-dpn", str(rank), devices=f"{2 * rank},{2 * rank + 1}")
        start("d1", D_HOSTS[0], "-dpl", "1", "--api-server-count", "1", devices="4")
        start("d1", D_HOSTS[1], "-dpl", "1", "-dpr", "1", "--headless", api=False, devices="5")
        for process, url in zip(self.processes, [*self.urls["p1"], *self.urls["d1"]], strict=False):
            process.wait_healthy(url, 30)

    @property
    def instances(self) -> list[dict[str, Any]]:
        kinds = {"p1": "prefill", "d1": "decode"}
        return [
            {"name": name, "kind": kinds[name], "api_urls": urls, "bootstrap_urls": []}
            for name, urls in self.urls.items()
        ]

    def prove(self, **params: Any) -> dict[str, Any]:
        every = {"instances": self.instances, "names": ["p1", "d1"], "contract": self.contract, "model": "q"}
        every |= {"prompt": PROMPT, "timeout": 10, "callback_address": HERE}
        return run("pair_proof", **{**every, **params})


@pytest.mark.parametrize("contract", CONNECTORS)
@pytest.mark.parametrize("ascend", ["0.11.0", "0.23.0"])
def test_all_servers_are_proven(fleet: Fleet, home: Home, ascend: str, contract: str) -> None:
    its = Cluster(fleet, home(ascend), contract)
    answer = its.prove()
    assert not answer.get("failed"), answer["msg"]
    asked = [(r["instance"], r["prefill_url"], r["decode_url"]) for r in answer["requests"]]
    (first, second), (decode,) = its.urls["p1"], its.urls["d1"]
    assert asked[:2] == [("p1", first, decode), ("p1", second, decode)]
    assert len(asked) == 3
    assert asked[2][::2] == ("d1", decode)
    for request in answer["requests"]:
        assert request["by_source"]["external_kv_transfer"] == request["prompt_tokens"] > 150
        assert request["by_source"]["local_compute"] == 0
    # nothing is left in flight
    wait_until(lambda: loads(its) == {"p1": (0, 0, 0.0), "d1": (0, 0, 0.0)}, lambda: f"idle: {loads(its)}")


def loads(its: Cluster) -> dict[str, tuple[Any, ...]]:
    answer = run("vllm_info", instances=its.instances)
    return {one["name"]: (one["running"], one["waiting"], one["kv_usage"]) for one in answer["instances"]}


@pytest.mark.parametrize(
    ("contract", "faults", "said"),
    [
        ("nixl", {"d1": "ignore-kv"}, "prompt tokens itself"),
        ("nixl", {"d1": "empty-answer"}, "answered 200 with an empty text"),
        ("nixl", {"p1": "kv-hang"}, "had answered: http"),
        ("layerwise", {"d1": "ignore-kv"}, "prompt tokens itself"),
        ("layerwise", {"d1": "empty-answer"}, "answered 200 with an empty text"),
        ("layerwise", {"p1": "no-push"}, "did not within 2 s: the KV did not come"),
    ],
)
def test_what_is_wrong_is_told(fleet: Fleet, home: Home, contract: str, faults: dict[str, str], said: str) -> None:
    its = Cluster(fleet, home("0.23.0"), contract, **faults)
    # a decode of the pull connector gives up after 5 s by itself
    answer = its.prove(names=["d1"], timeout=2 if "no-push" in faults.get("p1", "") else 20)
    assert answer["failed"]
    assert said in answer["msg"]
    assert answer["requests"] == []


def test_kv_that_never_comes_ends_by_the_time_limit(fleet: Fleet, home: Home) -> None:
    its = Cluster(fleet, home("0.23.0"), "nixl", p1="kv-hang")
    answer = its.prove(names=["p1"], timeout=2)
    (failure,) = answer["failures"]
    assert "did not within 2 s: the KV did not come" in failure["error"]
    assert failure["error"].endswith("Further servers of p1 not asked after that: 1.")


def test_a_pull_decode_asked_by_the_other_contract(fleet: Fleet, home: Home) -> None:
    """It knows no metaserver, and computes the prompt."""
    its = Cluster(fleet, home("0.23.0"), "nixl")
    answer = its.prove(names=["d1"], contract="layerwise", timeout=5)
    assert answer["failed"]
    assert "prompt tokens itself" in answer["msg"]


def test_info_of_twins(fleet: Fleet, home: Home) -> None:
    its = Cluster(fleet, home("0.23.0"), "nixl")
    prefill, decode = run("vllm_info", instances=its.instances)["instances"]
    assert [server["url"] for server in prefill["servers"]] == its.urls["p1"]
    assert (prefill["healthy"], decode["healthy"], prefill["problems"], decode["problems"]) == (True, True, [], [])
    assert {server["version"] for server in prefill["servers"]} == {ask(its.urls["d1"][0] + "/version").json["version"]}
    assert decode["servers"][0]["models"] == ["q"]
    # the headless rank ends, and the API with it
    its.processes[3].kill()
    its.processes[2].wait()
    decode = run("vllm_info", instances=its.instances)["instances"][1]
    assert (decode["healthy"], decode["running"], decode["servers"][0]["refused"]) == (False, None, True)
    failure = its.prove(names=["d1"])["failures"][0]
    assert "Connection refused" in failure["error"]
