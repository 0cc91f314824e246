# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import sockets
from ansible_collections.mooncake.pd.plugins.module_utils.sockets import LISTEN, Row

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(number: int, local: str, state: str, inode: int) -> str:
    rest = "00000000:00000000 00:00000000 00000000     0        0"
    return f"  {number:2}: {local} 00000000:0000 {state} {rest} {inode} 1 00000000deadbeef 100 0 0 10 0\n"


def test_addresses_are_little_endian_words() -> None:
    text = HEAD + row(0, "0B495A0A:1FA4", "0A", 77) + row(1, "0100007F:C383", "01", 78)
    assert sockets.parse_table(text) == (
        [Row("10.90.73.11", 8100, LISTEN, 77), Row("127.0.0.1", 50051, "ESTABLISHED", 78)],
        0,
    )


def test_only_the_ports_asked_for() -> None:
    text = HEAD + row(0, "0B495A0A:1FA4", "0A", 77) + row(1, "0100007F:C383", "01", 78)
    assert [found.port for found in sockets.parse_table(text, {50051})[0]] == [50051]


def test_v6_wildcard_loopback_and_mapped_addresses() -> None:
    text = (
        HEAD
        + row(0, "00000000000000000000000000000000:2382", "0A", 1)
        + row(1, "00000000000000000000000001000000:094C", "0A", 2)
        + row(2, "0000000000000000FFFF00000B495A0A:2326", "0A", 3)
        + row(3, "B80D0120000000000000000009000000:1F90", "0A", 4)
    )
    rows, bad = sockets.parse_table(text)
    assert [found.address for found in rows] == ["::", "::1", "10.90.73.11", "2001:db8::9"]
    assert bad == 0


def test_other_end_of_a_connection() -> None:
    text = HEAD + "   0: 0B495A0A:1FA4 0100007F:D2A8 01 00000000:00000000 00:00000000 00000000     0        0 9 1 0\n"
    (found,) = sockets.parse_table(text)[0]
    assert found.remote == "127.0.0.1:53928"
    assert sockets.place("::1", 80) == "[::1]:80"


def test_rows_that_cannot_be_read_are_counted_and_skipped() -> None:
    text = (
        HEAD
        + row(0, "0B495A0A:1FA4", "0A", 5)
        + "   1: 0B495A0A:1FA5 0100007F:D2A9 08\n"  # cut off
        + "   2: 0B495A0A 00000000:0000 0A 0 0 0 0 0 0 9\n"  # no port
        + "   3: 0B495A:1FA4 00000000:0000 0A 0 0 0 0 0 0 9\n"  # three bytes
        + "nonsense\n"
        # a TIME-WAIT row of an older kernel is short and still has its inode 0
        + "   4: 0B495A0A:1FA6 0100007F:D2A8 06 00000000:00000000 03:00000A41 00000000     0        0 0 3 0000\n"
        + "   5: 0B495A0A:1FA7 0100007F:D2A8 0F 00000000:00000000 03:00000A41 00000000     0        0 0 3 0000\n"
    )
    rows, bad = sockets.parse_table(text)
    assert [(found.port, found.state) for found in rows] == [(8100, LISTEN), (8102, "TIME-WAIT"), (8103, "0F")]
    assert bad == 4


def test_tables_read_both_families_and_do_without_ipv6(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(HEAD + row(0, "00000000:1FA4", "0A", 5) + "x\n")
    assert sockets.tables(str(tmp_path)) == ([Row("0.0.0.0", 8100, LISTEN, 5)], 1)
    (tmp_path / "net" / "tcp6").write_text(HEAD + row(0, "00000000000000000000000000000000:2382", "0A", 6))
    assert [found.inode for found in sockets.tables(str(tmp_path))[0]] == [5, 6]


def test_holders_names_every_process_of_a_socket(tmp_path: Path) -> None:
    for pid, targets in {41: ["socket:[7]", "/dev/null"], 42: ["socket:[7]", "socket:[8]"], 43: ["pipe:[7]"]}.items():
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        for number, target in enumerate(targets):
            os.symlink(target, tmp_path / str(pid) / "fd" / str(number))
    assert sockets.holders([7, 0], [41, 42, 43, 44], str(tmp_path)) == ({7: [41, 42]}, 0)


def test_holders_counts_processes_it_may_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, proc: str) -> set[int]:
        raise PermissionError

    monkeypatch.setattr(sockets, "inodes_of", refuse)
    assert sockets.holders([7], [1, 2]) == ({}, 2)


