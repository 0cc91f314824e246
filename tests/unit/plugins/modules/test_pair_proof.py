# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof against engines on loopback that keep to the contracts, or do not."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import pd_proof
from ansible_collections.mooncake.pd.plugins.module_utils.pd_request import Metaserver
from ansible_collections.mooncake.pd.plugins.modules import pair_proof

from .conftest import Answer, RunModule
from .fake_engines import Engines

CONTRACTS = ("mooncake", "nixl", "layerwise")
DEAD = "http://127.0.0.1:1"


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engines]:
    monkeypatch.setattr(pd_proof, "METRICS_LAG_SECONDS", 0.1)
    its = Engines("p1", "p1b", "p2", "d1", "d1b", "d2")
    its.bootstraps = {"b1": {"0": {"engine_id": "one"}}, "b2": {"0": {"engine_id": "two"}}}
    yield its
    its.close()


def instances(engines: Engines, **urls: list[str]) -> list[dict[str, Any]]:
    """urls: name -> its API servers, where they are not only the one of its name."""
    return [
        {
            "name": name,
            "kind": "prefill" if name[0] == "p" else "decode",
            "api_urls": [f"{engines.url}/{server}" for server in urls.get(name, [name])],
            "bootstrap_urls": [f"{engines.url}/b{name[1]}"] if name[0] == "p" else [],
        }
        for name in ("p1", "p2", "d1", "d2")
    ]


def prove(run_module: RunModule, engines: Engines, contract: str = "mooncake", **params: Any) -> Answer:
    every: dict[str, Any] = {"instances": instances(engines), "names": ["d1"], "contract": contract, "model": "tiny"}
    every |= {"prompt": "one two three", "timeout": 3}
    if contract == "layerwise":
        every["callback_address"] = "127.0.0.1"
    return run_module(pair_proof, **{**every, **params})


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_pair_is_proven(run_module: RunModule, engines: Engines, contract: str) -> None:
    answer = prove(run_module, engines, contract)
    assert (answer["failed"], answer["changed"], answer["failures"]) == (False, False, [])
    assert answer["text"] == " and back"
    (request,) = answer["requests"]
    assert 0 <= request.pop("seconds") < 3
    assert request == {
        "instance": "d1",
        "prefill": "p1",
        "prefill_url": f"{engines.url}/p1",
        "decode": "d1",
        "decode_url": f"{engines.url}/d1",
        "prompt_tokens": 4,
        "by_source": {"external_kv_transfer": 4, "local_compute": 0},
        "text": " and back",
    }


@pytest.mark.parametrize("contract", CONTRACTS)
def test_what_prefill_and_decode_are_sent(run_module: RunModule, engines: Engines, contract: str) -> None:
    prove(run_module, engines, contract)
    assert engines.order() == (["d1", "p1"] if contract == "layerwise" else ["p1", "d1"])
    (prefill,), (decode,) = engines.bodies("p1"), engines.bodies("d1")
    assert (prefill["max_tokens"], prefill["min_tokens"], prefill["stream"]) == (1, 1, False)
    assert (decode["max_tokens"], decode["ignore_eos"], decode["temperature"]) == (16, True, 0)
    assert prefill["prompt"] == decode["prompt"]
    assert prefill["prompt"].endswith("-1 one two three")
    identities = {headers["X-Request-Id"] for _server, headers, _body in engines.asked}
    assert len(identities) == 1
    told = decode["kv_transfer_params"]
    if contract == "mooncake":
        assert told["remote_engine_id"] == "one"
        assert told["transfer_id"] == prefill["kv_transfer_params"]["transfer_id"]
    elif contract == "nixl":
        assert told == engines.its["p1"].gives  # unchanged
    else:
        assert prefill["kv_transfer_params"]["remote_port"] == 36000
        assert prefill["kv_transfer_params"]["request_id"] == f"cmpl-{identities.pop()}-0"


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_server_under_test_is_asked(run_module: RunModule, engines: Engines, contract: str) -> None:
    its = instances(engines, p1=["p1", "p1b"], d1=["d1", "d1b"])
    answer = prove(run_module, engines, contract, instances=its, names=["p1", "d1"])
    assert answer["failures"] == []
    asked = [(r["instance"], r["prefill_url"][-3:], r["decode_url"][-3:]) for r in answer["requests"]]
    # with the instances that are not under test
    assert asked == [("p1", "/p1", "/d2"), ("p1", "p1b", "/d2"), ("d1", "/p2", "/d1"), ("d1", "/p2", "d1b")]


