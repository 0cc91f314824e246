# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""load_balance_proxy_layerwise_server_example.py of vLLM-Ascend: same options, endpoints and order of calls.

Decode is asked first, with the address of /v1/metaserver; decode posts there where it wants the KV, and only then
prefill is asked. It needs no vLLM, which the real one does.
"""

from __future__ import annotations

import argparse
import http.client
import ipaddress
import json
import os
import signal
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .client import opened, post
from .log import Log

LOG = Log()
_WILDCARDS = ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")


def _check_hosts(hosts: list[str], option: str) -> None:
    for index, host in enumerate(hosts):
        try:
            ipaddress.ip_address(host)
        except ValueError:
            if not host or all(label.isdigit() for label in host.split(".")):
                raise ValueError(f"Invalid host {host!r} in {option}[{index}]") from None


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--prefiller-hosts", nargs="+", default=["localhost"])
    parser.add_argument("--prefiller-ports", type=int, nargs="+", default=[8001])
    parser.add_argument("--decoder-hosts", nargs="+", default=["localhost"])
    parser.add_argument("--decoder-ports", type=int, nargs="+", default=[8002])
    parser.add_argument("--max-retries", type=int, default=3)
    parser.add_argument("--retry-delay", type=float, default=0.001)
    args = parser.parse_args(argv)
    if args.host in _WILDCARDS:
        raise ValueError(
            "Decoder hosts will access Proxy host:port/metaserver, to avoid configuration errors, the Wildcard Address "
            f"{args.host} is not allowed for proxy"
        )
    for kind in ("prefiller", "decoder"):
        hosts, ports = getattr(args, f"{kind}_hosts"), getattr(args, f"{kind}_ports")
        _check_hosts(hosts, f"--{kind}-hosts")
        if len(hosts) != len(ports):
            raise ValueError(f"Number of {kind} hosts must match number of {kind} ports")
    return args


class Side:
    """Instances of one kind and how much each of them has to do."""

    def __init__(self, hosts: list[str], ports: list[int]) -> None:
        self.urls = [f"http://{host}:{port}" for host, port in zip(hosts, ports)]
        self._load = [0.0] * len(self.urls)
        self._lock = threading.Lock()

    def take(self, weight: float) -> int:
        with self._lock:
            chosen = min(range(len(self.urls)), key=lambda i: self._load[i])
            self._load[chosen] += weight
            return chosen

    def give_back(self, chosen: int, weight: float) -> None:
        with self._lock:
            self._load[chosen] -= weight


class Proxy:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.prefill = Side(args.prefiller_hosts, args.prefiller_ports)
        self.decode = Side(args.decoder_hosts, args.decoder_ports)
        # id of the child request -> (endpoint, body, id of the client's request)
        self.waiting: dict[str, tuple[str, dict[str, Any], str]] = {}

    def headers(self, request_id: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY')}", "X-Request-Id": request_id}

    def retried(self, what: str, ask: Any) -> Any:
        for attempt in range(1, self.args.max_retries + 1):
            try:
                return ask()
            except (OSError, ValueError) as error:
                if attempt == self.args.max_retries:
                    LOG.error(f"All {attempt} attempts failed for {what}.", "proxy.py")
                    raise
                LOG.warning(f"Attempt {attempt} failed for {what}: {error}", "proxy.py")
                time.sleep(self.args.retry_delay * 2 ** (attempt - 1))

    def ask_decode(self, url: str, path: str, body: dict[str, Any], request_id: str) -> Any:
        def ask() -> Any:
            connection, answer = opened(url + path, body, self.headers(request_id))
            if answer.status >= 400:
                text = answer.read(200)
                connection.close()
                raise OSError(f"{answer.status} of {url}{path}: {text!r}")
            return connection, answer

        return self.retried(f"streaming {path}", ask)

    def ask_prefill(self, child: str, params: dict[str, Any]) -> None:
        path, body, request_id = self.waiting[child]
        body = {**body, "stream": False, "max_tokens": 1, "min_tokens": 1, "kv_transfer_params": params}
        body.pop("stream_options", None)
        if "max_completion_tokens" in body:
            body["max_completion_tokens"] = 1
        weight = len(json.dumps(body)) / 4 * 0.0345 + 120.0745
        chosen = self.prefill.take(weight)

        def ask() -> None:
            status, text = post(self.prefill.urls[chosen] + path, body, self.headers(request_id))
            if status >= 400:
                raise OSError(f"{status}: {text[:200]!r}")

        try:
            self.retried(path, ask)
        finally:
            self.prefill.give_back(chosen, weight)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    proxy: Proxy

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def reply(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        LOG.access(f"{self.client_address[0]}:{self.client_address[1]}", f"{self.command} {self.path}", status, "")

    def do_GET(self) -> None:
        if self.path == "/healthcheck":
            counts = {
                "prefill_instances": len(self.proxy.prefill.urls),
                "decode_instances": len(self.proxy.decode.urls),
            }
            self.reply(200, {"status": "ok", **counts})
        else:
            self.reply(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if path == "/reset_prefix_cache":
            self.reply(200, {})
        elif path not in ("/v1/completions", "/v1/chat/completions", "/v1/metaserver"):
            self.reply(404, {"detail": "Not Found"})
        else:
            try:
                body = json.loads(raw)
            except ValueError:
                self.reply(500, {"detail": "Internal Server Error"})
                return
            if path == "/v1/metaserver":
                self._metaserver(body)
            else:
                self._complete(path, body, len(raw))

    def _metaserver(self, params: dict[str, Any]) -> None:
        child = params.get("request_id", "")
        if child not in self.proxy.waiting:
            self.reply(404, {"detail": f"Unknown metaserver request_id: {child!r}"})
            return
        try:
            self.proxy.ask_prefill(child, params)
        except (OSError, ValueError) as error:
            LOG.error(f"Post metaserver failed for {child}: {error}", "proxy.py")
            self.reply(502, {"detail": str(error)})
        else:
            self.reply(200, {"status": "ok"})

    def _complete(self, path: str, body: dict[str, Any], weight: float) -> None:
        proxy, request_id = self.proxy, str(uuid.uuid4())
        child = f"chatcmpl-{request_id}" if path.endswith("chat/completions") else f"cmpl-{request_id}-0"
        proxy.waiting[child] = (path, dict(body), request_id)
        metaserver = f"http://{proxy.args.host}:{proxy.args.port}/v1/metaserver"
        params = {"do_remote_decode": False, "do_remote_prefill": True, "metaserver": metaserver}
        chosen = proxy.decode.take(weight)
        kind = "text/event-stream; charset=utf-8" if body.get("stream") else "application/json"
        # the real one has promised 200 before decode has answered: a failure ends as an empty body
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            connection, answer = proxy.ask_decode(
                proxy.decode.urls[chosen], path, {**body, "kv_transfer_params": params}, request_id
            )
            try:
                while piece := answer.read1(65536):
                    self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                    self.wfile.flush()
            finally:
                connection.close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            LOG.error(f"Error during streaming from decoder {proxy.decode.urls[chosen]}: {error}", "proxy.py")
        finally:
            proxy.decode.give_back(chosen, weight)
            proxy.waiting.pop(child, None)
        try:
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True


def main(argv: list[str] | None = None) -> None:
    args = arguments(argv)
    Handler.proxy = Proxy(args)
    ThreadingHTTPServer.daemon_threads = True
    ThreadingHTTPServer.allow_reuse_address = True
    server = ThreadingHTTPServer((args.host, args.port), Handler)
    counts = f"{len(args.prefiller_hosts)} prefill clients and {len(args.decoder_hosts)} decode clients"
    LOG.uvicorn(f"Started server process [{os.getpid()}]")
    print(f"Initialized {counts}.", flush=True)
    LOG.uvicorn("Application startup complete.")
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown, daemon=True).start())
    server.serve_forever(0.05)
    server.server_close()
    LOG.uvicorn(f"Finished server process [{os.getpid()}]")
