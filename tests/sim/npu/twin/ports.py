# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ports vLLM-Ascend and Mooncake bind, by release. Written from their sources, not from the collection.

Sources, per tag: vllm_ascend/distributed/[kv_transfer/kv_p2p/]mooncake_connector.py (V1), mooncake_hybrid_connector.py,
mooncake_layerwise_connector.py; Mooncake's ascend_direct_transport.cpp and config.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .state import since

PULL, PUSH = "pull", "push"


@dataclass(frozen=True)
class Sizes:
    tp: int = 1
    pp: int = 1
    pcp: int = 1

    @property
    def world(self) -> int:
        return self.tp * self.pp * self.pcp


@dataclass(frozen=True)
class Rank:
    """A worker's place inside its engine."""

    pp: int
    pcp: int
    tp: int


def ranks(sizes: Sizes) -> Iterator[Rank]:
    for pp in range(sizes.pp):
        for pcp in range(sizes.pcp):
            for tp in range(sizes.tp):
                yield Rank(pp, pcp, tp)


def side_channel(connector: str, release: str, base: int, *, dp_rank: int, dp_rank_local: int, sizes: Sizes) -> int:
    """First port of an engine: what it also tells its peers as remote_port."""
    if connector == "MooncakeLayerwiseConnector":
        # the pcp term came with 0.21.0rc1, in the worker only; decode, which binds, must have pcp 1
        return base + dp_rank * sizes.tp * (sizes.pcp if since(release, "0.21.0rc1") else 1)
    if connector == "MooncakeHybridConnector":
        return base + dp_rank * sizes.tp * sizes.pp
    if not since(release, "0.11.0rc1"):
        return base + dp_rank_local * sizes.tp
    if not since(release, "0.12.0rc1"):
        return base + dp_rank * sizes.tp
    return base + dp_rank * sizes.world


def device_index(connector: str, release: str, sizes: Sizes, rank: Rank) -> int:
    """What a worker adds to the first port of its engine."""
    if connector == "MooncakeLayerwiseConnector":
        return rank.tp + (rank.pcp * sizes.tp if since(release, "0.21.0rc1") else 0)
    if connector == "MooncakeHybridConnector":
        return rank.pp * sizes.tp + rank.tp
    if not since(release, "0.12.0rc1"):
        return rank.tp  # stages of a pipeline on one host take the same port (vllm-ascend issue 4244)
    if not since(release, "0.23.0rc1"):
        return rank.pp * sizes.tp + rank.tp + rank.pcp * sizes.tp
    return (rank.pp * sizes.pcp + rank.pcp) * sizes.tp + rank.tp


def handshake_ports(
    connector: str, release: str, base: int, *, dp_rank: int, dp_rank_local: int, sizes: Sizes
) -> list[int]:
    """The port of each worker of an engine, in the order of `ranks`."""
    first = side_channel(connector, release, base, dp_rank=dp_rank, dp_rank_local=dp_rank_local, sizes=sizes)
    return [first + device_index(connector, release, sizes, rank) for rank in ranks(sizes)]


def adxl_range(mooncake: str, device: int, environment: Mapping[str, str]) -> tuple[int, int]:
    """First and last port that AscendDirectTransport draws from for a physical device, both included."""
    base, step = 20000, 1000
    if since(mooncake, "0.3.8"):
        told = environment.get("ASCEND_BASE_PORT", "")
        base, step = int(told) if told.isdigit() else base, 100
    return base + device * step, base + (device + 1) * step


def rpc_range(mooncake: str, environment: Mapping[str, str]) -> tuple[int, int]:
    """Ports of the transfer engine's RPC with peer to peer handshake."""

    def told(name: str, default: int) -> int:
        names = [f"MC_{name}_PRC_PORT"]
        if since(mooncake, "0.3.11"):
            names.insert(0, f"MC_{name}_RPC_PORT")
        value = next((environment[n] for n in names if n in environment), "")
        return int(value) if value.isdigit() else default

    return told("MIN", 15000), told("MAX", 17000)
