# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How etcd is as a whole: who leads, how full it is, and what is wrong with it besides a member that is down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import figures
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.problem import NOTICE, Problem
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.seen import Facts, Seen

KIND = "etcd"
LEADER, FOLLOWER = "leader", "follower"
NEARLY_FULL = 0.8  # of the quota; beyond all of it etcd takes no writes
_DEFRAGMENT = "etcd_defragment.yml gives back what is free in it; else raise etcd_quota and run etcd.yml"


def describe(service: Mapping[str, str], seen: Seen) -> dict[str, Any]:
    """What a member has that other services have not; null of those, and as long as it did not answer."""
    member = _member(service, seen)
    known = member is not None and member["healthy"]
    role = None
    if member is not None and known:
        role = LEADER if member["leader"] else FOLLOWER
    return {
        "role": role,
        "db_size": member["db_size"] if member is not None else None,
        "db_quota": member["db_quota"] if member is not None else None,
    }


def problems(told: Sequence[Mapping[str, Any]], seen: Seen) -> Iterator[Problem]:
    """told: the services. What makes a member of them a bad one is told there, not once more here."""
    members = [one for one in told if one["kind"] == KIND]
    if not members:
        return
    if seen.etcd is None:
        what = f"etcd was not asked who leads and whether it has space: {seen.etcd_unknown}"
        yield Problem("not-asked", KIND, None, what, "mend what is said there, then look again")
        return
    ill = [_endpoint(one["host"], seen) for one in members if one["health"] != "healthy" or one["state"] != "active"]
    for what in seen.etcd["problems"]:
        if not any(what.startswith(f"{endpoint}: ") for endpoint in ill):
            fix = f"writes are refused: {_DEFRAGMENT}" if what.startswith("alarm NOSPACE") else _FIX
            yield Problem("etcd", KIND, None, f"etcd: {what}", fix)
    for one in members:
        size, quota = one["db_size"], one["db_quota"]
        if size and quota and size >= NEARLY_FULL * quota:
            what = f"the database of {KIND} on {one['host']} has {filled(size, quota)}"
            yield Problem("etcd-nearly-full", one["name"], one["host"], what, _DEFRAGMENT, NOTICE)


_FIX = "etcd.yml brings it to what is planned, or says what keeps it from that"


def filled(size: int | None, quota: int | None) -> str:
    """12 MiB of 2 GiB; nothing where the size is not known."""
    if size is None:
        return ""
    return figures.size(size) + (f" of {figures.size(quota)}" if quota and quota > 0 else "")


def _member(service: Mapping[str, str], seen: Seen) -> Facts | None:
    if service["kind"] != KIND or seen.etcd is None:
        return None
    return next((one for one in seen.etcd["members"] if one["name"] == service["host"]), None)


def _endpoint(host: str, seen: Seen) -> str:
    planned = seen.cluster["etcd"]["members"]
    return str(next((one["client_url"] for one in planned if one["name"] == host), host))
