# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV pool has a master, memory, and clients that understand each other."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import Connector, joins_store, of_mooncake, pools
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.releases import vllm_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import (
    DECODE,
    PREFILL,
    Ssd,
    Store,
    Topology,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.store import FABRIC_VARIABLE, protocol
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.values import check_variable
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

_GIB = 1 << 30
# mooncake-store/src/real_client_main.cpp at the tags: no such program before, and it binds 127.0.0.1 whatever --host is
_NODE_SINCE, _NODE_BINDS_SINCE = "0.3.8", "0.3.10.post2"
# storage_backend.cpp and store_py.cpp at the tags: no limit of what the files take, no option of setup() before
_DISK_SINCE = "0.3.11"
# mooncake_backend.py of vLLM-Ascend at the tags
_WORKER_DISK_SINCE = "0.21.0rc1"
# kvcache-ai/Mooncake#1382: max_mr_size of adapters
_LARGE = 64 * _GIB
_BUCKET = 256 << 20  # MOONCAKE_OFFLOAD_BUCKET_SIZE_LIMIT_BYTES (storage_backend.cpp@v0.3.11)
# folders that are memory, or are emptied, on common systems
_FLEETING = ("/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp")


def check_store(topology: Topology, connector: Connector, report: Report) -> None:
    store = topology.store
    if store is None:
        return
    if topology.master is None:
        report.error(
            "store-master",
            store.where,
            "has no master: a client asks it for every key, tries for 90 seconds and ends.",
            "add master.",
        )
    if _check_users(topology, store, report):
        _check_segments(topology, connector, store, report)
    _check_release(topology, store, report)
    _check_nodes(store, report)
    _check_protocol(topology, connector, store, report)
    for where, ssd in _disks(store):
        _check_disk(where, ssd, report)
    if store.ssd:
        _check_worker_disk(topology, report)
    releases = {"vllm": topology.engine.version, "mooncake": topology.mooncake.version}
    if topology.engine.kind == "vllm_ascend":
        releases = {**releases, "vllm": vllm_of(topology.engine.version)}
    for name, value in store.environment.items():
        for finding in check_variable(name, value, releases):
            report.add(
                finding.rule, finding.severity, f"{store.where}.environment.{name}", finding.message, finding.fix
            )


def _disks(store: Store) -> Iterator[tuple[str, Ssd]]:
    if store.ssd:
        yield store.ssd.where, store.ssd
    yield from ((node.ssd.where, node.ssd) for node in store.nodes if node.ssd)


def _check_users(topology: Topology, store: Store, report: Report) -> bool:
    """Whether the pool is one of Mooncake."""
    for companion in topology.connector.also:
        if pools(companion) and not of_mooncake(companion):
            report.error(
                "store-backend",
                f"{companion.where}.extra_config.backend",
                f"is {companion.extra_config['backend']}, so nothing would be written to Mooncake's store.",
                "remove it, or remove store.",
            )
            return False
    if not any(joins_store(topology, kind) for kind in (PREFILL, DECODE)):
        name = "MooncakeStoreConnector" if topology.engine.kind == "vllm_cpu" else "AscendStoreConnector"
        report.warning(
            "store-idle",
            store.where,
            "is used by no engine: connector.also names no connector for a pool.",
            f"add `- {{name: {name}}}` to connector.also, or waive this when others than these engines use it.",
        )
    return True


def _check_release(topology: Topology, store: Store, report: Report) -> None:
    release = topology.mooncake.version
    needed = [
        (bool(store.nodes), _NODE_SINCE, "has no mooncake_client, the program of a store node"),
        (bool(store.nodes), _NODE_BINDS_SINCE, "lets a store node listen on 127.0.0.1 only"),
        (store.offloads, _DISK_SINCE, "keeps files on a disk below no quota"),
    ]
    for wanted, since, what in needed:
        if wanted and not at_least(release, since):
            report.error("store-release", "mooncake.version", f"{release} {what}.", f"use {since} or later.")
            return


def _check_nodes(store: Store, report: Report) -> None:
    seen: dict[str, str] = {}
    for node in store.nodes:
        twin = seen.setdefault(node.host, node.where)
        if twin != node.where:
            report.error(
                "store-host",
                f"{node.where}.host",
                f"{node.host} has a node already ({twin}), and both would be one unit.",
                "give one node the memory of both.",
            )


def _check_segments(topology: Topology, connector: Connector, store: Store, report: Report) -> None:
    sizes = {
        (
            f"{store.where}.{kind}.segment_size" if getattr(store, kind) else f"{store.where}.segment_size"
        ): store.segment(kind)
        for kind in (PREFILL, DECODE)
        if joins_store(topology, kind)
    }
    if not store.nodes and not any(sizes.values()):
        report.error(
            "store-empty",
            f"{store.where}.segment_size",
            "is 0 and there are no nodes, so every put ends with NO_AVAILABLE_HANDLE (-200).",
            "give the workers a segment, or add nodes.",
        )
    fabric = any(
        {**topology.engine_environment, **instance.environment}.get(FABRIC_VARIABLE) == "1"
        for instance in topology.instances
    )
    if fabric:
        for where, size in sizes.items():
            if size % _GIB:
                report.error(
                    "store-segment",
                    where,
                    f"is {size} bytes, but {FABRIC_VARIABLE} takes whole GiB (kv_pool.md of vLLM-Ascend).",
                    f"write {max(-(-size // _GIB), 1)}GiB.",
                )
    if protocol(topology, connector) == "rdma":
        large = {**sizes, **{f"{node.where}.segment_size": node.segment_size for node in store.nodes}}
        for where, size in large.items():
            if size > _LARGE:
                report.warning(
                    "store-segment-large",
                    where,
                    f"is {size >> 30} GiB; adapters with max_mr_size 64 GiB refuse it with 'Out of mr size' "
                    "(Mooncake#1382).",
                    "look at max_mr_size of ibv_devinfo -v, and waive this where it is larger.",
                )


def _check_protocol(topology: Topology, connector: Connector, store: Store, report: Report) -> None:
    chosen = protocol(topology, connector)
    at = f"{store.where}.protocol"
    ascend = topology.engine.kind == "vllm_ascend"
    if ascend != (chosen == "ascend"):
        report.error(
            "store-protocol",
            at,
            f"is {chosen}; the workers of {topology.engine.kind} "
            + ("have no other than ascend." if ascend else "have no NPUs for it."),
            "leave the key out." if ascend else "write tcp or rdma.",
        )
    transport = topology.connector.protocol or connector.protocols[0]
    if not ascend and chosen != transport and "ascend" not in (chosen, transport):
        report.error(
            "store-transport",
            at,
            f"is {chosen}, while KV goes from prefill to decode over {transport}: nobody could tell from a log whether "
            "that one fell back.",
            "leave the key out.",
        )
    if chosen == "ascend" and store.nodes:
        report.error(
            "store-node-npu",
            f"{store.where}.nodes",
            "AscendDirectTransport belongs to an NPU of the process, and mooncake_client takes none. Nobody "
            "has shown a store node of this kind.",
            "let the workers bring the memory (segment_size), or prove it on your hardware and waive this.",
        )
    if store.devices and chosen != "rdma":
        report.warning(
            "store-devices", f"{store.where}.devices", f"has no effect with {chosen}.", "remove it, or use rdma."
        )


def _check_disk(where: str, ssd: Ssd, report: Report) -> None:
    path = ssd.path
    plain = path.startswith("/") and posixpath.normpath(path) == path and path != "/"
    if not plain or path.split() != [path]:
        report.error(
            "store-ssd-path",
            f"{where}.path",
            f"{path!r} is no plain absolute folder; the store refuses what is relative or has .. in it.",
            "write it like /data/kv.",
        )
    elif posixpath.dirname(path) == "/":
        report.error(
            "store-ssd-path",
            f"{where}.path",
            f"{path} lies in / itself: others have their folders there, and a disk that is not mounted is not seen.",
            f"name a folder below it, like {path}/kv.",
        )
    elif any(path == folder or path.startswith(f"{folder}/") for folder in _FLEETING):
        report.error(
            "store-ssd-path",
            f"{where}.path",
            f"{path} is memory, or is emptied by the system.",
            "name a folder on the disk.",
        )
    if ssd.quota < _BUCKET:
        report.error(
            "store-ssd-quota",
            f"{where}.quota",
            f"is {ssd.quota} bytes, less than the 256 MiB of one file of the store.",
            "give it 1GiB or more.",
        )


def _check_worker_disk(topology: Topology, report: Report) -> None:
    engine, at = topology.engine, f"{topology.store.where}.ssd" if topology.store else ""
    if engine.kind == "vllm_cpu":
        report.error(
            "store-ssd-engine",
            at,
            "workers of vLLM have no disk (vllm/distributed/mooncake_store.py@v0.32.0), only nodes have.",
            "move it to nodes.",
        )
    elif not at_least(engine.version, _WORKER_DISK_SINCE):
        report.error(
            "store-ssd-engine",
            at,
            f"vLLM-Ascend {engine.version} does not read it.",
            f"use {_WORKER_DISK_SINCE} or later, or remove it.",
        )
