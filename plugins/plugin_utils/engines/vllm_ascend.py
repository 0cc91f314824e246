# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM-Ascend: one process for each data-parallel rank of an instance, each with its own API port and devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils import mooncake
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import Connector
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import Claim, exact, pool
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import LogLine, Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import DECODE, PREFILL, Instance, Topology
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import value_at

# Clear of NodePort and ephemeral ports, of vLLM's 29500 and 29550, and for 8 devices of every Mooncake's ADXL ports.
# The documented 28000 is not: the last port of device 7 is 28000 itself up to Mooncake 0.3.7.post2.
KV_PORT = 28002
DP_RPC_PORT = 29550  # vLLM's own default

# HCCL on the host: HCCL_IF_BASE_PORT and 15 more (hiascend documentation)
_HCCL_BASE, _HCCL_COUNT = 60000, 16
# vllm_ascend/distributed/kv_transfer/kv_p2p/mooncake_connector.py per tag; it frees the blocks of prefill only
_ABORT_VARIABLE = (("0.11.0", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"), ("0.18.0", "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"))
# "Starting listening on path: tcp://" up to 0.22, "KVCacheSendingThread started listening on path: tcp://" and
# "KVCacheRecvingLayerThread listening on tcp://" since 0.23; one for each rank of the side that binds
_LISTENING = r"listening on (path: )?tcp://"

UNUSED_KEYS = ("bootstrap_port",)
PLANNED_VARIABLES = {
    **vllm.RELEASE_VARIABLES,
    "VLLM_HOST_IP": "hosts.<name>.address",
    "HCCL_IF_IP": "hosts.<name>.address",
    "ASCEND_RT_VISIBLE_DEVICES": "devices",
    **{name: "abort_timeout" for _since, name in _ABORT_VARIABLE},
}
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME")


def devices(instance: Instance) -> tuple[int, ...]:
    return instance.devices if instance.devices is not None else tuple(range(instance.tp * instance.dp))


def _rank_devices(instance: Instance, rank: int) -> tuple[int, ...]:
    return devices(instance)[rank * instance.tp : (rank + 1) * instance.tp]


def bootstrap_port(instance: Instance, connector: Connector) -> int | None:
    return None


def processes(topology: Topology, instance: Instance, connector: Connector) -> tuple[Process, ...]:
    return tuple(_process(topology, instance, connector, rank) for rank in range(instance.dp))


def _process(topology: Topology, instance: Instance, connector: Connector, rank: int) -> Process:
    host = topology.hosts[instance.host]
    port = vllm.api_port(instance) + rank
    environment = vllm.environment(topology, instance, _planned(topology, instance, rank))
    lines = [vllm.api_ready(topology, instance)]
    if instance.kind == connector.binds:
        lines.append(LogLine(_LISTENING, instance.tp, "KV thread listening"))
    group = instance.dp > 1
    return Process(
        name=f"{instance.name}-{rank}" if group else instance.name,
        kind=instance.kind,
        host=instance.host,
        instance=instance.name,
        where=instance.where,
        description=f"vLLM-Ascend {instance.kind} {instance.name}{f' rank {rank}' if group else ''} of {topology.name}",
        argv=vllm.command(
            topology, instance, port, _transfer(topology, instance), _rank_options(topology, instance, rank)
        ),
        environment=environment,
        timeout_stop=vllm.stop_timeout(topology),
        claims=_claims(topology, instance, connector, rank, environment),
        lines=tuple(lines),
        health=vllm.health(host.address, port),
    )


def _planned(topology: Topology, instance: Instance, rank: int) -> dict[str, str]:
    host = topology.hosts[instance.host]
    planned = {
        "VLLM_HOST_IP": host.address,
        "HCCL_IF_IP": host.address,
        "ASCEND_RT_VISIBLE_DEVICES": ",".join(map(str, _rank_devices(instance, rank))),
        value_at(_ABORT_VARIABLE, topology.engine.version): str(topology.abort_timeout),
    }
    if host.interface:
        planned |= dict.fromkeys(INTERFACE_VARIABLES, host.interface)
    return planned


def _rank_options(topology: Topology, instance: Instance, rank: int) -> tuple[str, ...]:
    if instance.dp == 1:
        return ()
    return (
        *("--data-parallel-size", str(instance.dp), "--data-parallel-rank", str(rank)),
        *("--data-parallel-address", topology.hosts[instance.host].address),
        *("--data-parallel-rpc-port", str(instance.dp_rpc_port or DP_RPC_PORT)),
    )


def _transfer(topology: Topology, instance: Instance) -> dict[str, Any]:
    """Both sides name the shapes of both sides; the engine compares its own with its command line."""
    shapes = {
        kind: {"dp_size": side[0].dp, "tp_size": side[0].tp}
        for kind, side in ((PREFILL, topology.prefill), (DECODE, topology.decode))
        if side
    }
    return vllm.transfer_config(
        topology, instance, kv_port=instance.kv_port or KV_PORT, kv_connector_extra_config=shapes
    )


def _claims(
    topology: Topology, instance: Instance, connector: Connector, rank: int, environment: Mapping[str, str]
) -> tuple[Claim, ...]:
    address = topology.hosts[instance.host].address
    release = topology.mooncake.version
    hccl = environment.get("HCCL_IF_BASE_PORT", "")
    hccl_base = int(hccl) if hccl.isdigit() else _HCCL_BASE
    claims = [exact("api", address, vllm.api_port(instance), f"{instance.where}.api_port", offset=rank)]
    if instance.kind == connector.binds:
        # one port for each worker, counted by the rank in the whole group:
        # kv_port + data_parallel_rank * tp + tp_rank (mooncake_connector.py, mooncake_layerwise_connector.py >= 0.12)
        kv_port = instance.kv_port or KV_PORT
        claims.append(
            exact("kv", address, kv_port, f"{instance.where}.kv_port", size=instance.tp, offset=rank * instance.tp)
        )
    if instance.dp > 1 and rank == 0:
        # open only while the ranks of the group find each other
        dp_rpc_port = instance.dp_rpc_port or DP_RPC_PORT
        claims.append(exact("dp-rpc", address, dp_rpc_port, f"{instance.where}.dp_rpc_port", held=False))
    claims += mooncake.adxl_pool(release, environment, _rank_devices(instance, rank), f"{instance.where}.devices")
    claims += mooncake.rpc_pool(release, environment, instance.where)
    claims += pool("hccl", [(hccl_base, hccl_base + _HCCL_COUNT - 1)], instance.where)
    return tuple(claims)
