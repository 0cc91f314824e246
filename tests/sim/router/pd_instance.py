# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for a vLLM prefill or decode instance with MooncakeConnector (vLLM 0.32.0), for router tests.

It obeys the part of the contract a router can see: /health, /v1/models, completions, and on the prefill side a
bootstrap server whose GET /query names engine ids that are new after every start. A decode asked to pull from an
engine id that is not the one its bootstrap names now never answers, as the real one does when the process behind a
known id is gone. GET /stand-in on the API port tells what was served and what hangs, and
/metrics what runs.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import signal
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Instance:
    def __init__(self, args: argparse.Namespace) -> None:
        self.kind: str = args.kind
        self.name: str = args.name
        self.ranks: int = args.ranks
        self.healthy_at: float = time.monotonic() + args.health_delay
        self.token_seconds: float = args.token_seconds
        self.engines = {str(r): args.engine_id or f"{args.name}-{uuid.uuid4().hex[:12]}" for r in range(args.ranks)}
        self.lock = threading.Lock()
        self.served = 0
        self.hung = 0
        self.running = 0
        self.last_headers: dict[str, str] = {}
        self.kv_usage: float = args.kv_usage
        self.prompt_tokens = 0

    def healthy(self) -> bool:
        return time.monotonic() >= self.healthy_at


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    instance: Instance


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # headers and body in one segment: two small writes would meet Nagle and a delayed ACK (40 ms)
    wbufsize = -1
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def reply(self, status: int, body: Any) -> None:
        self.send(status, json.dumps(body), "application/json")

    def reply_text(self, text: str) -> None:
        self.send(200, text, "text/plain")

    def send(self, status: int, text: str, kind: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Bootstrap(Handler):
    def do_GET(self) -> None:
        if self.path != "/query":
            return self.reply(404, {})
        addr = {"0": {"0": "tcp://127.0.0.1:1"}}
        engines = self.server.instance.engines
        return self.reply(200, {rank: {"engine_id": e, "worker_addr": addr} for rank, e in engines.items()})


class Api(Handler):
    def do_GET(self) -> None:
        instance = self.server.instance
        if self.path == "/stand-in":
            facts = {key: getattr(instance, key) for key in ("name", "served", "hung", "running", "last_headers")}
            return self.reply(200, facts)
        if self.path == "/metrics":
            return self.metrics()
        if not instance.healthy():
            return self.reply(503, {})
        if self.path == "/health":
            return self.reply(200, {})
        if self.path == "/v1/models":
            return self.reply(200, {"object": "list", "data": [{"id": "tiny", "object": "model"}]})
        return self.reply(404, {"detail": "Not Found"})

    def metrics(self) -> None:
        instance = self.server.instance
        counts: dict[str, float] = {"num_requests_running": instance.running, "num_requests_waiting": 0}
        counts["kv_cache_usage_perc"] = instance.kv_usage
        counts |= {'prompt_tokens_by_source_total{source="local_compute"}': instance.prompt_tokens}
        self.reply_text("".join(f"vllm:{name} {value}\n" for name, value in counts.items()))

    def do_POST(self) -> None:
        instance = self.server.instance
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        with instance.lock:
            instance.running += 1
            instance.last_headers = dict(self.headers.items())
        try:
            if body.get("prompt") == "error 500" and instance.kind == "decode":
                return self.reply(500, {"error": {"message": f"{instance.name} fails as asked"}})
            if instance.kind == "decode" and not self.pulled(body.get("kv_transfer_params") or {}):
                return None
            with instance.lock:
                instance.served += 1
                instance.prompt_tokens += len(str(body.get("prompt")))
            if body.get("stream"):
                return self.stream(int(body.get("max_tokens") or 1))
            time.sleep(instance.token_seconds * int(body.get("max_tokens") or 1))
            choice = {"index": 0, "text": f"from {instance.name}", "finish_reason": "length"}
            return self.reply(200, {"id": "x", "object": "text_completion", "model": "tiny", "choices": [choice]})
        finally:
            with instance.lock:
                instance.running -= 1

    def pulled(self, params: dict[str, Any]) -> bool:
        """Pull the KV: True, or False when the connection was ended by the other side while hanging."""
        address = urllib.parse.urlsplit(params.get("remote_bootstrap_addr") or "")
        current: set[str] = set()
        try:
            connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=2)
            connection.request("GET", "/query")
            current = {entry["engine_id"] for entry in json.loads(connection.getresponse().read()).values()}
        except (OSError, ValueError):
            pass
        if params.get("remote_engine_id") in current:
            return True
        with self.server.instance.lock:
            self.server.instance.hung += 1
        self.connection.settimeout(600)
        with contextlib.suppress(OSError):
            self.connection.recv(1)
        self.close_connection = True
        return False

    def stream(self, tokens: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = [json.dumps({"choices": [{"index": 0, "text": f"t{i} "}]}) for i in range(tokens)]
        for event in [*events, "[DONE]"]:
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
            time.sleep(self.server.instance.token_seconds)
        self.wfile.write(b"0\r\n\r\n")


def serve(address: str, port: int, handler: type[Handler], instance: Instance) -> None:
    server = Server((address, port), handler)
    server.instance = instance
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["prefill", "decode"])
    parser.add_argument("--name", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--bootstrap-port", type=int)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--engine-id", help="the same after every start, which the real one should not have")
    parser.add_argument("--health-delay", type=float, default=0.0)
    parser.add_argument("--kv-usage", type=float, default=0.0, help="share of its KV cache that it says is in use")
    parser.add_argument("--token-seconds", type=float, default=0.001)
    args = parser.parse_args()
    instance = Instance(args)
    if args.bootstrap_port:
        serve(args.host, args.bootstrap_port, Bootstrap, instance)
    serve(args.host, args.port, Api, instance)
    print(f"ready {args.name}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
