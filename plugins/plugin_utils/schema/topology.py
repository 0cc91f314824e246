# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may stand in topology.yml. The manual of these keys is the DOCUMENTATION of the inventory plugin."""

# ruff: noqa: RUF009  (key() returns a dataclasses.field)
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.hardware import GENERATIONS
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Problem, Report, below
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.fields import Reader, key

PREFILL, DECODE = "prefill", "decode"
# how the data-parallel ranks of an instance are run: one process and one API each, or one process for each host and one
# API on the first of them
EXTERNAL, INTERNAL = "external", "internal"
STYLES = (EXTERNAL, INTERNAL)
# ranks, workers of a rank, or NPUs of a host
MOST_RANKS = 1024
# what a model is like, as far as it decides what can be planned
FEATURES = ("dense", "moe", "mla", "hybrid", "sparse", "c8")
# DEFAULT_CLUSTER_ID of mooncake-store/include/types.h, 0.3.7.post2 to 0.3.13
MASTER_CLUSTER = "mooncake_cluster"
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Engine:
    kind: str = key("text", choices=("vllm_cpu", "vllm_ascend"), hint="it decides every command and port")
    version: str = key("version", hint="ports and settings differ between releases")
    data_parallel: str = key("text", EXTERNAL, choices=STYLES)


@dataclass(frozen=True)
class Companion:
    """A connector beside the one that moves KV from prefill to decode."""

    where: str
    name: str = key("text", hint="it is the kv_connector of the configuration")
    side: str = key("text", "both", choices=("both", PREFILL, DECODE))
    extra_config: Mapping[str, Any] = key("json", {})

    def serves(self, kind: str) -> bool:
        return self.side in ("both", kind)


@dataclass(frozen=True)
class ConnectorChoice:
    name: str = key("text", hint="it decides who listens for whom")
    protocol: str | None = key("text", None, choices=("tcp", "rdma", "ascend"))
    extra_config: Mapping[str, Any] = key("json", {})
    also: tuple[Companion, ...] = key("sections", (), section=Companion)


@dataclass(frozen=True)
class Mooncake:
    version: str = key("version", hint="the ports it draws from differ between releases")


@dataclass(frozen=True)
class Model:
    path: str = key("text", hint="every instance loads it")
    served_name: str = key("text", hint="clients ask for it by this name")
    features: tuple[str, ...] = key("names", (), choices=FEATURES)


@dataclass(frozen=True)
class Hardware:
    generation: str = key("text", choices=tuple(GENERATIONS), hint="it decides how many NPUs a host has")
    chips: int | None = key("integer", None, most=MOST_RANKS)

    @property
    def chips_per_host(self) -> int:
        return self.chips or GENERATIONS[self.generation].chips


@dataclass(frozen=True)
class Host:
    name: str
    where: str
    address: str = key("address", hint="processes bind it and peers connect to it")
    interface: str | None = key("text", None)
    generation: str | None = key("text", None, choices=tuple(GENERATIONS))
    chips: int | None = key("integer", None, most=MOST_RANKS)
    vars: Mapping[str, Any] = key("mapping", {})


@dataclass(frozen=True)
class Instance:
    kind: str
    where: str
    name: str = key("text", hint="units, groups and messages are named after it")
    host: str | None = key("text", None)
    hosts: tuple[str, ...] = key("names", ())
    data_parallel: str | None = key("text", None, choices=STYLES)
    tp: int = key("integer", 1, most=MOST_RANKS)
    dp: int = key("integer", 1, most=MOST_RANKS)
    pp: int = key("integer", 1, most=MOST_RANKS)
    pcp: int = key("integer", 1, most=MOST_RANKS)
    dcp: int = key("integer", 1, most=MOST_RANKS)
    devices: tuple[int, ...] | None = key("numbers", None, least=0, most=MOST_RANKS)
    api_port: int | None = key("port", None)
    bootstrap_port: int | None = key("port", None)
    kv_port: int | None = key("port", None)
    dp_rpc_port: int | None = key("port", None)
    group_port: int | None = key("port", None)
    group_grace: int | None = key("integer", None, least=5)
    engine_id: str | None = key("text", None)
    kv_load_failure_policy: str | None = key("text", None, choices=("fail", "recompute"))
    args: tuple[str, ...] = key("words", ())
    environment: Mapping[str, str] = key("variables", {})

    @property
    def places(self) -> tuple[str, ...]:
        """The hosts it runs on; the first is the head."""
        return self.hosts or ((self.host,) if self.host else ())


@dataclass(frozen=True)
class Waiver:
    place: str
    rule: str = key("text", hint="it names what is accepted")
    reason: str = key("text", hint="whoever reads the next report has to know why")
    where: str | None = key("text", None)
    host: str | None = key("text", None)


