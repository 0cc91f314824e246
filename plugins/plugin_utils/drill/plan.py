# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drill as it will be done: who loses what, who watches whom, and what that may cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.drill import guard
from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.known import ETCD, FILL, MASTER, STORE, Asked, Known

# seconds: probes and the client of the pool have begun by then
_BEFORE, _BEFORE_POOL = 5.0, 20.0
# a request of a client may wait for the rest of a fail-over
_REQUEST = 60.0
# Objects lost with a node are its share of the pool, and with few objects somewhat more: 64 of them with a share of one
# half are off by 0.19 in three standard deviations.
_SCATTER = 0.2
# objects take no more than this part of what is free in the pool, and are no smaller than a page of memory
_PART, _LEAST = 8, 4096
_CLIENT_TTL = 10  # seconds; Mooncake's default (master.cpp, 0.3.7.post2 to 0.3.13)
_SLOW = 100 << 20  # bytes a second that a client puts over TCP at the least; 0.2 to 1 GB/s were seen
_HOW = {MASTER: "kill", ETCD: "stop", STORE: "restart"}
_GIB = 1 << 30


@dataclass(frozen=True)
class Drill:
    name: str
    target: str = ""
    watcher: str = ""
    unit: str = ""
    strike: dict[str, Any] | None = None
    probes: tuple[dict[str, Any], ...] = ()
    pool: dict[str, Any] | None = None
    limits: dict[str, float] = field(default_factory=dict)
    least: float = 30
    timeout: float = 180
    costs: tuple[str, ...] = ()
    # what is not watched, and why
    unwatched: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            **vars(self),
            "probes": list(self.probes),
            "costs": list(self.costs),
            "unwatched": list(self.unwatched),
            "hosts": list(dict.fromkeys(host for host in (self.target, self.watcher) if host)),
        }


def planned(asked: Asked, known: Known) -> Drill:
    """Of a drill that nothing speaks against."""
    target = guard.target(asked, known)
    watcher = _watcher(target, known)
    why = _no_pool(asked, watcher, known)
    pool = None if why else _pool(asked, known)
    before = _BEFORE if pool is None else _BEFORE_POOL
    process = known.process(target, asked.drill) if target else None
    unit = str(process["unit"]["name"]) if process else ""
    strike = {"unit": unit, "how": _HOW[asked.drill], "after": before, "hold": asked.hold} if unit else None
    hold = asked.hold if asked.drill == ETCD else 0
    return Drill(
        name=asked.drill,
        target=target,
        watcher=watcher,
        unit=unit,
        strike=strike,
        probes=tuple(_probes(asked, known, target)),
        pool=pool,
        limits=_limits(asked, known, target),
        # a fail-over is over before what was lost is back
        least=before + hold + (15 if strike else 5),
        timeout=before + hold + _longest(asked, known) * 2 + 60 + (pool or {}).get("most", 0) / _SLOW,
        costs=tuple(_costs(asked, known, target)),
        unwatched=(
            *((f"the KV pool: {why}",) if why else ()),
            *(() if known.router_url else ("requests of clients: the plan has no router",)),
        ),
    )


def _watcher(target: str, known: Known) -> str:
    """Not the host that loses something, as far as there is another; one with Mooncake sees the pool, too."""
    others = [host for host in known.hosts if host in known.played and host != target]
    engines = [
        host for host in others if {"prefill", "decode"} & {one["kind"] for one in known.hosts[host]["processes"]}
    ]
    able = [host for host in (*engines, *others) if host in known.tools]
    return next(iter([*able, *others]), target)


