# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof against a service on loopback that can be told to be wrong in the ways real ones were."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ansible_collections.mooncake.pd.plugins.modules import kv_proof


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

            def do_GET(self):
                name = "vllm:prompt_tokens_by_source_total"
                counts = {"external_kv_transfer": fake.external, "local_compute": fake.local}
                if self.path.startswith("/p1"):
                    counts = {"local_compute": fake.prefilled}
                elif self.path.startswith("/idle"):
                    counts = {"external_kv_transfer": 0, "local_compute": 0}
                text = "".join(f'{name}{{engine="0",source="{s}"}} {v}\n' for s, v in counts.items())
                self.send(200, text.encode(), "text/plain")

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                tokens = len(request["prompt"].split())
                if fake.body is not None:
                    return self.send(*fake.body)
                if request["stream"]:
                    fake.cancelled = True
                    return self.send(200, b'data: {"choices": [{"text": "a"}]}\n\n', "text/event-stream")
                if fake.block_after_cancel and fake.cancelled:
                    return self.send(503, b"blocked")
                answer = fake.answer
                if self.path.startswith("/router"):
                    fake.prefilled += tokens
                    if fake.recompute:
                        fake.local += tokens
                    else:
                        fake.external += tokens
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
    assert problems == ["d2 took no part in 4 requests: it is not behind the router, or the router holds it for dead"]
    assert result["by_source"]["external_kv_transfer"] == 16


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
