# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import (
    port_facts,
    procs,
    published_ports,
    redirections,
    socket_holders,
    socket_survey,
)
from ansible_collections.mooncake.pd.plugins.module_utils.nat import Redirection
from ansible_collections.mooncake.pd.plugins.module_utils.procs import Process
from ansible_collections.mooncake.pd.plugins.module_utils.published_ports import Published
from ansible_collections.mooncake.pd.plugins.module_utils.redirections import Found, ToolFailed
from ansible_collections.mooncake.pd.plugins.modules import port_info

from .conftest import RunModule

HERE = "127.0.0.2"
UNIT = "mooncake-pd-p1.service"
KEYS = {
    "court", "probed", "free", "own", "namespace", "ephemeral", "reserved", "reserved_raw", "sockets", "pools",
    "published", "redirections", "nodeports", "unknown",
}  # fmt: skip


def group(port: int, address: str = HERE) -> dict[str, Any]:
    claim = {"purpose": "api", "address": address, "first": port, "last": port, "where": "prefill[0].api_port"}
    return {"name": "p1", "unit": UNIT, "ports": [claim]}


@pytest.fixture(autouse=True)
def lonely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither containers nor rules."""
    monkeypatch.setattr(published_ports, "read", lambda: ([], []))
    monkeypatch.setattr(redirections, "read", lambda proc: Found())
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def whats(ports: dict[str, Any]) -> set[str]:
    return {entry["what"] for entry in ports["unknown"]}


def test_facts_are_whole_and_nothing_changes(run_module: RunModule) -> None:
    with socket.create_server((HERE, 0)) as server:
        port = server.getsockname()[1]
        for check in (False, True):
            answer = run_module(port_info, check=check, groups=[group(port), group(port, "127.0.0.3")])
            ports = answer["ports"]
            assert (answer["changed"], answer["failed"]) == (False, False)
            assert set(ports) == KEYS
            assert (ports["probed"], ports["free"], ports["own"]) == (2, 1, 0)
            (entry,) = ports["court"]
            assert (entry["verdict"], entry["cause"], entry["owners"][0]["pid"]) == ("taken", "listener", os.getpid())
    first, last = ports["ephemeral"]
    assert 0 < first < last < 65536
    assert ports["sockets"]["listen"] >= 1


def test_own_ports_are_in_the_court_without_a_text(run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procs, "describe", lambda pid, proc, deadline: Process(pid, "vllm", "pd", UNIT, None))
    with socket.create_server((HERE, 0)) as server:
        ports = run_module(port_info, groups=[group(server.getsockname()[1])])["ports"]
    assert (ports["own"], ports["free"]) == (1, 0)
    assert [(entry["verdict"], entry["text"], entry["fix"]) for entry in ports["court"]] == [("own", "", "")]


def test_a_process_that_does_not_tell_its_command_line(run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    read = procs._read
    monkeypatch.setattr(
        procs, "_read", lambda pid, name, proc: release.wait(60) if name == "cmdline" else read(pid, name, proc)
    )
    begun = time.monotonic()
    with socket.create_server((HERE, 0)) as server:
        ports = run_module(port_info, groups=[group(server.getsockname()[1])])["ports"]
    assert time.monotonic() - begun < 20
    release.set()
    (owner,) = ports["court"][0]["owners"]
    comm = Path("/proc/self/comm").read_text().strip()
    assert (owner["pid"], owner["command"]) == (os.getpid(), f"[{comm}]")
    told = {entry["what"]: entry["why"] for entry in ports["unknown"]}
    assert told["court.*.owners.*.command"] == f"Process {os.getpid()} did not tell its command line in time."


def test_no_secret_is_told(run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = ToolFailed("it said no.", f"http://u:hunter2@192.0.2.3 {'z' * 1960} TOKEN=hunter2hunter2")
    monkeypatch.setattr(published_ports, "read", lambda: ([], [failure]))
    (entry,) = [entry for entry in run_module(port_info)["ports"]["unknown"] if entry["why"] == "it said no."]
    assert entry["raw"].startswith("http://***@192.0.2.3 z")
    assert len(entry["raw"]) <= 2000
    assert "hunter" not in entry["raw"]


def test_pools_tell_how_full_they_are_and_of_whom(run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HERE, 0)) as server:
        port = server.getsockname()[1]
        pools = [{"purpose": "transfer-rpc", "first": port, "last": port}]
        (pool,) = run_module(port_info, pools=pools)["ports"]["pools"]
        assert (pool["listeners"], pool["foreign"][0]["port"], pool["foreign"][0]["address"]) == (1, port, HERE)
        assert f"pid {os.getpid()} (" in pool["foreign"][0]["owner"]
        monkeypatch.setattr(procs, "describe", lambda pid, proc, deadline: Process(pid, "vllm", "pd", UNIT, None))
        (pool,) = run_module(port_info, groups=[group(9)], pools=pools)["ports"]["pools"]
        assert (pool["listeners"], pool["foreign"]) == (1, [])
        monkeypatch.setattr(socket_holders, "look", lambda proc: socket_holders.Holders({}, 4))
        ports = run_module(port_info, pools=pools)["ports"]
        assert ports["pools"][0]["foreign"][0]["owner"] == "a process that is not seen here"
        assert "pools" in whats(ports)


def test_containers_and_rules(run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Redirection("iptables", "DOCKER", None, 8100, 8100, "172.17.0.2:80", ("PREROUTING", "DOCKER"))
    other = Redirection("nftables", "pre", "192.0.2.11", 80, 81, "10.1.1.1", ("mine", "pre"))
    monkeypatch.setattr(redirections, "read", lambda proc: Found([docker, other], True))
    monkeypatch.setattr(published_ports, "read", lambda: ([Published("podman", "web", "::", 80, "8080")], []))
    ports = run_module(port_info)["ports"]
    assert [(item["runtime"], item["container"], item["port"]) for item in ports["published"]] == [
        ("podman", "web", 80),
        ("docker", None, 8100),
    ]
    assert ports["redirections"] == [
        {
            "by": "nftables",
            "chain": "pre",
            "address": "192.0.2.11",
            "first": 80,
            "last": 81,
            "to": "10.1.1.1",
            "kubernetes": False,
        }
    ]
    assert ports["nodeports"] is True


def test_what_cannot_be_found_out_is_null_and_told(run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_ports, "read", lambda: ([], [ToolFailed("docker hangs", "raw" * 1000)]))
    monkeypatch.setattr(redirections, "read", lambda proc: Found(unknown=[ToolFailed("nft failed")]))
    ports = run_module(port_info)["ports"]
    assert ports["nodeports"] is None
    assert {"published", "redirections", "nodeports"} <= whats(ports)
    assert max(len(entry["raw"]) for entry in ports["unknown"]) == 2000


def test_not_root_is_said(run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    ports = run_module(port_info)["ports"]
    assert {"pools", "published", "redirections", "nodeports"} <= whats(ports)
    assert "did not run as root" in ports["unknown"][0]["why"]


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    settings = tmp_path / "sys" / "net" / "ipv4"
    settings.mkdir(parents=True)
    (settings / "ip_local_port_range").write_text("20000\t60999\n")
    (settings / "ip_local_reserved_ports").write_text("36000-36015,50051\n")
    (tmp_path / "net").mkdir()
    waiting = " {}: 0B0200C0:{:04X} 0C0200C0:0050 06 0 0 0 0 0 0\n"
    rows = [waiting.format(index, port) for index, port in enumerate((30000, 30000, 30001, 8100))]
    (tmp_path / "net" / "tcp").write_text("sl\n" + "".join(rows))
    for pid in ("self", "1"):
        (tmp_path / pid / "ns").mkdir(parents=True)
        (tmp_path / pid / "ns" / "net").write_text("")
    return tmp_path


def test_settings_of_the_kernel(proc: Path) -> None:
    facts = port_facts.Facts(str(proc)).gather([], [])
    assert facts["ephemeral"] == [20000, 60999]
    assert (facts["reserved"], facts["reserved_raw"]) == ([[36000, 36015], [50051, 50051]], "36000-36015,50051")
    # two connections to different ends can share a source port
    assert (facts["sockets"]["time_wait"], facts["sockets"]["time_wait_ephemeral"]) == (4, 2)
    assert facts["unknown"] == []


def test_network_namespace(proc: Path) -> None:
    assert port_facts.Facts(str(proc)).gather([], [])["namespace"] == {"same_as_init": False}
    (proc / "1" / "ns" / "net").unlink()
    os.link(proc / "self" / "ns" / "net", proc / "1" / "ns" / "net")
    assert port_facts.Facts(str(proc)).gather([], [])["namespace"] == {"same_as_init": True}
    (proc / "1" / "ns" / "net").unlink()
    facts = port_facts.Facts(str(proc)).gather([], [])
    assert (facts["namespace"]["same_as_init"], whats(facts)) == (None, {"namespace.same_as_init"})


def test_settings_that_are_not_there_or_not_understood(proc: Path) -> None:
    settings = proc / "sys" / "net" / "ipv4"
    (settings / "ip_local_reserved_ports").unlink()
    (settings / "ip_local_port_range").write_text("many\n")
    (proc / "net" / "tcp").unlink()
    facts = port_facts.Facts(str(proc)).gather([], [])
    assert (facts["ephemeral"], facts["reserved"], facts["reserved_raw"]) == (None, None, None)
    assert whats(facts) == {"ephemeral", "reserved", "sockets", "sockets.time_wait_ephemeral"}


def test_survey_is_made_without_planned_ports(run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []
    take = socket_survey.take
    monkeypatch.setattr(socket_survey, "take", lambda *args: (taken.append(1), take(*args))[1])
    assert run_module(port_info)["ports"]["probed"] == 0
    assert len(taken) == 1
