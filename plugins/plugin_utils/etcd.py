# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The members of etcd, and how others are told to reach them.

What only a new member reads (--initial-*) is no part of the command: it changes with every member that comes or goes,
and would restart those that stay. The role gives it to a member that has no data yet.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import exact
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Health, Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Etcd, Topology

KIND = "etcd"


def processes(topology: Topology, etcd: Etcd) -> list[Process]:
    return [_process(topology, etcd, host) for host in dict.fromkeys(etcd.hosts) if host in topology.hosts]


def told(topology: Topology, etcd: Etcd) -> dict[str, Any]:
    """What others have to know: where it is, and who is in it."""
    members = [
        {
            "name": host,
            "address": topology.hosts[host].address,
            "client_url": client_url(topology, etcd, host),
            "peer_url": _url(topology, host, etcd.peer_port, secure=etcd.tls != "none"),
        }
        for host in etcd.hosts
        if host in topology.hosts
    ]
    endpoints = [member["client_url"] for member in members] or [with_scheme(end) for end in etcd.endpoints]
    return {
        "managed": bool(etcd.hosts),
        "members": members,
        "endpoints": endpoints,
        # --etcd_endpoints and etcd:// of Mooncake separate by semicolons (etcd_wrapper.go@v0.3.7.post2); no scheme
        # stands in it, for theirs is the one before all of them
        "connection": ";".join(end.partition("://")[2] for end in endpoints),
        "peer_tls": bool(etcd.hosts) and etcd.tls != "none",
        "client_tls": any(end.startswith("https:") for end in endpoints),
    }


def client_url(topology: Topology, etcd: Etcd, host: str) -> str:
    return _url(topology, host, etcd.client_port, secure=etcd.tls == "all")


def with_scheme(endpoint: str) -> str:
    return endpoint if "://" in endpoint else f"http://{endpoint}"


def _url(topology: Topology, host: str, port: int, *, secure: bool) -> str:
    return f"{'https' if secure else 'http'}://{topology.hosts[host].address}:{port}"


def _process(topology: Topology, etcd: Etcd, host: str) -> Process:
    """The log proves nothing that /health does not: it reads a key, for which there has to be a leader."""
    address = topology.hosts[host].address
    client, peer = client_url(topology, etcd, host), _url(topology, host, etcd.peer_port, secure=etcd.tls != "none")
    # a listener of its own, as the clients' asks for a certificate where there is TLS; it has no keys and no values
    metrics = _url(topology, host, etcd.metrics_port, secure=False)
    return Process(
        name=KIND,
        kind=KIND,
        host=host,
        where=etcd.where,
        description=f"etcd of {topology.name}",
        argv=(
            *("etcd", f"--name={host}"),
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
            *(f"--listen-peer-urls={peer}", f"--listen-metrics-urls={metrics}"),
        ),
        environment={},
        timeout_stop=30,
        claims=(
            exact("etcd-client", address, etcd.client_port, f"{etcd.where}.client_port"),
            exact("etcd-peer", address, etcd.peer_port, f"{etcd.where}.peer_port"),
            exact("etcd-metrics", address, etcd.metrics_port, f"{etcd.where}.metrics_port"),
        ),
        health=Health(f"{metrics}/health", {"health": "true"}),
    )
