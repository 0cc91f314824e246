# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import itertools
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import netlink
from ansible_collections.mooncake.pd.plugins.module_utils.host import links, rtnetlink
from ansible_collections.mooncake.pd.plugins.module_utils.host.rtnetlink import Address, Link, Route
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def link_message(index: int, name: str, flags: int = 0x1043, type_: int = 1, *more: bytes) -> bytes:
    head = struct.pack("=BxHiII", 0, type_, index, flags, 0)
    return head + attribute(3, name.encode() + b"\0") + number(4, 1500) + b"".join(more)


def route_message(length: int, table: int, *more: bytes, family: int = socket.AF_INET, kind: int = 1) -> bytes:
    return struct.pack("=8BI", family, length, 0, 0, table, 3, 0, kind, 0) + b"".join(more)


def ip(text: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


def test_link() -> None:
    member = link_message(
        *(3, "enp1s0", 0x1843, 1),
        attribute(1, bytes.fromhex("525400abcdef")),
        number(10, 7),
        attribute(33, b"\1"),
        attribute(18 | 0x8000, attribute(1, b"bond\0")),
    )
    assert rtnetlink.parse_link(member) == Link(3, "enp1s0", 1, True, True, 1500, "52:54:00:ab:cd:ef", 7, "bond")
    off = rtnetlink.parse_link(link_message(4, "eth1", 0x1002, 1, attribute(33, b"\0")))
    assert (off.up, off.carrier, off.kind, off.master) == (False, None, "", 0)
    assert rtnetlink.parse_link(link_message(1, "lo", 0x49, 772)).loopback


def test_address_of_a_point_to_point_link_is_its_own_end() -> None:
    head = struct.pack("=BBBBI", socket.AF_INET, 32, 0, 0, 9)
    both = head + attribute(1, ip("198.51.100.1")) + attribute(2, ip("198.51.100.2"))
    assert rtnetlink.parse_address(both) == Address(9, "198.51.100.2", 32, 4, "global")
    six = struct.pack("=BBBBI", socket.AF_INET6, 64, 0, 253, 2) + attribute(1, ip("fe80::1"))
    assert rtnetlink.parse_address(six) == Address(2, "fe80::1", 64, 6, "link")
    assert rtnetlink.parse_address(head) is None


def test_routes() -> None:
    plain = route_message(0, 254, number(4, 2), attribute(5, ip("192.0.2.1")), number(6, 100))
    assert rtnetlink.parse_route(plain) == (True, [Route(2, "192.0.2.1", 100)])
    metrics = attribute(8, number(2, 9000))
    to_peer = route_message(32, 254, number(4, 2), attribute(7, ip("192.0.2.11")), metrics)
    assert rtnetlink.parse_route(to_peer) == (False, [Route(2, None, 0, 9000, "192.0.2.11")])
    hops = b"".join(
        struct.pack("=HBBi", 16, 0, 0, index) + attribute(5, ip(gateway))
        for index, gateway in ((2, "192.0.2.1"), (3, "198.51.100.1"))
    )
    assert rtnetlink.parse_route(route_message(0, 254, attribute(9, hops))) == (
        True,
        [Route(2, "192.0.2.1"), Route(3, "198.51.100.1")],
    )
    other_table = route_message(0, 0, number(15, 1000), number(4, 2))
    assert rtnetlink.parse_route(other_table)[0] is False
    assert rtnetlink.parse_route(route_message(0, 254, number(4, 2), kind=7))[0] is False  # unreachable
    via_six = route_message(0, 254, number(4, 2), attribute(18, struct.pack("=H", 10) + ip("fe80::1")))
    assert rtnetlink.parse_route(via_six)[1][0].gateway == "fe80::1"


def test_this_machine_has_a_loopback_and_a_way_to_it() -> None:
    lo = next(link for link in rtnetlink.links() if link.loopback)
    assert (lo.name, lo.mac) == ("lo", "00:00:00:00:00:00")
    assert any(one.address == "127.0.0.1" and one.index == lo.index for one in rtnetlink.addresses())
    route = rtnetlink.route("127.0.0.1")
    assert route is not None
    assert (route.index, route.gateway, route.source) == (lo.index, None, "127.0.0.1")
    assert all(route.metric >= 0 for route in rtnetlink.default_routes())


@pytest.mark.parametrize("code", [errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EINVAL])
def test_no_way_to_an_address_is_no_route(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netlink, "get", refuse(netlink.Refused(code, "no")))
    assert rtnetlink.route("192.0.2.9") is None


@pytest.mark.parametrize(
    "error",
    [netlink.Refused(errno.EPERM, "no"), netlink.Refused(errno.EBADMSG, "no"), TimeoutError(), PermissionError()],
)
def test_no_answer_about_a_way_is_not_none(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netlink, "get", refuse(error))
    with pytest.raises(type(error)):
        rtnetlink.route("192.0.2.9")


def refuse(error: Exception) -> Callable[..., None]:
    def get(*arguments: object) -> None:
        raise error

    return get


def test_a_table_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    message = route_message(24, 254)
    monkeypatch.setattr(netlink, "dump", lambda *_: itertools.repeat((message, 0, len(message))))
    monkeypatch.setattr(rtnetlink, "_BYTES", 1 << 20)
    with pytest.raises(OverflowError, match="more than 1 MiB"):
        rtnetlink.default_routes()


LINKS = [
    Link(1, "lo", 772, True, True, 65536),
    Link(2, "enp1s0", 1, True, True, 1500, "52:54:00:00:00:01", 4),
    Link(3, "enp2s0", 1, True, False, 1500, "52:54:00:00:00:01", 4),
    Link(4, "bond0", 1, True, True, 1500, "52:54:00:00:00:01", kind="bond"),
    Link(5, "bond0.7", 1, True, True, 1500, kind="vlan"),
    Link(6, "docker0", 1, True, False, 1500, kind="bridge"),
    Link(7, "veth1", 1, True, True, 1500, master=6, kind="veth"),
    Link(8, "tun0", 65534, True, True, 1400, kind="tun"),
    Link(9, "kube-ipvs0", 1, False, None, 1500, kind="dummy"),
]


def test_interfaces_of_a_bond(tmp_path: Path) -> None:
    told = trees.Told()
    told.told_addresses = [
        Address(4, "192.0.2.11", 24, 4, "global"),
        Address(4, "fe80::1", 64, 6, "link"),
        Address(6, "172.17.0.1", 16, 4, "global"),
    ]
    net = "/sys/class/net"
    look = trees.look(
        tmp_path,
        {
            f"{net}/enp1s0/speed": "25000\n",
            f"{net}/enp2s0/speed": "-1\n",
            f"{net}/bond0/speed": "50000\n",
            f"{net}/enp1s0/device/numa_node": "0\n",
            f"{net}/enp2s0/device/numa_node": "-1\n",
        },
        told,
    )
    (tmp_path / "sys/class/net/enp1s0/device/driver").symlink_to("../../../../bus/pci/drivers/hns3")
    found = {entry["name"]: entry for entry in links.interfaces(look, LINKS)}
    assert {name: entry["kind"] for name, entry in found.items()} == {
        "lo": "loopback",
        "enp1s0": "physical",
        "enp2s0": "physical",
        "bond0": "bond",
        "bond0.7": "vlan",
        "docker0": "bridge",
        "veth1": "veth",
        "tun0": "tun",
        "kube-ipvs0": "other",
    }
    assert found["bond0"] == {
        "name": "bond0",
        "up": True,
        "carrier": True,
        "mtu": 1500,
        "mac": "52:54:00:00:00:01",
        "speed": 50000,
        "kind": "bond",
        "master": None,
        "members": ["enp1s0", "enp2s0"],
        "driver": None,
        "numa_node": None,
        "addresses": [
            {"address": "192.0.2.11", "prefix": 24, "family": 4, "scope": "global"},
            {"address": "fe80::1", "prefix": 64, "family": 6, "scope": "link"},
        ],
    }
    first, second = found["enp1s0"], found["enp2s0"]
    assert (first["master"], first["speed"], first["driver"], first["numa_node"]) == ("bond0", 25000, "hns3", 0)
    assert (second["carrier"], second["speed"], second["driver"], second["numa_node"]) == (False, None, None, None)
    assert found["docker0"]["members"] == ["veth1"]
    assert look.unknowns == []


def test_no_sysfs_is_told(tmp_path: Path) -> None:
    look = trees.look(tmp_path)
    assert links.interfaces(look, LINKS)[1]["driver"] is None
    assert trees.what(look.unknowns) == {"interfaces"}


def test_default_routes_best_first(tmp_path: Path) -> None:
    routes = [Route(4, "192.0.2.1", 300), Route(8, "203.0.113.1", 50), Route(4, "fe80::1", 1024, family=6)]
    look = trees.look(tmp_path)
    assert links.default_routes(look, LINKS, routes) == [
        {"interface": "tun0", "gateway": "203.0.113.1", "metric": 50, "family": 4},
        {"interface": "bond0", "gateway": "192.0.2.1", "metric": 300, "family": 4},
        {"interface": "bond0", "gateway": "fe80::1", "metric": 1024, "family": 6},
    ]
    assert look.unknowns == []
    assert links.default_routes(look, [], routes)[0]["interface"] is None
    assert trees.what(look.unknowns) == {"default_routes"}
