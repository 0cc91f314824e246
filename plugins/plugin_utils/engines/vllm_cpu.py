# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Upstream vLLM on CPU with its own MooncakeConnector: one process an instance."""

from __future__ import annotations

from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils import mooncake, store
from ansible_collections.mooncake.pd.plugins.plugin_utils.choices import API_BASES, Choice
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import Connector, joins_store, pools
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import exact, pool
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Endpoint, LogLine, Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Companion, Instance, Topology

BOOTSTRAP_PORT = 8998  # vllm/envs.py@v0.32.0
# MooncakeBootstrapServer("0.0.0.0", port) whatever VLLM_HOST_IP says (mooncake_connector.py@v0.32.0)
_BOOTSTRAP_ADDRESS = "0.0.0.0"

UNUSED_KEYS = ("kv_port", "dp_rpc_port", "group_port", "group_grace", "devices", "engine_id", "data_parallel")
PLANNED_VARIABLES = {
    **vllm.RELEASE_VARIABLES,
    "VLLM_HOST_IP": "hosts.<name>.address",
    "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT": "abort_timeout",
    "VLLM_MOONCAKE_BOOTSTRAP_PORT": "bootstrap_port",
}
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME",)


def kv_port(topology: Topology, instance: Instance) -> int | None:
    return None


def choices(topology: Topology, instance: Instance) -> tuple[Choice, ...]:
    return ()  # without devices there is nothing to tell instances on one host apart by: what has a default may clash


def processes(topology: Topology, instance: Instance, connector: Connector) -> tuple[Process, ...]:
    host = topology.hosts.get(instance.places[0]) if instance.places else None
    if host is None:
        return ()
    port = instance.api_port or API_BASES[instance.kind]
    bootstrap = (instance.bootstrap_port or BOOTSTRAP_PORT) if instance.kind == connector.binds else None
    arguments = vllm.arguments(topology, instance)
    planned = {
        "VLLM_HOST_IP": host.address,
        "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT": str(topology.abort_timeout),
    }
    planned |= vllm.hash_seed(topology, instance) | store.environment(topology, instance, connector, host.name)
    claims = [exact("api", host.address, port, f"{instance.where}.api_port")]
    lines = [vllm.api_ready(arguments)]
    if host.interface:
        planned |= dict.fromkeys(INTERFACE_VARIABLES, host.interface)
    if bootstrap:
        planned["VLLM_MOONCAKE_BOOTSTRAP_PORT"] = str(bootstrap)
        claims.append(exact("bootstrap", _BOOTSTRAP_ADDRESS, bootstrap, f"{instance.where}.bootstrap_port"))
        # The bootstrap server is a uvicorn inside the engine. Since vLLM marks only its own records with the process
        # (vllm/logger.py@v0.32.0), its "Application startup complete." cannot be told from the API server's.
        lines = [
            vllm.api_ready(arguments, others=1),
            LogLine(
                rf"Mooncake Bootstrap Server started at 0\.0\.0\.0:{bootstrap}\b",
                text="Mooncake Bootstrap Server started",
            ),
        ]
    environment = vllm.environment(topology, instance, planned)
    claims += vllm.kv_event_claims(arguments, 0, 1, f"{instance.where}.args")
    claims += mooncake.rpc_pool(topology.mooncake.version, environment, instance.where)
    if joins_store(topology, instance.kind):
        claims += pool("store-client", [mooncake.store_span(environment)], instance.where)
    # without mooncake_protocol the connector takes rdma, and on a host without RDMA silently falls back to tcp
    transfer = vllm.multi_connector(
        vllm.transfer_config(
            topology,
            instance,
            kv_connector_extra_config={"mooncake_protocol": topology.connector.protocol or connector.protocols[0]},
        ),
        [_companion(item, instance, port) for item in topology.connector.also if item.serves(instance.kind)],
    )
    return (
        Process(
            name=instance.name,
            kind=instance.kind,
            host=host.name,
            instance=instance.name,
            where=instance.where,
            description=f"vLLM {instance.kind} {instance.name} of {topology.name}",
            argv=vllm.command(
                topology,
                (host.address, port),
                vllm.json_text(transfer),
                ("--tensor-parallel-size", str(instance.tp)),
                arguments,
            ),
            environment=environment,
            timeout_stop=vllm.stop_timeout(topology),
            claims=tuple(claims),
            lines=tuple(lines),
            health=vllm.health(host.address, port),
            role="rank",
            ranks=(0,),
            endpoint=Endpoint(host.address, port, bootstrap),
            shared=vllm.shared_environment(topology),
            files=store.files(topology, instance, connector, host.name),
            pool=store.share(topology, instance, 1),
        ),
    )


def _companion(companion: Companion, instance: Instance, api_port: int) -> dict[str, Any]:
    extra = dict(companion.extra_config)
    if pools(companion):
        # instances on one host would take one socket, and their API ports are their own
        extra.setdefault("lookup_rpc_port", str(api_port))
    return {
        "kv_connector": companion.name,
        "kv_role": vllm.role(instance.kind),
        "kv_connector_extra_config": extra,
    }
