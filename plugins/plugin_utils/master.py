# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process of the Mooncake master."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils import etcd, mooncake
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import exact
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Health, Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Master, Topology
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

# mooncake-store/src/master.cpp: absent @v0.3.12.post1, in --help of 0.3.13.post1; an unknown flag ends the master.
_METRICS_HOST_SINCE = "0.3.13"
# mooncake-store/src/rpc_service.cpp: /health says only OK @v0.3.9, JSON with service_ready @v0.3.11
_SERVICE_READY_SINCE = "0.3.11"


# What client and master of HA call their cluster, read by both where --cluster_id is not (ha_helper.cpp up to 0.3.10,
# there "mooncake" by default) and by the client alone later (etcd_leader_coordinator.cpp; "mooncake" by default
# @v0.3.11, "mooncake_cluster" @3b5a594). So it is never left to a default.
CLUSTER_VARIABLE = "MC_STORE_CLUSTER_ID"


def address(topology: Topology) -> str:
    """Where clients of the store find the master (master_server_address): host:port, or etcd, which names the leader.

    "" when the plan has no master, or none that could be found.
    """
    master = topology.master
    if master is None:
        return ""
    if master.ha:
        # client_service.cpp, 0.3.7.post2 to 0.3.13: all behind etcd:// is handed to the client of etcd
        return f"etcd://{etcd.told(topology, topology.etcd)['connection']}" if topology.etcd else ""
    if not master.host or master.host not in topology.hosts:
        return ""
    return f"{topology.hosts[master.host].address}:{master.rpc_port}"


def client_environment(topology: Topology) -> dict[str, str]:
    """What every client of the store needs in its environment to find the master by address()."""
    master = topology.master
    return {CLUSTER_VARIABLE: master.cluster_id} if master and master.ha else {}


def processes(topology: Topology, master: Master) -> list[Process]:
    return [_process(topology, master, host) for host in master.places if host in topology.hosts]


def _process(topology: Topology, master: Master, host: str) -> Process:
    """No log line proves the master: it writes "Master service started" before it binds anything."""
    address = topology.hosts[host].address
    release = topology.mooncake.version
    own_metrics_host = at_least(release, _METRICS_HOST_SINCE)
    return Process(
        name="master",
        kind="master",
        host=host,
        where=master.where,
        description=f"Mooncake master of {topology.name}",
        argv=(
            "mooncake_master",
            *(f"--rpc_address={address}", f"--rpc_port={master.rpc_port}"),
            *((f"--metrics_host={address}",) if own_metrics_host else ()),
            f"--metrics_port={master.metrics_port}",
        ),
        environment={mooncake.RELEASE_VARIABLE: release},
        timeout_stop=30,
        claims=(
            exact("master-rpc", address, master.rpc_port, f"{master.where}.rpc_port"),
            exact(
                "master-metrics",
                address if own_metrics_host else "0.0.0.0",
                master.metrics_port,
                f"{master.where}.metrics_port",
            ),
        ),
        health=Health(
            f"http://{address}:{master.metrics_port}/health",
            {"service_ready": True} if at_least(release, _SERVICE_READY_SINCE) else {},
        ),
    )
