# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be done about the space of etcd: a member that keeps free pages, and alarms whose reason is gone.

Compaction frees pages inside of the database's file, and only a defragmentation makes the file smaller. The file is
what counts for the quota. An alarm stays until somebody takes it back (etcd.io/docs/v3.4/op-guide/maintenance).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.etcd_cluster import Cluster, Known, number

NOSPACE = "NOSPACE"
_DEFAULT_QUOTA = 2 * 1024**3  # of 0; below 0 there is none (server/storage/quota.go@v3.6.0)
# A request is refused, and the alarm raised again, when it would reach the quota (Available() there): so the largest
# one has to have room (DefaultMaxRequestBytes of embed/config.go@v3.4.0), or with a small quota a twentieth of it
_LARGEST_REQUEST = 3 * 1024**2 // 2
_SMALL = 20


class Refused(Exception):
    """It cannot be done now without harm, or not at all."""


def to_defragment(cluster: Cluster, name: str, min_free: int) -> Optional[Known]:
    """The member, when at least min_free percent of its file are free. It answers nobody while it rewrites the file."""
    member = cluster.member(name)
    if member is None or not member.healthy:
        told = f"{name} is no member of etcd" if member is None else f"{name} is not healthy: {member.why}"
        if not cluster.members:
            told = "; ".join(f"{one.endpoint}: {one.why}" for one in cluster.asked)
        raise Refused(f"{told}. Mend: bring it back first.")
    size, free = _size(member), _free(member)
    if size == 0 or 100 * free < min_free * size:
        return None
    if len(cluster.voters) > 1 and not cluster.can_lose(name):
        ill = [other.name or other.id for other in cluster.voters if other.name != name and not other.healthy]
        raise Refused(
            f"without {name} there is no quorum, as {', '.join(ill)} is not healthy. Mend: bring it back first."
        )
    return member


def to_disarm(cluster: Cluster, quota: int) -> list[Known]:
    """Members whose alarm says that there is no space, when all of them have room for the next requests."""
    raised = {number(alarm.get("memberID")) for one in cluster.asked for alarm in one.alarms if _no_space(alarm)}
    limit = quota or _DEFAULT_QUOTA
    room = min(_LARGEST_REQUEST, limit // _SMALL)
    # the alarm of one refuses the writes of all, and whoever is full raises it again at the next one
    full = [member for member in cluster.members if 0 < limit <= _size(member) + room]
    return [] if full else [member for member in cluster.members if member.id in raised]


def _no_space(alarm: Mapping[str, Any]) -> bool:
    return bool(alarm.get("alarm") == NOSPACE)


def _size(member: Known) -> int:
    return int(member.status.get("dbSize", 0))


def _free(member: Known) -> int:
    return _size(member) - int(member.status.get("dbSizeInUse", 0))


Call = Callable[[str, Mapping[str, Any]], Any]


def disarm(call: Call, member: Known) -> None:
    call("/v3/maintenance/alarm", {"action": "DEACTIVATE", "memberID": str(int(member.id, 16)), "alarm": NOSPACE})
