# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of the Mooncake master, and how clients of the store find the one that serves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils import etcd, mooncake
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import of_mooncake, pools
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import exact
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Health, Process, State
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Master, Topology
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

KIND = "master"
# The optional flags that a key of the topology stands for, by the first release that has them: DEFINE_* of
# mooncake-store/src/master.cpp at every tag from v0.3.7.post2 to v0.3.12.post1, and @3b5a594 for 0.3.13, which is not
# tagged there. A flag that the release does not know ends the master ("unknown command line flag", tried).
FLAGS = {
    "eviction_high_watermark_ratio": "0.0",
    "eviction_ratio": "0.0",
    "default_kv_lease_ttl": "0.0",
    "default_kv_soft_pin_ttl": "0.0",
    "allow_evict_soft_pinned_objects": "0.0",
    "client_ttl": "0.0",
    "put_start_discard_timeout_sec": "0.3.8",
    "put_start_release_timeout_sec": "0.3.8",
    "memory_allocator": "0.0",
    "allocation_strategy": "0.3.10",
    "rpc_thread_num": "0.0",
    "rpc_conn_timeout_seconds": "0.0",
    "rpc_enable_tcp_no_delay": "0.0",
    "enable_metric_reporting": "0.0",
    "enable_http_metadata_server": "0.0",
    "http_metadata_server_port": "0.0",
    "enable_metadata_cleanup_on_timeout": "0.3.12",
    "enable_snapshot": "0.3.10",
    "enable_snapshot_restore": "0.3.10",
    "snapshot_backup_dir": "0.3.10",
    "snapshot_interval_seconds": "0.3.10",
    "snapshot_child_timeout_seconds": "0.3.10",
    "snapshot_retention_count": "0.3.10",
    "enable_offload": "0.3.8",
    "offload_on_evict": "0.3.11",
    "offload_force_evict": "0.3.11",
    "offloading_queue_limit": "0.3.12",
    "offload_cap_ratio": "0.3.12",
    "promotion_on_hit": "0.3.11",
    "promotion_admission_threshold": "0.3.11",
    "promotion_queue_limit": "0.3.11",
    "promotion_max_per_heartbeat": "0.3.12",
    "enable_disk_eviction": "0.3.8",
}
# Values that a release passes over with a warning (master_config.h at the tags), by the first that takes them
STRATEGIES = {
    "random": "0.3.10",
    "free_ratio_first": "0.3.10",
    "ssd_free_ratio_first": "0.3.12",
    "local_first": "0.3.12",
}
# Keys that count only with another one
NEEDS = {
    **dict.fromkeys(("http_metadata_server_port",), "enable_http_metadata_server"),
    **dict.fromkeys(
        (
            *("enable_snapshot_restore", "snapshot_path", "snapshot_backup_dir", "snapshot_interval_seconds"),
            *("snapshot_child_timeout_seconds", "snapshot_retention_count"),
        ),
        "enable_snapshot",
    ),
    **dict.fromkeys(
        (
            *("offload_on_evict", "offload_force_evict", "offloading_queue_limit", "offload_cap_ratio"),
            *("promotion_on_hit", "promotion_admission_threshold", "promotion_queue_limit"),
            "promotion_max_per_heartbeat",
        ),
        "enable_offload",
    ),
}
# Before, the admin server belonged to the one that leads (ha_helper.cpp@v0.3.10), so nothing tells a standby from a
# master that is lost; since, all answer with their role (rpc_service.cpp@v0.3.11).
HA_SINCE = "0.3.11"
# master.cpp: absent @v0.3.12.post1, in --help of 0.3.13.post1
_METRICS_HOST_SINCE = "0.3.13"
# mooncake-store/src/rpc_service.cpp: /health says only OK @v0.3.9, JSON with service_ready @v0.3.11
_SERVICE_READY_SINCE = "0.3.11"
# local_file_snapshot_object_store.cpp; the flag is --snapshot_backend_type @v0.3.10
_SNAPSHOT_VARIABLE = "MOONCAKE_SNAPSHOT_LOCAL_PATH"
_SNAPSHOT_TYPE_SINCE = "0.3.10.post1"
# What client and master of HA call their cluster, read by both where --cluster_id is not (ha_helper.cpp up to 0.3.10,
# there "mooncake" by default) and by the client alone later (etcd_leader_coordinator.cpp; "mooncake" by default
# @v0.3.11, "mooncake_cluster" @3b5a594). So it is never left to a default.
CLUSTER_VARIABLE = "MC_STORE_CLUSTER_ID"
# Milliseconds that a client gives a master. Engines ask it in the thread that schedules (scheduler.py of the store
# connector of vLLM@v0.32.0), so they answer nobody meanwhile. 30 s each are the default; with them a call took 30 s to
# a master whose host had just gone, and the next ones 12 to 17 s on its network and 120 s from another one; with 3000
# and 1000 it was 3 s, then 4 s (tried with 0.3.13.post1). master_client.h: not read @v0.3.11.post1, read @v0.3.12.
RPC_VARIABLE, _RPC_TIMEOUT = "MC_RPC_TIMEOUT_MS", 5000
CONNECT_VARIABLE, _CONNECT_TIMEOUT = "MC_RPC_CONNECT_TIMEOUT_MS", 1000
_TIMEOUTS_SINCE = "0.3.12"


