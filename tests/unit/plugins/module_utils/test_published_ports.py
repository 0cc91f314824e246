# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import published_ports, socket_holders, unix_listeners
from ansible_collections.mooncake.pd.plugins.module_utils.nat import Redirection
from ansible_collections.mooncake.pd.plugins.module_utils.published_ports import Published
from ansible_collections.mooncake.pd.plugins.module_utils.redirections import ToolFailed

CONTAINERS = json.dumps(
    [
        {
            "Id": "aabbccddeeff00",
            "Names": ["/web"],
            "Ports": [
                {"IP": "0.0.0.0", "PrivatePort": 80, "PublicPort": 8100, "Type": "tcp"},
                {"IP": "::", "PrivatePort": 80, "PublicPort": 8100, "Type": "tcp"},
                {"IP": "0.0.0.0", "PrivatePort": 53, "PublicPort": 53, "Type": "udp"},
                {"PrivatePort": 443, "Type": "tcp"},
            ],
        },
        {"Id": "112233445566", "Names": [], "Ports": [{"IP": "", "PrivatePort": 1, "PublicPort": 2, "Type": "tcp"}]},
        {"Id": "host-network", "Names": ["/pd"], "Ports": None},
    ]
)
Serve = Callable[[bytes], str]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """A runtime that says one thing to whoever asks."""

    def start(answer: bytes) -> str:
        path = str(tmp_path / "docker.sock")
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen()

        def once() -> None:
            with server, server.accept()[0] as client:
                client.recv(4096)
                client.sendall(answer)
                if not answer:
                    client.recv(4096)  # until the other side gives up

        threading.Thread(target=once, daemon=True).start()
        return path

    return start


def http(body: str, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def test_tcp_ports_that_are_published() -> None:
    assert published_ports.parse("docker", CONTAINERS) == [
        Published("docker", "web", "0.0.0.0", 8100, "80"),
        Published("docker", "web", "::", 8100, "80"),
        Published("docker", "112233445566", "0.0.0.0", 2, "1"),
    ]


def test_runtime_is_asked_over_its_socket(serve: Serve) -> None:
    found, failed = published_ports.read([("docker", serve(http(CONTAINERS))), ("podman", "/nonexistent/podman.sock")])
    assert ([item.port for item in found], failed) == ([8100, 8100, 2], [])


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (http("no such page", "404 Not Found"), "HTTP status 404"),
        (http("{}"), "no list of containers"),
        (http("[1]"), "a container is no object"),
        (http("<html>"), "is not understood"),
        (b"SSH-2.0\r\n", "cannot be asked"),
    ],
)
def test_answers_that_are_none(serve: Serve, answer: bytes, why: str) -> None:
    found, (failure,) = published_ports.read([("docker", serve(answer))])
    assert found == []
    assert why in failure.why


def test_runtime_that_hangs(serve: Serve) -> None:
    with pytest.raises(ToolFailed, match=r"did not answer within 0\.2 s"):
        published_ports.ask(serve(b""), timeout=0.2)


def test_socket_that_nobody_serves(tmp_path: Path) -> None:
    path = tmp_path / "left.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert published_ports.read([("docker", str(path))]) == ([], [])
    with pytest.raises(ToolFailed, match="cannot be asked") as failed:
        published_ports.ask(str(path))
    assert "refused" in failed.value.raw


def table(proc: Path, path: Path, *inodes: int) -> None:
    (proc / "net").mkdir(parents=True)
    rows = [f"0: 00000002 00000000 00010000 0001 01 {inode} {path}" for inode in inodes]
    others = [f"0: 00000003 00000000 00000000 0001 03 77 {path}", f"0: 00000002 00000000 00010000 0001 01 78 @{path}"]
    (proc / "net/unix").write_text("\n".join(["Num RefCount Protocol Flags Type St Inode Path", *rows, *others]))
    for inode in (77, 78):
        process(proc, 1000 + inode, "other", inode)


def process(proc: Path, pid: int, comm: str, *inodes: int) -> None:
    (proc / str(pid) / "fd").mkdir(parents=True)
    (proc / str(pid) / "comm").write_text(f"{comm}\n")
    for number, inode in enumerate(inodes):
        (proc / str(pid) / "fd" / str(number)).symlink_to(f"socket:[{inode}]")


