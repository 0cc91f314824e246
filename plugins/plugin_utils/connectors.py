# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each KV connector expects of a plan, as data."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import DECODE, PREFILL


@dataclass(frozen=True)
class Connector:
    name: str  # kv_connector of --kv-transfer-config
    engine: str
    since: str  # first release of the engine that the plan knows it in
    transfer: str  # pull: decode reads from prefill; push: prefill writes to decode
    binds: str  # the side that listens for its peer
    protocols: tuple[str, ...]  # the first one is the default
    contract: str  # what a router has to send
    # the connector serves hybrid models, for which vLLM-Ascend refuses kv_load_failure_policy recompute
    # (vllm_ascend/platform.py@182b75ea)
    hybrid: bool = False


# contract of a connector -> kind of router that speaks it. vllm-router 0.1.17 sends prefill first in both of its modes
# and has no /v1/metaserver, so layerwise has only vLLM-Ascend's own proxy (router source of 0.1.17; vllm-ascend#14000).
ROUTER_KINDS = {"mooncake": "vllm_router", "nixl": "vllm_router", "layerwise": "ascend_layerwise"}

CONNECTORS = (
    # vllm/distributed/kv_transfer/kv_connector/v1/mooncake/mooncake_connector.py@v0.32.0: prefill registers with a
    # bootstrap server, decode asks it. Earlier releases have another request contract.
    Connector("MooncakeConnector", "vllm_cpu", "0.32.0", "pull", PREFILL, ("tcp", "rdma"), "mooncake"),
    # vllm_ascend/distributed/kv_transfer/kv_p2p/*.py. V1 and layerwise exist since 0.10.1rc1 and 0.11.0rc1, but before
    # 0.12.0rc1 they need kv_connector_module_path, a fixed engine_id, and number their ports otherwise.
    Connector("MooncakeConnectorV1", "vllm_ascend", "0.12.0rc1", "pull", PREFILL, ("ascend",), "nixl"),
    Connector("MooncakeHybridConnector", "vllm_ascend", "0.20.2rc1", "pull", PREFILL, ("ascend",), "nixl", hybrid=True),
    Connector("MooncakeLayerwiseConnector", "vllm_ascend", "0.12.0rc1", "push", DECODE, ("ascend",), "layerwise"),
)

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