def address(topology: Topology) -> str:
    """Where clients of the store find the master (master_server_address): host:port, or etcd, which names the leader.

    "" when the plan has no master, or none that could be found.
    """
    master = topology.master
    if master is None:
        return ""
    if master.ha:
        # client_service.cpp, 0.3.7.post2 to 0.3.13: all behind etcd:// is handed to the client of etcd
        return f"etcd://{_etcd(topology)}" if topology.etcd else ""
    if not master.host or master.host not in topology.hosts:
        return ""
    return f"{topology.hosts[master.host].address}:{master.rpc_port}"


def client_environment(topology: Topology) -> dict[str, str]:
    """What every client of the store needs in its environment to find the master by address()."""
    master = topology.master
    return {CLUSTER_VARIABLE: master.cluster_id} if master and master.ha else {}


def client_limits(topology: Topology) -> dict[str, str]:
    """How long clients of the store wait for a master that does not answer, where the operator does not say."""
    if topology.master is None or not at_least(topology.mooncake.version, _TIMEOUTS_SINCE):
        return {}
    connect = {CONNECT_VARIABLE: str(_CONNECT_TIMEOUT)}
    # the same counts for what clients fetch from the disks of others
    disks = topology.store is not None and topology.store.offloads
    return connect if disks else {RPC_VARIABLE: str(_RPC_TIMEOUT), **connect}


def has_clients(topology: Topology) -> bool:
    """Whether anything keeps KV in Mooncake's store."""
    return topology.store is not None or any(pools(item) and of_mooncake(item) for item in topology.connector.also)


def offloads(topology: Topology, master: Master) -> bool:
    """Whether it knows of disks behind the memory: as asked for, else where the pool has one."""
    if master.enable_offload is not None:
        return master.enable_offload
    return bool(topology.store and topology.store.offloads)


def told(topology: Topology, master: Master) -> dict[str, Any]:
    """What others have to know: where it is, and how a client finds it."""
    first = master.places[0]
    return {
        # the only one, or the first of those that stand by for each other
        "host": first,
        "address": topology.hosts[first].address,
        "rpc_port": master.rpc_port,
        "metrics_port": master.metrics_port,
        "hosts": list(master.places),
        "ha": master.ha,
        # where each is asked how it is, by what the others call it when it leads
        "leaders": {
            f"{own}:{master.rpc_port}": f"http://{own}:{master.metrics_port}"
            for own in (topology.hosts[host].address for host in master.places if host in topology.hosts)
        },
        # whether anything in the plan is a client of the store
        "clients": has_clients(topology),
        "server_address": address(topology),
        "client_environment": {**client_limits(topology), **client_environment(topology)},
    }


