# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a topology to the plan: every process, its command, its ports, and what Ansible is told about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils import engine_lock, mooncake
from ansible_collections.mooncake.pd.plugins.plugin_utils import etcd as etcds
from ansible_collections.mooncake.pd.plugins.plugin_utils import master as masters
from ansible_collections.mooncake.pd.plugins.plugin_utils import router as routers
from ansible_collections.mooncake.pd.plugins.plugin_utils import store as stores
from ansible_collections.mooncake.pd.plugins.plugin_utils.choices import Choice
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import TRANSPORT_LINES, Connector
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines.kinds import ENGINES
from ansible_collections.mooncake.pd.plugins.plugin_utils.lines import line_map
from ansible_collections.mooncake.pd.plugins.plugin_utils.needed_files import mounts, needed_files
from ansible_collections.mooncake.pd.plugins.plugin_utils.peers import Peers
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import pool
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.catalogue import RULES as PREFLIGHT
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError, Problem, Report, Waived
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Endpoint, Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.rules import (
    connector as connector_rules,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.rules import (
    devices,
    knowledge,
    placement,
    ports,
    settings,
    shapes,
    waivers,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.rules import (
    etcd as etcd_rules,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.rules import (
    master as master_rules,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.rules import (
    router as router_rules,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.rules import (
    store as store_rules,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import (
    DECODE,
    PREFILL,
    Instance,
    Reading,
    Topology,
    read_topology,
)


@dataclass(frozen=True)
class Plan:
    topology: Topology
    connector: Connector
    processes: Mapping[str, tuple[Process, ...]]  # by host
    endpoints: Mapping[str, tuple[Endpoint, ...]]  # by instance
    choices: tuple[Choice, ...]
    warnings: tuple[Problem, ...]
    waived: tuple[Waived, ...]

    def hostvars(self, host: str) -> dict[str, Any]:
        machine = self.topology.hosts[host]
        processes = self.processes.get(host, ())
        planned = {
            "name": host,
            "address": machine.address,
            "interface": machine.interface,
            "generation": self.topology.generation(host),
            "chips": self.topology.chips(host),
            "processes": [process.as_dict() for process in processes],
            "pools": _pools(processes),
            "peers": self._peers.of(host),
            "files": needed_files(self.topology.model.path, processes),
            "mounts": mounts(self.topology.model.path, processes),
        }
        return {"ansible_host": machine.address, "pd_host": planned}

    @cached_property
    def _peers(self) -> Peers:
        return Peers(self.topology, self.processes)

    def groups(self) -> dict[str, list[str]]:
        """Every group and its hosts in the order of the file; a group without hosts is there too."""
        topology = self.topology
        sides = {
            kind: _unique(host for instance in topology.side(kind) for host in instance.places)
            for kind in (PREFILL, DECODE)
        }
        return {
            "pd": list(topology.hosts),
            "engine": _unique([*sides[PREFILL], *sides[DECODE]]),
            **sides,
            "router": [topology.router.host] if topology.router else [],
            "master": list(topology.master.places) if topology.master else [],
            "etcd": list(topology.etcd.hosts) if topology.etcd else [],
            "store": _unique(node.host for node in topology.store.nodes) if topology.store else [],
            **{f"{placement.INSTANCE_GROUP}{item.name}": list(item.places) for item in topology.instances},
        }

    def cluster(self) -> dict[str, Any]:
        """What is told to every host, so nothing in it may grow with the number of hosts."""
        topology, connector = self.topology, self.connector
        protocol = topology.connector.protocol or connector.protocols[0]
        return {
            "name": topology.name,
            "source": topology.source,
            "engine": self._engine(),
            "mooncake": {"version": topology.mooncake.version},
            "hardware": self._hardware(),
            "model": {"path": topology.model.path, "served_name": topology.model.served_name},
            "connector": {
                "name": connector.name,
                "protocol": protocol,
                "transfer": connector.transfer,
                "binds": connector.binds,
                "transport_lines": TRANSPORT_LINES[protocol],
                "proof_protocols": mooncake.proof_protocols(topology.mooncake.version, protocol),
            },
            "abort_timeout": topology.abort_timeout,
            "drain_timeout": topology.drain_timeout,
            "master": masters.told(topology, topology.master) if topology.master else None,
            "etcd": etcds.told(topology, topology.etcd) if topology.etcd else None,
            "store": stores.told(topology, topology.store, connector) if topology.store else None,
            "router": self._router(),
            "environment": vllm.shared_environment(topology),
            "planned_variables": sorted(settings.unalterable(topology)),
            "preflight_waivers": [
                {"rule": waiver.rule, "host": waiver.host, "fact": waiver.where, "reason": waiver.reason}
                for waiver in topology.waive
                if waiver.rule in PREFLIGHT
            ],
        }

    def instances(self) -> list[dict[str, Any]]:
        return [self._instance(instance) for instance in self.topology.instances]

    def _engine(self) -> dict[str, Any]:
        kind, version = self.topology.engine.kind, self.topology.engine.version
        return {
            "kind": kind,
            "version": version,
            "lock": engine_lock.lock(kind, version, self.topology.mooncake.version),
            "requires": engine_lock.requires(kind, version),
        }

    def _hardware(self) -> dict[str, Any] | None:
        hardware = self.topology.hardware
        if hardware is None:
            return None
        return {"generation": hardware.generation, "chips": hardware.chips_per_host}

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
            "hosts": list(instance.places),
            "shape": {
                **{size: getattr(instance, size) for size in ("dp", "tp", "pp", "pcp", "dcp")},
                "data_parallel": self.topology.style(instance),
                "kv_port": ENGINES[self.topology.engine.kind].kv_port(self.topology, instance),
            },
            "api_urls": [endpoint.url for endpoint in endpoints],
            "bootstrap_urls": [vllm.url(end.address, end.bootstrap) for end in endpoints if end.bootstrap],
        }


def plan_of(raw: Any, text: str, source: str) -> Plan:
    """The plan of a file: what was loaded from it, and its text, which tells the lines. PlanError as build_plan()."""
    # a file encrypted as a whole has no lines that would help
    lines, twice = line_map("" if text.startswith("$ANSIBLE_VAULT") else text)
    return build_plan(read_topology(raw, source, lines, twice))


def build_plan(reading: Reading) -> Plan:
    """The plan of what read_topology() returned; PlanError with every problem when it cannot be one. Pure."""
    report = Report(reading.source, reading.lines, list(reading.problems))
    topology = reading.topology
    connector = connector_rules.check_connector(topology, report) if topology else None
    processes: list[Process] = []
    choices: list[Choice] = []
    if topology:
        connector_rules.check_releases(topology, report)
        placement.check_hosts(topology, report)
        placement.check_placement(reading, topology, report)
        etcd_rules.check_etcd(topology, report)
        master_rules.check_master(topology, report)
    if topology and connector:
        shapes.check_shapes(topology, connector, report)
        settings.check_settings(topology, connector, report)
        knowledge.check_knowledge(topology, connector, report)
        router_rules.check_router(topology, connector, report)
        store_rules.check_store(topology, connector, report)
        if connector.engine == "vllm_ascend":
            devices.check_devices(topology, report)
        processes = _processes(topology, connector)
        # ports follow devices, so instances that quarrel about those would be told twice
        if not any(problem.rule in ("devices-overlap", "devices-count", "instance-host") for problem in report.found):
            ports.check_ports(processes, report)
        choices = [
            item
            for one in topology.instances
            if not devices.is_absurd(one)
            for item in ENGINES[topology.engine.kind].choices(topology, one)
        ]
    if topology:
        waivers.apply_waivers(topology, report)
    report.raise_errors()
    if topology is None or connector is None:  # never: without either there is an error, raised above
        raise PlanError(report.source, report.found)
    by_host: dict[str, list[Process]] = defaultdict(list)
    for process in processes:
        by_host[process.host].append(process)
    return Plan(
        topology,
        connector,
        {host: tuple(own) for host, own in by_host.items()},
        _endpoints(processes),
        tuple(choices),
        report.warnings,
        tuple(report.waived),
    )


def _processes(topology: Topology, connector: Connector) -> list[Process]:
    """All processes whose host is known, in the order of the file."""
    engine = ENGINES[topology.engine.kind]
    processes: list[Process] = []
    for instance in topology.instances:
        if devices.is_absurd(instance):
            continue
        processes += engine.processes(topology, instance, connector)
    ends = {
        kind: [process.endpoint for process in processes if process.kind == kind and process.endpoint]
        for kind in (PREFILL, DECODE)
    }
    if topology.etcd:
        processes += etcds.processes(topology, topology.etcd)
    if topology.master:
        processes += masters.processes(topology, topology.master)
    if topology.store:
        processes += stores.processes(topology, topology.store, connector)
    router = topology.router
    complete = (
        router and router.host in topology.hosts and min(len(router.backend_ports), len(router.metrics_ports)) >= 2
    )
    if router and complete:
        processes += routers.processes(topology, router, connector, ends[PREFILL], ends[DECODE])
    return processes


def _endpoints(processes: Iterable[Process]) -> dict[str, tuple[Endpoint, ...]]:
    found: dict[str, tuple[Endpoint, ...]] = defaultdict(tuple)
    for process in processes:
        if process.instance and process.endpoint:
            found[process.instance] += (process.endpoint,)
    return dict(found)


def _pools(processes: Iterable[Process]) -> list[dict[str, Any]]:
    """Where the processes of a host draw ports from at random."""
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for process in processes:
        for claim in process.claims:
            if claim.kind == "pool":
                spans[claim.purpose].append((claim.first, claim.last))
    merged = (claim for purpose, own in spans.items() for claim in pool(purpose, own, ""))
    return [{"purpose": claim.purpose, "first": claim.first, "last": claim.last} for claim in merged]


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
