# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts a host connects to and by which ports, so that preflight can try the way before anything runs.

Every host tries a few: all of its partners would be the square of the fleet. Partners at distances 1, 4, 16, 64 ...
along the ring of hosts keep it small, and still every host is tried by others and the fleet hangs together. A host is
told their names only; what else there is to know stands in their own plan.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.master import CLUSTER_VARIABLE
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Topology

ALL_UP_TO = 4  # partners; beyond it, those at powers of four
_SPECIAL = ("router", "frontend")  # clients connect to them, hosts of the plan do not
_OF_ETCD = ("etcd-client", "etcd-peer", "etcd-metrics")


class Peers:
    def __init__(self, topology: Topology, processes: Mapping[str, Sequence[Process]]) -> None:
        self.topology = topology
        self.processes = processes
        self.names = list(topology.hosts)
        self.order = {name: index for index, name in enumerate(self.names)}
        sides = {kind: [instance.places for instance in topology.side(kind)] for kind in ("prefill", "decode")}
        self.rings = {kind: self._ring(instances) for kind, instances in sides.items()}
        self.ring_of_both = self._ring(chain(*sides.values()))
        self.ring_of_etcd = self._ring([topology.etcd.hosts] if topology.etcd else [])
        self.ring_of_store = self._ring([[node.host for node in topology.store.nodes]] if topology.store else [])
        self.heads: dict[str, dict[str, None]] = {}
        for instance in topology.instances:
            for name in instance.places[1:]:
                self.heads.setdefault(name, {})[instance.places[0]] = None

    def of(self, host: str) -> list[str]:
        own = self.processes.get(host, ())
        kinds = {process.kind for process in own}
        found: dict[str, None] = {}
        for one, other in (("prefill", "decode"), ("decode", "prefill")):
            if one in kinds:
                found.update(self._near(host, self.rings[other]))
        found.update(self.heads.get(host, {}))  # which all others of an instance join
        if "etcd" in kinds:
            found.update(self._near(host, self.ring_of_etcd))
        master = self.topology.master
        if master and master.ha and "master" in kinds:  # one that stands by asks the one that leads
            found.update(dict.fromkeys(master.places))
        if master and master.ha and any(CLUSTER_VARIABLE in process.environment for process in own):
            found.update(self._near(host, self.ring_of_etcd))
        # whoever has KV in the pool is written to and read by all others
        if kinds & {*self.rings, "store"}:
            found.update(self._near(host, self.ring_of_store))
        if "store" in kinds:
            found.update(self._near(host, self.ring_of_both))
        if kinds & {"router", "frontend"}:
            found.update(self._near(host, self.ring_of_both))
        if kinds & {*self.rings, "store"} and master:
            found.update(dict.fromkeys(master.places))
        return [name for name in found if name != host and name in self.order]

    def _ring(self, instances: Iterable[Iterable[str]]) -> list[int]:
        places = {name for names in instances for name in names}
        return sorted(self.order[name] for name in places if name in self.order)

    def _near(self, host: str, ring: Sequence[int]) -> dict[str, None]:
        """The next ones along the ring, which ends with the host itself when it is on it."""
        own = self.order[host]
        first = bisect_right(ring, own)
        others = len(ring) - (first > 0 and ring[first - 1] == own)
        steps: Sequence[int] = range(others)
        if others > ALL_UP_TO:
            steps = [4**step - 1 for step in range((others.bit_length() + 1) // 2)]
        return {self.names[ring[(first + step) % len(ring)]]: None for step in steps}


def to_try(planned: Mapping[str, Any], asking: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What host_info is told of a peer whose plan (pd_host) this is; asking is the plan of the host that tries.

    The port of every purpose, or the first and the last: a firewall may be open for fewer than there are.
    """
    ports: dict[str, tuple[int, int]] = {}
    for purpose, low, high in _claimed(planned, _etcd_purposes(asking) if asking else set(_OF_ETCD)):
        first, last = ports.get(purpose, (low, high))
        ports[purpose] = (min(first, low), max(last, high))
    return {
        "name": planned["name"],
        "address": planned["address"],
        "ports": {purpose: first if first == last else [first, last] for purpose, (first, last) in ports.items()},
    }


def _etcd_purposes(asking: Mapping[str, Any]) -> set[str]:
    """What of etcd a host has to reach: members all of it; masters and clients of the store, which elect the leader and
    find it there, the clients' port. It may be closed to everybody else."""
    if any(process["kind"] == "etcd" for process in asking["processes"]):
        return set(_OF_ETCD)
    clients = any(CLUSTER_VARIABLE in process["unit"]["environment"] for process in asking["processes"])
    return {"etcd-client"} if clients else set()


def _claimed(planned: Mapping[str, Any], of_etcd: set[str]) -> Iterator[tuple[str, int, int]]:
    """(purpose, first, last) of what the one that asks may reach."""
    for process in planned["processes"]:
        for claim in process["claims"]["ports"]:
            reached = claim["purpose"] in of_etcd if process["kind"] == "etcd" else process["kind"] not in _SPECIAL
            if reached and not claim["address"].startswith("127."):
                yield claim["purpose"], claim["first"], claim["last"]
    for pool in planned["pools"]:
        yield pool["purpose"], pool["first"], pool["last"]