def test_partners_take_turns_and_excluded_ones_have_none(run_module: RunModule, engines: Engines) -> None:
    its = instances(engines, d1=["d1", "d1b"])
    answer = prove(run_module, engines, instances=its)
    assert [r["prefill"] for r in answer["requests"]] == ["p1", "p2"]
    answer = prove(run_module, engines, instances=its, exclude=["p1"])
    assert [r["prefill"] for r in answer["requests"]] == ["p2", "p2"]
    answer = prove(run_module, engines, instances=its, exclude=["p1", "p2"])
    assert answer["failures"][0]["error"] == (
        "no prefill can be asked together with decode d1: there is none. Mend: start a prefill that is not excluded."
    )


def test_those_under_test_are_partners_when_there_are_no_others(run_module: RunModule, engines: Engines) -> None:
    answer = prove(run_module, engines, names=["p1", "d1", "d2"], exclude=["p2"])
    assert [(r["instance"], r["prefill"], r["decode"]) for r in answer["requests"]] == [
        ("p1", "p1", "d1"),
        ("d1", "p1", "d1"),
        ("d2", "p1", "d2"),
    ]


def test_a_partner_that_is_not_healthy_is_passed_over(run_module: RunModule, engines: Engines) -> None:
    engines.its["p1"].health = 503
    assert prove(run_module, engines)["requests"][0]["prefill"] == "p2"
    engines.its["p2"].health = 503
    (failure,) = prove(run_module, engines)["failures"]
    assert (failure["prefill"], failure["decode"]) == (None, None)
    for name in ("p1", "p2"):
        assert f"prefill {name} ({engines.url}/{name}) cannot be asked: {engines.url}/{name}/health" in failure["error"]
    # whoever is excluded is not even looked at
    (failure,) = prove(run_module, engines, exclude=["p1"])["failures"]
    assert "prefill p1" not in failure["error"]


def test_every_rank_behind_a_bootstrap_server_is_asked(run_module: RunModule, engines: Engines) -> None:
    engines.bootstraps["b1"] = {"1": {"engine_id": "second"}, "0": {"engine_id": "first"}}
    answer = prove(run_module, engines, names=["p1"])
    assert len(answer["requests"]) == 2
    ranks = [headers.get("X-Data-Parallel-Rank") for server, headers, _body in engines.asked if server == "p1"]
    assert ranks == ["0", "1"]
    told = [body["kv_transfer_params"]["remote_engine_id"] for body in engines.bodies("d1") + engines.bodies("d2")]
    assert told == ["first", "second"]


def test_what_others_make_decode_compute_is_not_held_against_it(run_module: RunModule, engines: Engines) -> None:
    engines.its["d1"].others = [7, 5]
    answer = prove(run_module, engines)
    assert answer["failures"] == []
    assert len(engines.bodies("d1")) == 3
    engines.its["d1"].others = [7, 5, 6]
    (failure,) = prove(run_module, engines)["failures"]
    assert "decode d1 computed 6 prompt tokens itself" in failure["error"]


# ---- what is no proof -----------------------------------------------------------------------------------------------


def only_failure(answer: Answer) -> str:
    assert answer["failed"]
    (failure,) = answer["failures"]
    assert answer["msg"] == f"Not proven: {failure['error']}"
    assert "Mend: " in failure["error"]
    return str(failure["error"])


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_decode_without_the_connector(run_module: RunModule, engines: Engines, contract: str) -> None:
    engines.its["d1"].connector = False
    said = only_failure(prove(run_module, engines, contract))
    assert "only 0 of 4 prompt tokens came to decode as external KV" in said
    assert "decode d1 computed 4 prompt tokens itself" in said
    assert len(engines.bodies("d1")) == 1  # nobody else computed anything, so it is sure at once


@pytest.mark.parametrize("contract", CONTRACTS)
def test_an_empty_answer(run_module: RunModule, engines: Engines, contract: str) -> None:
    engines.its["d1"].text = ""
    said = only_failure(prove(run_module, engines, contract))
    assert f"decode d1 ({engines.url}/d1): {engines.url}/d1/v1/completions answered 200 with an empty text" in said


def test_an_empty_token_of_prefill_is_no_problem(run_module: RunModule, engines: Engines) -> None:
    engines.its["p1"].text = ""
    assert prove(run_module, engines)["failures"] == []


