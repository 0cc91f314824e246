# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof against a service on loopback that can be told to be wrong in the ways real ones were."""

from __future__ import annotations

import json
import shlex
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ansible_collections.mooncake.pd.plugins.modules import kv_proof

from .conftest import RunModule


class Fake:
    """Router, prefill and decode in one: GET /metrics and POST /v1/completions under /router, /p1 and /d1."""

    def __init__(self) -> None:
        self.external = 0
        self.local = 0
        self.prefilled = 0
        self.recompute = False
        self.answer = " and back"
        self.decode_answer = None
        self.body = None
        self.block_after_cancel = False
        self.cancelled = False
        self.raw = None  # bytes in place of an answer, then the end of the connection
        self.raw_metrics = None
        self.stalls = None  # a streamed answer's bytes, after which nothing comes
        self.go_on = threading.Event()
        self.least_load = False  # a request that comes while as many as `apart` others run goes to d2
        self.apart = 1
        self.running = 0
        self.most = 0  # requests that ran at the same time
        self.meet = None  # readings of metrics that wait for each other
        self.second = 0
        self.lock = threading.Lock()
        self.keys = set()  # (first part of the path, Authorization)
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def send(self, code, body, kind="application/json"):
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def send_raw(self, raw):
                self.wfile.write(raw)
                self.close_connection = True

            def seen(self):
                fake.keys.add((self.path.split("/")[1], self.headers["Authorization"]))

            def do_GET(self):
                self.seen()
                if fake.meet is not None:
                    fake.meet.wait(2)
                if self.path.startswith("/late"):
                    time.sleep(0.2)
                    return self.send_raw(b"rubbish\r\n\r\n")
                if fake.raw_metrics is not None:
                    return self.send_raw(fake.raw_metrics)
                name = "vllm:prompt_tokens_by_source_total"
                counts = {"external_kv_transfer": fake.external, "local_compute": fake.local}
                if self.path.startswith("/p1"):
                    counts = {"local_compute": fake.prefilled}
                elif self.path.startswith("/d2"):
                    counts = {"external_kv_transfer": fake.second, "local_compute": 0}
                elif self.path.startswith("/idle"):
                    counts = {"external_kv_transfer": 0, "local_compute": 0}
                text = "".join(f'{name}{{engine="0",source="{s}"}} {v}\n' for s, v in counts.items())
                self.send(200, text.encode(), "text/plain")

            def count(self, tokens):
                with fake.lock:
                    fake.running += 1
                    fake.most = max(fake.most, fake.running)
                    fake.prefilled += tokens
                    if fake.recompute:
                        fake.local += tokens
                    elif fake.least_load and fake.running > fake.apart:
                        fake.second += tokens
                    else:
                        fake.external += tokens
                if fake.least_load:
                    time.sleep(0.1)
                with fake.lock:
                    fake.running -= 1

            def do_POST(self):
                self.seen()
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                tokens = len(request["prompt"].split())
                if fake.raw is not None:
                    return self.send_raw(fake.raw)
                if request["stream"] and fake.stalls is not None:
                    self.send_raw(fake.stalls)
                    fake.go_on.wait(10)
                    return None
                if fake.body is not None:
                    return self.send(*fake.body)
                if request["stream"]:
                    fake.cancelled = True
                    return self.send(200, b'data: {"choices": [{"text": "a"}]}\n\n', "text/event-stream")
                if fake.block_after_cancel and fake.cancelled:
                    return self.send(503, b"blocked")
                answer = fake.answer
                if self.path.startswith("/router"):
                    self.count(tokens)
                    answer = fake.decode_answer or answer
                self.send(
                    200,
                    json.dumps({"choices": [{"text": answer}], "usage": {"prompt_tokens": tokens}}).encode(),
                )

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(kv_proof, "METRICS_LAG_SECONDS", 0.1)
    service = Fake()
    yield service
    service.go_on.set()
    service.server.shutdown()
    service.server.server_close()


def prove(fake, **params):
    args = {
        "url": fake.url + "/router",
        "model": "tiny",
        "api_key": None,
        "validate_certs": True,
        "instances": [
            {"name": "p1", "kind": "prefill", "api_urls": [fake.url + "/p1"]},
            {"name": "d1", "kind": "decode", "api_urls": [fake.url + "/d1"]},
        ],
        "prompt": "one two three",
        "max_tokens": 4,
        "compare": True,
        "abort_timeout": 5,
        "timeout": 5,
        **params,
    }
    result = {}
    service = kv_proof.Service(args)
    try:
        problems = kv_proof.prove_transfer(service, args, result) or kv_proof.prove_cancel(service, args, result)
    except kv_proof.ProofError as error:
        problems = [str(error)]
    return problems, result


