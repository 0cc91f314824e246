# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a transfer engine tells its peers about itself: the transport that it really installed, and its memory.

An engine that was asked for RDMA and finds no device installs TCP, answers 0 and moves bytes
(transfer_engine_impl.cpp@3b5a594: the protocol of initialize() does not decide). Its descriptor is what tells.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass
from typing import Any, List, Mapping, Tuple

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import metadata
from ansible_collections.mooncake.pd.plugins.module_utils.transfer_worker import P2P, Trouble

# include/common.h@3b5a594: length (8 bytes, the machine's order), kind of the message, then JSON; the same up from
# v0.3.6 on. A longer answer is refused by the engine, too, unless MC_HANDSHAKE_MAX_LENGTH says otherwise.
_METADATA = 1
_LONGEST = 128 << 20
_PIECE = 1 << 16


@dataclass(frozen=True)
class Descriptor:
    name: str
    protocols: Tuple[str, ...]  # several in a build with several, else one
    devices: Tuple[str, ...]
    buffers: Tuple[Tuple[int, int], ...]  # (address, bytes)

    @property
    def installed(self) -> str:
        told = "+".join(self.protocols) or "nothing"
        return f"{told} ({', '.join(self.devices)})" if self.devices else told

    @property
    def registered(self) -> int:
        return sum(size for _first, size in self.buffers)

    def holds(self, address: int, length: int) -> bool:
        return any(first <= address and address + length <= first + size for first, size in self.buffers)


def describe(segment: str, server: str, seconds: float) -> Descriptor:
    """The descriptor as a peer gets it; Trouble when it gets none."""
    content = _handshake(segment, seconds) if server == P2P else _stored(segment, server)
    try:
        return parse(content)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Trouble("stranger", f"what {segment} tells is no descriptor of a transfer engine") from None


def parse(content: Any) -> Descriptor:
    told = content["protocol"]
    return Descriptor(
        name=str(content["name"]),
        protocols=tuple(str(word) for word in (told if isinstance(told, list) else [told]) if word),
        devices=tuple(str(device["name"]) for device in content.get("devices") or ()),
        buffers=tuple((int(buffer["addr"]), int(buffer["length"])) for buffer in content.get("buffers") or ()),
    )


def check(descriptor: Descriptor, protocol: str, offered: Mapping[str, Any]) -> None:
    """Trouble when this is not the engine, the transport or the memory that was offered."""
    segment = offered["segment"]
    if descriptor.name != segment:
        raise Trouble("stranger", f"{segment} is answered by another engine, which calls itself {descriptor.name}")
    if protocol not in descriptor.protocols:
        raise Trouble("fallback", f"{protocol} is planned, the engine has installed {descriptor.installed}")
    first, length = offered["address"], offered["length"]
    if not descriptor.holds(first, length):
        raise Trouble(
            "unregistered",
            f"{length} bytes from {first:#x} on are not among the {len(descriptor.buffers)} buffers that {segment} "
            "has registered",
        )


def reachable(server: str) -> None:
    """Trouble when the metadata server gives no answer."""
    if server == P2P:
        return
    try:
        metadata.store(server).get("mooncake-pd/none")
    except metadata.MetadataError as error:
        raise Trouble("metadata", f"the metadata server {server} gives no answer: {error}") from None


def _stored(segment: str, server: str) -> Any:
    _address, key = metadata.keys(segment)
    try:
        stored = metadata.store(server).get(key)
    except metadata.MetadataError as error:
        raise Trouble("metadata", f"the metadata server {server} gives no answer: {error}") from None
    if stored is None:
        raise Trouble("metadata", f"the metadata server {server} knows nothing of {segment}")
    try:
        return json.loads(stored.value)
    except ValueError:
        return None


def _handshake(segment: str, seconds: float) -> Any:
    host, _colon, port = segment.rpartition(":")
    question = b"{}"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(struct.pack("=QB", len(question) + 1, _METADATA) + question)
            (length,) = struct.unpack("=Q", _take(connection, 8))
            if not 0 < length <= _LONGEST:
                return None
            answer = _take(connection, length)
    except socket.timeout:
        raise Trouble("address", f"nobody answers at {segment} within {seconds:g} s") from None
    except (OSError, ValueError) as error:
        raise Trouble("address", f"nobody answers at {segment}: {getattr(error, 'strerror', None) or error}") from None
    try:
        return json.loads(answer[1:]) if answer[0] == _METADATA else None
    except ValueError:
        return None


def _take(connection: socket.socket, size: int) -> bytes:
    pieces: List[bytes] = []
    missing = size
    while missing:
        piece = connection.recv(min(missing, _PIECE))
        if not piece:
            raise OSError("it closes the connection instead of an answer")
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)
