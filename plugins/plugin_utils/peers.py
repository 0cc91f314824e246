# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts a host connects to, so that preflight can try the way before anything runs.

Every host tries a few: all of its partners would be the square of the fleet. Partners at distances 1, 4, 16, 64 ...
along the ring of hosts keep it small, and still every host is tried by others and the fleet hangs together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Topology

ALL_UP_TO = 4  # partners; beyond it, those at powers of four
_SPECIAL = ("router", "frontend")  # clients connect to them, hosts of the plan do not


class Peers:
    def __init__(self, topology: Topology, processes: Mapping[str, Sequence[Process]]) -> None:
        self.topology = topology
        self.processes = processes
        self.names = list(topology.hosts)
        self.order = {name: index for index, name in enumerate(self.names)}
        sides = {kind: [instance.places for instance in topology.side(kind)] for kind in ("prefill", "decode")}
        self.rings = {kind: self._ring(instances) for kind, instances in sides.items()}
        self.ring_of_both = self._ring(chain(*sides.values()))
        self.heads: dict[str, dict[str, None]] = {}
        for instance in topology.instances:
            for name in instance.places[1:]:
                self.heads.setdefault(name, {})[instance.places[0]] = None

    def of(self, host: str) -> list[dict[str, Any]]:
        return [
            {"name": name, "address": self.topology.hosts[name].address, "ports": self._ports(name)}
            for name in self._names(host)
        ]

    def _names(self, host: str) -> list[str]:
        kinds = {process.kind for process in self.processes.get(host, ())}
        found: dict[str, None] = {}
        for one, other in (("prefill", "decode"), ("decode", "prefill")):
            if one in kinds:
                found.update(self._near(host, self.rings[other]))
        found.update(self.heads.get(host, {}))  # which all others of an instance join
        if kinds & {"router", "frontend"}:
            found.update(self._near(host, self.ring_of_both))
        if kinds & set(self.rings) and self.topology.master:
            found[self.topology.master.host] = None
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

    def _ports(self, host: str) -> dict[str, int | list[int]]:
        """The port of every purpose, or the first and the last: a firewall may be open for fewer than there are."""
        ports: dict[str, tuple[int, int]] = {}
        for process in self.processes.get(host, ()):
            if process.kind in _SPECIAL:
                continue
            for claim in process.claims:
                if not claim.address.startswith("127."):
                    end = claim.last if claim.kind == "exact" else claim.first  # who draws, draws anywhere
                    first, last = ports.get(claim.purpose, (claim.first, end))
                    ports[claim.purpose] = (min(first, claim.first), max(last, end))
        return {purpose: first if first == last else [first, last] for purpose, (first, last) in ports.items()}
