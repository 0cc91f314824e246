# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Network interfaces with their addresses, and the default routes."""

from __future__ import annotations

import os
from typing import Any, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.plugins.module_utils.host.rtnetlink import Address, Link, Route

_KINDS = {"bond": "bond", "team": "bond", "bridge": "bridge", "openvswitch": "bridge", "vlan": "vlan", "veth": "veth"}
_NET = "/sys/class/net"


def kind(link: Link, has_device: bool) -> str:
    if link.loopback:
        return "loopback"
    if link.kind in ("tun", "wireguard"):
        return "tun"
    if link.kind in _KINDS:
        return _KINDS[link.kind]
    return "physical" if has_device and not link.kind else "other"


def _number(look: Look, path: str) -> Optional[int]:
    """None where the interface has none: the kernel says -1, or refuses to say it of one that is down."""
    try:
        value = int(look.read(path))
    except (OSError, ValueError):
        return None
    return value if value >= 0 else None


def describe(look: Look, link: Link, links: Sequence[Link], addresses: Sequence[Address]) -> dict[str, Any]:
    folder = f"{_NET}/{link.name}"
    names = {other.index: other.name for other in links}
    driver = look.at(f"{folder}/device/driver")
    speed = _number(look, f"{folder}/speed") if link.up else None
    return {
        "name": link.name,
        "up": link.up,
        "carrier": link.carrier,
        "mtu": link.mtu,
        "mac": link.mac,
        "speed": speed or None,
        "kind": kind(link, look.exists(f"{folder}/device")),
        "master": names.get(link.master),
        "members": sorted(other.name for other in links if other.master == link.index),
        "driver": os.path.basename(os.readlink(driver)) if os.path.islink(driver) else None,
        "numa_node": _number(look, f"{folder}/device/numa_node"),
        "addresses": [
            {"address": one.address, "prefix": one.prefix, "family": one.family, "scope": one.scope}
            for one in addresses
            if one.index == link.index
        ],
    }


def interfaces(look: Look, links: Sequence[Link]) -> list[dict[str, Any]]:
    addresses = look.sane("interfaces", [], look.system.addresses)
    if links and not look.exists(_NET):
        look.unknown("interfaces", f"There is no {_NET}: drivers, speeds, NUMA nodes and kinds cannot be told.")
    return [describe(look, link, links, addresses) for link in sorted(links, key=lambda link: link.index)]


def default_routes(look: Look, links: Sequence[Link], routes: Sequence[Route]) -> list[dict[str, Any]]:
    names = {link.index: link.name for link in links}
    if any(route.index not in names for route in routes):
        look.unknown("default_routes", "The interface of a route is not among those that were listed.")
    entries = [
        {
            "interface": names.get(route.index),
            "gateway": route.gateway,
            "metric": route.metric,
            "family": route.family,
        }
        for route in routes
    ]
    return sorted(entries, key=lambda entry: (str(entry["family"]), int(str(entry["metric"]))))