@pytest.mark.parametrize("contract", CONTRACTS)
def test_kv_that_never_comes(run_module: RunModule, engines: Engines, contract: str) -> None:
    """As with a prefill that was killed after its answer: decode waits and says nothing."""
    if contract == "layerwise":
        engines.hand_over = lambda its, params: None  # type: ignore[method-assign]
    else:
        real = engines.take_over
        engines.take_over = (  # type: ignore[method-assign]
            lambda request_id, params: real(request_id, params) if engines.go_on.wait(5) else "too late"
        )
    its = instances(engines, d1=["d1", "d1b"])
    said = only_failure(prove(run_module, engines, contract, instances=its, timeout=2))
    pair = f"prefill p1 ({engines.url}/p1) answered and decode d1 ({engines.url}/d1) did not within 2 s"
    assert said.startswith(f"{pair}: the KV did not come.")
    assert said.endswith("Further servers of d1 not asked after that: 1.")
    assert engines.bodies("d1b") == []


def test_a_prefill_that_hangs(run_module: RunModule, engines: Engines) -> None:
    real = engines.hand_over
    engines.hand_over = (  # type: ignore[method-assign]
        lambda its, params: real(its, params) if engines.go_on.wait(5) else None
    )
    for contract in CONTRACTS:
        said = only_failure(prove(run_module, engines, contract, timeout=2))
        assert said.startswith(f"prefill p1 ({engines.url}/p1) failed its part: {engines.url}/p1/v1/completions did")


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_prefill_that_fails(run_module: RunModule, engines: Engines, contract: str) -> None:
    engines.its["p1"].fails = (500, b"EngineCore encountered an issue.")
    said = only_failure(prove(run_module, engines, contract))
    assert "p1/v1/completions answered 500: EngineCore encountered an issue." in said
    assert engines.bodies("d1") == [] or contract == "layerwise"


def test_other_servers_are_asked_after_one_that_failed_fast(run_module: RunModule, engines: Engines) -> None:
    engines.its["d1"].fails = (500, b"Internal server error")
    answer = prove(run_module, engines, instances=instances(engines, d1=["d1", "d1b"]))
    said = only_failure(answer)
    assert f"decode d1 ({engines.url}/d1) failed after prefill p1 ({engines.url}/p1) had answered: " in said
    assert "answered 500: Internal server error" in said
    assert [r["decode_url"] for r in answer["requests"]] == [f"{engines.url}/d1b"]


def test_an_engine_that_the_bootstrap_server_forgot(run_module: RunModule, engines: Engines) -> None:
    """It was asked, and prefill started anew before decode asked."""
    real = engines.hand_over
    engines.hand_over = (  # type: ignore[method-assign]
        lambda its, params: engines.bootstraps.update(b1={"0": {"engine_id": "new"}}) or real(its, params)
    )
    assert "remote engine_id not found from bootstrap server" in only_failure(prove(run_module, engines))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "/b1/query answered 404: an empty body"),
        ({}, "/b1/query knows no engine: its workers have not registered (yet)"),
        ({"0": {}}, "instead of engine ids"),
        ([], "instead of engine ids"),
    ],
)
def test_a_bootstrap_server_without_engines(run_module: RunModule, engines: Engines, answer: Any, said: str) -> None:
    engines.bootstraps["b1"] = answer
    assert said in only_failure(prove(run_module, engines, names=["p1"]))


def test_a_dead_bootstrap_server(run_module: RunModule, engines: Engines) -> None:
    its = instances(engines)
    its[0]["bootstrap_urls"] = [DEAD]
    said = only_failure(prove(run_module, engines, instances=its, names=["p1"]))
    assert f"{DEAD}/query cannot be read: [Errno 111] Connection refused" in said
    its[0]["bootstrap_urls"] = []
    assert "has no bootstrap server" in only_failure(prove(run_module, engines, instances=its, names=["p1"]))
    # the other contracts need none
    assert prove(run_module, engines, "nixl", instances=its, names=["p1"])["failures"] == []


def test_a_prefill_that_hands_nothing_over(run_module: RunModule, engines: Engines) -> None:
    engines.its["p1"].gives = None
    said = only_failure(prove(run_module, engines, "nixl"))
    assert said.startswith(f"prefill p1 ({engines.url}/p1) answered without kv_transfer_params")
    assert engines.bodies("d1") == []


