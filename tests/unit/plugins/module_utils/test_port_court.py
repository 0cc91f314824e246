# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bind truth table and its explanations, with real sockets on loopback."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import (
    port_evidence,
    port_sentences,
    procs,
    socket_holders,
    socket_survey,
    sockets,
)
from ansible_collections.mooncake.pd.plugins.module_utils.port_court import Court, Ruling
from ansible_collections.mooncake.pd.plugins.module_utils.procs import Process
from ansible_collections.mooncake.pd.plugins.module_utils.published_ports import Published

HERE, ELSEWHERE = "127.0.0.2", "127.0.0.3"
UNIT = "mooncake-pd-p1.service"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def group(port: int, address: str = HERE, **changes: Any) -> dict[str, Any]:
    claim = {"purpose": "api", "address": address, "first": port, "last": port, "where": "prefill[0].api_port"}
    return {"name": "p1", "unit": UNIT, "ports": [{**claim, **changes}]}


def ruling(port: int, court: Court | None = None, **changes: Any) -> Ruling:
    ((found,),) = (court or Court()).hear([group(port, **changes)])
    return found


def bound(stack: ExitStack, address: str = HERE, *, reuse: bool = False, listen: bool = False) -> socket.socket:
    one = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
    one.bind((address, 0))
    if listen:
        one.listen()
    return one


def port_of(one: socket.socket) -> int:
    return int(one.getsockname()[1])


def owned_by(monkeypatch: pytest.MonkeyPatch, *owners: Process) -> None:
    by_pid = {owner.pid: owner for owner in owners}
    monkeypatch.setattr(procs, "describe", lambda pid, proc, deadline: by_pid.get(pid, by_pid.get(0)))


def test_free(stack: ExitStack) -> None:
    with socket.create_server((HERE, 0)) as server:
        free = port_of(server)
    found = ruling(free)
    assert (found.verdict, found.cause, found.text, found.fix, found.problem) == ("free", None, "", "", "")


def test_listener(stack: ExitStack) -> None:
    found = ruling(port_of(bound(stack, listen=True)))
    assert (found.verdict, found.cause, found.states) == ("taken", "listener", ["LISTEN"])
    assert [owner.pid for owner in found.owners] == [os.getpid()]
    assert found.text.startswith(f"api port {HERE}:{found.port} (prefill[0].api_port) is taken by pid {os.getpid()} (")
    assert found.problem == f"p1: {found.text} {found.fix}"


def test_listener_elsewhere_or_v6only_is_no_matter(stack: ExitStack) -> None:
    assert ruling(port_of(bound(stack, ELSEWHERE, listen=True))).verdict == "free"


