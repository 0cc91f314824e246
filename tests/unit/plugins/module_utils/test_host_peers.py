# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.host import peers
from ansible_collections.mooncake.pd.plugins.module_utils.host.rtnetlink import Link, Route
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees

LINKS = [Link(1, "lo", mtu=65536), Link(2, "bond0", mtu=1500)]


class Routed(trees.Told):
    def __init__(self, route: Route | None = None, source: str | None = "192.0.2.11") -> None:
        super().__init__()
        self.told_route, self.told_source = route, source

    def route(self, address: str) -> Route | None:
        return self.told_route

    def source(self, address: str) -> str | None:
        return self.told_source


def wish(address: str, *ports: int) -> dict[str, Any]:
    return {"name": "d1", "address": address, "ports": {f"p{number}": [port] for number, port in enumerate(ports)}}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_open_and_closed(tmp_path: Path) -> None:
    closed = free_port()
    with trees.listener() as opened:
        (found,) = peers.peers(trees.look(tmp_path), [wish("127.0.0.1", opened, closed)], "127.0.0.1", 2, LINKS)
    assert found == {
        "name": "d1",
        "address": "127.0.0.1",
        "source": "127.0.0.1",
        "interface": "lo",
        "gateway": None,
        "mtu": 65536,
        "ports": [
            {"port": opened, "purpose": "p0", "state": "open", "error": None},
            {"port": closed, "purpose": "p1", "state": "closed", "error": "connection refused"},
        ],
    }


def test_every_port_of_a_purpose_is_tried(tmp_path: Path) -> None:
    first, last, other = free_port(), free_port(), free_port()
    wishes = [{"name": "d1", "address": "127.0.0.1", "ports": {"kv": [first, last], "api": [other]}}]
    (found,) = peers.peers(trees.look(tmp_path), wishes, "", 2, LINKS)
    told = [(entry["purpose"], entry["port"], entry["state"]) for entry in found["ports"]]
    assert told == [("kv", first, "closed"), ("kv", last, "closed"), ("api", other, "closed")]


def test_a_connect_leaves_no_connection_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(2)
        port = server.getsockname()[1]
        assert peers.Knock("", 2).all([("127.0.0.1", port)])["127.0.0.1", port] == ("open", None)
        with server.accept()[0] as connection:
            connection.settimeout(2)
            with pytest.raises(ConnectionResetError):  # and no FIN, which would leave TIME-WAIT here
                connection.recv(1)


def silent() -> tuple[socket.socket, list[socket.socket], int]:
    """A port whose queue is full, so that it answers nobody."""
    server = socket.create_server(("127.0.0.1", 0), backlog=0)
    port = server.getsockname()[1]
    clients = []
    for _number in range(4):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))
        clients.append(client)
    time.sleep(0.05)
    return server, clients, port


def test_no_answer_in_time_for_all_together(tmp_path: Path) -> None:
    server, clients, port = silent()
    begun = time.monotonic()
    (found,) = peers.peers(trees.look(tmp_path), [wish("127.0.0.1", port, free_port())], "", 0.3, LINKS)
    took = time.monotonic() - begun
    for one in (server, *clients):
        one.close()
    assert 0.3 <= took < 1
    assert found["ports"][0]["state"] == "filtered"
    assert found["ports"][0]["error"] == "no answer within 0.3 s"
    assert found["ports"][1]["state"] == "closed"


def test_what_was_never_tried_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, clients, port = silent()
    init = peers.Knock.__init__

    def narrow(self: peers.Knock, *arguments: Any) -> None:
        init(self, *arguments)
        self._window = 1

    monkeypatch.setattr(peers.Knock, "__init__", narrow)
    look = trees.look(tmp_path)
    (found,) = peers.peers(look, [wish("127.0.0.1", port, free_port())], "", 0.2, LINKS)
    for one in (server, *clients):
        one.close()
    assert [entry["state"] for entry in found["ports"]] == ["filtered", None]
    assert found["ports"][1]["error"] is None
    assert look.unknowns == [
        {
            "what": "peers.0.ports.1.state",
            "why": f"127.0.0.1:{found['ports'][1]['port']} was not tried: the time was over.",
            "raw": "",
        }
    ]


def test_a_source_that_is_not_on_this_host(tmp_path: Path) -> None:
    (found,) = peers.peers(trees.look(tmp_path), [wish("127.0.0.1", 9)], "192.0.2.199", 1, LINKS)
    (port,) = found["ports"]
    assert port["state"] == "unreachable"
    assert port["error"] == "cannot assign requested address (cannot send from 192.0.2.199)"


