# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for vllm-router 0.1.17 in static PD mode with --kv-connector mooncake: membership and life cycle only.

As the real one it listens only when one prefill and one decode are healthy and every bootstrap server has answered,
reads the engine ids once, cannot add a worker, answers 200 to the removal of an unknown one, and on SIGTERM closes
its listener and ends when the last request has ended. GET /stand-in tells its engine ids; GET /hold is a request
that runs for ?seconds=, with the worker ?worker= if that is given.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(url: str) -> Any:
    try:
        with NO_PROXY.open(url, timeout=1) as answer:
            return json.loads(answer.read())
    except (OSError, ValueError):
        return None


class Router:
    def __init__(self, prefills: list[list[str]], decodes: list[str]) -> None:
        self.bootstraps = {
            url: f"http://{urllib.parse.urlsplit(url).hostname}:{port[0] if port else 8998}" for url, *port in prefills
        }
        self.kinds = {**dict.fromkeys(self.bootstraps, "prefill"), **dict.fromkeys(decodes, "decode")}
        self.healthy: dict[str, bool] = {}
        self.engines: dict[str, dict[str, str]] = {}
        self.lock = threading.Lock()
        self.running = 0
        self.under_way: Counter[str] = Counter()

    def check(self) -> None:
        for url in list(self.kinds):
            self.healthy[url] = fetch(f"{url}/health") is not None

    def count(self, kind: str) -> int:
        return sum(self.healthy.get(url, False) for url, its in list(self.kinds.items()) if its == kind)

    def ready(self) -> bool:
        return bool(self.count("prefill") and self.count("decode"))

    def begin(self) -> None:
        while not self.ready():
            self.check()
            time.sleep(0.05)
        for url, bootstrap in self.bootstraps.items():
            while (answer := fetch(f"{bootstrap}/query")) is None:
                time.sleep(0.2)
            self.engines[url] = {rank: entry["engine_id"] for rank, entry in answer.items()}

    def keep_checking(self) -> None:
        while True:
            self.check()
            time.sleep(0.1)


class Handler(BaseHTTPRequestHandler):
    router: Router

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def reply(self, status: int, body: Any) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/readiness":
            self.reply(200 if self.router.ready() else 503, {})
        elif url.path == "/workers":
            workers = [
                {"url": worker, "worker_type": kind, "is_healthy": self.router.healthy.get(worker, False)}
                for worker, kind in self.router.kinds.items()
            ]
            self.reply(200, {"workers": workers})
        elif url.path == "/stand-in":
            self.reply(200, {"pid": os.getpid(), "workers": list(self.router.kinds), "engines": self.router.engines})
        elif url.path == "/hold":
            query = urllib.parse.parse_qs(url.query)
            worker = query.get("worker", [""])[0]
            with self.router.lock:
                self.router.running += 1
                self.router.under_way[worker] += 1
            time.sleep(float(query["seconds"][0]))
            self.reply(200, {})
            with self.router.lock:
                self.router.running -= 1
                self.router.under_way[worker] -= 1

    def do_POST(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/remove_worker":
            self.router.kinds.pop(urllib.parse.parse_qs(url.query)["url"][0], None)
            self.reply(200, {})


class Metrics(BaseHTTPRequestHandler):
    router: Router

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        for worker, count in list(self.router.under_way.items()):
            name = "vllm_router_pd_active_decode_requests"
            self.wfile.write(f'{name}{{worker="{worker}",rank="aggregate"}} {count}\n'.encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--prometheus-port", type=int)
    parser.add_argument("--prefill", action="append", nargs="+", default=[])
    parser.add_argument("--decode", action="append", default=[])
    args = parser.parse_known_args()[0]
    router = Router(args.prefill, args.decode)
    router.begin()
    Handler.router = Metrics.router = router
    if args.prometheus_port:
        metrics = ThreadingHTTPServer(("127.0.0.1", args.prometheus_port), Metrics)
        threading.Thread(target=metrics.serve_forever, daemon=True).start()
    ThreadingHTTPServer.daemon_threads = True
    server = ThreadingHTTPServer((args.host, args.port), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    threading.Thread(target=router.keep_checking, daemon=True).start()
    server.serve_forever(poll_interval=0.02)
    server.socket.close()
    while router.running:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
