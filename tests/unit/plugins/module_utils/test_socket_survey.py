# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import netlink, sock_diag, socket_survey, sockets

HERE = "127.0.0.2"


def body(family: int, state: int, local: bytes, inode: int, attributes: bytes = b"") -> bytes:
    """struct inet_diag_msg of port 8100, connected to 10.0.0.9:4000"""
    ends = struct.pack(">HH16s16s", 8100, 4000, local.ljust(16, b"\0"), bytes([10, 0, 0, 9]).ljust(16, b"\0"))
    numbers = struct.pack("=IIIII", 0, 0, 0, 0, inode)
    return struct.pack("=BBBB", family, state, 0, 0) + ends + bytes(12) + numbers + attributes


def row(raw: bytes) -> sockets.Row:
    return sock_diag.row(b"head" + raw, 4, 4 + len(raw))


def test_row_of_ipv4_and_of_ipv6() -> None:
    found = row(body(socket.AF_INET, 10, bytes([10, 90, 73, 11]), 77))
    assert (found, found.remote, found.v6only) == (
        sockets.Row("10.90.73.11", 8100, "LISTEN", 77),
        "10.0.0.9:4000",
        None,
    )
    v6only = struct.pack("=HHB3x", 5, 11, 1)
    found = row(body(socket.AF_INET6, 7, bytes(16), 78, v6only))
    assert (found, found.v6only) == (sockets.Row("::", 8100, sockets.BOUND, 78), True)
    assert row(body(socket.AF_INET6, 1, bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 5]), 1)).address == "10.0.0.5"


def test_messages_that_are_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netlink, "dump", lambda *_: iter([(bytes(40), 0, 40)]))
    with pytest.raises(netlink.Refused):
        list(sock_diag.messages())


@pytest.mark.parametrize("take", [socket_survey.by_sock_diag, socket_survey.by_tables])
def test_listener_and_client_are_seen_and_counted(take: object) -> None:
    with socket.create_server((HERE, 0)) as server, socket.create_connection(server.getsockname()) as client:
        ports = {server.getsockname()[1], client.getsockname()[1]}
        survey = take(ports)  # type: ignore[operator]
        inode = os.fstat(server.fileno()).st_ino
        assert sockets.Row(HERE, server.getsockname()[1], sockets.LISTEN, inode) in survey.rows
        assert any(found.remote == f"{HERE}:{server.getsockname()[1]}" for found in survey.rows)
    assert survey.counts["LISTEN"] >= 1
    assert survey.counts["ESTABLISHED"] >= 2
    assert survey.problems == []


def test_both_ways_agree() -> None:
    with socket.create_server((HERE, 0)) as server, socket.create_connection(server.getsockname()) as client:
        ports = {server.getsockname()[1], client.getsockname()[1]}
        ways = [socket_survey.by_sock_diag(ports), socket_survey.by_tables(ports)]
    kept = [{(one.address, one.port, one.state, one.remote) for one in way.rows if one.port in ports} for way in ways]
    assert kept[0] == kept[1] != set()


def test_only_listeners_and_ports_in_question_are_kept() -> None:
    with socket.create_server((HERE, 0)) as server, socket.create_connection(server.getsockname()) as client:
        rows = socket_survey.by_sock_diag(()).rows
        assert server.getsockname()[1] in {found.port for found in rows}
        assert client.getsockname()[1] not in {found.port for found in rows}


def test_bound_sockets_are_listed_if_the_one_of_the_question_is() -> None:
    with socket.socket() as bound:
        bound.bind((HERE, 0))
        survey = socket_survey.by_sock_diag(())
        port = bound.getsockname()[1]
    assert survey.bound_listed is ((HERE, port) in {(found.address, found.port) for found in survey.rows})
    # its own socket is none of the host
    assert not any((found.address, found.state) == ("127.0.0.1", sockets.BOUND) for found in survey.rows)


def test_tables_are_read_where_the_kernel_has_no_sock_diag(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise netlink.Refused(2, "no")

    monkeypatch.setattr(sock_diag, "messages", refuse)
    with socket.create_server((HERE, 0)) as server:
        survey = socket_survey.take({server.getsockname()[1]})
    assert any(found.address == HERE for found in survey.rows)
    assert not survey.bound_listed


def test_tables_that_cannot_be_read_or_understood(tmp_path: Path) -> None:
    assert "net/tcp is missing" in socket_survey.by_tables((), str(tmp_path)).problems[0]
    (tmp_path / "net").mkdir()
    rows = ["0100007F:1FA4 00000000:0000 0A 0 0 0 0 0 5", "nonsense", "0100007F:1FA5 0200007F:0050 06 0 0 0 0 0 0"]
    (tmp_path / "net" / "tcp").write_text("sl\n" + "".join(f" 0: {row}\n" for row in rows))
    survey = socket_survey.by_tables((8101,), str(tmp_path))
    assert [(found.port, found.remote) for found in survey.rows] == [(8100, ""), (8101, "127.0.0.2:80")]
    assert survey.time_wait == {8101}
    assert "1 rows of" in survey.problems[0]


def test_inodes_of_all_families() -> None:
    kinds = [
        (socket.AF_INET, socket.SOCK_STREAM),
        (socket.AF_INET, socket.SOCK_DGRAM),
        (socket.AF_UNIX, socket.SOCK_STREAM),
    ]
    made = [socket.socket(*kind) for kind in kinds]
    made[0].bind((HERE, 0))
    made[1].bind((HERE, 0))
    try:
        listed = socket_survey.inodes()
        assert [os.fstat(one.fileno()).st_ino in listed for one in made] == [False, True, True]
        made[0].listen()
        assert os.fstat(made[0].fileno()).st_ino in socket_survey.inodes()
    finally:
        for one in made:
            one.close()
