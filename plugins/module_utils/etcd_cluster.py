# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the members of etcd say of their cluster, put together, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional
from urllib.parse import urlsplit

from ansible_collections.mooncake.pd.plugins.module_utils.etcd_api import EtcdError, Member, text_key

# Whoever may not read the key has still been answered, which etcd's own /health counts as healthy, too.
_DENIED = ("permission denied", "user name is empty", "invalid auth token")


@dataclass(frozen=True)
class Asked:
    """What the member behind an endpoint answered; without answers, why there are none."""

    endpoint: str
    why: str = ""
    status: Mapping[str, Any] = field(default_factory=dict)
    members: Sequence[Mapping[str, Any]] = ()
    alarms: Sequence[Mapping[str, Any]] = ()
    unhealthy: str = ""  # it answers, but a read that needs the quorum does not

    @property
    def healthy(self) -> bool:
        return not self.why and not self.unhealthy

    @property
    def id(self) -> str:
        return number(self.status.get("header", {}).get("member_id"))

    @property
    def cluster(self) -> str:
        return number(self.status.get("header", {}).get("cluster_id"))

    @property
    def leader(self) -> str:
        return number(self.status.get("leader"))


def ask(endpoint: str, connect: Callable[[str], Member]) -> Asked:
    try:
        member = connect(endpoint)
        status = member.call("/v3/maintenance/status")
    except EtcdError as error:
        return Asked(endpoint, why=str(error))
    listed: Sequence[Mapping[str, Any]] = ()
    alarms: Sequence[Mapping[str, Any]] = ()
    # what follows goes by the leader
    try:
        listed = member.call("/v3/cluster/member/list").get("members", [])
        alarms = member.call("/v3/maintenance/alarm", {"action": "GET"}).get("alarms", [])
        member.call("/v3/kv/range", {"key": text_key("health")})
    except EtcdError as error:
        unhealthy = "" if any(text in str(error) for text in _DENIED) else str(error)
        return Asked(endpoint, "", status, listed, alarms, unhealthy)
    return Asked(endpoint, "", status, listed, alarms)


def number(value: Any) -> str:
    """Ids are decimal texts in JSON and hexadecimal everywhere else in etcd."""
    return f"{int(value):x}" if value and int(value) else ""


@dataclass(frozen=True)
class Known:
    """A member as the cluster knows it, and what it said itself."""

    id: str
    name: str  # empty: added, and never started
    peer_urls: Sequence[str]
    client_urls: Sequence[str]
    learner: bool
    asked: Optional[Asked]

    @property
    def healthy(self) -> bool:
        return self.asked is not None and self.asked.healthy

    @property
    def why(self) -> str:
        """Why it is not healthy."""
        return "it was not asked" if self.asked is None else self.asked.why or self.asked.unhealthy

    @property
    def status(self) -> Mapping[str, Any]:
        return self.asked.status if self.asked else {}

    def as_dict(self, leader: str, quota: int) -> dict[str, Any]:
        status = self.status
        return {
            "id": self.id,
            "name": self.name,
            "peer_urls": list(self.peer_urls),
            "client_urls": list(self.client_urls),
            "learner": self.learner,
            "leader": bool(leader) and self.id == leader,
            "healthy": self.healthy,
            "why": self.why,
            "version": status.get("version"),
            "db_size": _whole(status.get("dbSize")),
            "db_size_in_use": _whole(status.get("dbSizeInUse")),
            # since 3.6 (etcd-io/etcd#17877)
            "db_quota": (_whole(status.get("dbSizeQuota")) or quota or None) if status else None,
            "raft_term": _whole(status.get("raftTerm")),
        }


