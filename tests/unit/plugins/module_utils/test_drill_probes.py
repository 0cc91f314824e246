# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.drill_probes import probe

LEADS = {"role": "leader", "ha_state": "serving", "service_ready": True}
STANDS_BY = {"role": "standby", "ha_state": "standby", "service_ready": False}
NOBODY = "http://127.0.0.1:1/health"


@pytest.fixture
def serve() -> Iterator[Any]:
    servers = []

    def start(answer: Any, code: int = 200) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(code)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode() if not isinstance(answer, str) else answer.encode())

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/health"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def ask(kind: str, *urls: str) -> tuple[bool, str]:
    return probe({"kind": kind, "urls": urls, "model": "tiny", "timeout": 5})()


def test_one_master_has_to_lead(serve: Any) -> None:
    leader, standby = serve(LEADS), serve(STANDS_BY)
    assert ask("masters", standby, leader) == (True, leader)
    assert ask("masters", NOBODY, leader) == (True, leader)
    assert ask("masters", standby, NOBODY) == (False, "nobody leads: standby, Connection refused")
    assert ask("masters", leader, serve(LEADS)) == (False, "2 masters say that they lead")


def test_every_member_has_to_read_through_the_quorum(serve: Any) -> None:
    well, text = serve({"health": True}), serve({"health": "true", "reason": ""})
    assert ask("etcd", well, text) == (True, "")
    ill = serve({"health": "false", "reason": "RAFT NO LEADER"})
    assert ask("etcd", well, ill) == (False, f"{ill}: RAFT NO LEADER")
    assert ask("etcd", NOBODY) == (False, f"{NOBODY}: Connection refused")


def test_an_answer_has_text_in_it(serve: Any) -> None:
    assert ask("completion", serve({"choices": [{"text": " six"}]})) == (True, "")
    assert ask("completion", serve({"choices": [{"text": ""}]})) == (False, "the answer has no text")
    assert ask("completion", serve("[]")) == (False, "the answer is no completion")
    assert ask("completion", serve({}, 503)) == (False, "HTTP 503")
    assert ask("completion", NOBODY) == (False, "Connection refused")


def test_a_port(serve: Any) -> None:
    place = serve({}).partition("//")[2].partition("/")[0]
    assert ask("tcp", place) == (True, "")
    assert ask("tcp", "127.0.0.1:1") == (False, "Connection refused")
