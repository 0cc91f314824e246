# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin: reads topology.yml and hands the plan to Ansible."""

from __future__ import annotations

DOCUMENTATION = r"""
name: topology
short_description: Plan a prefill/decode-disaggregated cluster from one file
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Reads a file that ends in C(topology.yml) or C(topology.yaml) and plans the cluster that it describes, that
    is every process with its command, environment, ports and proof of readiness. No host is contacted.
  - Everything that is wrong is reported at once, each finding with its line, what it would break and how to
    mend it.
  - Groups are C(pd) (all hosts), C(engine), C(prefill), C(decode), C(router), C(master) and C(instance_<name>).
  - Every host gets the variable C(pd_host) with its processes, and the group C(pd) gets C(pd_cluster). Look at
    them with C(ansible-inventory --graph) and C(ansible-inventory --host <name>).
  - Settings that do not shape the cluster, such as paths and users, are ordinary variables beside this file.
options:
  plugin:
    description: Marks the file as one for this plugin.
    type: str
    required: true
    choices: [mooncake.pd.topology]
  name:
    description: Name of the cluster. Descriptions of units and reports carry it.
    type: str
    required: true
  engine:
    description: What computes.
    type: dict
    required: true
    suboptions:
      kind:
        description:
          - V(vllm_cpu) is upstream vLLM on CPU, one process an instance.
          - V(vllm_ascend) is vLLM with vLLM-Ascend on NPUs, one process for each data-parallel rank of an
            instance.
        type: str
        required: true
        choices: [vllm_cpu, vllm_ascend]
      version:
        description: >-
          Release of the engine on all hosts, in quotes. Arguments, variables and log lines depend on it.
        type: str
        required: true
  connector:
    description: How KV moves from prefill to decode.
    type: dict
    required: true
    suboptions:
      name:
        description:
          - For V(vllm_cpu) from 0.32.0 on C(MooncakeConnector), in which decode pulls and prefill listens on
            O(prefill[].bootstrap_port).
          - For V(vllm_ascend) from 0.12.0rc1 on C(MooncakeConnectorV1), and from 0.20.2rc1 on
            C(MooncakeHybridConnector) for hybrid models. Decode pulls and prefill listens on
            O(prefill[].kv_port).
          - For V(vllm_ascend) from 0.12.0rc1 on C(MooncakeLayerwiseConnector), in which prefill pushes layer by
            layer and decode listens on O(decode[].kv_port).
        type: str
        required: true
      protocol:
        description: >-
          Transport of the KV. C(MooncakeConnector) takes V(tcp), its default here, or V(rdma). The connectors
          of V(vllm_ascend) take V(ascend).
        type: str
        choices: [tcp, rdma, ascend]
  mooncake:
    description: Mooncake on all hosts.
    type: dict
    required: true
    suboptions:
      version:
        description: >-
          Release, in quotes. On NPUs it decides the ports that transfers draw from, that is 1000 for each
          device from 20000 on up to 0.3.7.post2, and 100 for each device since 0.3.8.
        type: str
        required: true
  model:
    description: What is served.
    type: dict
    required: true
    suboptions:
      path:
        description: Folder of the model on every prefill and decode host.
        type: str
        required: true
      served_name:
        description: Name by which clients ask for the model.
        type: str
        required: true
  hosts:
    description: The machines. Each key is the name of a host in the inventory, in quotes if it is a number.
    type: dict
    required: true
    suboptions:
      <name>:
        description: One machine.
        type: dict
        suboptions:
          address:
            description:
              - IPv4 address that processes bind and that the other hosts reach.
              - Also becomes C(ansible_host), unless O(hosts.<name>.vars) sets C(ansible_host) or
                C(ansible_connection).
            type: str
            required: true
          interface:
            description: >-
              Network interface that has the address. Sets C(GLOO_SOCKET_IFNAME), and with V(vllm_ascend) also
              C(TP_SOCKET_IFNAME) and C(HCCL_SOCKET_IFNAME). Without it the libraries choose.
            type: str
          vars:
            description: >-
              More variables of the host for Ansible, such as C(ansible_user). Vault values and templates are
              kept.
            type: dict
            default: {}
  prefill: &instances
    description: >-
      The prefill instances. An instance is one engine that a router sends requests to, or with O(prefill[].dp)
      above 1 one group of such engines.
    type: list
    elements: dict
    required: true
    suboptions: &instance
      name:
        description: >-
          Unique name of letters, digits and underscores. The unit is C(mooncake-pd-<name>.service), or
          C(mooncake-pd-<name>-<rank>.service) for each rank of a group.
        type: str
        required: true
      host:
        description: Host that runs it, a key of O(hosts).
        type: str
        required: true
      tp:
        description: >-
          Tensor-parallel size. The one of prefill has to be a multiple of the one of decode; for V(vllm_cpu)
          the other way round works too.
        type: int
        default: 1
      dp:
        description: >-
          Data-parallel size, for V(vllm_ascend) only. Each rank is a process with its own API port and devices.
          Only mixture-of-experts models can have more than 1; give a dense model more instances.
        type: int
        default: 1
      devices:
        description: >-
          For V(vllm_ascend), the physical ids of its NPUs, tp x dp of them, in the order of the ranks. By
          default they count from 0.
        type: list
        elements: int
      api_port:
        description: >-
          Port of the API, or of the first rank's. Rank I(r) has this port + I(r). By default 8100 for prefill
          and 8200 for decode.
        type: int
      bootstrap_port:
        description: >-
          For C(MooncakeConnector), the port of a prefill instance where decode asks for its peers. By default
          8998.
        type: int
      kv_port:
        description: >-
          For V(vllm_ascend), the first of tp x dp ports on which the side that binds listens, one for each
          worker, counted by the rank in the whole group. By default 28002. The other side's value is written
          but claims nothing.
        type: int
      dp_rpc_port:
        description: >-
          For V(vllm_ascend) with dp above 1, the port at which the ranks of the group meet. By default 29550.
        type: int
      kv_load_failure_policy:
        description: >-
          What decode does with a request whose KV cannot be fetched. V(fail) ends it, which is also the
          engine's default; V(recompute) computes the prompt again, which hybrid models cannot.
        type: str
        choices: [fail, recompute]
      args:
        description: >-
          More arguments of C(vllm serve), behind O(engine_args), spelt in full. What the plan writes itself is
          refused here, for instance C(--port), and so is what breaks it, for instance C(--ssl-keyfile).
        type: list
        elements: str
        default: []
      environment:
        description: More environment variables. They win over O(engine_environment).
        type: dict
        default: {}
  decode:
    description: The decode instances. They have the same keys as O(prefill).
    type: list
    elements: dict
    required: true
    suboptions: *instance
  engine_args:
    description: More arguments of C(vllm serve) for all instances.
    type: list
    elements: str
    default: []
  engine_environment:
    description: More environment variables for all instances.
    type: dict
    default: {}
  abort_timeout:
    description: >-
      Seconds after which prefill frees KV that nobody fetched, because the client or decode went away. Until
      then the KV takes up the cache.
    type: int
    default: 480
  drain_timeout:
    description: >-
      Seconds that requests in flight have to end when a process is stopped, 0 aborts them. Engines before
      0.18.0 always abort. A unit is killed 30 seconds later.
    type: int
    default: 20
  router:
    description: >-
      The front door, HAProxy on O(router.port) with two router processes behind it, so that one serves while
      the other restarts. Without it nothing routes requests.
    type: dict
    suboptions:
      host:
        description: Host that runs it, a key of O(hosts).
        type: str
        required: true
      port:
        description: Port for clients.
        type: int
        default: 8000
      kind:
        description: >-
          V(auto) takes V(vllm_router) where decode pulls, and V(ascend_layerwise), the proxy of vLLM-Ascend,
          for C(MooncakeLayerwiseConnector). Another one than the connector needs is refused.
        type: str
        choices: [auto, vllm_router, ascend_layerwise]
        default: auto
      backend_ports:
        description: >-
          Ports of the two router processes. V(vllm_router) listens on 127.0.0.1, for it has no access control;
          V(ascend_layerwise) on the host's address, for decode posts to it.
        type: list
        elements: int
        default: [18001, 18002]
      metrics_ports:
        description: Ports of their metrics on 127.0.0.1, for V(vllm_router).
        type: list
        elements: int
        default: [29001, 29002]
  master:
    description: The Mooncake master, for a KV store. The connectors above work without it.
    type: dict
    suboptions:
      host:
        description: Host that runs it, a key of O(hosts).
        type: str
        required: true
      rpc_port:
        description: >-
          Port that store clients connect to. Not 50051, the default of C(mooncake_master), because that lies in
          the kernel's ephemeral range 32768-60999, where any outgoing connection may hold it. Naming 50051
          works and warns. 17051 is clear of that range, of NodePorts, and of what Mooncake and HCCL draw from.
        type: int
        default: 17051
      metrics_port:
        description: Port of its metrics and health. Before Mooncake 0.3.13 it listens on all addresses.
        type: int
        default: 9003
notes:
  - Ports are never handed out by chance or by order. What has a default can clash when two instances share a
    host; the report then names a free port.
"""

