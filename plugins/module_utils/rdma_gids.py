# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Entries of a port's GID table, and which of them Mooncake takes by itself (without MC_GID_INDEX)."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import asdict, dataclass
from typing import Any, Callable, Optional, Sequence

# what the kernel writes in gid_attrs/types: drivers/infiniband/core/cache.c, gid_type_str
V1, V2 = "IB/RoCE v1", "RoCE v2"
INFINIBAND = "InfiniBand"

# rdma_context.cpp@v0.3.12, isOverlayNetwork and isOverlayIPv4
_OVERLAYS = ("flannel", "cni", "calico", "vxlan", "docker")
_PRIVATE = tuple(ipaddress.ip_network(net) for net in ("10.0.0.0/8", "172.16.0.0/12", "100.64.0.0/10"))


@dataclass(frozen=True)
class Gid:
    index: int
    gid: str
    type: str
    netdev: Optional[str] = None

    @property
    def raw(self) -> ipaddress.IPv6Address:
        return ipaddress.IPv6Address(self.gid)

    @property
    def address(self) -> Optional[str]:
        """The IPv4 address that it is made of."""
        mapped = self.raw.ipv4_mapped
        return str(mapped) if mapped else None

    @property
    def empty(self) -> bool:
        return not int(self.raw)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "address": self.address}


Choice = Callable[[Sequence[Gid], bool], Optional[Gid]]


def _first_ipv4(gids: Sequence[Gid], infiniband: bool) -> Optional[Gid]:
    """RdmaContext::findBestGidIndex, rdma_context.cpp@v0.3.9 (getBestGidIndex@v0.3.6 does not look at netdevs)"""
    fit = [gid for gid in gids if (gid.type == V1 if infiniband else gid.type == V2 and gid.address)]
    return next((gid for gid in fit if gid.netdev), fit[0] if fit else None)


def _first_ipv4_then_ipv6(gids: Sequence[Gid], infiniband: bool) -> Optional[Gid]:
    """RdmaContext::findBestGidIndex, rdma_context.cpp@v0.3.10 and v0.3.11: ends at the first empty entry"""
    table = [gid for place, gid in enumerate(gids) if gid.index == place]
    fit = [gid for gid in table if gid.type == (V1 if infiniband else V2)]
    ordered = sorted(fit, key=lambda gid: (infiniband or not gid.address, not gid.netdev))
    return ordered[0] if ordered else None


def _ranked(gids: Sequence[Gid], infiniband: bool) -> Optional[Gid]:
    """rankAutoGidCandidates, rdma_gid_probe.h@v0.3.12: by class, then by index; RoCE v1 only where nothing else is"""

    def rank(gid: Gid) -> int:
        if gid.type != (V1 if infiniband else V2):
            return 6
        netdev = gid.netdev or ""
        overlay = not infiniband and (netdev.startswith(_OVERLAYS) or netdev == "tunl0")
        if overlay or (not infiniband and not gid.address and gid.raw.is_link_local):
            return 3 if netdev else 5
        address = gid.raw.ipv4_mapped
        if not infiniband and address and any(address in net for net in _PRIVATE):
            return 2 if netdev else 4
        return 0 if netdev else 1

    usable = [gid for gid in gids if not gid.empty]
    return min(usable, key=lambda gid: (rank(gid), gid.index)) if usable else None


_CHOICES: tuple[tuple[tuple[int, ...], Choice], ...] = (
    ((0,), _first_ipv4),
    ((0, 3, 10), _first_ipv4_then_ipv6),
    ((0, 3, 12), _ranked),
)


def chosen(gids: Sequence[Gid], link_layer: str, mooncake_version: str = "") -> Optional[Gid]:
    """The entry that a release of Mooncake takes (the newest when none is named); None when it takes no entry."""
    release = tuple(int(number) for number in re.findall(r"\d+", mooncake_version)[:3])
    choice = next((rule for since, rule in reversed(_CHOICES) if not release or release >= since), _first_ipv4)
    found = choice(gids, link_layer == INFINIBAND)
    return None if found is None or found.empty else found


def parse_gid(text: str) -> Optional[str]:
    """The GID as sysfs writes it; None when it is none."""
    try:
        packed = ipaddress.IPv6Address(text.strip()).packed
        # exploded writes a mapped IPv4 address with dots since Python 3.13
        return ":".join(packed[i : i + 2].hex() for i in range(0, 16, 2))
    except ValueError:
        return None
