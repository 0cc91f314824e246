# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import metadata

NAME = "192.0.2.11:12345"
META, RAM = metadata.keys(NAME)


def stored(port: int) -> str:
    return json.dumps({"ip_or_host_name": "127.0.0.1", "rpc_port": port})


class Server(ThreadingHTTPServer):
    """Mooncake's own server and etcd's gateway over the same keys."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.keys: dict[str, str] = {}
        self.revisions: dict[str, int] = {}
        self.before_change: Any = None
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, kind: str) -> str:
        place = f"127.0.0.1:{self.server_address[1]}"
        return f"http://{place}/metadata" if kind == "http" else f"etcd://{place}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_arguments: Any) -> None:
        pass

    def answer(self, code: int, text: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def key(self) -> str:
        return parse_qs(urlsplit(self.path).query)["key"][0]

    def do_GET(self) -> None:
        value = self.server.keys.get(self.key())
        self.answer(404 if value is None else 200, value or "metadata not found")

    def do_DELETE(self) -> None:
        self.answer(404 if self.server.keys.pop(self.key(), None) is None else 200, "")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v3/kv/range":
            key = base64.b64decode(body["key"]).decode()
            value = self.server.keys.get(key)
            rows = [] if value is None else [{"value": base64.b64encode(value.encode()).decode(), "mod_revision": "7"}]
            self.answer(200, json.dumps({"kvs": rows} if rows else {"header": {}}))
            return
        (compare,) = body["compare"]
        key = base64.b64decode(compare["key"]).decode()
        assert base64.b64decode(body["success"][0]["request_delete_range"]["key"]).decode() == key
        same = compare["mod_revision"] == str(self.server.revisions.get(key, 7)) and self.server.keys.pop(key, None)
        self.answer(200, json.dumps({"succeeded": True} if same else {}))


@pytest.fixture
def loopback_is_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "_means_whoever_asks", lambda _host: False)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as own:
        yield own
        own.shutdown()


@pytest.fixture
def dead_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


both = pytest.mark.parametrize("kind", ["http", "etcd"])


def states(server: Server, kind: str, dry: bool = False) -> list[tuple[str, str]]:
    return [(one.key, one.state) for one in metadata.sweep(server.url(kind), [NAME], "", dry)]


def test_keys() -> None:
    assert metadata.keys("a:1") == ("mooncake/rpc_meta/a:1", "mooncake/ram/a:1")
    assert metadata.keys("a:1", "c1") == ("mooncake/c1/rpc_meta/a:1", "mooncake/c1/ram/a:1")
    assert metadata.keys("cpu/a", "c1/") == ("mooncake/c1/rpc_meta/cpu/a", "mooncake/c1/cpu/a")


@pytest.mark.usefixtures("loopback_is_another_host")
@both
def test_a_dead_client_goes_with_its_segment(server: Server, kind: str, dead_port: int) -> None:
    server.keys = {META: stored(dead_port), RAM: "{}", "mooncake/ram/other": "{}"}
    assert states(server, kind, dry=True) == [(RAM, "removed"), (META, "removed")]
    assert len(server.keys) == 3
    assert states(server, kind) == [(RAM, "removed"), (META, "removed")]
    assert server.keys == {"mooncake/ram/other": "{}"}
    assert states(server, kind) == []


@pytest.mark.usefixtures("loopback_is_another_host")
@both
def test_a_live_client_stays(server: Server, kind: str) -> None:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        own.listen()
        server.keys = {META: stored(own.getsockname()[1]), RAM: "{}"}
        assert states(server, kind) == [(META, "kept"), (RAM, "kept")]
    assert len(server.keys) == 2


@pytest.mark.parametrize("error", [TimeoutError("timed out"), OSError(113, "No route to host")])
def test_a_host_that_does_not_answer_proves_nothing(
    server: Server, error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.keys = {META: stored(9), RAM: "{}"}
    create = socket.create_connection

    def connect(place: tuple[str, int], *arguments: Any, **more: Any) -> socket.socket:
        if place[1] == 9:
            raise error
        return create(place, *arguments, **more)

    monkeypatch.setattr(socket, "create_connection", connect)
    assert {state for _key, state in states(server, "http")} == {"unknown"}
    assert len(server.keys) == 2


@both
@pytest.mark.parametrize("value", ["", "[]", '{"ip_or_host_name": "a"}', '{"ip_or_host_name": "", "rpc_port": 1}'])
def test_an_address_that_is_not_understood(server: Server, kind: str, value: str) -> None:
    server.keys = {META: value}
    assert states(server, kind) == [(META, "unknown")]
    assert server.keys == {META: value}


@both
def test_a_segment_without_an_address(server: Server, kind: str) -> None:
    server.keys = {RAM: "{}"}
    assert states(server, kind) == [(RAM, "unknown")]


@pytest.mark.usefixtures("loopback_is_another_host")
def test_a_client_that_came_back_meanwhile_stays(server: Server, dead_port: int) -> None:
    server.keys = {META: stored(dead_port)}
    server.revisions = {META: 8}
    assert states(server, "etcd") == [(META, "kept")]
    assert server.keys

    def returns(_host: str, _port: int) -> tuple[str, str]:
        server.keys[META] = stored(1)
        return metadata.DEAD, ""

    assert [one.state for one in metadata.sweep(server.url("http"), [NAME], "", False, returns)] == ["kept"]
    assert server.keys


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "127.3.2.1"])
def test_an_address_that_every_host_has_proves_nothing(host: str, dead_port: int) -> None:
    state, why = metadata.proof(host, dead_port)
    assert state == metadata.UNKNOWN
    assert "another host's own address" in why


def test_a_server_that_is_not_there(dead_port: int) -> None:
    (one,) = metadata.sweep(f"http://127.0.0.1:{dead_port}/metadata", [NAME], "", False)
    assert (one.state, "refused" in one.why) == ("unknown", True)


def test_a_proxy_is_not_asked(server: Server, dead_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{dead_port}")
    assert states(server, "http") == []


@pytest.mark.parametrize("server", ["redis://a:1", "a:2379", "etcd://", "P2PHANDSHAKE"])
def test_servers_that_are_none(server: str) -> None:
    with pytest.raises(metadata.MetadataError, match="neither"):
        metadata.store(server)