EXAMPLES = r"""
# topology.yml: two A2 servers with 8 NPUs each
plugin: mooncake.pd.topology
name: a2
engine: {kind: vllm_ascend, version: "0.23.0"}
connector: {name: MooncakeConnectorV1}
mooncake: {version: "0.3.11.post1"}
model: {path: /srv/models/Qwen3-32B, served_name: qwen3}
hosts:
  npu1: {address: 192.0.2.31, interface: enp189s0f0}
  npu2: {address: 192.0.2.32, interface: enp189s0f0}
prefill:
  - {name: p1, host: npu1, tp: 8, kv_port: 28002}
decode:
  - {name: d1, host: npu2, tp: 8}
engine_args: [--max-model-len, 32768]
router: {host: npu1}
"""

import inspect
import os
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin

from ansible_collections.mooncake.pd.plugins.plugin_utils.lines import line_map
from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import build_plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import read_topology


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc]  # ansible-core carries no types
    NAME = "mooncake.pd.topology"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith(("topology.yml", "topology.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        raw = self._load(path)
        lines, twice = line_map(_text(path))
        try:
            plan = build_plan(read_topology(raw, os.path.abspath(path), lines, twice))
        except PlanError as error:
            raise AnsibleParserError(str(error)) from None
        for warning in plan.warnings:
            self.display.warning(warning.text(path))

        for group, members in plan.groups().items():
            self.inventory.add_group(group)
            for host in members:
                self.inventory.add_host(host, group=group)
        # once on the group: a copy for each host would grow with the square of the hosts
        self.inventory.set_variable("pd", "pd_cluster", plan.cluster())
        for name, entry in plan.topology.hosts.items():
            planned = plan.hostvars(name)
            if "ansible_connection" in entry.vars:
                del planned["ansible_host"]  # other connections read it as the name of a container or a socket
            for variable, value in {**planned, **entry.vars}.items():
                self.inventory.set_variable(name, variable, value)

    def _load(self, path: str) -> Any:
        """The file as Ansible reads it, so that vault values and templates in vars stay what they are."""
        known = inspect.signature(self.loader.load_from_file).parameters
        # from ansible-core 2.19 on, only text marked as trusted is ever templated
        options = {"trusted_as_template": True} if "trusted_as_template" in known else {}
        raw = self.loader.load_from_file(path, cache="none", **options)
        if not isinstance(raw, Mapping) or raw.get("plugin") != self.NAME:
            raise AnsibleParserError(f"{path} is not a topology: it has to say `plugin: {self.NAME}`.")
        return raw


def _text(path: str) -> str:
    """For the lines in messages; a file encrypted as a whole has none that would help."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return "" if text.startswith("$ANSIBLE_VAULT") else text