def _size(asked: Asked, known: Known) -> int:
    """Of an object. All of them take a small part of what is free, for what the drill itself pushes out is not lost."""
    room = guard.room(known)
    if asked.drill == FILL or room is None:
        return asked.size
    return min(asked.size, room // (_PART * max(asked.objects, 1)))


def _no_pool(asked: Asked, watcher: str, known: Known) -> str:
    store = known.cluster["store"]
    if store is None:
        return "the plan has none"
    if store["protocol"] == "ascend":
        return "ascend is the transport of processes with an NPU, which no other can try"
    if _size(asked, known) < _LEAST:
        return "it is full, so what is put would be evicted"
    return "" if watcher in known.tools else f"{watcher} has no Python with Mooncake (drill_mooncake_path)"


def _pool(asked: Asked, known: Known) -> dict[str, Any]:
    store = known.cluster["store"]
    told = {name: store[name] for name in ("server_address", "metadata_server", "protocol", "devices", "environment")}
    wish: dict[str, Any] = {"mode": "watch", "store": told, "objects": asked.objects, "size": _size(asked, known)}
    if asked.drill == FILL:
        metrics = [known.url(host, MASTER).rpartition("/")[0] for host in known.on(MASTER)]
        # twice what should do: what is evicted meanwhile makes room again
        wish.update(mode="fill", most=min(asked.most, 2 * guard.to_put(known)), evictions=1, metrics=metrics)
    return wish


def _probes(asked: Asked, known: Known, target: str) -> Iterator[dict[str, Any]]:
    masters = known.on(MASTER)
    if masters:
        yield {"name": "leader", "kind": "masters", "urls": [known.url(host, MASTER) for host in masters]}
    members = [host for host in known.on(ETCD) if not (asked.drill == ETCD and host == target)]
    if members:
        yield {"name": "etcd", "kind": "etcd", "urls": [known.url(host, ETCD) for host in members]}
    if asked.drill == MASTER:
        yield {"name": "target", "kind": "tcp", "urls": [_place(known.url(target, MASTER))]}
    if asked.drill == ETCD:
        yield {"name": "target", "kind": "etcd", "urls": [known.url(target, ETCD)]}
    if asked.drill == STORE:
        ports = [node["port"] for node in known.cluster["store"]["nodes"] if node["host"] == target]
        # its RPC port opens last, when the memory is mounted
        yield {"name": "target", "kind": "tcp", "urls": [f"{known.hosts[target]['address']}:{port}" for port in ports]}
    if known.router_url:
        yield {
            "name": "requests",
            "kind": "completion",
            "urls": [f"{known.router_url}/v1/completions"],
            "model": known.cluster["model"]["served_name"],
            "interval": 1.0,
            "timeout": _REQUEST,
        }


def _place(url: str) -> str:
    return url.partition("//")[2].partition("/")[0]


def _client_ttl(known: Known) -> int:
    for host in known.on(MASTER):
        for word in (known.process(host, MASTER) or {})["unit"]["argv"]:
            if word.startswith("--client_ttl="):
                return int(word.partition("=")[2])
    return _CLIENT_TTL


def _pool_limit(asked: Asked, known: Known) -> float:
    # until it takes a client for lost, the master sends others to its memory
    return asked.limits.pool + (_client_ttl(known) if asked.drill == STORE else 0)


def _longest(asked: Asked, known: Known) -> float:
    return max(asked.limits.leader, asked.limits.etcd, asked.limits.back, _pool_limit(asked, known))


def _limits(asked: Asked, known: Known, target: str) -> dict[str, float]:
    return {
        **vars(asked.limits),
        "pool": _pool_limit(asked, known),
        "lost": asked.limits.lost if asked.limits.lost >= 0 else _may_be_lost(asked, known, target),
    }


def _may_be_lost(asked: Asked, known: Known, target: str) -> float:
    """Share of the objects that the pool cannot keep, whatever is done."""
    if asked.drill == MASTER:
        return 1.0  # it keeps the keys in memory
    capacity = int(known.leader.get("capacity") or 0)
    if asked.drill != STORE or not capacity:
        return 0.0
    own = next((node["bytes"] for node in known.cluster["store"]["nodes"] if node["host"] == target), 0)
    return float(min(round(own / capacity + _SCATTER, 2), 1.0))


def _costs(asked: Asked, known: Known, target: str) -> Iterator[str]:
    leader = known.leader
    held = f"{leader.get('key_count') or 0:,} keys, {(leader.get('bytes') or 0) / _GIB:.1f} GiB"
    if asked.drill == MASTER:
        yield f"The master on {target} leads and keeps the keys in memory: the pool begins empty ({held})."
    elif asked.drill == ETCD:
        yield f"For {asked.hold:g} s etcd is a member short; one more that is lost meanwhile may cost the quorum."
    elif asked.drill == STORE:
        yield f"What lies in the memory of {target} is gone; for up to {_client_ttl(known)} s it is still sought there."
    else:
        yield f"Objects of this drill push out what was not used for long ({held} in the pool)."
        yield f"Up to {guard.to_put(known) / _GIB:.1f} GiB go over the network. What was put is removed again."
