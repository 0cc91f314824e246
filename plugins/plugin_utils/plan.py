# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a topology to the plan: every process, its command, its ports, and what Ansible is told about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils import master as masters
from ansible_collections.mooncake.pd.plugins.plugin_utils import router as routers
from ansible_collections.mooncake.pd.plugins.plugin_utils import rules
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import TRANSPORT_LINES, Connector
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines.kinds import ENGINES
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError, Problem, Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import (
    DECODE,
    PREFILL,
    Instance,
    Reading,
    Topology,
)


@dataclass(frozen=True)
class Plan:
    topology: Topology
    connector: Connector
    processes: Mapping[str, tuple[Process, ...]]  # by host
    endpoints: Mapping[str, tuple[routers.Endpoint, ...]]  # by instance
    warnings: tuple[Problem, ...]

    def hostvars(self, host: str) -> dict[str, Any]:
        address = self.topology.hosts[host].address
        processes = [process.as_dict() for process in self.processes.get(host, ())]
        return {"ansible_host": address, "pd_host": {"name": host, "address": address, "processes": processes}}

    def groups(self) -> dict[str, list[str]]:
        """Every group and its hosts in the order of the file; a group without hosts is there too."""
        topology = self.topology
        sides = {kind: _unique(instance.host for instance in topology.side(kind)) for kind in (PREFILL, DECODE)}
        return {
            "pd": list(topology.hosts),
            "engine": _unique([*sides[PREFILL], *sides[DECODE]]),
            **sides,
            "router": [topology.router.host] if topology.router else [],
            "master": [topology.master.host] if topology.master else [],
            **{f"{rules.INSTANCE_GROUP}{instance.name}": [instance.host] for instance in topology.instances},
        }

    def cluster(self) -> dict[str, Any]:
        topology, connector = self.topology, self.connector
        protocol = topology.connector.protocol or connector.protocols[0]
        return {
            "name": topology.name,
            "source": topology.source,
            "engine": {"kind": topology.engine.kind, "version": topology.engine.version},
            "mooncake": {"version": topology.mooncake.version},
            "model": {"path": topology.model.path, "served_name": topology.model.served_name},
            "connector": {
                "name": connector.name,
                "protocol": protocol,
                "transfer": connector.transfer,
                "binds": connector.binds,
                "transport_lines": TRANSPORT_LINES[protocol],
            },
            "abort_timeout": topology.abort_timeout,
            "drain_timeout": topology.drain_timeout,
            "master": self._master(),
            "router": self._router(),
            "instances": [self._instance(instance) for instance in topology.instances],
            "warnings": [problem.as_dict() for problem in self.warnings],
        }

    def _master(self) -> dict[str, Any] | None:
        master = self.topology.master
        if master is None:
            return None
        return {
            "host": master.host,
            "address": self.topology.hosts[master.host].address,
            "rpc_port": master.rpc_port,
            "metrics_port": master.metrics_port,
        }

    def _router(self) -> dict[str, Any] | None:
        router = self.topology.router
        if router is None:
            return None
        address = self.topology.hosts[router.host].address
        behind = routers.backend_address(self.topology, router, self.connector)
        return {
            "kind": routers.kind_of(router, self.connector),
            "contract": self.connector.contract,
            "host": router.host,
            "address": address,
            "port": router.port,
            "url": vllm.url(address, router.port),
            "backends": [
                {"name": name, "address": behind, "port": port}
                for name, port in zip(routers.BACKENDS, router.backend_ports, strict=True)
            ],
        }

    def _instance(self, instance: Instance) -> dict[str, Any]:
        endpoints = self.endpoints[instance.name]
        return {
            "name": instance.name,
            "kind": instance.kind,
            "hosts": [instance.host],
            "api_urls": [endpoint.url for endpoint in endpoints],
            "bootstrap_urls": [vllm.url(end.address, end.bootstrap) for end in endpoints if end.bootstrap],
        }


def build_plan(reading: Reading) -> Plan:
    """The plan of what read_topology() returned; PlanError with every problem when it cannot be one. Pure."""
    report = Report(reading.source, reading.lines, list(reading.problems))
    topology = reading.topology
    connector = rules.check_connector(topology, report) if topology else None
    processes: list[Process] = []
    endpoints: dict[str, tuple[routers.Endpoint, ...]] = {}
    if topology:
        rules.check_hosts(topology, report)
        rules.check_placement(reading, topology, report)
    if topology and connector:
        rules.check_shapes(topology, connector, report)
        rules.check_settings(topology, connector, report)
        rules.check_router(topology, connector, report)
        if connector.engine == "vllm_ascend":
            rules.check_devices(topology, report)
        processes, endpoints = _processes(topology, connector)
        rules.check_ports(processes, report)
    report.raise_errors()
    if topology is None or connector is None:  # never: without either there is an error, raised above
        raise PlanError(report.source, report.found)
    by_host: dict[str, list[Process]] = defaultdict(list)
    for process in processes:
        by_host[process.host].append(process)
    return Plan(topology, connector, {host: tuple(own) for host, own in by_host.items()}, endpoints, report.warnings)


def _processes(
    topology: Topology, connector: Connector
) -> tuple[list[Process], dict[str, tuple[routers.Endpoint, ...]]]:
    """All processes whose host is known, in the order of the file, and the endpoints of each instance."""
    engine = ENGINES[topology.engine.kind]
    processes: list[Process] = []
    endpoints: dict[str, tuple[routers.Endpoint, ...]] = {}
    ends: dict[str, list[routers.Endpoint]] = {PREFILL: [], DECODE: []}
    for instance in topology.instances:
        if instance.host not in topology.hosts:
            continue
        processes += engine.processes(topology, instance, connector)
        address, port = topology.hosts[instance.host].address, vllm.api_port(instance)
        bootstrap = engine.bootstrap_port(instance, connector)
        endpoints[instance.name] = tuple(
            routers.Endpoint(address, port + rank, bootstrap) for rank in range(instance.dp)
        )
        ends[instance.kind] += endpoints[instance.name]
    if topology.master and topology.master.host in topology.hosts:
        processes.append(masters.process(topology, topology.master))
    router = topology.router
    complete = (
        router and router.host in topology.hosts and min(len(router.backend_ports), len(router.metrics_ports)) >= 2
    )
    if router and complete:
        processes += routers.processes(topology, router, connector, ends[PREFILL], ends[DECODE])
    return processes, endpoints


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