def test_orphan_with_an_inherited_listener(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    server = bound(stack, listen=True)
    child = os.fork()
    if child == 0:
        os.read(os.pipe()[0], 1)
        os._exit(0)
    try:
        owned_by(
            monkeypatch, Process(0, "vllm", "pd", UNIT, None), Process(child, "VLLM::EngineCore", "pd", None, None)
        )
        found = ruling(port_of(server))
        assert (found.verdict, len(found.owners)) == ("taken", 2)
        server.close()
        found = ruling(found.port)
        assert [(owner.pid, owner.command) for owner in found.owners] == [(child, "VLLM::EngineCore")]
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def client(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    server = stack.enter_context(socket.create_server((ELSEWHERE, 0)))
    source = bound(stack)
    source.connect(server.getsockname())
    return source, stack.enter_context(server.accept()[0])


def test_source_port_of_a_client(stack: ExitStack) -> None:
    source, accepted = client(stack)
    found = ruling(port_of(source))
    server = ":".join(map(str, accepted.getsockname()))
    assert (found.cause, found.states, found.remote) == ("client", ["ESTABLISHED"], server)
    assert f"as the source port of a connection of its own to {server} (ESTABLISHED)." in found.text
    assert "ip_local_reserved_ports" in found.fix


def test_time_wait_of_a_client(stack: ExitStack) -> None:
    source, accepted = client(stack)
    port = port_of(source)
    source.close()
    accepted.recv(1)
    accepted.close()
    found = ruling(port)
    assert (found.cause, found.states, found.owners) == ("time-wait", ["TIME-WAIT"], [])
    assert "a client used it as its source port and is gone" in found.text


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("reuse", [True, False])
def test_bound_and_not_listening(stack: ExitStack, monkeypatch: pytest.MonkeyPatch, reuse: bool, listed: bool) -> None:
    """With SO_REUSEADDR a bind of ours succeeds as well; a kernel before 6.8 does not list such a socket."""
    if not listed:
        monkeypatch.setattr(socket_survey, "take", socket_survey.by_tables)
    found = ruling(port_of(bound(stack, reuse=reuse)))
    if not listed and not _lends():
        pytest.skip("no pidfd_getfd here")
    assert (found.verdict, found.cause, found.states) == ("taken", "bound", ["BOUND"])
    assert [owner.pid for owner in found.owners] == [os.getpid()]
    assert ("the one that listens first gets it" if reuse else "has bound it and does not listen yet") in found.text


def _lends() -> bool:
    with socket.socket() as own:
        try:
            socket_holders._borrow(os.getpid(), own.fileno())
        except socket_holders.Unreadable:
            return False
    return True


def test_bound_by_the_units_own_process_that_loads(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    owned_by(monkeypatch, Process(0, "vllm", "pd", UNIT, None))
    found = ruling(port_of(bound(stack, reuse=True)))
    assert (found.verdict, found.text) == ("own", "")


def test_own_listener_on_a_planned_wildcard(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    owned_by(monkeypatch, Process(0, "vllm", "pd", UNIT, None))
    assert ruling(port_of(bound(stack, listen=True)), address="0.0.0.0").verdict == "own"
    owned_by(monkeypatch, Process(0, "vllm", "pd", UNIT, "0123456789ab"))
    assert ruling(port_of(bound(stack, listen=True))).verdict == "taken"


def test_bound_where_nothing_shows_it(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise socket_holders.Unreadable("The kernel does not lend sockets.")

    monkeypatch.setattr(socket_survey, "take", socket_survey.by_tables)
    monkeypatch.setattr(socket_holders, "bound", refuse)
    monkeypatch.setattr(socket_holders, "look", socket_holders.Holders)
    court = Court()
    found = ruling(port_of(bound(stack)), court)
    assert (found.verdict, found.cause, found.owners) == ("taken", "hidden", [])
    assert "a process has bound it and does not listen yet, or never will. The kernel does not lend" in found.text
    (entry,) = court.unknown
    assert entry["what"] == "court"
    assert "does not lend" in entry["why"]


def test_processes_that_may_not_be_asked(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_holders, "look", lambda proc: socket_holders.Holders({}, 3))
    court = Court()
    found = ruling(port_of(bound(stack, listen=True)), court)
    assert (found.cause, "3 processes may not be asked" in found.text) == ("hidden", True)
    assert "3 processes" in court.unknown[0]["why"]


def test_socket_of_the_kernel(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_holders, "look", lambda proc: socket_holders.Holders())
    court = Court()
    found = ruling(port_of(bound(stack, listen=True)), court)
    assert (found.cause, "no process of this host has open" in found.text) == ("kernel", True)
    assert court.unknown == []


def test_address_of_another_host_and_impossible_ports() -> None:
    found = ruling(18100, address="192.0.2.77")
    assert (found.verdict, found.cause) == ("no-address", None)
    assert "192.0.2.77 is not an address of this host" in found.text
    assert "is no IP address" in ruling(18100, address="node7").text
    found = ruling(65536)
    assert (found.verdict, found.probed, "is no port range (65536-65536)" in found.text) == ("invalid", False, True)


def test_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "probe", lambda *_: sockets.NO_PERMISSION)
    found = ruling(80)
    assert (found.verdict, "may not be bound by this user" in found.text) == ("no-permission", True)


PROXY = Process(0, "/usr/bin/docker-proxy -proto tcp -host-port 8100", "root", "docker.service", None)


@pytest.mark.parametrize(
    ("published", "by"),
    [
        ([], "a docker container"),
        (["127.0.0.9"], "a docker container"),
        (["0.0.0.0"], "the docker container web"),
    ],
)
def test_port_that_is_held_for_a_container(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, published: list[str], by: str
) -> None:
    owned_by(monkeypatch, PROXY)
    port = port_of(bound(stack, listen=True))
    court = Court(published=lambda: [Published("docker", "web", address, port, "80") for address in published])
    found = ruling(port, court)
    assert (found.verdict, found.cause, found.published_by) == ("taken", "listener", by)
    assert f", for {by}, which publishes it." in found.text
    assert "systemctl stop" not in found.fix


def test_runtimes_are_not_asked_about_other_ports(stack: ExitStack) -> None:
    def never() -> list[Published]:
        raise AssertionError

    assert ruling(port_of(bound(stack, listen=True)), Court(published=never)).published_by is None


def test_everything_is_read_once(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    take, look = socket_survey.take, socket_holders.look
    monkeypatch.setattr(port_evidence.socket_survey, "take", lambda *args: (read.append("take"), take(*args))[1])
    monkeypatch.setattr(port_evidence.socket_holders, "look", lambda *args: (read.append("look"), look(*args))[1])
    rulings = Court().hear([group(port_of(bound(stack, listen=True))) for _number in range(5)])
    assert [found.verdict for (found,) in rulings] == ["taken"] * 5
    assert read == ["take", "look"]


def test_tables_of_another_proc(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    evidence = port_evidence.Evidence({8100}, str(tmp_path))
    assert evidence.rows == {}
    assert evidence.survey.problems


@pytest.mark.parametrize(
    ("owner", "text"),
    [
        (Process(7, "nginx", "root", "nginx.service", None), "systemctl stop nginx.service"),
        (Process(7, "x", "root", "docker-aa.scope", "0123456789ab"), "Stop the container (0123456789ab)"),
        (Process(7, "x", "root", "session-3.scope", None, True), "Stop that process"),
        (Process(7, "jupyter", "me", "lab.service", None, True), "Stop that process"),
        (Process(7, "sshd", "root", "ssh.service", None), "Stop that process"),
        (Process(7, "sshd", "root", "sshd.service", None), "Stop that process"),
        (Process(7, "sshd", "root", "sshd@3-10.0.0.1:22-10.0.0.2:4000.service", None), "Stop that process"),
        (Process(7, "x", "me", "user@1000.service", None), "Stop that process"),
        (Process(7, "dockerd", "root", "docker.service", None), "Stop that process"),
    ],
)
def test_way_out(owner: Process, text: str) -> None:
    said = port_sentences.way_out([owner], UNIT)
    assert text in said
    assert ("systemctl stop" in said) == ("systemctl stop" in text)


def test_reading_problems_are_said() -> None:
    assert "2 rows of /proc/net/tcp" in port_sentences.hidden(["2 rows of /proc/net/tcp could not be understood."])[0]


def test_message_stays_readable_when_a_whole_tree_has_the_socket() -> None:
    owners = [Process(pid, "vllm", "pd", None, None) for pid in range(1, 41)]
    text = port_sentences.listener(owners, UNIT, None)[0]
    assert text.endswith("pid 16 (vllm), user pd, in no systemd unit and 24 more processes.")
