# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""1P1D with MooncakeConnectorV1: KV moves, is counted, is missed when it does not come."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Fleet, PullProxy, Started, ask, free_port, free_range, sizes, transfer

from ansible_collections.mooncake.pd.plugins.module_utils.vllm_metrics import prompt_tokens_by_source, samples
from ansible_collections.mooncake.pd.plugins.modules import kv_proof

Home = Callable[..., Path]
P_HOST, D_HOST, ROUTER = "127.0.71.1", "127.0.71.2", "127.0.71.9"
V1 = "MooncakeConnectorV1"
PROMPT = "the quick brown fox jumps over the lazy dog " * 40


class Pair:
    """A prefill of four workers and a decode of two, on two addresses."""

    def __init__(self, fleet: Fleet, home: Path, faults: dict[str, str] | None = None, **more: Any) -> None:
        self.kv_port = free_range(4)
        self.urls = {host: f"http://{host}:{free_port()}" for host in (P_HOST, D_HOST)}
        environment = more.pop("environment", {})
        shape = sizes((1, 4), (1, 2))
        self.processes: dict[str, Started] = {}
        for host, role, tp, devices in ((P_HOST, "kv_producer", 4, "0,1,2,3"), (D_HOST, "kv_consumer", 2, "4,5")):
            told = {**environment, "VLLM_HOST_IP": host, "ASCEND_RT_VISIBLE_DEVICES": devices}
            told["MOONCAKE_PD_TWIN_FAULT"] = (faults or {}).get(role, "")
            self.processes[host] = fleet.vllm(
                home,
                *("--host", host, "--port", self.urls[host].rpartition(":")[2], "--served-model-name", "q"),
                *("--tensor-parallel-size", str(tp)),
                *("--kv-transfer-config", transfer(V1, role, self.kv_port, shape, **more)),
                **told,
            )
        for host, process in self.processes.items():
            process.wait_healthy(self.urls[host])
        self.prefill, self.decode = self.urls[P_HOST], self.urls[D_HOST]

    def sources(self, url: str) -> dict[str, float]:
        found = prompt_tokens_by_source(ask(f"{url}/metrics").text)
        assert found is not None
        return found

    def first(self, request_id: str = "r1", prompt: str = PROMPT) -> dict[str, Any]:
        body = {"model": "q", "prompt": prompt, "max_tokens": 1}
        told = {"kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False}}
        answer = ask(f"{self.prefill}/v1/completions", {**body, **told}, headers={"X-Request-Id": request_id})
        params: dict[str, Any] = answer.json["kv_transfer_params"]
        return params

    def second(self, params: dict[str, Any], request_id: str = "r1", prompt: str = PROMPT) -> Any:
        body = {"model": "q", "prompt": prompt, "max_tokens": 4, "kv_transfer_params": params}
        return ask(f"{self.decode}/v1/completions", body, headers={"X-Request-Id": request_id})


def usage(url: str) -> float:
    values = samples(ask(f"{url}/metrics").text)
    return next(value for name, _labels, value in values if name == "vllm:kv_cache_usage_perc")


@pytest.mark.parametrize("ascend", ["0.11.0", "0.18.0", "0.23.0"])
def test_the_proof_of_the_collection_holds(fleet: Fleet, home: Home, ascend: str) -> None:
    pair = Pair(fleet, home(ascend, "0.3.7.post2" if ascend == "0.11.0" else "0.3.9"))
    proxy = PullProxy(ROUTER, [pair.prefill], [pair.decode])
    fleet.proxies.append(proxy)
    params = {
        "url": proxy.url,
        "model": "q",
        "api_key": None,
        "validate_certs": True,
        "instances": [
            {"name": "p1", "kind": "prefill", "api_urls": [pair.prefill]},
            {"name": "d1", "kind": "decode", "api_urls": [pair.decode]},
        ],
        "prompt": PROMPT,
        "max_tokens": 8,
        "compare": True,
        "abort_timeout": 10,
        "timeout": 10,
    }
    service = kv_proof.Service(params)
    result: dict[str, Any] = {}
    assert kv_proof.prove_transfer(service, params, result) == []
    assert result["matches_prefill"]
    assert result["by_source"]["external_kv_transfer"] == result["prompt_tokens"] > 300
    assert kv_proof.prove_cancel(service, params, result) == []
    assert pair.processes[P_HOST].said("Delaying free of") >= 1
    assert pair.processes[D_HOST].said("KV cache transfer for request") >= 2


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        ({"kv_consumer": "ignore-kv"}, "KV did not move"),
        ({"kv_producer": "wrong-kv"}, "decode worked on other KV"),
        ({"kv_consumer": "empty-answer"}, "empty text"),
    ],
)
def test_the_proof_of_the_collection_fails(fleet: Fleet, home: Home, faults: dict[str, str], problem: str) -> None:
    pair = Pair(fleet, home("0.23.0"), faults)
    proxy = PullProxy(ROUTER, [pair.prefill], [pair.decode])
    fleet.proxies.append(proxy)
    instances = [
        {"name": "p1", "kind": "prefill", "api_urls": [pair.prefill]},
        {"name": "d1", "kind": "decode", "api_urls": [pair.decode]},
    ]
    params = {"url": proxy.url, "model": "q", "api_key": None, "validate_certs": True, "instances": instances}
    params |= {"prompt": PROMPT, "max_tokens": 8, "compare": True, "abort_timeout": 10, "timeout": 10}
    try:
        problems = kv_proof.prove_transfer(kv_proof.Service(params), params, {})
    except kv_proof.ProofError as error:
        problems = [str(error)]
    assert problem in " ".join(problems)