@dataclass(frozen=True)
class Cluster:
    asked: Sequence[Asked]
    members: Sequence[Known]

    @classmethod
    def of(cls, asked: Sequence[Asked]) -> Cluster:
        answered = [one for one in asked if not one.why]
        # who is healthy read through the leader, so what it lists is of now
        best = sorted(answered, key=lambda one: not one.healthy)[:1]
        by_id = {one.id: one for one in answered}
        silent = {_place(one.endpoint): one for one in asked if one.why}
        members = [
            Known(
                number(entry["ID"]),
                entry.get("name", ""),
                entry.get("peerURLs", []),
                entry.get("clientURLs", []),
                bool(entry.get("isLearner")),
                by_id.get(number(entry["ID"])) or _silent(entry, silent),
            )
            for one in best
            for entry in one.members
        ]
        return cls(asked, members)

    @property
    def id(self) -> Optional[str]:
        found = {one.cluster for one in self.asked if not one.why}
        return found.pop() if len(found) == 1 else None

    @property
    def leader(self) -> str:
        found = {one.leader for one in self.asked if one.healthy}
        return found.pop() if len(found) == 1 else ""

    @property
    def voters(self) -> list[Known]:
        return [member for member in self.members if not member.learner]

    @property
    def quorum(self) -> int:
        return len(self.voters) // 2 + 1 if self.voters else 0

    def member(self, name: str) -> Optional[Known]:
        return next((member for member in self.members if name and member.name == name), None)

    def at(self, peer_url: str) -> Optional[Known]:
        return next((member for member in self.members if peer_url in member.peer_urls), None)

    def can_lose(self, name: str) -> bool:
        """Whether those that are left and healthy are a quorum while one restarts."""
        return bool(self.voters) and self._healthy(name) >= self.quorum

    def _healthy(self, without: str) -> int:
        return sum(member.healthy for member in self.voters if member.name != without)

    def can_remove(self, name_or_id: str) -> bool:
        """Whether those that are left and healthy are a quorum of those that are left."""
        left = [member for member in self.voters if name_or_id not in (member.name, member.id)]
        return bool(left) and sum(member.healthy for member in left) >= len(left) // 2 + 1

    @property
    def alarms(self) -> list[str]:
        names = {member.id: member.name for member in self.members}
        found = {
            f"{alarm.get('alarm', 'UNKNOWN')} of {names.get(number(alarm.get('memberID')), 'an unknown member')}": None
            for one in self.asked
            for alarm in one.alarms
        }
        return list(found)

    def problems(self, wanted: Sequence[str]) -> list[str]:
        """wanted: the names that are to be its members; none, to take those that it has."""
        answered = [one for one in self.asked if not one.why]
        found = [f"{one.endpoint}: {one.why}" for one in self.asked if one.why]
        found += [f"{one.endpoint}: {one.unhealthy}" for one in answered if one.unhealthy]
        clusters = sorted({one.cluster for one in answered})
        if len(clusters) > 1:
            told = ", ".join(f"{one.endpoint} {one.cluster}" for one in answered)
            found.append(f"the members belong to {len(clusters)} clusters: {told}")
        leaders = sorted({one.leader for one in answered})
        if answered and (len(leaders) != 1 or not leaders[0]):
            told = ", ".join(f"{one.endpoint} says {one.leader or 'nobody'}" for one in answered)
            found.append(f"they do not have one leader: {told}")
        found += [f"alarm {alarm}" for alarm in self.alarms]
        if answered:
            found += self._strangers(wanted)
        for member in self.members:
            if not member.name:
                found.append(f"{', '.join(member.peer_urls)} was added and has never started")
        return found

    def _strangers(self, wanted: Sequence[str]) -> list[str]:
        names = [member.name for member in self.members if member.name]
        missing = [f"{name} is no member" for name in wanted if name not in names]
        more = [f"{name} is a member and not one of those that are wanted" for name in names if name not in wanted]
        return missing + (more if wanted else [])


def _place(url: str) -> str:
    return urlsplit(url if "://" in url else f"http://{url}").netloc


def _silent(entry: Mapping[str, Any], silent: Mapping[str, Asked]) -> Optional[Asked]:
    return next((silent[_place(url)] for url in entry.get("clientURLs", []) if _place(url) in silent), None)


def _whole(value: Any) -> Optional[int]:
    return int(value) if value is not None else None
