# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The front door: HAProxy, and behind it two router processes, so that one can restart while the other serves."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import ROUTER_KINDS, Connector
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import exact
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Endpoint, Health, Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Router, Topology

BACKENDS = ("router-a", "router-b")
_LOOPBACK = "127.0.0.1"

# vllm-router 0.1.17: round_robin, because power_of_two asks an endpoint that vLLM lacks; the defaults of the health
# checks (60 s, three times) would send requests to a dead worker for minutes, and nothing is tried a second time.
_VLLM_ROUTER_OPTIONS = (
    *("--policy", "round_robin"),
    *("--health-check-interval-secs", "1", "--health-check-timeout-secs", "2"),
    *("--health-failure-threshold", "2", "--health-success-threshold", "1"),
    *("--worker-startup-check-interval", "1"),
)
# examples/disaggregated_prefill_v1 of vLLM-Ascend
_LAYERWISE_PROXY = "load_balance_proxy_layerwise_server_example.py"


def kind_of(router: Router, connector: Connector) -> str:
    return ROUTER_KINDS[connector.contract] if router.kind == "auto" else router.kind


def backend_address(topology: Topology, router: Router, connector: Connector) -> str:
    """Decode posts to the layerwise proxy, so that one needs a reachable address; vllm-router has no access control."""
    return topology.hosts[router.host].address if kind_of(router, connector) == "ascend_layerwise" else _LOOPBACK


def processes(
    topology: Topology, router: Router, connector: Connector, prefill: Sequence[Endpoint], decode: Sequence[Endpoint]
) -> tuple[Process, ...]:
    address = backend_address(topology, router, connector)
    layerwise = kind_of(router, connector) == "ascend_layerwise"
    backends = []
    for index, name in enumerate(BACKENDS):
        port, metrics = router.backend_ports[index], router.metrics_ports[index]
        claims = [exact("router", address, port, f"{router.where}.backend_ports[{index}]")]
        if not layerwise:
            claims.append(exact("router-metrics", _LOOPBACK, metrics, f"{router.where}.metrics_ports[{index}]"))
        backends.append(
            Process(
                name=name,
                kind="router",
                host=router.host,
                where=router.where,
                description=f"{'Layerwise proxy' if layerwise else 'vLLM router'} {name} of {topology.name}",
                argv=(
                    _layerwise_command(address, port, prefill, decode)
                    if layerwise
                    else _vllm_router_command(connector.contract, port, metrics, prefill, decode)
                ),
                environment={"PYTHONUNBUFFERED": "1"},
                # a request that already streams has as long as an engine gives it
                timeout_stop=vllm.stop_timeout(topology),
                claims=tuple(claims),
                # /health of vllm-router is 200 even without a decode; /readiness wants a healthy one of each side.
                # The proxy counts what it was told, not what is healthy.
                health=Health(f"http://{address}:{port}/{'healthcheck' if layerwise else 'readiness'}"),
            )
        )
    return (*backends, _frontend(topology, router))


def _frontend(topology: Topology, router: Router) -> Process:
    """HAProxy; its configuration and unit are the role's."""
    address = topology.hosts[router.host].address
    return Process(
        name="router",
        kind="frontend",
        host=router.host,
        where=router.where,
        description=f"Front door of {topology.name}",
        argv=(),
        environment={},
        timeout_stop=vllm.stop_timeout(topology),
        claims=(exact("frontend", address, router.port, f"{router.where}.port"),),
        health=Health(f"http://{address}:{router.port}/health"),
    )


def _vllm_router_command(
    contract: str, port: int, metrics: int, prefill: Sequence[Endpoint], decode: Sequence[Endpoint]
) -> tuple[str, ...]:
    command = [
        *("vllm-router", "--host", _LOOPBACK, "--port", str(port)),
        *("--prometheus-host", _LOOPBACK, "--prometheus-port", str(metrics)),
        *("--vllm-pd-disaggregation", "--kv-connector", contract),
        *_VLLM_ROUTER_OPTIONS,
    ]
    for endpoint in prefill:
        # the router looks its peers up by exactly this spelling, so no slash may follow
        command += ["--prefill", endpoint.url, *([str(endpoint.bootstrap)] if endpoint.bootstrap else [])]
    for endpoint in decode:
        command += ["--decode", endpoint.url]
    return tuple(command)


def _layerwise_command(
    address: str, port: int, prefill: Sequence[Endpoint], decode: Sequence[Endpoint]
) -> tuple[str, ...]:
    return (
        *("python3", _LAYERWISE_PROXY, "--host", address, "--port", str(port)),
        *("--prefiller-hosts", *(endpoint.address for endpoint in prefill)),
        *("--prefiller-ports", *(str(endpoint.port) for endpoint in prefill)),
        *("--decoder-hosts", *(endpoint.address for endpoint in decode)),
        *("--decoder-ports", *(str(endpoint.port) for endpoint in decode)),
    )
