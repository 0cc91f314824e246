# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way to the other hosts: routes, and a TCP connect to each port that the plan uses there."""

from __future__ import annotations

import errno
import ipaddress
import os
import resource
import selectors
import socket
import struct
import time
from collections import deque
from typing import Any, Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.plugins.module_utils.host.rtnetlink import Link

_IP_BIND_ADDRESS_NO_PORT = 24  # linux/in.h; the kernel picks the port when it knows the other end
_SPARE = 128  # files for everything else
_MOST = 4096
# linux/{in,in6,errqueue,icmp,icmpv6}.h
_RECVERR = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
_ORIGIN_ICMP, _ORIGIN_ICMP6 = 2, 3
_EXTENDED_ERROR = "=IBBBxII"
_PROHIBITED = {(_ORIGIN_ICMP, 3): (9, 10, 13), (_ORIGIN_ICMP6, 1): (1, 5, 6)}
_STATES = {
    0: "open",
    errno.ECONNREFUSED: "closed",  # an answer of the other end: the way is open
    errno.ECONNRESET: "closed",
    errno.ETIMEDOUT: "filtered",
}

Port = tuple[str, int]
State = tuple[Optional[str], Optional[str]]


def _said(code: int) -> Optional[str]:
    return os.strerror(code).lower() if code else None


def _rejection(knock: socket.socket, code: int) -> str:
    """The message of a firewall that has ended the connect, as type/code; a reset by the other end has none.

    Linux before 5.8 keeps none for TCP (45af29ca), and a reset that a firewall sends looks like one of the other end.
    """
    try:
        controls = knock.recvmsg(1, 512, socket.MSG_ERRQUEUE)[1]
    except OSError:  # nothing is there
        return ""
    for level, kind, data in controls:
        if (level, kind) in _RECVERR.values() and len(data) >= struct.calcsize(_EXTENDED_ERROR):
            _errno, origin, type_, number, _info, _data = struct.unpack_from(_EXTENDED_ERROR, data)
            if origin not in (_ORIGIN_ICMP, _ORIGIN_ICMP6):
                continue
            if code == errno.ECONNREFUSED or number in _PROHIBITED.get((origin, type_), ()):
                return f"{type_}/{number}"
    return ""


class Knock:
    """Connects that do not wait for each other, from one address, closed with a reset so that none is left behind."""

    def __init__(self, source: str, seconds: float) -> None:
        self._source = source
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        self._states: dict[Port, State] = {}
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._window = _MOST if soft < 0 else max(16, min(_MOST, soft - _SPARE))

    def all(self, ports: Sequence[Port]) -> dict[Port, State]:
        """The state and the error text of each; (None, why) for those that it never came to."""
        waiting = deque(dict.fromkeys(ports))
        with selectors.DefaultSelector() as selector:
            try:
                while (waiting or selector.get_map()) and time.monotonic() < self._deadline:
                    while waiting and len(selector.get_map()) < self._window:
                        self._begin(waiting.popleft(), selector)
                    # an empty selector would wait for the whole time
                    left = max(0.0, self._deadline - time.monotonic()) if selector.get_map() else 0.0
                    for key, _events in selector.select(left):
                        self._end(key, selector)
            finally:
                for key in list(selector.get_map().values()):
                    self._states[key.data] = ("filtered", f"no answer within {self._seconds:g} s")
                    self._close(key, selector)
        for port in waiting:
            self._states[port] = (None, "not tried: the time was over")
        return self._states

    def _begin(self, port: Port, selector: selectors.BaseSelector) -> None:
        family = socket.AF_INET6 if ":" in port[0] else socket.AF_INET
        knock = socket.socket(family, socket.SOCK_STREAM)
        knock.setblocking(False)
        knock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        knock.setsockopt(*_RECVERR[family], 1)
        try:
            if self._source:
                knock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
                knock.bind((self._source, 0))
            code = knock.connect_ex(port)
        except OSError as error:  # the source is no address of this host, or of another family
            code = error.errno if error.errno and error.errno > 0 else errno.EAFNOSUPPORT
        if code == errno.EINPROGRESS:
            selector.register(knock, selectors.EVENT_WRITE, port)
            return
        self._note(port, code, knock)
        knock.close()

    def _end(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
        knock = key.fileobj
        if isinstance(knock, socket.socket):
            self._note(key.data, knock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), knock)
        self._close(key, selector)

    def _note(self, port: Port, code: int, knock: socket.socket) -> None:
        if code == 0 and knock.getsockname() == knock.getpeername():  # it met itself, nobody listens
            code = errno.ECONNREFUSED
        rejection = _rejection(knock, code) if code else ""
        if rejection:
            self._states[port] = ("filtered", f"rejected by a firewall (icmp {rejection})")
            return
        error = _said(code)
        if code == errno.EADDRNOTAVAIL and self._source:
            error = f"{error} (cannot send from {self._source})"
        self._states[port] = (_STATES.get(code, "unreachable"), error)

    @staticmethod
    def _close(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
        selector.unregister(key.fileobj)
        if isinstance(key.fileobj, socket.socket):
            key.fileobj.close()


def peers(
    look: Look, wishes: Sequence[Mapping[str, Any]], source: str, seconds: float, links: Sequence[Link]
) -> list[dict[str, Any]]:
    ports = [(wish["address"], port) for wish in wishes if _is_ip(wish["address"]) for _purpose, port in _asked(wish)]
    states = Knock(source, seconds).all(ports) if ports else {}
    return [_entry(look, index, wish, states, links) for index, wish in enumerate(wishes)]


def _asked(wish: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Each purpose with each of its ports."""
    return [(purpose, port) for purpose, ports in wish["ports"].items() for port in ports]


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _entry(
    look: Look, index: int, wish: Mapping[str, Any], states: Mapping[Port, State], links: Sequence[Link]
) -> dict[str, Any]:
    what = f"peers.{index}"
    address = wish["address"]
    route = source = None
    if _is_ip(address):
        source = look.sane(f"{what}.source", None, lambda: look.system.source(address))
        route = look.sane(what, None, lambda: look.system.route(address)) if source else None
    else:
        look.unknown(what, f"{address} is no IP address.")
    link = next((link for link in links if route and link.index == route.index), None)
    if route and link is None:
        for key in ("interface", "mtu"):
            look.unknown(f"{what}.{key}", "The interfaces of this host could not be listed.")
    entries = []
    for number, (purpose, port) in enumerate(_asked(wish)):
        state, error = states.get((address, port), (None, None))
        if state is None and _is_ip(address):
            look.unknown(f"{what}.ports.{number}.state", f"{address}:{port} was {error}.")
            error = None
        entries.append({"port": port, "purpose": purpose, "state": state, "error": error})
    return {
        "name": wish["name"],
        "address": address,
        "source": source,
        "interface": link.name if link else None,
        "gateway": route.gateway if route else None,
        "mtu": (route.mtu if route and route.mtu else None) or (link.mtu if link else None),
        "ports": entries,
    }