@dataclass(frozen=True)
class Router:
    where: str
    host: str = key("text", hint="the plan cannot place the router without it")
    port: int = key("port", 8000)
    kind: str = key("text", "auto", choices=("auto", "vllm_router", "ascend_layerwise"))
    backend_ports: tuple[int, ...] = key("ports", (18001, 18002))
    metrics_ports: tuple[int, ...] = key("ports", (19001, 19002))


@dataclass(frozen=True)
class Master:
    where: str
    host: str | None = key("text", None)
    # with these, all stand by for the one that leads
    hosts: tuple[str, ...] = key("names", ())
    cluster_id: str = key("text", MASTER_CLUSTER)
    # not 50051, the default of mooncake_master: that one lies in the kernel's ephemeral range
    rpc_port: int = key("port", 17051)
    metrics_port: int = key("port", 9003)
    # From here on the flags of mooncake_master by their own names; what is not set is left to the release. Which
    # releases have them: FLAGS of plugin_utils/master.py.
    eviction_high_watermark_ratio: float | None = key("share", None)
    eviction_ratio: float | None = key("share", None)
    default_kv_lease_ttl: int | None = key("integer", None, most=_DAY_MS)
    default_kv_soft_pin_ttl: int | None = key("integer", None, least=0, most=_DAY_MS)
    allow_evict_soft_pinned_objects: bool | None = key("boolean", None)
    client_ttl: int | None = key("integer", None, most=86400)
    put_start_discard_timeout_sec: int | None = key("integer", None, most=86400)
    put_start_release_timeout_sec: int | None = key("integer", None, most=86400)
    memory_allocator: str | None = key("text", None, choices=("offset", "cachelib"))
    allocation_strategy: str | None = key(
        "text", None, choices=("random", "free_ratio_first", "ssd_free_ratio_first", "local_first")
    )
    rpc_thread_num: int | None = key("integer", None, most=1024)
    rpc_conn_timeout_seconds: int | None = key("integer", None, least=0, most=86400)
    rpc_enable_tcp_no_delay: bool | None = key("boolean", None)
    enable_metric_reporting: bool | None = key("boolean", None)
    enable_http_metadata_server: bool | None = key("boolean", None)
    http_metadata_server_port: int = key("port", 8080)
    enable_metadata_cleanup_on_timeout: bool | None = key("boolean", None)
    enable_snapshot: bool | None = key("boolean", None)
    enable_snapshot_restore: bool | None = key("boolean", None)
    snapshot_path: str | None = key("text", None)
    snapshot_backup_dir: str | None = key("text", None)
    snapshot_interval_seconds: int | None = key("integer", None, most=_DAY_MS)
    snapshot_child_timeout_seconds: int | None = key("integer", None, most=86400)
    snapshot_retention_count: int | None = key("integer", None, most=1000)
    enable_offload: bool | None = key("boolean", None)
    offload_on_evict: bool | None = key("boolean", None)
    offload_force_evict: bool | None = key("boolean", None)
    offloading_queue_limit: int | None = key("integer", None, most=100_000_000)
    offload_cap_ratio: float | None = key("share", None)
    promotion_on_hit: bool | None = key("boolean", None)
    promotion_admission_threshold: int | None = key("integer", None, most=255)
    promotion_queue_limit: int | None = key("integer", None)
    promotion_max_per_heartbeat: int | None = key("integer", None, most=1000)
    enable_disk_eviction: bool | None = key("boolean", None)

    @property
    def ha(self) -> bool:
        return bool(self.hosts)

    @property
    def places(self) -> tuple[str, ...]:
        """The hosts that run one each."""
        return tuple(dict.fromkeys(self.hosts)) or ((self.host,) if self.host else ())


@dataclass(frozen=True)
class Etcd:
    where: str
    hosts: tuple[str, ...] = key("names", ())
    endpoints: tuple[str, ...] = key("names", ())
    client_port: int = key("port", 2379)
    peer_port: int = key("port", 2380)
    metrics_port: int = key("port", 2381)
    tls: str = key("text", "peers", choices=("none", "peers", "all"))


@dataclass(frozen=True)
class Ssd:
    """Disk behind a segment, for what is evicted from memory."""

    where: str
    path: str = key("text", hint="it is the folder on the disk")
    quota: int = key("size", hint="the disk may hold other things")


@dataclass(frozen=True)
class StoreSide:
    """What is different for the workers of one side."""

    segment_size: int | None = key("size", None, least=0)
    buffer_size: int | None = key("size", None)


@dataclass(frozen=True)
class StoreNode:
    """A process that brings memory into the pool and computes nothing."""

    where: str
    host: str = key("text", hint="the plan cannot place the node without it")
    segment_size: int = key("size", hint="it is the memory that the node brings")
    # not 50052, the default of mooncake_client: that one lies in the kernel's ephemeral range
    port: int = key("port", 17052)
    ssd: Ssd | None = key("section", None, section=Ssd)


