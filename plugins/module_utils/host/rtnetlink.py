# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interfaces, addresses and routes of this network namespace, asked of the kernel: `ip` may be missing."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from dataclasses import dataclass
from typing import Iterator, Optional

from ansible_collections.mooncake.pd.plugins.module_utils import netlink

# linux/include/uapi/linux/{rtnetlink,if_link,if_addr,if}.h
_RTM_GETLINK, _RTM_GETADDR, _RTM_GETROUTE = 18, 22, 26
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_CARRIER = 1, 3, 4, 10, 18, 33
_IFLA_INFO_KIND = 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY, _RTA_PREFSRC, _RTA_METRICS, _RTA_MULTIPATH = 1, 4, 5, 6, 7, 8, 9
_RTA_TABLE, _RTA_VIA = 15, 18
_RTAX_MTU = 2
_RT_TABLE_MAIN, _RTN_UNICAST = 254, 1
_SCOPES = {0: "global", 200: "site", 253: "link", 254: "host", 255: "nowhere"}
_ARPHRD_LOOPBACK = 772
_IFF_UP = 1
_SECONDS = 2.0
_BYTES = 32 << 20


@dataclass(frozen=True)
class Link:
    index: int
    name: str
    type: int = 1
    up: bool = False
    carrier: Optional[bool] = None
    mtu: int = 0
    mac: str = ""
    master: int = 0
    kind: str = ""  # IFLA_INFO_KIND: bond, bridge, vlan, veth, tun ...; nothing for a device

    @property
    def loopback(self) -> bool:
        return self.type == _ARPHRD_LOOPBACK


@dataclass(frozen=True)
class Address:
    index: int
    address: str
    prefix: int
    family: int
    scope: str


@dataclass(frozen=True)
class Route:
    index: int
    gateway: Optional[str] = None
    metric: int = 0
    mtu: Optional[int] = None
    source: Optional[str] = None
    family: int = 4


def _number(raw: Optional[bytes], default: int = 0) -> int:
    return int(struct.unpack_from("=I", raw)[0]) if raw and len(raw) >= 4 else default


def _name(raw: Optional[bytes]) -> str:
    return (raw or b"").split(b"\0")[0].decode("utf-8", "replace")


def _ip(raw: Optional[bytes]) -> Optional[str]:
    return str(ipaddress.ip_address(raw)) if raw and len(raw) in (4, 16) else None


def parse_link(payload: bytes) -> Link:
    _family, kind, index, flags = struct.unpack_from("=BxHiI", payload)
    found = netlink.attributes(payload, 16)
    up = bool(flags & _IFF_UP)
    carrier = found.get(_IFLA_CARRIER)
    info = netlink.attributes(found.get(_IFLA_LINKINFO, b""))
    return Link(
        index=index,
        name=_name(found.get(_IFLA_IFNAME)),
        type=kind,
        up=up,
        carrier=bool(carrier[0]) if carrier and up else None,
        mtu=_number(found.get(_IFLA_MTU)),
        mac=":".join(f"{byte:02x}" for byte in found.get(_IFLA_ADDRESS, b"")),
        master=_number(found.get(_IFLA_MASTER)),
        kind=_name(info.get(_IFLA_INFO_KIND)),
    )


def parse_address(payload: bytes) -> Optional[Address]:
    family, prefix, _flags, scope, index = struct.unpack_from("=BBBBI", payload)
    found = netlink.attributes(payload, 8)
    # the own address of a point-to-point link is IFA_LOCAL; IFA_ADDRESS is the other end
    address = _ip(found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS))
    if address is None:
        return None
    return Address(index, address, prefix, 6 if family == socket.AF_INET6 else 4, _SCOPES.get(scope, str(scope)))


def parse_route(payload: bytes) -> tuple[bool, list[Route]]:
    """Whether it is a default route of the main table, and its ways (several of a multipath route)."""
    family, length, _src, _tos, table, _protocol, _scope, kind = struct.unpack_from("=8B", payload)
    found = netlink.attributes(payload, 12)
    version = 6 if family == socket.AF_INET6 else 4
    metrics = netlink.attributes(found.get(_RTA_METRICS, b""))
    ways = [(found, _number(found.get(_RTA_OIF)))]
    if _RTA_MULTIPATH in found:
        ways = list(_hops(found[_RTA_MULTIPATH]))
    routes = [
        Route(
            index=index,
            gateway=_ip(way.get(_RTA_GATEWAY)) or _ip(way.get(_RTA_VIA, b"")[2:]),
            metric=_number(found.get(_RTA_PRIORITY)),
            mtu=_number(metrics.get(_RTAX_MTU)) or None,
            source=_ip(found.get(_RTA_PREFSRC)),
            family=version,
        )
        for way, index in ways
    ]
    main = _number(found.get(_RTA_TABLE), table) == _RT_TABLE_MAIN
    return main and length == 0 and kind == _RTN_UNICAST, routes


def _hops(raw: bytes) -> Iterator[tuple[dict[int, bytes], int]]:
    at = 0
    while at + 8 <= len(raw):
        length, _flags, _weight, index = struct.unpack_from("=HBBi", raw, at)
        if length < 8:
            return
        yield netlink.attributes(raw, at + 8, at + length), index
        at += (length + 3) & ~3


def _dump(kind: int, body: bytes) -> Iterator[bytes]:
    size = 0
    for chunk, begin, end in netlink.dump(socket.NETLINK_ROUTE, kind, body, _SECONDS):
        size += end - begin
        if size > _BYTES:
            raise OverflowError(f"the kernel's table has more than {_BYTES >> 20} MiB")
        yield chunk[begin:end]


def links() -> list[Link]:
    body = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 0, 0, 0)
    return [parse_link(payload) for payload in _dump(_RTM_GETLINK, body)]


def addresses() -> list[Address]:
    body = struct.pack("=BBBBI", socket.AF_UNSPEC, 0, 0, 0, 0)
    found = [parse_address(payload) for payload in _dump(_RTM_GETADDR, body)]
    return [address for address in found if address]


def default_routes() -> list[Route]:
    found: list[Route] = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for payload in _dump(_RTM_GETROUTE, struct.pack("=8BI", family, 0, 0, 0, 0, 0, 0, 0, 0)):
            default, routes = parse_route(payload)
            found += routes if default else []
    return found


def route(address: str) -> Optional[Route]:
    """The way to an address; None when there is none."""
    packed = ipaddress.ip_address(address).packed
    family = socket.AF_INET6 if len(packed) == 16 else socket.AF_INET
    body = struct.pack("=8BI", family, len(packed) * 8, 0, 0, 0, 0, 0, 0, 0)
    body += struct.pack("=HH", 4 + len(packed), _RTA_DST) + packed
    try:
        chunk, begin, end = netlink.get(socket.NETLINK_ROUTE, _RTM_GETROUTE, body, _SECONDS)
    except netlink.Refused as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.EBADMSG):
            raise
        return None  # no route to host, network is unreachable
    routes = parse_route(chunk[begin:end])[1]
    return routes[0] if routes else None