def test_blocks_are_freed_when_decode_has_them(fleet: Fleet, home: Home) -> None:
    pair = Pair(fleet, home("0.23.0"))
    params = pair.first()
    assert usage(pair.prefill) > 0
    assert pair.second(params).status == 200
    assert usage(pair.prefill) == 0
    assert usage(pair.decode) == 0


@pytest.mark.parametrize(
    ("ascend", "variable", "line"),
    [
        ("0.11.0", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT", "Force freed request: cmpl-late-0"),
        (
            "0.23.0",
            "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT",
            "Force freed expired request: cmpl-late-0. Reason: Request exc",
        ),
    ],
)
def test_blocks_that_nobody_fetches_expire(fleet: Fleet, home: Home, ascend: str, variable: str, line: str) -> None:
    # the policy of that time recomputed, and the key to say otherwise came later
    policy = {} if ascend == "0.11.0" else {"kv_load_failure_policy": "fail"}
    pair = Pair(fleet, home(ascend), environment={variable: "1"}, **policy)
    params = pair.first("late")
    assert usage(pair.prefill) > 0
    pair.processes[P_HOST].wait_said(line, seconds=5)
    assert usage(pair.prefill) == 0
    answer = pair.second(params, "late")
    assert answer.status == (200 if ascend == "0.11.0" else 500)
    pair.processes[D_HOST].wait_said("Mooncake transfer failed, ret: -1")


@pytest.mark.parametrize(("policy", "status", "local"), [("fail", 500, False), ("recompute", 200, True)])
def test_a_dead_prefill(fleet: Fleet, home: Home, policy: str, status: int, local: bool) -> None:
    environment = {"MOONCAKE_PD_TWIN_TRANSFER_SECONDS": "0.5"}
    pair = Pair(fleet, home("0.23.0"), environment=environment, kv_load_failure_policy=policy)
    params = pair.first()
    pair.processes[P_HOST].kill()
    assert pair.second(params).status == status
    assert (pair.sources(pair.decode)["local_compute"] > 0) is local
    assert pair.sources(pair.decode)["external_kv_transfer"] == 0
    assert pair.processes[D_HOST].said("Receive failed after all retries")
    assert usage(pair.decode) == 0


def test_a_prefill_that_is_another_one_now(fleet: Fleet, home: Home) -> None:
    pair = Pair(fleet, home("0.23.0"))
    assert pair.second({**pair.first(), "remote_engine_id": "another"}).status == 500
    assert pair.second({**pair.first("r2"), "remote_block_ids": [[999]]}, "r2").status == 500


def test_params_that_lack_something_move_nothing(fleet: Fleet, home: Home) -> None:
    pair = Pair(fleet, home("0.23.0"))
    params = pair.first()
    del params["remote_request_id"]
    assert pair.second(params).status == 200
    assert pair.processes[D_HOST].said("Got invalid KVTransferParams")
    assert pair.sources(pair.decode)["external_kv_transfer"] == 0


def test_the_same_engine_id_up_to_0_11(fleet: Fleet, home: Home) -> None:
    pair = Pair(fleet, home("0.11.0"), engine_id="0")
    params = pair.first()
    assert params["remote_engine_id"] == "0"
    body = {"model": "q", "prompt": PROMPT, "max_tokens": 4, "kv_transfer_params": params}
    with pytest.raises(TimeoutError):
        ask(f"{pair.decode}/v1/completions", body, timeout=1)
    assert pair.processes[D_HOST].said("AssertionError: Conflict engine id 0 with local engine id 0.")


def test_a_client_that_hangs_up_frees_everything(fleet: Fleet, home: Home) -> None:
    pair = Pair(fleet, home("0.23.0"), environment={"MOONCAKE_PD_TWIN_TOKEN_SECONDS": "0.05"})
    with pytest.raises(TimeoutError):
        ask(f"{pair.decode}/v1/completions", {"model": "q", "prompt": "a", "max_tokens": 1000}, timeout=0.5)
    end = time.monotonic() + 5
    while usage(pair.decode) > 0:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert 'finished_reason="abort",model_name="q"} 1.0' in ask(f"{pair.decode}/metrics").text


def test_streams_agree_with_whole_answers(fleet: Fleet, home: Home) -> None:
    pair = Pair(fleet, home("0.23.0"))
    body = {"model": "q", "prompt": "hello world", "max_tokens": 5}
    whole = ask(f"{pair.prefill}/v1/completions", body).json["choices"][0]
    events = ask(f"{pair.prefill}/v1/completions", {**body, "stream": True}).events
    assert events[-1] == "[DONE]"
    choices = [json.loads(event)["choices"][0] for event in events[:-1]]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    assert [choice["finish_reason"] for choice in choices] == [None] * 4 + ["length"]