@pytest.mark.parametrize(
    ("listening", "planned", "expected"),
    [
        ("10.0.0.5", "10.0.0.5", True),
        ("0.0.0.0", "10.0.0.5", True),
        ("::", "10.0.0.5", True),
        ("127.0.0.1", "10.0.0.5", False),
        ("10.0.0.5", "0.0.0.0", False),
        ("0.0.0.0", "0.0.0.0", True),
        ("::", "0.0.0.0", True),
        ("0.0.0.0", "::", False),
        ("0.0.0.0", "fd00::5", False),
    ],
)
def test_satisfies(listening: str, planned: str, expected: bool) -> None:
    assert sockets.satisfies(listening, planned) is expected


def test_conflicting_prefers_listeners_and_v4_over_what_may_be_v6only() -> None:
    v4, dual = Row("10.0.0.5", 80, LISTEN, 1), Row("::", 80, LISTEN, 2)
    client, other = Row("10.0.0.5", 80, "ESTABLISHED", 3), Row("127.0.0.1", 80, LISTEN, 4)
    assert sockets.conflicting([client, dual, v4, other], "10.0.0.5", 80) == [v4]
    assert sockets.conflicting([client, dual, other], "10.0.0.5", 80) == [dual]
    assert sockets.conflicting([client, other], "10.0.0.5", 80) == [client]
    assert sockets.conflicting([other], "10.0.0.5", 80) == []
    assert sockets.conflicting([other], "0.0.0.0", 80) == [other]
    assert sockets.conflicting([v4], "10.0.0.5", 81) == []
    assert sockets.conflicting([Row("::1", 80, LISTEN, 9)], "10.0.0.5", 80) == []


def test_conflicting_knows_what_sock_diag_tells() -> None:
    bound, client = Row("10.0.0.5", 80, sockets.BOUND, 1), Row("10.0.0.5", 80, "ESTABLISHED", 2)
    gone = Row("10.0.0.5", 80, "TIME-WAIT", 0)
    assert sockets.conflicting([gone, client, bound], "10.0.0.5", 80) == [bound]
    assert sockets.conflicting([gone, client], "10.0.0.5", 80) == [client]
    v4 = Row("10.0.0.5", 80, LISTEN, 3)
    dual, only = (Row("::", 80, LISTEN, 4, v6only=told) for told in (False, True))
    assert sockets.conflicting([dual], "10.0.0.5", 80) == [dual]
    assert sockets.conflicting([v4, dual], "0.0.0.0", 80) == [v4, dual]
    assert sockets.conflicting([only], "10.0.0.5", 80) == []
    assert sockets.conflicting([only], "2001:db8::5", 80) == [only]


# ---- the bind truth table, with real sockets; "here" stands for the planned address 127.0.0.2 ------------------------

HERE, ELSEWHERE = "127.0.0.2", "127.0.0.3"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def make(stack: ExitStack, address: str, *, listen: bool, reuse: bool = False, v6only: bool | None = None) -> int:
    server = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET))
    if reuse:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if v6only is not None:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(v6only))
    server.bind((address, 0))
    if listen:
        server.listen()
    return int(server.getsockname()[1])


def ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as server:
            server.bind(("::1", 0))
        return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not ipv6(), reason="no IPv6 on this machine")


@pytest.mark.parametrize("reuse", [False, True])
def test_listener_on_the_same_address_takes_it(stack: ExitStack, reuse: bool) -> None:
    port = make(stack, HERE, listen=True, reuse=reuse)
    assert sockets.probe(HERE, port) == sockets.TAKEN
    assert sockets.probe("0.0.0.0", port) == sockets.TAKEN


def test_listener_on_all_addresses_takes_it(stack: ExitStack) -> None:
    port = make(stack, "0.0.0.0", listen=True, reuse=True)
    assert sockets.probe(HERE, port) == sockets.TAKEN


