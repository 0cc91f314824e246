# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Frames over TCP, and listeners that bind as ZeroMQ does."""

from __future__ import annotations

import errno
import json
import os
import random
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

# What a ZeroMQ socket sends to whoever connects (ZMTP 3.1: signature, version, mechanism NULL, no server).
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
_LENGTH = struct.Struct(">I")


def send(connection: socket.socket, message: Any) -> None:
    data = json.dumps(message, separators=(",", ":")).encode()
    connection.sendall(_LENGTH.pack(len(data)) + data)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("closed by the peer")
        data += piece
    return data


def receive(connection: socket.socket) -> Any:
    return json.loads(_exactly(connection, _LENGTH.unpack(_exactly(connection, 4))[0]))


def connect(address: str, port: int, timeout: float) -> socket.socket:
    """To one of our listeners: waits for its greeting, so that another program on the port is no peer."""
    connection = socket.create_connection((address, port), timeout)
    try:
        if _exactly(connection, len(GREETING)) != GREETING:
            raise ConnectionError(f"{address}:{port} speaks another protocol")
    except BaseException:
        connection.close()
        raise
    return connection


def local_address() -> str:
    """vLLM's get_ip(): VLLM_HOST_IP, else the address that the default route uses."""
    told = os.environ.get("VLLM_HOST_IP")
    if told:
        return told
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("8.8.8.8", 80))
            return str(probe.getsockname()[0])
        except OSError:
            return "0.0.0.0"


def listen(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(100)
    except BaseException:
        listener.close()
        raise
    return listener


def is_taken(error: OSError) -> bool:
    return error.errno == errno.EADDRINUSE


def listen_in(address: str, first: int, last: int, probe: str | None = None) -> socket.socket | None:
    """On a random port of the range, the last one included, or None. With `probe` the port must be free there too:
    Mooncake tries it on every address before it listens on one."""
    for _attempt in range(500):
        port = random.randint(first, last)
        try:
            if probe is not None:
                with socket.socket() as trial:
                    trial.bind((probe, port))
            return listen(address, port)
        except OSError as error:
            if not is_taken(error):
                raise
    return None


class Acceptor:
    """One thread that accepts for all listeners of the process and starts a thread for each connection."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        threading.Thread(target=self._run, daemon=True, name="acceptor").start()

    def add(self, listener: socket.socket, serve: Callable[[socket.socket], None] | None) -> None:
        """Without `serve`, connections are accepted and closed."""
        self._selector.register(listener, selectors.EVENT_READ, serve)

    def _run(self) -> None:
        while True:
            for key, _events in self._selector.select(0.5):
                try:
                    connection, _peer = key.fileobj.accept()  # type: ignore[union-attr]
                except OSError:
                    continue
                if key.data is None:
                    connection.close()
                else:
                    threading.Thread(target=self._serve, args=(key.data, connection), daemon=True).start()

    @staticmethod
    def _serve(serve: Callable[[socket.socket], None], connection: socket.socket) -> None:
        with connection:
            try:
                connection.sendall(GREETING)
                serve(connection)
            except (OSError, ValueError):
                pass  # the peer went away, or is none