def test_a_source_of_another_family(tmp_path: Path) -> None:
    (found,) = peers.peers(trees.look(tmp_path), [wish("::1", 9)], "127.0.0.1", 1, LINKS)
    assert found["ports"][0]["state"] == "unreachable"


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (0, "open"),
        (errno.ECONNREFUSED, "closed"),
        (errno.ETIMEDOUT, "filtered"),
        (errno.EHOSTUNREACH, "unreachable"),
        (errno.ENETUNREACH, "unreachable"),
        (errno.EPERM, "unreachable"),
    ],
)
def test_states_of_answers(code: int, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake(socket.socket):
        def connect_ex(self, address: Any) -> int:
            return code

        def getpeername(self) -> Any:
            return ("192.0.2.1", 1)

    monkeypatch.setattr(socket, "socket", Fake)
    assert peers.Knock("", 1).all([("192.0.2.1", 1)])["192.0.2.1", 1][0] == state


def extended(origin: int, type_: int, code: int) -> bytes:
    return struct.pack("=IBBBxII", 0, origin, type_, code, 0, 0) + bytes(16)


@pytest.mark.parametrize(
    ("address", "code", "control", "expected"),
    [
        (
            "192.0.2.1",
            errno.ECONNREFUSED,
            (0, 11, extended(2, 3, 3)),
            ("filtered", "rejected by a firewall (icmp 3/3)"),
        ),
        (
            "2001:db8::1",
            errno.ECONNREFUSED,
            (41, 25, extended(3, 1, 4)),
            ("filtered", "rejected by a firewall (icmp 1/4)"),
        ),
        (
            "192.0.2.1",
            errno.EHOSTUNREACH,
            (0, 11, extended(2, 3, 13)),
            ("filtered", "rejected by a firewall (icmp 3/13)"),
        ),
        ("2001:db8::1", errno.EACCES, (41, 25, extended(3, 1, 1)), ("filtered", "rejected by a firewall (icmp 1/1)")),
        ("192.0.2.1", errno.EHOSTUNREACH, (0, 11, extended(2, 3, 1)), ("unreachable", "no route to host")),
        ("192.0.2.1", errno.ECONNREFUSED, (0, 11, extended(1, 0, 0)), ("closed", "connection refused")),  # local
        ("192.0.2.1", errno.ECONNREFUSED, (0, 11, b"short"), ("closed", "connection refused")),
        ("192.0.2.1", errno.ECONNREFUSED, (1, 29, bytes(16)), ("closed", "connection refused")),
    ],
)
def test_refusals_of_firewalls_are_told_from_those_of_the_other_end(
    address: str,
    code: int,
    control: tuple[int, int, bytes],
    expected: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Refused(socket.socket):
        def connect_ex(self, _address: Any) -> int:
            assert self.getsockopt(*control[:2]) == 1 or control[0] == 1
            return code

        def recvmsg(self, size: int, ancillary: int = 0, flags: int = 0) -> Any:
            assert flags == socket.MSG_ERRQUEUE
            return b"", [control], flags, None

    monkeypatch.setattr(socket, "socket", Refused)
    assert peers.Knock("", 1).all([(address, 1)])[address, 1] == expected


RULES = """
ip link set lo up
iptables -A INPUT -i lo -p tcp --dport 22013 -j REJECT
iptables -A INPUT -i lo -p tcp --dport 22014 -j REJECT --reject-with icmp-admin-prohibited
exec "$@"
"""
PROGRAM = """
from ansible_collections.mooncake.pd.plugins.module_utils.host.peers import Knock
print(*[Knock("", 2).all([("127.0.0.1", port)])["127.0.0.1", port][0] for port in (22013, 22014, 22015)])
"""


def test_a_real_firewall() -> None:
    """iptables in a network namespace of its own."""
    command = ["unshare", "--net", "sh", "-ec", RULES, "sh", sys.executable, "-c", PROGRAM]
    try:
        found = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=60, env={**os.environ, **path()}
        )
    except FileNotFoundError:
        pytest.skip("no unshare here")
    assert "Traceback" not in found.stderr
    if found.returncode:
        pytest.skip(f"no namespace or no iptables: {found.stderr}")
    # older kernels keep no ICMP messages for TCP
    expected = "filtered filtered closed" if kernel() >= (5, 8) else "closed unreachable closed"
    assert found.stdout.strip() == expected


def path() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(filter(None, sys.path))}


def kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split(".")[:2])


def test_a_socket_that_meets_itself_is_no_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    class Itself(socket.socket):
        def connect_ex(self, address: Any) -> int:
            return 0

        def getpeername(self) -> Any:
            return self.getsockname()

    monkeypatch.setattr(socket, "socket", Itself)
    assert peers.Knock("", 1).all([("127.0.0.1", 1)])["127.0.0.1", 1] == ("closed", "connection refused")


def test_way_through_a_gateway_with_a_smaller_mtu(tmp_path: Path) -> None:
    look = trees.look(tmp_path, system=Routed(Route(2, "192.0.2.1", mtu=1400)))
    (found,) = peers.peers(look, [wish("198.51.100.9")], "", 1, LINKS)
    assert (found["source"], found["interface"], found["gateway"], found["mtu"]) == (
        *("192.0.2.11", "bond0", "192.0.2.1", 1400),
    )
    assert look.unknowns == []


def test_no_route_is_known(tmp_path: Path) -> None:
    look = trees.look(tmp_path, system=Routed(None, None))
    (found,) = peers.peers(look, [wish("198.51.100.9")], "", 1, LINKS)
    assert (found["source"], found["interface"], found["mtu"]) == (None, None, None)
    assert look.unknowns == []


def test_interfaces_that_could_not_be_listed_are_unknown_here_too(tmp_path: Path) -> None:
    look = trees.look(tmp_path, system=Routed(Route(2)))
    peers.peers(look, [wish("198.51.100.9")], "", 1, [])
    assert trees.what(look.unknowns) == {"peers.0.interface", "peers.0.mtu"}


def test_a_name_is_no_address(tmp_path: Path) -> None:
    look = trees.look(tmp_path)
    (found,) = peers.peers(look, [wish("d1.example.net", 80)], "", 1, LINKS)
    assert (found["source"], found["ports"][0]["state"]) == (None, None)
    assert trees.what(look.unknowns) == {"peers.0"}


def test_answers_that_come_at_once_are_not_waited_for() -> None:
    begun = time.monotonic()
    peers.Knock("192.0.2.199", 60).all([("127.0.0.1", 9), ("127.0.0.1", 10)])
    assert time.monotonic() - begun < 20
