# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which server of the other side a server under test is asked together with. No I/O.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Collection, Dict, Iterator, List, Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.pd_instances import DECODE, PREFILL

OTHER = {PREFILL: DECODE, DECODE: PREFILL}


@dataclass(frozen=True)
class Server:
    kind: str
    instance: str
    url: str
    bootstrap: Optional[str] = None  # mooncake: where decode asks for the workers of the engine
    # mooncake: the engine, and its data parallel rank when the bootstrap server knows several
    engine_id: Optional[str] = None
    rank: Optional[int] = None

    def __str__(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"{self.kind} {self.instance} ({self.url}{rank})"


@dataclass(frozen=True)
class Pair:
    instance: str  # the one under test
    prefill: Server
    decode: Server


def servers_of(instance: Mapping[str, Any]) -> List[Server]:
    """Each with its bootstrap server: one for every API server, or one for all of them."""
    urls = [url.rstrip("/") for url in instance["api_urls"]]
    bootstraps: List[Optional[str]] = [url.rstrip("/") for url in instance.get("bootstrap_urls") or ()]
    if len(bootstraps) != len(urls):
        bootstraps = [bootstraps[0] if bootstraps else None] * len(urls)
    return [Server(instance["kind"], instance["name"], url, bootstrap) for url, bootstrap in zip(urls, bootstraps)]


def with_engines(server: Server, engines: Mapping[int, str]) -> List[Server]:
    """One for each engine behind it."""
    if len(engines) == 1:
        return [replace(server, engine_id=engine) for engine in engines.values()]
    return [replace(server, engine_id=engine, rank=rank) for rank, engine in engines.items()]


class Partners:
    """Servers of a kind that are not under test take turns; those under test help out when there are no others."""

    def __init__(self, usable: Sequence[Server], under_test: Collection[str], excluded: Collection[str]) -> None:
        self._usable: Dict[str, List[Server]] = {}
        self._turn = {PREFILL: 0, DECODE: 0}
        for kind in OTHER:
            side = [server for server in usable if server.kind == kind]
            others = [s for s in side if s.instance not in under_test and s.instance not in excluded]
            self._usable[kind] = others or [server for server in side if server.instance in under_test]

    def next(self, kind: str) -> Optional[Server]:
        servers = self._usable[kind]
        if not servers:
            return None
        self._turn[kind] += 1
        return servers[(self._turn[kind] - 1) % len(servers)]


def pairs_of(name: str, servers: Sequence[Server], partners: Partners) -> Iterator[Pair]:
    """A pair for each usable server of an instance; none when it has no partner."""
    for server in servers:
        if server.instance != name:
            continue
        partner = partners.next(OTHER[server.kind])
        if partner is None:
            return
        prefill, decode = (server, partner) if server.kind == PREFILL else (partner, server)
        yield Pair(name, prefill, decode)