def processes(topology: Topology, master: Master) -> list[Process]:
    return [_process(topology, master, host) for host in master.places if host in topology.hosts]


def _process(topology: Topology, master: Master, host: str) -> Process:
    """No log line proves the master: it writes "Master service started" before it binds anything."""
    own, release = topology.hosts[host].address, topology.mooncake.version
    own_metrics_host = at_least(release, _METRICS_HOST_SINCE)
    claims = [
        exact("master-rpc", own, master.rpc_port, f"{master.where}.rpc_port"),
        exact(
            "master-metrics",
            own if own_metrics_host else "0.0.0.0",
            master.metrics_port,
            f"{master.where}.metrics_port",
        ),
    ]
    if master.enable_http_metadata_server:
        # --http_metadata_server_host is told to nobody: it listens on all addresses (http_metadata_server.cpp@3b5a594)
        claims.append(
            exact(
                "master-metadata",
                "0.0.0.0",
                master.http_metadata_server_port,
                f"{master.where}.http_metadata_server_port",
            )
        )
    return Process(
        name=KIND,
        kind=KIND,
        host=host,
        where=master.where,
        description=f"Mooncake master of {topology.name}",
        argv=(
            "mooncake_master",
            *(f"--rpc_address={own}", f"--rpc_port={master.rpc_port}"),
            *((f"--metrics_host={own}",) if own_metrics_host else ()),
            f"--metrics_port={master.metrics_port}",
            *_ha(topology, master),
            *_flags(topology, master),
            *_snapshot(topology, master),
        ),
        environment={
            mooncake.RELEASE_VARIABLE: release,
            **client_environment(topology),
            **({_SNAPSHOT_VARIABLE: master.snapshot_path} if master.enable_snapshot and master.snapshot_path else {}),
        },
        timeout_stop=30,
        claims=tuple(claims),
        health=_health(topology, master, own),
    )


def _ha(topology: Topology, master: Master) -> tuple[str, ...]:
    if not master.ha:
        return (f"--cluster_id={master.cluster_id}",) if master.enable_snapshot else ()
    # --ha_backend_* are newer, and without them this one counts (ResolveHABackendConnstring in master.cpp)
    return "--enable_ha=true", f"--etcd_endpoints={_etcd(topology)}", f"--cluster_id={master.cluster_id}"


def _flags(topology: Topology, master: Master) -> tuple[str, ...]:
    master = replace(master, enable_offload=offloads(topology, master) or master.enable_offload)
    given = {name: getattr(master, name) for name in FLAGS if name not in NEEDS or getattr(master, NEEDS[name])}
    return tuple(f"--{name}={_spelt(value)}" for name, value in given.items() if value is not None)


def _spelt(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _snapshot(topology: Topology, master: Master) -> tuple[str, ...]:
    """Kept in a folder of the host; an object store would need keys in the environment."""
    if not master.enable_snapshot:
        return ()
    typed = at_least(topology.mooncake.version, _SNAPSHOT_TYPE_SINCE)
    return (f"--snapshot_{'object_store' if typed else 'backend'}_type=local",)


def _etcd(topology: Topology) -> str:
    return str(etcd.told(topology, topology.etcd)["connection"]) if topology.etcd else ""


def _health(topology: Topology, master: Master, own: str) -> Health:
    url = f"http://{own}:{master.metrics_port}/health"
    if not at_least(topology.mooncake.version, _SERVICE_READY_SINCE):
        return Health(url)
    if not master.ha:
        return Health(url, {"service_ready": True})
    # One that stands by opens no RPC port and keeps the name of a leader that it saw, also while etcd is away; then it
    # is a candidate most of the time (tried with 0.3.13.post1). A leader that is not of this plan is somebody else's.
    leaders = [f"{topology.hosts[host].address}:{master.rpc_port}" for host in master.places if host in topology.hosts]
    return Health(
        url,
        states=(
            State("leader", {"role": "leader", "service_ready": True}),
            State("standby", {"role": "standby", "ha_state": "standby", "leader_address": leaders}, ("master-rpc",)),
        ),
    )
