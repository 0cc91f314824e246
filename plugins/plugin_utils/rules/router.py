# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The front door speaks the contract of the connector."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils import router as routers
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import ROUTER_KINDS, Connector
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Topology


def check_router(topology: Topology, connector: Connector, report: Report) -> None:
    router = topology.router
    if router is None:
        return
    speaks = ROUTER_KINDS[connector.contract]
    if router.kind not in ("auto", speaks):
        report.error(
            "router-kind",
            f"{router.where}.kind",
            f"{router.kind} does not speak the contract of {connector.name}: requests would fail, or decode would "
            "compute the prompt again.",
            f"use {speaks} or auto.",
        )
    for name in ("backend_ports", "metrics_ports"):
        ports = getattr(router, name)
        if len(ports) != len(routers.BACKENDS):
            report.error(
                "router-backends",
                f"{router.where}.{name}",
                f"names {len(ports)} ports for {len(routers.BACKENDS)} router processes, which take turns at restarts.",
                f"name {len(routers.BACKENDS)} ports.",
            )