@pytest.mark.parametrize(
    ("holders", "inodes", "served"),
    [
        ([(1, "systemd", 5)], [5], False),
        ([(1, "systemd", 5), (812, "dockerd", 5)], [5], True),
        ([(812, "dockerd", 5)], [5], True),
        ([(1, "dockerd", 5)], [5], True),
        ([(1, "init", 5)], [5], False),
        ([(700, "systemd", 5)], [5], False),
        ([(1, "systemd", 5), (900, "", 5)], [5], False),
        ([], [], False),
        ([(812, "dockerd", 6)], [5], None),
        ([(1, "systemd", 5), (812, "dockerd", 6)], [5, 6], None),
    ],
)
def test_runtime_that_sleeps_behind_its_socket_is_told_apart(
    holders: list[tuple[int, str, int]], inodes: list[int], served: bool | None, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").symlink_to(tmp_path)
    proc, path = tmp_path / "proc", tmp_path / "run/docker.sock"
    table(proc, path, *inodes)
    for pid, comm, inode in holders:
        process(proc, pid, comm, inode)
    asked = str(tmp_path / "var/run/docker.sock")
    if served is None:
        with pytest.raises(ToolFailed, match=r"docker\.sock is not seen, so it was not asked"):
            published_ports.is_served(asked, str(proc))
    else:
        assert published_ports.is_served(asked, str(proc)) is served


def test_processes_that_may_not_be_looked_at_might_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(tmp_path, tmp_path / "docker.sock", 5)
    process(tmp_path, 1, "systemd", 5)
    look = socket_holders.look

    def hiding(proc: str) -> socket_holders.Holders:
        return dataclasses.replace(look(proc), hidden=1)

    monkeypatch.setattr(socket_holders, "look", hiding)
    with pytest.raises(ToolFailed, match="is not seen"):
        published_ports.is_served(str(tmp_path / "docker.sock"), str(tmp_path))


def test_table_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "docker.sock").touch()
    found, (failure,) = published_ports.read([("docker", str(tmp_path / "docker.sock"))], str(tmp_path))
    assert found == []
    assert "cannot be found out, so it was not asked" in failure.why
    assert "net/unix" in failure.raw


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="no systemd here")
def test_nothing_is_started_by_looking(tmp_path: Path) -> None:
    path, mark = tmp_path / "docker.sock", tmp_path / "started"
    command = ["systemd-socket-activate", f"--listen={path}", "touch", str(mark)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as activator:
        try:
            until = time.monotonic() + 5
            while not unix_listeners.of(str(path)) and time.monotonic() < until:
                time.sleep(0.02)
            assert published_ports.read([("docker", str(path))]) == ([], [])
            time.sleep(0.3)
            assert not mark.exists()
            with socket.socket(socket.AF_UNIX) as client:  # which a connect would have done
                client.connect(str(path))
                activator.wait(5)
            assert mark.exists()
        finally:
            activator.kill()


@pytest.mark.parametrize(
    ("published", "planned", "expected"),
    [
        ("0.0.0.0", "192.0.2.11", True),
        ("192.0.2.11", "192.0.2.11", True),
        ("127.0.0.1", "192.0.2.11", False),
        ("127.0.0.1", "0.0.0.0", True),
    ],
)
def test_addresses_that_meet(published: str, planned: str, expected: bool) -> None:
    assert Published("docker", "web", published, 80, "80").catches(planned) is expected


def test_rules_of_runtimes_are_told_apart_from_others() -> None:
    docker = Redirection("iptables", "DOCKER", None, 8100, 8101, "172.17.0.2:80", ("PREROUTING", "DOCKER"))
    other = Redirection("iptables", "PREROUTING", None, 80, 80, "10.1.1.1", ("PREROUTING",))
    said = [Published("docker", "web", "0.0.0.0", 8100, "80")]
    published, others = published_ports.told_apart(said, [docker, other])
    assert published == [*said, Published("docker", None, "0.0.0.0", 8101, "172.17.0.2:80")]
    assert others == [other]
