# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What port_info says of a host where every planned port is free and the kernel keeps its hands off them."""

from __future__ import annotations

from typing import Any

RESERVED = [[20000, 37023], [50051, 50051], [60000, 60015]]


def ports(**changes: Any) -> dict[str, Any]:
    """The facts `ports`; a change replaces the whole value of its key."""
    return {
        "court": [],
        "probed": 12,
        "free": 12,
        "own": 0,
        "namespace": {"same_as_init": True},
        "ephemeral": [32768, 60999],
        "reserved": [list(span) for span in RESERVED],
        "reserved_raw": ",".join(f"{first}-{last}" if first != last else str(first) for first, last in RESERVED),
        "sockets": {"listen": 31, "established": 48, "time_wait": 6, "other": 1, "time_wait_ephemeral": 4},
        "pools": [{"purpose": "transfer-rpc", "first": 15000, "last": 17000, "listeners": 0, "foreign": []}],
        "published": [],
        "redirections": [],
        "nodeports": False,
        "unknown": [],
        **changes,
    }
