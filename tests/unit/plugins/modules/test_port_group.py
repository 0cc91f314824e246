# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import procs, sockets
from ansible_collections.mooncake.pd.plugins.module_utils.procs import Process
from ansible_collections.mooncake.pd.plugins.modules import port_group

from .conftest import RunModule

HERE = "127.0.0.2"
UNIT = "mooncake-pd-p1.service"


def group(port: int, last: int | None = None, address: str = HERE, **changes: Any) -> dict[str, Any]:
    claim = {"purpose": "api", "address": address, "first": port, "last": last or port, "where": "prefill[0].api_port"}
    return {"name": "p1", "unit": UNIT, "ports": [{**claim, **changes}]}


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server((HERE, 0)) as server:
        yield server.getsockname()[1]


def test_free_port_in_check_mode_too(run_module: RunModule, listener: int) -> None:
    with socket.create_server((HERE, 0)) as server:
        free = server.getsockname()[1]
    for check in (False, True):
        answer = run_module(port_group, check=check, groups=[group(free)])
        assert (answer["failed"], answer["changed"], answer["problems"]) == (False, False, [])
        assert [entry["state"] for entry in answer["groups"][0]["ports"]] == ["free"]
    assert sockets.probe(HERE, free) == sockets.FREE  # and it is given back


def test_taken_port_names_place_owner_and_way_out(run_module: RunModule, listener: int) -> None:
    answer = run_module(port_group, groups=[group(listener)])
    assert answer["failed"]
    (problem,) = answer["problems"]
    assert problem.startswith(f"p1: api port {HERE}:{listener} (prefill[0].api_port) is taken by pid {os.getpid()} (")
    assert "another port" in problem
    assert answer["msg"] == problem
    (entry,) = answer["groups"][0]["ports"]
    assert entry["state"] == "taken"
    assert [owner["pid"] for owner in entry["owners"]] == [os.getpid()]


def test_port_of_the_units_own_process(run_module: RunModule, listener: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procs, "describe", lambda pid, proc, deadline: Process(pid, "vllm", "pd", UNIT, None))
    for address in (HERE, "0.0.0.0"):  # a planned wildcard meets the own listener as well
        answer = run_module(port_group, groups=[group(listener, address=address)])
        assert not answer["failed"]
        assert answer["groups"][0]["ports"][0]["state"] == "own"
    monkeypatch.setattr(procs, "describe", lambda pid, proc, deadline: Process(pid, "vllm", "pd", UNIT, "0123456789ab"))
    assert run_module(port_group, groups=[group(listener)])["failed"]


def test_all_owners_are_named_and_one_foreign_is_enough(
    run_module: RunModule, listener: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = os.fork()
    if child == 0:
        os.read(os.pipe()[0], 1)  # keeps the listening socket open
        os._exit(0)
    try:
        monkeypatch.setattr(
            procs, "describe", lambda pid, *_: Process(pid, "vllm", "pd", None if pid == child else UNIT, None)
        )
        answer = run_module(port_group, groups=[group(listener)])
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    (entry,) = answer["groups"][0]["ports"]
    assert entry["state"] == "taken"
    assert {owner["pid"] for owner in entry["owners"]} == {os.getpid(), child}
    assert f"pid {child} (vllm), user pd, in no systemd unit" in answer["msg"]


@contextmanager
def taken_behind_a_free_one() -> Iterator[int]:
    """A taken port; the one below it is free."""
    while True:
        with socket.socket() as server:
            server.bind((HERE, 0))
            port = server.getsockname()[1]
            if port > 1024 and sockets.probe(HERE, port - 1) == sockets.FREE:
                server.listen()
                yield port
                return


def test_whole_range_and_all_groups_at_once(run_module: RunModule, listener: int) -> None:
    with taken_behind_a_free_one() as port:
        answer = run_module(port_group, groups=[group(port - 1, port), group(listener)])
    assert [[entry["state"] for entry in made["ports"]] for made in answer["groups"]] == [["free", "taken"], ["taken"]]
    assert [problem.split(" ")[3] for problem in answer["problems"]] == [f"{HERE}:{port}", f"{HERE}:{listener}"]


def test_impossible_ranges_and_addresses(run_module: RunModule) -> None:
    groups = [group(18100, address="192.0.2.77"), group(65536), group(9, 8), group(18100, address="node7")]
    problems = run_module(port_group, groups=groups)["problems"]
    assert "192.0.2.77 is not an address of this host" in problems[0]
    assert "is no port range (65536-65536)" in problems[1]
    assert "is no port range (9-8)" in problems[2]
    assert "node7:18100 is no IP address" in problems[3]


def test_bound_and_never_listening_is_explained(run_module: RunModule) -> None:
    with socket.socket() as silent:
        silent.bind((HERE, 0))
        answer = run_module(port_group, groups=[group(silent.getsockname()[1])])
    (entry,) = answer["groups"][0]["ports"]
    assert entry["state"] == "taken"
    # where the kernel neither lists nor lends such a socket, nobody is named
    assert [owner["pid"] for owner in entry["owners"]] in ([os.getpid()], [])
    assert "bound it and does not listen yet, or never will" in answer["msg"]


def test_client_source_port_is_explained(run_module: RunModule) -> None:
    with socket.create_server(("127.0.0.3", 0)) as server, socket.socket() as client:
        client.bind((HERE, 0))
        client.connect(server.getsockname())
        answer = run_module(port_group, groups=[group(client.getsockname()[1])])
    assert "as the source port of a connection of its own to 127.0.0.3:" in answer["msg"]
    assert "(ESTABLISHED). Reserve the port (net.ipv4.ip_local_reserved_ports)" in answer["msg"]
