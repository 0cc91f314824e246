# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for vLLM-Ascend's load_balance_proxy_layerwise_server_example.py: arguments and life cycle only.

Its members are its arguments. GET /healthcheck counts them, whether they live or not. A request (GET /hold) needs a
further connection before it can be answered, as decode posts to the metaserver of the proxy: with a listener that is
closed meanwhile it fails.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
import time
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Handler(BaseHTTPRequestHandler):
    args: argparse.Namespace
    running = 0
    lock = threading.Lock()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def reply(self, status: int, body: Any) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/healthcheck":
            self.reply(200, {"status": "ok", "prefill_instances": len(self.args.prefiller_hosts)})
        elif url.path == "/stand-in":
            decode = [f"http://{h}:{p}" for h, p in zip(self.args.decoder_hosts, self.args.decoder_ports, strict=True)]
            prefill = zip(self.args.prefiller_hosts, self.args.prefiller_ports, strict=True)
            self.reply(200, {"workers": [*(f"http://{h}:{p}" for h, p in prefill), *decode]})
        elif url.path == "/hold":
            self.hold(float(urllib.parse.parse_qs(url.query)["seconds"][0]))

    def hold(self, seconds: float) -> None:
        with self.lock:
            Handler.running += 1
        try:
            time.sleep(seconds)
            with NO_PROXY.open(f"http://{self.args.host}:{self.args.port}/healthcheck", timeout=2) as answer:
                self.reply(answer.status, {})
        except OSError:
            self.reply(500, {})
        finally:
            with self.lock:
                Handler.running -= 1


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--host", "--port"):
        parser.add_argument(name)
    for kind in ("prefiller", "decoder"):
        parser.add_argument(f"--{kind}-hosts", nargs="+", required=True)
        parser.add_argument(f"--{kind}-ports", nargs="+", required=True)
    Handler.args = parser.parse_args()
    ThreadingHTTPServer.daemon_threads = True
    server = ThreadingHTTPServer((Handler.args.host, int(Handler.args.port)), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.02)
    server.server_close()
    while Handler.running:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
