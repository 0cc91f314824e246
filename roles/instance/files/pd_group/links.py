# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connections between the supervisors of a group: all others connect to the one on the host of the first rank."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from .model import LONGEST, Clocks, Order, Report, Wire
from .units import say

CONNECT_SECONDS = 1.0
SILENT = 5.0  # a connection that carries nothing for this long is made anew
TOLD_AGAIN = 60.0


class Lines:
    """A connection that is read line by line and never waited for."""

    def __init__(self, connection: socket.socket, peer: str = "") -> None:
        self.connection, self.peer, self.rest, self.host = connection, peer, b"", ""
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self) -> Optional[List[bytes]]:
        """Whole lines; None when the connection has ended, or says what nobody of ours would."""
        try:
            got = self.connection.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not got:
            return None
        *lines, self.rest = (self.rest + got).split(b"\n")
        return None if len(self.rest) > LONGEST else lines

    def write(self, message: bytes) -> None:
        """When that fails the connection is over, but what has come over it can still be read: it may be a goodbye."""
        with contextlib.suppress(OSError):
            if self.connection.send(message) == len(message):
                return
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.close()


class Hub:
    """The side that listens. Whoever does not speak for a host of this group, from its address, is not heard."""

    def __init__(self, wire: Wire, at: Tuple[str, int], addresses: Mapping[str, str]) -> None:
        self.wire, self.addresses = wire, addresses
        self.hosts: Dict[str, Lines] = {}
        self.clocks = Clocks()
        self.refused: Dict[str, float] = {}
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(at, backlog=64)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)

    def hear(self, timeout: float) -> List[Report]:
        """What hosts have told, in the time of this one."""
        heard: List[Report] = []
        for key, _events in self.selector.select(max(0.0, timeout)):
            if key.data is None:
                self._accept()
                continue
            lines = key.data.read()
            for line in lines or ():
                report = self._known(key.data, self.wire.read_report(line))
                if report is None:
                    lines = None
                    break
                heard.append(self.clocks.here(report, time.monotonic()))
            if lines is None:
                self._drop(key.data)
        return heard

    def tell(self, host: str, orders: Sequence[Order], leaves: bool = False) -> None:
        """Also without orders, so that the host knows that it is heard."""
        lines = self.hosts.get(host)
        if lines:
            lines.write(self.wire.orders(orders, leaves))

    def _accept(self) -> None:
        try:
            connection, peer = self.listener.accept()
        except OSError:
            return
        self.selector.register(connection, selectors.EVENT_READ, Lines(connection, peer[0]))

    def _known(self, lines: Lines, report: Optional[Report]) -> Optional[Report]:
        peer = lines.peer
        if report is None or self.addresses.get(report.host) != peer:
            now = time.monotonic()
            if now - self.refused.get(peer, -TOLD_AGAIN) >= TOLD_AGAIN:
                self.refused[peer] = now
                say(f"{peer} speaks for another group or for no host of this one, and is not heard")
            return None
        if lines.host != report.host:
            lines.host = report.host
            if report.host in self.hosts:
                self._drop(self.hosts[report.host])
            self.hosts[report.host] = lines
        return report

    def _drop(self, lines: Lines) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(lines.connection)
        lines.close()
        if self.hosts.get(lines.host) is lines:
            del self.hosts[lines.host]


class Uplink:
    """The side that connects."""

    def __init__(self, wire: Wire, head: Tuple[str, int], own: str) -> None:
        self.wire, self.head, self.own = wire, head, own
        self.lines: Optional[Lines] = None
        self.contact = float("-inf")  # when the head was last heard
        self.left = False  # whether it has said goodbye
        self.tried = 0.0

    def tell(self, report: Report) -> None:
        now = time.monotonic()
        if self.lines and now - max(self.contact, self.tried) > SILENT:
            self._drop()
        if not self.lines and now - self.tried >= CONNECT_SECONDS:
            self.tried = now
            with contextlib.suppress(OSError):
                # from the planned address, by which the head knows the host
                self.lines = Lines(socket.create_connection(self.head, CONNECT_SECONDS, (self.own, 0)))
        if self.lines:
            self.lines.write(self.wire.report(report))

    def hear(self, timeout: float) -> List[Order]:
        if self.lines is None:
            time.sleep(max(0.0, timeout))
            return []
        with selectors.DefaultSelector() as selector:
            selector.register(self.lines.connection, selectors.EVENT_READ)
            if not selector.select(max(0.0, timeout)):
                return []
        found: List[Order] = []
        lines = self.lines.read()
        for line in lines or ():
            told = self.wire.read_orders(line)
            if told is None:
                lines = None
                break
            self.contact, self.left = time.monotonic(), told.leaves
            found += told.orders
        if lines is None:
            self._drop()
        return found

    def _drop(self) -> None:
        if self.lines:
            self.lines.close()
        self.lines = None
