# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan starts is a pool: objects that one host puts another one gets, and what is wrong is told apart."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import client_program, store_client
from ansible_collections.mooncake.pd.plugins.modules import store_proof

from .conftest import HOSTS, Pool, Start

SIZES = [4096, 1 << 20, 16 << 20]


@pytest.fixture
def ask(run_module: Any, environment: Path) -> Any:
    def call(pool: Pool, host: str, step: str, **changes: Any) -> dict[str, Any]:
        store = {**pool.told, **changes}
        return run_module(
            store_proof, step=step, path=str(environment), address=HOSTS[host], store=store, token="one", timeout=50
        )

    return call


def test_what_one_host_puts_another_gets_and_nothing_stays(start: Start, ask: Any) -> None:
    pool = Pool()
    for host in ("control", "s1", "s2"):
        start(pool, host)
    segments = json.loads(pool.asked("get_segments_detail"))["segments"]
    assert sorted(item["segment_name"].partition(":")[0] for item in segments) == [HOSTS["s1"], HOSTS["s2"]]
    assert {item["size_bytes"] for item in segments} == {96 << 20}

    put = ask(pool, "p1", "put")
    assert (put.get("msg"), put["finding"], put["changed"]) == (None, "", False)
    assert [item["size"] for item in put["objects"]] == SIZES
    got = ask(pool, "d1", "get")
    assert (got.get("msg"), got["finding"]) == (None, "")
    assert [(item["step"], item["size"]) for item in got["objects"]] == [("get", size) for size in SIZES]
    assert all(item["bandwidth"] > 0 for item in got["objects"])
    assert ask(pool, "d1", "remove")["finding"] == ""
    assert pool.asked("get_all_keys").strip() == ""
    # twice is no fault
    assert ask(pool, "d1", "remove")["finding"] == ""


def test_other_content_under_the_same_key_is_seen(start: Start, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool()
    for host in ("control", "s1"):
        start(pool, host)
    told = client_program.source(store_client)
    other = told.replace('f"{token}/{number}".encode()', 'b"x"')
    assert other != told
    with monkeypatch.context() as changed:
        changed.setattr(client_program, "source", lambda _program: other)
        assert ask(pool, "p1", "put")["finding"] == ""
    assert ask(pool, "d1", "get")["finding"] == "wrong-value"


def test_a_pool_to_which_nobody_has_brought_memory(start: Start, ask: Any) -> None:
    pool = Pool()
    start(pool, "control")
    answer = ask(pool, "p1", "put")
    assert (answer["failed"], answer["finding"], answer["objects"]) == (True, "no-space", [])


def test_a_pool_without_a_master(ask: Any) -> None:
    answer = ask(Pool(), "p1", "put")
    assert (answer["failed"], answer["finding"]) == (True, "no-master")
    assert "127.0.90.10:19051" in answer["msg"]


def test_objects_are_gone_with_the_node_that_had_them(start: Start, ask: Any) -> None:
    pool = Pool()
    start(pool, "control")
    node = start(pool, "s1")
    assert ask(pool, "p1", "put")["finding"] == ""
    # by a signal, which systemd counts as a clean end
    assert node.stop() == -signal.SIGTERM
    assert ask(pool, "d1", "get")["finding"] == "missing"


def test_a_fall_back_to_tcp_is_no_proof(start: Start, ask: Any) -> None:
    """This machine has no RDMA device, and Mooncake says so in no error."""
    pool = Pool()
    for host in ("control", "s1"):
        start(pool, host)
    told = "Found 0 HCAs|No RDMA devices found"
    answer = ask(pool, "p1", "put", protocol="rdma", fallback=told)
    assert answer["finding"] == "fallback"


def test_a_node_with_a_disk_keeps_to_its_quota(start: Start, ask: Any, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    pool = Pool(disk)
    start(pool, "control")
    node = start(pool, "s2")
    assert "using 90% of disk capacity" not in node.log.read_text()
    assert f"master_total_file_capacity_bytes {1 << 30}\n" in pool.asked("metrics")
    assert ask(pool, "p1", "put")["finding"] == ""
