# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process of the Mooncake master."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils import mooncake
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import exact
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Health, Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Master, Topology
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

# mooncake-store/src/master.cpp: absent @v0.3.12.post1, in --help of 0.3.13.post1; an unknown flag ends the master.
_METRICS_HOST_SINCE = "0.3.13"
# mooncake-store/src/rpc_service.cpp: /health says only OK @v0.3.9, JSON with service_ready @v0.3.11
_SERVICE_READY_SINCE = "0.3.11"


def process(topology: Topology, master: Master) -> Process:
    """No log line proves the master: it writes "Master service started" before it binds anything."""
    address = topology.hosts[master.host].address
    release = topology.mooncake.version
    own_metrics_host = at_least(release, _METRICS_HOST_SINCE)
    return Process(
        name="master",
        kind="master",
        host=master.host,
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
