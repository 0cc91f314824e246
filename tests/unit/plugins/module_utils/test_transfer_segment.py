# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a transfer engine tells about itself, asked as its peers do; the real one is in tests/integration."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import transfer_segment
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import metadata
from ansible_collections.mooncake.pd.plugins.module_utils.transfer_worker import P2P, Trouble

# as 0.3.13.post1 tells it, shortened; with other values
TCP = {
    "name": "192.0.2.21:18502",
    "protocol": "tcp",
    "tcp_data_port": 18503,
    "buffers": [{"addr": 4096, "length": 800}],
}
RDMA = {**TCP, "protocol": "rdma", "devices": [{"name": "mlx5_0", "lid": 0, "gid": "x"}, {"name": "mlx5_1"}]}
OFFERED = {"segment": "192.0.2.21:18502", "address": 4096, "length": 800}


@contextmanager
def engine(answer: bytes | None) -> Iterator[str]:
    """Answers one question; with None it closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _peer = server.accept()
            with connection:
                (length,) = struct.unpack("=Q", connection.recv(8))
                assert connection.recv(length) == b"\x01{}"
                if answer is not None:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(5)


def message(content: Any, kind: int = 1) -> bytes:
    text = json.dumps(content).encode()
    return struct.pack("=QB", len(text) + 1, kind) + text


def trouble(answer: bytes | None) -> Trouble:
    with engine(answer) as segment, pytest.raises(Trouble) as raised:
        transfer_segment.describe(segment, P2P, 5)
    return raised.value


def test_descriptor_comes_whole() -> None:
    many = {**RDMA, "buffers": [{"addr": number << 20, "length": 1 << 20} for number in range(9000)]}
    with engine(message(many)) as segment:
        told = transfer_segment.describe(segment, P2P, 5)
    assert len(told.buffers) == 9000
    assert (told.protocols, told.devices, told.installed) == (("rdma",), ("mlx5_0", "mlx5_1"), "rdma (mlx5_0, mlx5_1)")


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (None, "address"),
        (message(TCP)[:30], "address"),
        (message(None), "stranger"),
        (message({"status": "success"}), "stranger"),
        (message(TCP, kind=3), "stranger"),
        (struct.pack("=Q", 1 << 40), "stranger"),
        (struct.pack("=Q", 0), "stranger"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "stranger"),
        (message([1, 2]), "stranger"),
        (message({**TCP, "buffers": [7]}), "stranger"),
    ],
)
def test_what_is_no_descriptor(answer: bytes | None, rule: str) -> None:
    assert trouble(answer).rule == rule


def test_nobody_there() -> None:
    for segment in ("127.0.0.1:1", "127.0.0.1:x", "127.0.0.1"):
        with pytest.raises(Trouble, match="nobody answers at") as raised:
            transfer_segment.describe(segment, P2P, 1)
        assert raised.value.rule == "address"


@pytest.mark.parametrize(
    ("told", "protocol", "offered", "rule"),
    [
        (TCP, "tcp", {}, ""),
        (RDMA, "rdma", {}, ""),
        ({**TCP, "protocol": ["cxl", "tcp"]}, "tcp", {}, ""),
        (TCP, "rdma", {}, "fallback"),
        ({**TCP, "protocol": ""}, "tcp", {}, "fallback"),
        (TCP, "tcp", {"segment": "192.0.2.22:18502"}, "stranger"),
        (TCP, "tcp", {"address": 4095}, "unregistered"),
        (TCP, "tcp", {"length": 801}, "unregistered"),
        ({**TCP, "buffers": None}, "tcp", {}, "unregistered"),
    ],
)
def test_what_was_offered_is_there(told: Any, protocol: str, offered: Any, rule: str) -> None:
    descriptor = transfer_segment.parse(told)
    if not rule:
        return transfer_segment.check(descriptor, protocol, {**OFFERED, **offered})
    with pytest.raises(Trouble) as raised:
        transfer_segment.check(descriptor, protocol, {**OFFERED, **offered})
    assert raised.value.rule == rule


class Store:
    def __init__(self, told: Any) -> None:
        self.told = told

    def get(self, key: str) -> Any:
        assert key in ("mooncake/ram/seg", "mooncake-pd/none")
        if isinstance(self.told, Exception):
            raise self.told
        return self.told


@pytest.mark.parametrize(
    ("told", "rule", "words"),
    [
        (metadata.MetadataError("Connection refused"), "metadata", "gives no answer: Connection refused"),
        (None, "metadata", "knows nothing of seg"),
        (metadata.Stored(b"{"), "stranger", "no descriptor"),
    ],
)
def test_metadata_server(monkeypatch: pytest.MonkeyPatch, told: Any, rule: str, words: str) -> None:
    monkeypatch.setattr(metadata, "store", lambda server: Store(told))
    with pytest.raises(Trouble, match=words) as raised:
        transfer_segment.describe("seg", "http://m:8080/metadata", 5)
    assert raised.value.rule == rule


def test_descriptor_of_a_metadata_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "store", lambda server: Store(metadata.Stored(json.dumps(TCP).encode())))
    assert transfer_segment.describe("seg", "etcd://m:2379", 5).name == TCP["name"]
    transfer_segment.reachable("etcd://m:2379")
    transfer_segment.reachable(P2P)
    monkeypatch.setattr(metadata, "store", lambda server: Store(metadata.MetadataError("HTTP 503")))
    with pytest.raises(Trouble, match="gives no answer: HTTP 503"):
        transfer_segment.reachable("http://m:8080/metadata")


def test_server_that_cannot_be_one() -> None:
    with pytest.raises(Trouble, match="neither http") as raised:
        transfer_segment.reachable("redis://m:6379")
    assert raised.value.rule == "metadata"
