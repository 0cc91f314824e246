# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of etcd as their JSON API shows them: what 3.4.23 answers, on one server with a path each."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

CLUSTER = 0x1F
DATABASE = b"0123456789abcdef" * 64


@dataclass
class It:
    """One member as it is."""

    id: int
    leader: int
    cluster: int = CLUSTER
    read_error: str = ""
    down: bool = False
    alarms: list[str] = field(default_factory=list)
    size: int = 2048
    in_use: int = 2048


class FakeEtcd:
    """members: name -> member; listed: the names in the list of members. Every change is in calls."""

    def __init__(self, *names: str) -> None:
        self.its = {name: It(10 + number, 10) for number, name in enumerate(names)}
        self.listed = {name: it.id for name, it in self.its.items()}
        self.unstarted: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.refusal = ""
        self.piece = DATABASE
        etcd = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                name, _slash, path = self.path[1:].partition("/")
                code, text = etcd.answer(name, f"/{path}", body)
                self.send_response(code)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/{name}"

    @property
    def urls(self) -> list[str]:
        return [self.url(name) for name in self.its]

    def answer(self, name: str, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        it = self.its[name]
        if it.down:
            return 503, b'{"error": "gone", "message": "gone"}'
        reply = self._reply(it, path, body)
        if reply is None:
            return 404, b"404 page not found\n"
        if isinstance(reply, str):
            return 412, json.dumps({"error": reply, "message": reply, "code": 9}).encode()
        return 200, (reply if isinstance(reply, bytes) else json.dumps(reply).encode())

    def _reply(self, it: It, path: str, body: dict[str, Any]) -> Any:
        header = {"header": {"cluster_id": str(it.cluster), "member_id": str(it.id)}}
        told: dict[str, Any] = {
            "/v3/maintenance/status": {
                "version": "3.4.23",
                "dbSize": str(it.size),
                "dbSizeInUse": str(it.in_use),
                "leader": str(it.leader),
                "raftTerm": "4",
            },
            "/v3/cluster/member/list": {"members": self._listed()},
            "/v3/maintenance/alarm": self._alarm(body),
            "/v3/kv/range": it.read_error or {},
            "/v3/maintenance/snapshot": self._snapshot(),
        }
        if path in ("/v3/cluster/member/add", "/v3/cluster/member/remove"):
            self.calls.append((path, body))
            told[path] = self.refusal or {}
        if path == "/v3/maintenance/defragment":
            self.calls.append((path, {"member": it.id}))
            it.size = it.in_use
            told[path] = self.refusal or {}
        reply = told.get(path)
        return {**header, **reply} if isinstance(reply, dict) else reply

    def _alarm(self, body: dict[str, Any]) -> dict[str, Any]:
        """They are the cluster's: every member tells those of all."""
        if body.get("action") == "DEACTIVATE":
            self.calls.append(("/v3/maintenance/alarm", body))
            for it in self.its.values():
                it.alarms = [alarm for alarm in it.alarms if (str(it.id), alarm) != (body["memberID"], body["alarm"])]
        return {"alarms": [{"memberID": str(it.id), "alarm": alarm} for it in self.its.values() for alarm in it.alarms]}

    def _snapshot(self) -> bytes:
        pieces = [self.piece[:1000], self.piece[1000:], hashlib.sha256(DATABASE).digest()]
        lines = [json.dumps({"result": {"blob": base64.b64encode(piece).decode()}}) for piece in pieces]
        return "".join(f"{line}\n" for line in lines).encode()

    def _listed(self) -> list[dict[str, Any]]:
        known = [
            {"ID": str(id_), "name": name, "peerURLs": [f"http://{name}:2380"], "clientURLs": [self.url(name)]}
            for name, id_ in self.listed.items()
        ]
        return known + [{"ID": str(90 + n), "peerURLs": [url]} for n, url in enumerate(self.unstarted)]
