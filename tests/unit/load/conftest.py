# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service that misbehaves on demand, in every way that the witness has to notice."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Server(ThreadingHTTPServer):
    daemon_threads = True
    mode = "good"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ends = threading.Event()
        self.asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_args: Any) -> None:
        """Clients that go away are nothing to tell."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked += 1
        mode = self.server.mode
        if mode == "closes":
            self.close_connection = True
        elif mode == "status":
            self._reply(500, b'{"error": {"message": "out of order"}}')
        elif mode == "no-body":
            self._reply(200, b"")
        elif mode == "no-json":
            self._reply(200, b"<html>")
        elif mode == "error-in-body":
            error = json.dumps({"error": {"message": "the engine is dead"}})
            self._reply(200, f"data: {error}\n\ndata: [DONE]\n\n".encode() if body.get("stream") else error.encode())
        elif mode == "headers-only":
            self._head(200, 1000)
            self.server.ends.wait()
        else:
            self._answer(mode, body)

    def _answer(self, mode: str, body: dict[str, Any]) -> None:
        if mode == "slow":
            time.sleep(0.4)
        chat = self.path == "/v1/chat/completions"
        prompt = body["messages"][0]["content"] if chat else body["prompt"]
        tokens = body["max_tokens"] - (mode == "fewer")
        first = prompt.split()[0] if mode != "other-text" else f"number-{self.server.asked}"
        words = [f"{first}-{number} " for number in range(tokens)] if mode != "no-text" else [""]
        finish = {"abort": "abort", "no-reason": None}.get(mode, "length")
        usage = {} if mode == "no-usage" else {"usage": {"completion_tokens": tokens}}
        if not body.get("stream"):
            text = "".join(words)
            content = {"message": {"content": text}} if chat else {"text": text}
            said = json.dumps({"id": "one", "choices": [{**content, "finish_reason": finish}], **usage}).encode()
            self._reply(200, said[: len(said) // 2] if mode == "breaks" else said, len(said))
            return
        events: list[Any] = [{"delta": {"content": word}} if chat else {"text": word} for word in words]
        events[-1]["finish_reason"] = finish
        events = [{"id": "one", "choices": [event]} for event in events] + [{"choices": [], **usage}]
        data = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"] * (mode != "no-done")
        said = "".join(data).encode()
        self._reply(200, said[: len(said) // 2] if mode == "breaks" else said, len(said))

    def _head(self, status: int, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _reply(self, status: int, body: bytes, length: int | None = None) -> None:
        self._head(status, len(body) if length is None else length)
        self.wfile.write(body)
        self.close_connection = length is not None and length != len(body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield found
        found.ends.set()
        found.shutdown()
        thread.join()
