# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""router_worker before stand-ins for vLLM-Ascend's pull proxy, as v0.18.0 and as v0.23.0 behave."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import router_out, router_rotation
from ansible_collections.mooncake.pd.plugins.modules import router_worker
from ansible_collections.mooncake.pd.tests.sim.router.harness import Cluster, request

from .conftest import Answer, RunModule


class Proxy:
    """Membership only: what is removed while a request runs is isolated until none does."""

    def __init__(self, prefill: list[str], decode: list[str]) -> None:
        self.members = {"prefill": prefill, "decode": decode}
        self.isolated: set[str] = set()
        self.adding: set[tuple[str, str]] = set()
        self.running = 0
        self.adding_again_helps = False  # v0.18.0
        self.broken: str = ""
        self.posts: list[tuple[str, list[str]]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def reply(self, body: Any) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def do_GET(self) -> None:
                self.reply({"status": "ok", "request_num": proxy.running})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.reply(proxy.act(self.path.rpartition("/")[2], body["type"], body["instances"]))

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def act(self, action: str, kind: str, instances: list[str]) -> dict[str, Any]:
        if instances:
            self.posts.append((action, instances))
        # it takes localhost and 127.0.0.1 for one
        known = {its.replace("localhost", "127.0.0.1"): its for its in self.members[kind]}
        for instance in [known.get(its, its) for its in instances]:
            if action == "remove":
                if instance not in self.members[kind]:
                    self.broken = f"{instance} is no member"
                elif self.running:
                    self.isolated.add(instance)
                else:
                    self.isolated.discard(instance)
                    self.members[kind].remove(instance)
            elif instance in self.members[kind]:
                if self.adding_again_helps:
                    self.isolated.discard(instance)
            else:
                self.adding.add((kind, instance))
        listed = {f"current_{its}_instances": list(members) for its, members in self.members.items()}
        # only the next look has what was added: it is asked for its models first
        for its, instance in self.adding:
            self.members[its].append(instance)
        self.adding.clear()
        return {"message": "", **listed}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_module: RunModule) -> Iterator[Any]:
    cluster = Cluster(tmp_path, 1, 2)
    for instance in (*cluster.prefill, *cluster.decode):
        instance.start()
    proxy = Proxy(
        [f"127.0.0.1:{its.port}" for its in cluster.prefill], [f"localhost:{its.port}" for its in cluster.decode]
    )
    out = tmp_path / "state" / "out.json"
    monkeypatch.setattr(router_worker, "OUT", str(out))
    rows = [{**row, "bootstrap_urls": []} for row in cluster.rows()]
    routers = [{"name": "proxy", "address": "127.0.0.1", "port": proxy.port}]
    quick = {"settle": 0.2, "drain_timeout": 10, "kv_timeout": 1, "ready_timeout": 5}

    def call(state: str, *names: str, **options: Any) -> Answer:
        common = {"kind": "ascend_pull", "routers": routers, "instances": rows, "state": state}
        return run_module(router_worker, **{**common, **quick, "names": list(names) or None, **options})

    call.proxy, call.cluster, call.out = proxy, cluster, out  # type: ignore[attr-defined]
    yield call
    proxy.server.shutdown()
    proxy.server.server_close()
    cluster.stop()
    assert not proxy.broken


def test_without_traffic(run: Any) -> None:
    listed = run("listed")
    assert not listed["failed"], listed
    assert {worker["instance"] for worker in listed["routers"][0]["workers"]} == {"p1", "d1", "d2"}
    assert run("drained", "d1", check=True)["changed"]
    assert run.proxy.posts == []
    answer = run("drained", "d1")
    assert not answer["failed"], answer
    assert (answer["changed"], answer["out"]) == (True, ["d1"])
    assert {worker["instance"] for worker in answer["routers"][0]["workers"]} == {"p1", "d2"}
    assert not run("drained", "d1")["changed"]
    assert len(run.proxy.posts) == 1, "one that is no member is never removed"
    answer = run("present", "d1")
    assert not answer["failed"], answer
    assert (answer["changed"], answer["out"]) == (True, [])
    assert {worker["instance"] for worker in answer["routers"][0]["workers"]} == {"p1", "d1", "d2"}
    assert not run("present", "d1")["changed"]


def test_isolated_while_requests_run(run: Any) -> None:
    run.proxy.running = 1
    answer = run("drained", "d1")
    assert not answer["failed"], answer
    assert run.proxy.isolated == {f"localhost:{run.cluster.decode[0].port}"}
    assert not run("drained", "d1")["changed"]
    # v0.23.0: adding it again does not help while a request runs
    answer = run("present", "d1", ready_timeout=1)
    assert answer["failed"]
    assert "may still isolate" in answer["msg"]
    assert "pause the traffic" in answer["msg"]
    assert answer["out"] == ["d1"]
    run.proxy.running = 0
    answer = run("present", "d1")
    assert not answer["failed"], answer
    assert run.proxy.isolated == set()
    assert router_out.read(str(run.out)) == {}


def test_isolation_that_ends_is_seen_by_what_the_instance_serves(run: Any) -> None:
    run.proxy.running = 1
    run.proxy.adding_again_helps = True
    assert not run("drained", "p1", min_healthy={"prefill": 0})["failed"]
    ended = threading.Event()
    body = {"model": "tiny", "prompt": "hello", "max_tokens": 1}

    def serve() -> None:
        # traffic goes there again as soon as it is not isolated
        while run.proxy.isolated and not ended.is_set():
            time.sleep(0.02)
        while not ended.is_set():
            request(run.cluster.prefill[0].port, "/v1/completions", body)
            time.sleep(0.05)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    answer = run("present", "p1")
    ended.set()
    thread.join(5)
    assert not answer["failed"], answer


def test_proxy_that_does_not_answer_is_an_error(run: Any) -> None:
    run.proxy.act = lambda *_: {"error": "Instance type 'prefill' is not supported."}
    answer = run("drained", "d1")
    assert answer["failed"]
    assert "did not answer with the instances it has" in answer["msg"]
    assert not run.out.exists()


def test_what_it_cannot_name(run_module: RunModule, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rotation = router_rotation.Pulling(dict, "", None, [], [{"name": "d1", "api_urls": ["http://[fd00::1]:8200"]}])  # type: ignore[arg-type]
    assert "can name no IPv6 address" in rotation.problems()[0]
