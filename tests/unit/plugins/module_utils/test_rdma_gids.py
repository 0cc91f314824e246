# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.rdma_gids import V1, V2, Gid, chosen, parse_gid

LOCAL = "fe80::a00:5eff:fe00:1"
GLOBAL = "2001:db8::11"
PUBLIC, PRIVATE, SHARED = "::ffff:192.0.2.11", "::ffff:10.8.0.11", "::ffff:100.64.0.11"
ETHERNET, INFINIBAND = "Ethernet", "InfiniBand"
NEWEST = ("", "0.3.12", "0.3.13.post1")
OLD, MIDDLE = ("0.3.7", "0.3.9"), ("0.3.10", "0.3.11.post1")


def table(*entries: tuple[str, str, str | None], gaps: int = 0) -> list[Gid]:
    return [Gid(index + (gaps if index else 0), *entry) for index, entry in enumerate(entries)]


def taken(gids: list[Gid], release: str, link_layer: str = ETHERNET) -> int | None:
    found = chosen(gids, link_layer, release)
    return None if found is None else found.index


ALL = (*OLD, *MIDDLE, *NEWEST)


@pytest.mark.parametrize("release", ALL)
def test_ipv4_of_version_2_before_what_comes_first(release: str) -> None:
    gids = table((LOCAL, V1, "eth1"), (LOCAL, V2, "eth1"), (PUBLIC, V1, "eth1"), (PUBLIC, V2, "eth1"))
    assert taken(gids, release) == 3


@pytest.mark.parametrize("release", ALL)
def test_an_entry_with_a_network_interface_before_one_without(release: str) -> None:
    assert taken(table((PUBLIC, V2, None), (PUBLIC, V2, "eth1")), release) == 1
    assert taken(table((PUBLIC, V2, None)), release) == 0


def test_link_local_only() -> None:
    gids = table((LOCAL, V1, "eth1"), (LOCAL, V2, "eth1"))
    assert [taken(gids, release) for release in (*OLD, *MIDDLE, *NEWEST)] == [None, None, 1, 1, 1, 1, 1]


def test_version_1_only() -> None:
    gids = table((PUBLIC, V1, "eth1"))
    assert [taken(gids, release) for release in (*OLD, *MIDDLE, *NEWEST)] == [None, None, None, None, 0, 0, 0]


def test_private_addresses_stand_behind_global_ipv6_since_the_ranking() -> None:
    for private in (PRIVATE, SHARED):
        gids = table((GLOBAL, V2, "eth1"), (private, V2, "eth1"))
        assert [taken(gids, release) for release in (*OLD, *MIDDLE, *NEWEST)] == [1, 1, 1, 1, 0, 0, 0]
        assert taken(table((LOCAL, V2, "eth1"), (private, V2, "eth1")), "") == 1
        first = table((private, V2, "eth1"), (PUBLIC, V2, "eth1"))
        assert [taken(first, release) for release in (*OLD, *MIDDLE, *NEWEST)] == [0, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("overlay", ["docker0", "cni0", "calico1", "flannel.1", "vxlan.calico", "tunl0"])
def test_overlay_networks_come_last(overlay: str) -> None:
    assert taken(table((PUBLIC, V2, overlay), (PRIVATE, V2, "eth1")), "") == 1
    assert taken(table((PUBLIC, V2, overlay), (PRIVATE, V2, "eth1")), "0.3.11") == 0


@pytest.mark.parametrize("release", ALL)
def test_infiniband(release: str) -> None:
    gids = table((LOCAL, V1, None), (GLOBAL, V1, None))
    assert taken(gids, release, INFINIBAND) == 0


def test_empty_entries() -> None:
    gids = table((LOCAL, V2, "eth1"), (PUBLIC, V2, "eth1"), gaps=3)
    assert [taken(gids, release) for release in (*OLD, *MIDDLE, *NEWEST)] == [4, 4, 0, 0, 4, 4, 4]
    for release in ALL:
        assert taken([], release) is None
        assert taken(table(("::", V1, None)), release, INFINIBAND) is None


def test_gids() -> None:
    assert parse_gid("0000:0000:0000:0000:0000:ffff:c000:020b\n") == "0000:0000:0000:0000:0000:ffff:c000:020b"
    assert parse_gid("no GID") is None
    assert Gid(3, "0000:0000:0000:0000:0000:ffff:c000:020b", V2, "eth1").as_dict() == {
        "index": 3,
        "gid": "0000:0000:0000:0000:0000:ffff:c000:020b",
        "type": V2,
        "netdev": "eth1",
        "address": "192.0.2.11",
    }
    assert Gid(1, LOCAL, V2).address is None
