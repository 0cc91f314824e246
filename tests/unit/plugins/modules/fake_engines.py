# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prefills, decodes and bootstrap servers on one port of loopback: the first part of the path says which.

They keep to the request contracts of the connectors and can be told to be wrong in the ways real ones were.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LAG = 5  # seconds until a thread of the fake gives up, so that no test hangs


class Engine:
    """One API server: p1, p2, d1, ..."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.health = 200
        self.external = 0
        self.local = 0
        self.text = " and back"
        self.connector = True  # or not: prompts are computed, whatever the request says
        self.fails: tuple[int, bytes] | None = None
        self.hangs = False
        self.meet: threading.Barrier | None = None  # what waits for the others before it answers /health
        self.metrics: str | None = None
        self.version: bytes = b'{"version": "0.32.0"}'
        self.models: bytes = b'{"data": [{"id": "tiny"}]}'
        self.others: list[int] = []  # prompt tokens that others make it compute during the next requests
        self.gives: dict[str, Any] | None = {"remote_engine_id": "e", "remote_block_ids": [[1]], "odd": {"x": [1]}}

    def metrics_text(self) -> str:
        if self.metrics is not None:
            return self.metrics
        name = "vllm:prompt_tokens_by_source_total"
        return (
            f'{name}{{engine="0",source="external_kv_transfer"}} {self.external}\n'
            f'{name}{{engine="0",source="local_compute"}} {self.local}\n'
            'vllm:num_requests_running{engine="0"} 1\n'
            'vllm:num_requests_waiting{engine="0"} 2\n'
            'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
        )


class Engines:
    def __init__(self, *names: str) -> None:
        self.its = {name: Engine(name) for name in names}
        self.bootstraps: dict[str, Any] = {}
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []  # server, headers, body
        self.transfers: set[str] = set()
        self.pushed: dict[str, threading.Event] = {}
        self.posts: Callable[[dict[str, Any]], list[dict[str, Any]]] = lambda message: [message]
        self.go_on = threading.Event()
        self.lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                name, _slash, path = self.path[1:].partition("/")
                if path == "query":
                    answer = fake.bootstraps.get(name)
                    return self.send(200, json.dumps(answer).encode()) if answer is not None else self.send(404, b"")
                its = fake.its[name]
                if its.hangs:
                    fake.go_on.wait(LAG)
                if its.meet and path == "health":
                    its.meet.wait(LAG)
                bodies = {
                    "health": b"",
                    "version": its.version,
                    "v1/models": its.models,
                    "metrics": its.metrics_text().encode(),
                }
                return self.send(its.health if path == "health" else 200, bodies[path])

            def do_POST(self) -> None:
                its = fake.its[self.path.split("/")[1]]
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with fake.lock:
                    fake.asked.append((its.name, dict(self.headers), body))
                if its.hangs:
                    fake.go_on.wait(LAG)
                    return
                self.send(*(its.fails or fake.completion(its, self.headers["X-Request-Id"], body)))

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()

    def bodies(self, name: str) -> list[dict[str, Any]]:
        return [body for server, _headers, body in self.asked if server == name]

    def order(self) -> list[str]:
        return [server for server, _headers, _body in self.asked]

    # ---- what the connectors do -------------------------------------------------------------------------------------

    def completion(self, its: Engine, request_id: str, body: dict[str, Any]) -> tuple[int, bytes]:
        params, tokens = body.get("kv_transfer_params") or {}, len(body["prompt"].split())
        answer: dict[str, Any] = {"choices": [{"text": its.text}], "usage": {"prompt_tokens": tokens}}
        if params.get("do_remote_decode"):
            answer["kv_transfer_params"] = self.hand_over(its, params)
        elif its.connector:
            problem = self.take_over(request_id, params)
            if problem:
                return 500, problem.encode()
            its.external += tokens
        else:
            its.local += tokens
        if its.others:
            its.local += its.others.pop(0)
        return 200, json.dumps(answer).encode()

    def hand_over(self, its: Engine, params: dict[str, Any]) -> dict[str, Any] | None:
        if "transfer_id" in params:
            self.transfers.add(params["transfer_id"])
            return None
        if "request_id" in params:
            self.pushed[params["request_id"]].set()
            return None
        return its.gives

    def take_over(self, request_id: str, params: dict[str, Any]) -> str:
        """What decode complains of; empty when the KV is there."""
        if "transfer_id" in params:
            known = [
                entry["engine_id"]
                for name, entries in self.bootstraps.items()
                if params["remote_bootstrap_addr"] == f"{self.url}/{name}"
                for entry in entries.values()
            ]
            if params["remote_engine_id"] not in known:
                return "remote engine_id not found from bootstrap server"
            return "" if params["transfer_id"] in self.transfers else "no such transfer"
        if "metaserver" in params:
            return self.ask_for_prefill(f"cmpl-{request_id}-0", params["metaserver"])
        return "" if params.get("remote_engine_id") == "e" else "invalid kv_transfer_params"

    def ask_for_prefill(self, name: str, metaserver: str) -> str:
        self.pushed[name] = threading.Event()
        for message in self.posts({"request_id": name, "do_remote_decode": True, "remote_port": 36000}):
            request = urllib.request.Request(metaserver, json.dumps(message).encode(), method="POST")
            with urllib.request.urlopen(request, timeout=LAG) as answer:
                answer.read()
        return "" if self.pushed[name].wait(LAG) else "nothing was pushed"
