# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import socket_holders, socket_survey, sockets

HERE = "127.0.0.2"


def test_every_process_and_number_of_a_socket(tmp_path: Path) -> None:
    for pid, targets in {41: ["socket:[7]", "/dev/null"], 42: ["socket:[7]", "socket:[8]"], 43: ["pipe:[7]"]}.items():
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        for number, target in enumerate(targets):
            os.symlink(target, tmp_path / str(pid) / "fd" / str(number))
    (tmp_path / "44").mkdir()  # it has ended
    found = socket_holders.look(str(tmp_path))
    assert (found.places, found.hidden) == ({7: [(41, 0), (42, 0)], 8: [(42, 1)]}, 0)
    assert found.pids([7, 8, 9]) == [41, 42]


def test_processes_that_may_not_be_seen_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        if path.endswith("/fd"):
            raise PermissionError
        return ["1", "2", "self"]

    monkeypatch.setattr(os, "listdir", refuse)
    assert socket_holders.look(str(tmp_path)).hidden == 2


@pytest.fixture
def child() -> Iterator[tuple[int, int]]:
    """A process that has bound a port and does not listen."""
    with socket.socket() as bound:
        bound.bind((HERE, 0))
        port = bound.getsockname()[1]
        pid = os.fork()
        if pid == 0:
            os.read(os.pipe()[0], 1)
            os._exit(0)
    try:
        yield pid, port
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def lends_sockets() -> bool:
    with socket.socket() as own:
        try:
            socket_holders._borrow(os.getpid(), own.fileno())
        except socket_holders.Unreadable:
            return False
    return True


needs_getfd = pytest.mark.skipif(not lends_sockets(), reason="no pidfd_getfd here")


@needs_getfd
def test_bound_socket_of_another_process_is_found(child: tuple[int, int]) -> None:
    pid, port = child
    holders = socket_holders.look()
    (row,) = socket_holders.bound(holders, socket_survey.inodes(), {port})
    assert (row.address, row.port, row.state) == (HERE, port, sockets.BOUND)
    assert holders.pids([row.inode]) == [pid]
    assert socket_holders.bound(holders, socket_survey.inodes(), {port + 1}) == []


@needs_getfd
def test_sockets_of_another_network_namespace_are_left_out(
    child: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    holders = socket_holders.look()
    listed = socket_survey.inodes()
    monkeypatch.setattr(socket_holders, "_cookie_here", lambda: b"another")
    assert socket_holders.bound(holders, listed, {child[1]}) == []
    monkeypatch.setattr(socket_holders, "_cookie_here", lambda: None)  # before kernel 5.14
    assert len(socket_holders.bound(holders, listed, {child[1]})) == 1
    monkeypatch.setattr(socket_holders, "_same_space", lambda *_: False)
    assert socket_holders.bound(holders, listed, {child[1]}) == []


@needs_getfd
def test_search_ends(child: tuple[int, int]) -> None:
    with pytest.raises(socket_holders.Unreadable, match="longer than 0 s"):
        socket_holders.bound(socket_holders.look(), (), {child[1]}, budget=0)


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOSYS])
def test_kernel_that_does_not_lend_sockets(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_holders, "_call", lambda *_: -code)
    with pytest.raises(socket_holders.Unreadable, match=os.strerror(code)):
        socket_holders.bound(socket_holders.Holders({5: [(1, 3)]}), (), {80})


def test_process_that_has_ended_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_holders, "_call", lambda *_: -errno.ESRCH)
    assert socket_holders.bound(socket_holders.Holders({5: [(1, 3)]}), (), {80}) == []
