# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done so that a member of etcd is there or gone, and whether the others stand it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from ansible_collections.mooncake.pd.plugins.module_utils.etcd_cluster import Cluster, Known


class Refused(Exception):
    """The change would cost the quorum or meets something else than was asked for."""


@dataclass(frozen=True)
class Change:
    remove: Optional[Known] = None
    add: Optional[str] = None  # peer URL

    def __bool__(self) -> bool:
        return bool(self.remove or self.add)


def present(cluster: Cluster, name: str, peer_url: str, lost: bool) -> Change:
    """lost: the member's data is gone, so one that once started has to be removed and added anew."""
    _check_answered(cluster)
    here, named = cluster.at(peer_url), cluster.member(name)
    if named and here != named:
        raise Refused(
            f"{name} is a member at {', '.join(named.peer_urls)}, not at {peer_url}. Mend: give the member that is to "
            "come another name, or remove that one first."
        )
    if here and here.name not in ("", name):
        raise Refused(f"{peer_url} is the member {here.name}, not {name}. Mend: remove that one first.")
    if here and (not here.name or not lost):
        return Change()
    if here:
        _check_removal(cluster, here)
    waiting = [", ".join(member.peer_urls) for member in cluster.members if not member.name and member != here]
    if waiting:
        raise Refused(
            f"{'; '.join(waiting)} was added and has never started. Mend: start or remove that one first, for etcd "
            "takes one at a time."
        )
    return Change(here, peer_url)


def absent(cluster: Cluster, name: str) -> Change:
    """name: or the id of one that has none, as it never started."""
    _check_answered(cluster)
    found = next((member for member in cluster.members if name in (member.name, member.id)), None)
    if found is None:
        return Change()
    _check_removal(cluster, found)
    return Change(remove=found)


def initial_cluster(members: Sequence[Known], name: str, peer_url: str) -> str:
    """What the member that is to join has to be told, itself included."""
    pairs = [f"{member.name}={url}" for member in members if member.name for url in member.peer_urls]
    own = f"{name}={peer_url}"
    return ",".join(pairs if own in pairs else [*pairs, own])


def _check_answered(cluster: Cluster) -> None:
    if not any(one.healthy for one in cluster.asked):
        told = "; ".join(f"{one.endpoint}: {one.why or one.unhealthy}" for one in cluster.asked)
        raise Refused(f"no member can change the cluster: {told}. Mend: bring back a quorum, or restore a snapshot.")


def _check_removal(cluster: Cluster, member: Known) -> None:
    if not cluster.can_remove(member.id):
        left = [other.name or other.id for other in cluster.voters if other.id != member.id]
        ill = [other.name or other.id for other in cluster.voters if other.id != member.id and not other.healthy]
        raise Refused(
            f"without {member.name or member.id} there would be no quorum: of {', '.join(left) or 'nobody'}, "
            f"{', '.join(ill) or 'none'} is not healthy. Mend: bring those back first."
        )