@needs_ipv6
def test_dual_stack_listener_takes_it(stack: ExitStack) -> None:
    port = make(stack, "::", listen=True, v6only=False)
    assert sockets.probe(HERE, port) == sockets.TAKEN
    assert sockets.probe("0.0.0.0", port) == sockets.TAKEN


@needs_ipv6
@pytest.mark.parametrize("address", ["::", "::1"])
def test_v6only_and_v6_loopback_listeners_do_not(stack: ExitStack, address: str) -> None:
    port = make(stack, address, listen=True, v6only=True)
    assert sockets.probe(HERE, port) == sockets.FREE
    assert sockets.probe("0.0.0.0", port) == sockets.FREE


def test_listener_on_another_local_address_only_blocks_the_wildcard(stack: ExitStack) -> None:
    port = make(stack, ELSEWHERE, listen=True, reuse=True)
    assert sockets.probe(HERE, port) == sockets.FREE
    assert sockets.probe("0.0.0.0", port) == sockets.TAKEN


def connection(stack: ExitStack, source: str, reuse: bool) -> tuple[socket.socket, socket.socket]:
    server = stack.enter_context(socket.create_server((ELSEWHERE, 0)))
    client = stack.enter_context(socket.socket())
    if reuse:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.bind((source, 0))
    client.connect(server.getsockname())
    accepted = stack.enter_context(server.accept()[0])
    return client, accepted


@pytest.mark.parametrize(
    ("source", "reuse", "expected"),
    [(HERE, False, sockets.TAKEN), (HERE, True, sockets.FREE), ("127.0.0.1", False, sockets.FREE)],
)
def test_source_port_of_a_client(stack: ExitStack, source: str, reuse: bool, expected: str) -> None:
    client, _accepted = connection(stack, source, reuse)
    port = client.getsockname()[1]
    assert sockets.probe(HERE, port) == expected
    owners = sockets.conflicting(sockets.tables()[0], HERE, port)
    assert [row.state for row in owners] == (["ESTABLISHED"] if source == HERE else [])


def test_time_wait_of_a_client_takes_it(stack: ExitStack) -> None:
    client, accepted = connection(stack, HERE, reuse=False)
    port = client.getsockname()[1]
    client.close()
    accepted.recv(1)
    accepted.close()
    rows = sockets.conflicting(sockets.tables()[0], HERE, port)
    assert [(row.state, row.inode) for row in rows] == [("TIME-WAIT", 0)]
    assert sockets.probe(HERE, port) == sockets.TAKEN


def test_time_wait_and_fin_wait_of_a_former_listener_do_not(stack: ExitStack) -> None:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((HERE, 0))
    server.listen()
    port = server.getsockname()[1]
    client = stack.enter_context(socket.create_connection((HERE, port)))
    accepted = server.accept()[0]
    accepted.close()
    server.close()
    assert sockets.probe(HERE, port) == sockets.FREE  # FIN-WAIT-2
    client.close()
    assert sockets.probe(HERE, port) == sockets.FREE  # TIME-WAIT


def test_bound_and_never_listening_takes_it_and_is_in_no_table(stack: ExitStack) -> None:
    port = make(stack, HERE, listen=False)
    assert sockets.probe(HERE, port) == sockets.TAKEN
    assert sockets.conflicting(sockets.tables()[0], HERE, port) == []


def test_address_of_another_host_and_impossible_ports() -> None:
    assert sockets.probe("192.0.2.77", 18100) == sockets.NO_ADDRESS
    assert sockets.probe(HERE, 65536) == sockets.INVALID
    assert sockets.probe(HERE, 0) == sockets.INVALID
    assert sockets.probe("node7", 18100) == sockets.INVALID


def test_address_of_another_host_where_the_kernel_binds_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = tmp_path / "sys" / "net" / "ipv4"
    setting.mkdir(parents=True)
    (setting / "ip_nonlocal_bind").write_text("1\n")
    monkeypatch.setattr(socket.socket, "bind", lambda self, address: None)
    assert sockets.probe("192.0.2.77", 18100, str(tmp_path)) == sockets.NO_ADDRESS
    assert sockets.probe("192.0.2.77", 18100) == sockets.FREE


def test_ranges() -> None:
    assert sockets.ranges([36003, 8100, 36001, 36002]) == "8100, 36001-36003"