@dataclass(frozen=True)
class Store:
    where: str
    segment_size: int = key(
        "size", least=0, hint="it is the memory that each worker brings, 0 where nodes bring it all"
    )
    buffer_size: int = key("size", "1GiB")
    prefill: StoreSide | None = key("section", None, section=StoreSide)
    decode: StoreSide | None = key("section", None, section=StoreSide)
    protocol: str | None = key("text", None, choices=("tcp", "rdma", "ascend"))
    devices: tuple[str, ...] = key("names", ())
    ssd: Ssd | None = key("section", None, section=Ssd)
    nodes: tuple[StoreNode, ...] = key("sections", (), section=StoreNode)
    environment: Mapping[str, str] = key("variables", {})

    @property
    def offloads(self) -> bool:
        """Whether a client has a disk, of which the master has to know."""
        return bool(self.ssd or any(node.ssd for node in self.nodes))

    def segment(self, kind: str) -> int:
        """What each worker of a side brings into the pool."""
        side = self.prefill if kind == PREFILL else self.decode
        return self.segment_size if side is None or side.segment_size is None else side.segment_size

    def buffer(self, kind: str) -> int:
        side = self.prefill if kind == PREFILL else self.decode
        return self.buffer_size if side is None or side.buffer_size is None else side.buffer_size


@dataclass(frozen=True)
class Topology:
    source: str
    plugin: str = key("text", choices=("mooncake.pd.topology",), hint="Ansible finds the plugin by it")
    name: str = key("text", hint="units and reports carry it")
    engine: Engine = key("section", section=Engine, hint="kind and version of what serves the model")
    connector: ConnectorChoice = key("section", section=ConnectorChoice, hint="how KV moves from prefill to decode")
    mooncake: Mooncake = key("section", section=Mooncake, hint="the release that all hosts run")
    model: Model = key("section", section=Model, hint="what is served")
    hosts: Mapping[str, Host] = key("named", section=Host, hint="the machines, each with its address")
    prefill: tuple[Instance, ...] = key("sections", section=Instance, hint="at least one instance")
    decode: tuple[Instance, ...] = key("sections", section=Instance, hint="at least one instance")
    hardware: Hardware | None = key("section", None, section=Hardware)
    engine_args: tuple[str, ...] = key("words", ())
    engine_environment: Mapping[str, str] = key("variables", {})
    abort_timeout: int = key("integer", 480)
    drain_timeout: int = key("integer", 20, least=0)
    router: Router | None = key("section", None, section=Router)
    master: Master | None = key("section", None, section=Master)
    etcd: Etcd | None = key("section", None, section=Etcd)
    store: Store | None = key("section", None, section=Store)
    waive: tuple[Waiver, ...] = key("sections", (), section=Waiver)

    @property
    def instances(self) -> tuple[Instance, ...]:
        return (*self.prefill, *self.decode)

    def side(self, kind: str) -> tuple[Instance, ...]:
        return self.prefill if kind == PREFILL else self.decode

    def style(self, instance: Instance) -> str:
        return instance.data_parallel or self.engine.data_parallel

    def generation(self, host: str) -> str | None:
        own = self.hosts[host].generation if host in self.hosts else None
        return own or (self.hardware.generation if self.hardware else None)

    def chips(self, host: str) -> int | None:
        """The NPUs of a host, as far as the file tells."""
        entry = self.hosts.get(host)
        if entry and entry.chips:
            return entry.chips
        if entry and entry.generation:
            return GENERATIONS[entry.generation].chips
        return self.hardware.chips_per_host if self.hardware else None


@dataclass(frozen=True)
class Reading:
    """What could be read of a file. Entries with a fault are left out of the topology and named in broken."""

    topology: Topology | None
    problems: tuple[Problem, ...]
    broken: frozenset[str]
    source: str
    lines: Mapping[str, int]

    def is_broken(self, where: str) -> bool:
        return any(below(place, where) for place in self.broken)


def read_topology(
    raw: Any, source: str = "topology.yml", lines: Mapping[str, int] | None = None, twice: Iterable[str] = ()
) -> Reading:
    """Read the content of a topology file; never raises.

    lines and twice come from line_map(); without them the problems name no line.
    """
    report = Report(source, lines or {})
    for where in twice:
        report.error("yaml-duplicate-key", where, "is written twice, and the last one wins.", "rename or remove one.")
    reader = Reader(report)
    topology = reader.section(Topology, raw, source=source)
    return Reading(topology, tuple(report.found), frozenset(reader.broken), source, report.lines)