def test_moved_kv_is_proven(fake):
    problems, result = prove(fake)
    assert problems == []
    assert result["by_source"] == {"external_kv_transfer": 4, "local_compute": 0}
    assert result["prompt_tokens"] == 4
    assert result["answer"] == " and back"
    assert result["matches_prefill"] is True
    assert result["recovered_seconds"] >= 0


def test_recomputed_prompt_fails(fake):
    fake.recompute = True
    problems, result = prove(fake)
    assert "only 0 of 4 prompt tokens" in problems[0]
    assert result["by_source"] == {"external_kv_transfer": 0, "local_compute": 4}


def test_other_answer_than_prefill_fails(fake):
    fake.decode_answer = " otherwise"
    problems, _result = prove(fake)
    assert "prefill p1 alone answers" in problems[0]
    assert prove(fake, compare=False)[0] == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ((200, b""), "an empty body"),
        ((200, b"[]"), "instead of a completion"),
        ((200, b'{"choices": [{"text": ""}], "usage": {"prompt_tokens": 3}}'), "empty text"),
        ((500, b"Decode request failed"), "answered 500: Decode request failed"),
        ((503, b""), "answered 503: with an empty body"),
    ],
)
def test_answers_without_substance_fail(fake, body, said):
    fake.body = body
    problems, _result = prove(fake)
    assert said in problems[0]


def test_blocked_path_after_a_cancelled_request_fails(fake):
    fake.block_after_cancel = True
    problems, _result = prove(fake)
    assert "after an abandoned request the same path is blocked" in problems[0]


def test_instance_that_took_no_part_fails(fake):
    instances = [
        {"name": "p1", "kind": "prefill", "api_urls": [fake.url + "/p1"]},
        {"name": "d1", "kind": "decode", "api_urls": [fake.url + "/d1"]},
        {"name": "d2", "kind": "decode", "api_urls": [fake.url + "/idle"]},
    ]
    problems, result = prove(fake, instances=instances)
    assert problems == ["d2 took no part in 17 requests: it is not behind the router, or the router holds it for dead"]
    assert result["by_source"]["external_kv_transfer"] == 17 * 4


def test_an_instance_that_is_asked_only_under_load_takes_part(fake):
    fake.least_load = True
    instances = [
        {"name": "p1", "kind": "prefill", "api_urls": [fake.url + "/p1"]},
        {"name": "d1", "kind": "decode", "api_urls": [fake.url + "/d1"]},
        {"name": "d2", "kind": "decode", "api_urls": [fake.url + "/d2"]},
    ]
    problems, result = prove(fake, instances=instances)
    assert problems == []
    assert result["requests"] == 5


def test_an_instance_behind_the_many_apis_of_another_takes_part(fake):
    fake.least_load = True
    instances = [
        {"name": "p1", "kind": "prefill", "api_urls": [fake.url + "/p1"]},
        {"name": "d1", "kind": "decode", "api_urls": [fake.url + "/d1", *(fake.url + "/idle" for _rank in range(3))]},
        {"name": "d2", "kind": "decode", "api_urls": [fake.url + "/d2"]},
    ]
    fake.apart = 4  # one for each API of d1
    problems, result = prove(fake, instances=instances)
    assert problems == []
    assert result["requests"] == 11


def test_requests_at_once_have_a_bound(fake, monkeypatch):
    monkeypatch.setattr(kv_proof, "AT_ONCE", 3)
    fake.least_load, fake.apart = True, 100
    instances = [
        {"name": "p1", "kind": "prefill", "api_urls": [fake.url + "/p1"]},
        {"name": "d1", "kind": "decode", "api_urls": [fake.url + "/d1"]},
        *({"name": f"d{n}", "kind": "decode", "api_urls": [fake.url + "/idle"]} for n in range(3, 10)),
    ]
    problems, result = prove(fake, instances=instances)
    assert fake.most == 3
    assert result["requests"] == 16
    assert problems[0] == (
        "d3 took no part in 16 requests: it is not behind the router, or the router holds it for dead, "
        "or 3 requests at once are too few to reach it"
    )


def test_metrics_are_read_at_once(fake):
    fake.meet = threading.Barrier(2)
    assert prove(fake)[0] == []


def test_the_first_instance_whose_metrics_fail_is_told(fake):
    instances = [
        {"name": "p1", "kind": "prefill", "api_urls": [fake.url + "/p1"]},
        {"name": "d1", "kind": "decode", "api_urls": [fake.url + "/d1", fake.url + "/late"]},
        {"name": "d2", "kind": "decode", "api_urls": ["http://127.0.0.1:1"]},
    ]
    problems, _result = prove(fake, instances=instances)
    assert problems[0].startswith(f"decode d1: {fake.url}/late/metrics cannot be read: ")


