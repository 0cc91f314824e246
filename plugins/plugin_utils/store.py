# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV pool in Mooncake's store: what workers are told of it, and the nodes that only bring memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils import layout, mooncake
from ansible_collections.mooncake.pd.plugins.plugin_utils import master as masters
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import Connector, joins_store
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import exact, pool
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import ConfigFile, Disk, LogLine, PoolShare, Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import (
    DECODE,
    PREFILL,
    Instance,
    Ssd,
    Store,
    StoreNode,
    Topology,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

KIND = "store"
# clients find each other through the master, so no other service of metadata is needed
METADATA = "P2PHANDSHAKE"
CONFIG_VARIABLE = "MOONCAKE_CONFIG_PATH"
FABRIC_VARIABLE = "ASCEND_ENABLE_USE_FABRIC_MEM"
# A path of the plan, which tells another content by another name. Variables such as host_config_dir are Ansible's and
# unknown to it, so this folder does not move with them; its documents say so.
CONFIG_DIR = "/etc/mooncake-pd/pool"
# What wins over the file or beside it, and the key of each. mooncake_backend.py of vLLM-Ascend@v0.23.0,
# mooncake_config.py of Mooncake@v0.3.11, file_storage_config and storage_backend.cpp@v0.3.11.
PLANNED_VARIABLES = {
    CONFIG_VARIABLE: "store",
    "MOONCAKE_MASTER": "master",
    masters.CLUSTER_VARIABLE: "master",
    "MOONCAKE_GLOBAL_SEGMENT_SIZE": "store.segment_size",
    "MOONCAKE_LOCAL_BUFFER_SIZE": "store.buffer_size",
    "MOONCAKE_PROTOCOL": "store.protocol",
    "MOONCAKE_DEVICE": "store.devices",
    "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH": "ssd.path",
    "MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES": "ssd.quota",
    "MOONCAKE_OFFLOAD_BUCKET_MAX_TOTAL_SIZE": "ssd.quota",
    "MOONCAKE_BUCKET_MAX_TOTAL_SIZE": "ssd.quota",
}
# vllm_ascend/distributed/mooncake/config_data.py@v0.11.0: it asks for these two, releases since 0.12.0rc1 do not
_HOSTNAME_UNTIL = "0.12.0rc1"
# Beside the segment, a client with a disk has a buffer of MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES, 1280 MiB when
# nobody says, and one of 32 MiB (seen with 0.3.13.post1)
_DISK_BUFFER_VARIABLE, _DISK_BUFFER, _DISK_SCRATCH = "MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES", 1280 << 20, 32 << 20
# transfer_engine_impl.cpp and topology.cpp of 0.3.13.post1: without an adapter a client goes on with TCP and says so
# in lines of level W and I only
FALLBACK = r"Found 0 HCAs|No RDMA devices found|TcpTransport: listen on port"


def protocol(topology: Topology, connector: Connector) -> str:
    """That of the pool; by default what KV takes from prefill to decode."""
    given = topology.store.protocol if topology.store else None
    return given or topology.connector.protocol or connector.protocols[0]


def joined(topology: Topology, kind: str) -> Store | None:
    """The store, when the plan writes the configuration of the workers of that side."""
    return topology.store if joins_store(topology, kind) else None


def environment(topology: Topology, instance: Instance, connector: Connector, host: str) -> dict[str, str]:
    """What a worker needs to find its configuration and the master."""
    store = joined(topology, instance.kind)
    if store is None:
        return {}
    (config,) = files(topology, instance, connector, host)
    disk = _disk_environment(store.ssd, path=False) if store.ssd else {}
    given = {**topology.engine_environment, **instance.environment}
    limits = {name: value for name, value in masters.client_limits(topology).items() if name not in given}
    return {CONFIG_VARIABLE: config.path, **limits, **masters.client_environment(topology), **disk}


def files(topology: Topology, instance: Instance, connector: Connector, host: str) -> tuple[ConfigFile, ...]:
    """mooncake.json of a process. Its path tells its content, so another content is another unit, and the unit that
    ran before still finds its own."""
    store = joined(topology, instance.kind)
    if store is None:
        return ()
    text = json.dumps(_config(topology, store, instance, connector, host), indent=2, sort_keys=True) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return (ConfigFile(f"{CONFIG_DIR}/mooncake-{digest}.json", text),)


def _config(
    topology: Topology, store: Store, instance: Instance, connector: Connector, host: str
) -> dict[str, str | int | bool]:
    segment = store.segment(instance.kind)
    common: dict[str, str | int | bool] = {
        "metadata_server": METADATA,
        "master_server_address": masters.address(topology),
        "protocol": protocol(topology, connector),
        "device_name": ",".join(store.devices),
        "global_segment_size": segment,
        "local_buffer_size": store.buffer(instance.kind),
    }
    if connector.engine == "vllm_cpu":
        # vllm/distributed/mooncake_store.py@v0.32.0: a worker without a segment has to say that others bring it
        mode = "embedded" if segment else "standalone-store"
        return {**common, "mode": mode, "enable_offload": any(node.ssd for node in store.nodes)}
    if not at_least(topology.engine.version, _HOSTNAME_UNTIL):
        return {**common, "local_hostname": topology.hosts[host].address, "use_ascend_direct": True}
    if store.ssd:
        return {**common, "enable_ssd_offload": True, "ssd_offload_path": store.ssd.path}
    return common


def share(topology: Topology, instance: Instance, ranks: int) -> PoolShare | None:
    """What a process of so many ranks takes of its host."""
    store = joined(topology, instance.kind)
    if store is None:
        return None
    variables = {**topology.engine_environment, **instance.environment}
    workers = ranks * layout.workers(instance)
    # with fabric memory there is no buffer (mooncake_backend.py@v0.23.0)
    buffer = 0 if variables.get(FABRIC_VARIABLE) == "1" else store.buffer(instance.kind)
    each = store.segment(instance.kind) + buffer + _disk_memory(store.ssd, variables)
    disk = Disk(store.ssd.path, store.ssd.quota * workers) if store.ssd else None
    return PoolShare(workers * each, disk)


def processes(topology: Topology, store: Store, connector: Connector) -> list[Process]:
    first = {node.host: node for node in reversed(store.nodes) if node.host in topology.hosts}
    return [_process(topology, store, node, connector) for node in store.nodes if first.get(node.host) is node]


def _process(topology: Topology, store: Store, node: StoreNode, connector: Connector) -> Process:
    """No health is asked: mooncake_client has none before 0.3.13, and its RPC port opens last of all."""
    address = topology.hosts[node.host].address
    release = topology.mooncake.version
    variables = {
        **masters.client_limits(topology),
        **store.environment,
        **masters.client_environment(topology),
        **(_disk_environment(node.ssd) if node.ssd else {}),
        mooncake.RELEASE_VARIABLE: release,
    }
    disk = Disk(node.ssd.path, node.ssd.quota) if node.ssd else None
    return Process(
        name=KIND,
        kind=KIND,
        host=node.host,
        where=node.where,
        description=f"Mooncake store node of {topology.name}",
        argv=(
            "mooncake_client",
            *(f"--host={address}", f"--port={node.port}"),
            *(f"--metadata_server={METADATA}", f"--master_server_address={masters.address(topology)}"),
            f"--protocol={protocol(topology, connector)}",
            *((f"--device_names={','.join(store.devices)}",) if store.devices else ()),
            f"--global_segment_size={node.segment_size}",
            *(("--enable_offload=true",) if node.ssd else ()),
        ),
        environment=dict(sorted(variables.items())),
        timeout_stop=30,
        claims=(
            exact("store-rpc", address, node.port, f"{node.where}.port"),
            *mooncake.rpc_pool(release, variables, f"{store.where}.environment"),
            *pool("store-client", [mooncake.store_span(variables)], f"{store.where}.environment"),
        ),
        health=None,
        # written when the segment is mounted; the port, which wait_ready asks for, opens after it
        lines=(
            LogLine(rf"Starting real client service on {address}:{node.port}\b", text="Starting real client service"),
        ),
        pool=PoolShare(node.segment_size + _disk_memory(node.ssd, store.environment), disk),
    )


def _disk_environment(ssd: Ssd, path: bool = True) -> dict[str, str]:
    """Both limits: the one is told to the master as the capacity, the other is what the files are kept below. With
    neither, the files may fill 90 % of the disk."""
    return {
        **({"MOONCAKE_OFFLOAD_FILE_STORAGE_PATH": ssd.path} if path else {}),
        "MOONCAKE_OFFLOAD_BUCKET_MAX_TOTAL_SIZE": str(ssd.quota),
        "MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES": str(ssd.quota),
        # its documents say once that fifo is the default and once that nothing is evicted
        "MOONCAKE_OFFLOAD_BUCKET_EVICTION_POLICY": "lru",
    }


def _disk_memory(ssd: Ssd | None, variables: Mapping[str, str]) -> int:
    if ssd is None:
        return 0
    given = variables.get(_DISK_BUFFER_VARIABLE, "")
    return (int(given) if given.isdecimal() else _DISK_BUFFER) + _DISK_SCRATCH


def told(topology: Topology, store: Store, connector: Connector) -> dict[str, Any]:
    """What others have to know: how a client gets in, and who brings how much."""
    chosen = protocol(topology, connector)
    workers = [
        (item.name, layout.workers(item) * item.dp * store.segment(item.kind))
        for item in topology.instances
        if joins_store(topology, item.kind)
    ]
    return {
        "metadata_server": METADATA,
        "server_address": masters.address(topology),
        "environment": {**masters.client_limits(topology), **masters.client_environment(topology)},
        "protocol": chosen,
        "devices": list(store.devices),
        "fallback": FALLBACK if chosen == "rdma" else "",
        "nodes": [{"host": node.host, "port": node.port, "bytes": node.segment_size} for node in store.nodes],
        "bytes": sum(size for _name, size in workers) + sum(node.segment_size for node in store.nodes),
        "sides": [kind for kind in (PREFILL, DECODE) if joins_store(topology, kind)],
    }
