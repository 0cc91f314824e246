# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ansible.module_utils import basic

from ansible_collections.mooncake.pd.plugins.modules import kv_drained

from .conftest import Answer, RunModule
from .fake_engines import Engines

DEAD = "http://127.0.0.1:1"


class Worker:
    """Where a prefill takes pulls, and the decode that pulls."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "tcp://{}:{}".format(*self.listener.getsockname())
        self.ends: list[socket.socket] = []

    def pull(self) -> socket.socket:
        peer = socket.create_connection(self.listener.getsockname())
        self.ends += [peer, self.listener.accept()[0]]
        return peer

    def close(self) -> None:
        for end in (*self.ends, self.listener):
            end.close()


@pytest.fixture
def worker() -> Iterator[Worker]:
    its = Worker()
    yield its
    its.close()


@pytest.fixture
def engines(worker: Worker) -> Iterator[Engines]:
    its = Engines("p1")
    its.bootstraps = {"b1": {"0": {"engine_id": "e", "worker_addr": {"0": {"0": worker.address}}}}}
    yield its
    its.close()


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(basic.AnsibleModule, "warn", lambda _self, text: told.append(text))
    return told


def wait(run_module: RunModule, url: str, timeout: float = 20, **more: Any) -> Answer:
    answer = run_module(kv_drained, bootstrap_urls=[url], timeout=timeout, **more)
    assert (answer["failed"], answer["changed"]) == (False, False)
    return answer


def test_nobody_pulls(run_module: RunModule, engines: Engines, warnings: list[str]) -> None:
    answer = wait(run_module, f"{engines.url}/b1/")
    assert (answer["pulls"], answer["unknown"]) == ({}, [])
    assert answer["seconds"] < 5
    assert warnings == []


def test_waits_until_the_decode_has_its_answer(run_module: RunModule, engines: Engines, worker: Worker) -> None:
    peer = worker.pull()
    threading.Timer(1.2, peer.close).start()
    answer = wait(run_module, f"{engines.url}/b1")
    assert answer["pulls"] == {}
    assert 1.2 <= answer["seconds"] < 15


def test_what_is_left_after_the_time_is_told(
    run_module: RunModule, engines: Engines, worker: Worker, warnings: list[str]
) -> None:
    name = "{}:{}".format(*worker.pull().getsockname())
    answer = wait(run_module, f"{engines.url}/b1", timeout=1)
    assert answer["pulls"] == {worker.address[6:]: [name]}
    assert warnings == [f"{name} still waits for {worker.address[6:]} after 1 s and goes on without"]


def test_check_mode_looks_once(run_module: RunModule, engines: Engines, worker: Worker, warnings: list[str]) -> None:
    worker.pull()
    answer = wait(run_module, f"{engines.url}/b1", check=True)
    assert list(answer["pulls"]) == [worker.address[6:]]
    assert (answer["seconds"] < 5, warnings) == (True, [])


def test_workers_of_another_host_are_not_ours(run_module: RunModule, engines: Engines, worker: Worker) -> None:
    worker.pull()
    other = worker.address.replace("127.0.0.1", "192.0.2.1")
    engines.bootstraps["b1"]["0"]["worker_addr"]["0"]["0"] = other
    assert wait(run_module, f"{engines.url}/b1")["pulls"] == {}


def test_of_a_prefill_that_is_down_nobody_pulls(run_module: RunModule, warnings: list[str]) -> None:
    answer = wait(run_module, DEAD)
    assert (answer["pulls"], answer["unknown"], warnings) == ({}, [], [])


@pytest.mark.parametrize("told", [None, {"0": {"engine_id": "e"}}, {"0": {"worker_addr": {"0": {"0": "tcp://x"}}}}])
def test_what_is_not_known_takes_all_the_time(
    run_module: RunModule, engines: Engines, told: Any, warnings: list[str]
) -> None:
    engines.bootstraps["b1"] = told
    answer = wait(run_module, f"{engines.url}/b1", timeout=1)
    assert answer["seconds"] >= 1
    assert len(answer["unknown"]) == 1
    assert f"{engines.url}/b1/query answered" in warnings[0]
    assert "waited 1 s" in warnings[0]