def test_counts_of_an_instance_are_the_sum_of_its_apis(fake):
    fake.external = 5
    service = kv_proof.Service(
        {"url": fake.url, "model": "tiny", "timeout": 5, "validate_certs": True, "api_key": None}
    )
    apis = [fake.url + "/d1/0", fake.url + "/d1/1"]
    assert service.sources(
        [{"name": "d1", "kind": "decode", "api_urls": apis}, {"name": "d2", "kind": "decode", "api_urls": apis[:1]}]
    ) == {
        "d1": {"external_kv_transfer": 10, "local_compute": 0},
        "d2": {"external_kv_transfer": 5, "local_compute": 0},
    }


def test_unreachable_metrics_fail(fake):
    problems, _result = prove(
        fake,
        timeout=1,
        instances=[
            {"name": "p1", "kind": "prefill", "api_urls": [fake.url + "/p1"]},
            {"name": "d1", "kind": "decode", "api_urls": ["http://127.0.0.1:1"]},
        ],
    )
    assert "decode d1: http://127.0.0.1:1/metrics cannot be read" in problems[0]


# ---- through main() -------------------------------------------------------------------------------------------------


def run_main(run_module, fake, **params):
    return run_module(
        kv_proof,
        url=fake.url + "/router",
        model="tiny",
        instances=[
            {"name": "p1", "kind": "prefill", "api_urls": [fake.url + "/p1"]},
            {"name": "d1", "kind": "decode", "api_urls": [fake.url + "/d1"]},
        ],
        **{"prompt": "one two three", "compare": True, "timeout": 1, **params},
    )


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def test_module_proves(run_module: RunModule, fake: Fake) -> None:
    answer = run_main(run_module, fake)
    assert (answer["failed"], answer["changed"], answer["matches_prefill"]) == (False, False, True)
    assert answer["by_source"] == {"external_kv_transfer": 4, "local_compute": 0}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"rubbish\r\n\r\n", "did not answer within 1 s: rubbish"),
        (b"", "did not answer within 1 s: Remote end closed connection"),
        (HEAD + b'Content-Length: 900\r\n\r\n{"choices"', "broke off its answer: IncompleteRead"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n40\r\nabc", "broke off its answer: IncompleteRead"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc", "broke off its answer: "),
        (b"HTTP/1.1 502 Bad\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "answered 502: and broke off ("),
    ],
)
def test_broken_answers_are_a_problem_and_no_traceback(
    run_module: RunModule, fake: Fake, raw: bytes, said: str
) -> None:
    fake.raw = raw
    answer = run_main(run_module, fake)
    assert answer["failed"]
    assert answer["msg"].startswith(f"KV transfer is not proven: {fake.url}/router/v1/completions")
    assert said in answer["msg"]


@pytest.mark.parametrize("raw", [b"rubbish\r\n\r\n", HEAD + b"Content-Length: 900\r\n\r\nvllm"])
def test_broken_metrics_are_a_problem_and_no_traceback(run_module: RunModule, fake: Fake, raw: bytes) -> None:
    fake.raw_metrics = raw
    answer = run_main(run_module, fake)
    assert f"prefill p1: {fake.url}/p1/metrics cannot be read: " in answer["msg"]


@pytest.mark.parametrize(
    ("begun", "said"),
    [
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", "does not stream: timed out"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "does not stream: "),
        (HEAD + b"Content-Length: 0\r\n\r\n", "does not stream: the answer was 200 and empty"),
        (b"", "did not answer within 1 s: "),
    ],
)
def test_stalled_or_broken_streams_are_a_problem(run_module: RunModule, fake: Fake, begun: bytes, said: str) -> None:
    fake.stalls = begun
    answer = run_main(run_module, fake)
    assert answer["failed"]
    assert f"{fake.url}/router/v1/completions {said}" in answer["msg"]
    assert answer["by_source"] == {"external_kv_transfer": 4, "local_compute": 0}


def test_only_the_router_gets_the_key(run_module: RunModule, fake: Fake) -> None:
    answer = run_main(run_module, fake, api_key="sk-secret")
    assert not answer["failed"]
    assert fake.keys == {("router", "Bearer sk-secret"), ("p1", None), ("d1", None)}


def test_curl_line_is_safe_for_a_shell(run_module: RunModule, fake: Fake) -> None:
    prompt = 'it\'s $(reboot) `x` "y"'
    answer = run_main(run_module, fake, prompt=prompt, api_key="sk-secret")
    words = shlex.split(answer["curl"])
    assert words[:2] == ["curl", fake.url + "/router/v1/completions"]
    assert words[2:4] == ["-H", "Authorization: Bearer <key>"]
    assert json.loads(words[-1])["prompt"] == prompt
    assert "sk-secret" not in answer["curl"]