def test_metrics_that_do_not_tell(run_module: RunModule, engines: Engines) -> None:
    engines.its["d1"].metrics = "python_info 1\n"
    assert "does not tell where prompt tokens came from" in only_failure(prove(run_module, engines))
    assert engines.asked == []


def test_all_that_is_not_healthy_is_told_at_once(run_module: RunModule, engines: Engines) -> None:
    engines.its["d1"].health = 503
    its = instances(engines, d1=["d1", "d1b"])
    its[3]["api_urls"] = [DEAD]
    answer = prove(run_module, engines, instances=its, names=["d1", "d2"])
    assert [failure["instance"] for failure in answer["failures"]] == ["d1", "d2"]
    assert "/d1/health answered 503: an empty body. Mend: " in answer["msg"]
    assert f"decode d2 ({DEAD}) cannot be asked: {DEAD}/health cannot be read: " in answer["msg"]
    # what is healthy of them is proven all the same
    assert [r["decode_url"] for r in answer["requests"]] == [f"{engines.url}/d1b"]


# ---- layerwise ------------------------------------------------------------------------------------------------------


def test_a_decode_that_never_asks_for_a_prefill(run_module: RunModule, engines: Engines) -> None:
    engines.posts = lambda message: []
    said = only_failure(prove(run_module, engines, "layerwise", timeout=1))
    assert said.startswith(f"decode d1 ({engines.url}/d1) did not ask http://127.0.0.1:")
    assert "/v1/metaserver for a prefill within 1 s" in said
    assert engines.order() == ["d1"]


def test_a_decode_that_fails_before_it_asks(run_module: RunModule, engines: Engines) -> None:
    engines.its["d1"].fails = (500, b"EngineCore encountered an issue.")
    assert "failed before it asked for a prefill: " in only_failure(prove(run_module, engines, "layerwise"))


def test_a_decode_that_asks_twice_gets_one_prefill(run_module: RunModule, engines: Engines) -> None:
    engines.posts = lambda message: [message, message]
    assert prove(run_module, engines, "layerwise")["failures"] == []
    assert engines.order() == ["d1", "p1"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/metaserver", b'{"request_id": "cmpl-somebody-0"}', 404),
        ("/v1/metaserver", b"rubbish", 400),
        ("/v1/metaserver", b"[]", 400),
        ("/", b'{"request_id": "cmpl-known-0"}', 404),
        ("/v1/metaserver", b'{"request_id": "cmpl-known-0"}', 200),
    ],
)
def test_the_metaserver_takes_only_what_it_waits_for(path: str, body: bytes, status: int) -> None:
    with Metaserver("127.0.0.1", 0) as metaserver:
        events: Any = metaserver.expect("known")
        request = urllib.request.Request(metaserver.url.replace("/v1/metaserver", path), body, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                seen = answer.status
        except urllib.error.HTTPError as error:
            seen = error.code
        assert seen == status
        assert events.empty() is (status != 200)


# ---- parameters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"names": ["d9", "d1"]}, "names: d9 is no instance"),
        ({"names": []}, "names: nothing is under test"),
        ({"exclude": ["x"]}, "exclude: x is no instance"),
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"contract": "layerwise", "callback_address": "0.0.0.0"}, "decode cannot send to a wildcard"),
        ({"contract": "layerwise", "callback_address": None}, "callback_address: contract layerwise needs it"),
        ({"contract": "layerwise", "callback_address": "192.0.2.7"}, "cannot listen on 192.0.2.7:0"),
    ],
)
def test_wrong_parameters(run_module: RunModule, engines: Engines, params: dict[str, Any], said: str) -> None:
    answer = prove(run_module, engines, **params)
    assert answer["failed"]
    assert said in answer["msg"]
    assert engines.asked == []


def test_instances_of_one_name_and_without_servers(run_module: RunModule, engines: Engines) -> None:
    its = instances(engines)
    its.append({"name": "d1", "kind": "decode", "api_urls": []})
    answer = prove(run_module, engines, instances=its)
    assert answer["msg"] == "instances: d1 is named 2 times; instances: d1 has no api_urls"


def test_it_does_the_same_in_check_mode(run_module: RunModule, engines: Engines) -> None:
    answer = prove(run_module, engines, check=True)
    assert [r["by_source"]["external_kv_transfer"] for r in answer["requests"]] == [4]
    assert json.dumps(engines.bodies("d1"))
