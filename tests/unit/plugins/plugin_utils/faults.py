# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For each rule, one change that breaks it in a topology which keeps every rule."""

from __future__ import annotations

from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import ascend, cpu


def hybrid():
    return ascend("MooncakeHybridConnector")


def dense():
    """Ascend with one process on each side."""
    raw = ascend()
    raw["prefill"][0] |= {"tp": 8, "dp": 1}
    raw["decode"][0] |= {"tp": 8, "dp": 1}
    return raw


def layerwise():
    return ascend("MooncakeLayerwiseConnector")


def internal():
    """Four servers with 16 NPUs, internal data parallelism, decode on two of them."""
    raw = ascend("MooncakeLayerwiseConnector")
    raw["engine"]["data_parallel"] = "internal"
    raw["hardware"] = {"generation": "A3"}
    raw["hosts"] = {
        f"npu{number}": {"address": f"192.0.2.{30 + number}", "interface": "eth1"} for number in range(1, 5)
    }
    raw["prefill"] = [{"name": f"p{number}", "host": f"npu{number}", "dp": 2, "tp": 8} for number in (1, 2)]
    raw["decode"] = [{"name": "d1", "hosts": ["npu3", "npu4"], "dp": 32, "tp": 1}]
    return raw


def old():
    """The last release with Mooncake 0.3.7 that numbers its ports as today's does."""
    raw = ascend()
    raw["engine"]["version"], raw["mooncake"]["version"] = "0.12.0rc1", "0.3.7.post2"
    return raw


def pool():
    """A KV pool beside the connector."""
    raw = ascend()
    raw["connector"]["also"] = [{"name": "AscendStoreConnector", "extra_config": {"backend": "mooncake"}}]
    raw["engine_environment"] = {"MOONCAKE_CONFIG_PATH": "/etc/mooncake.json"}
    raw["master"] = {"host": "npu1"}
    return raw


def store():
    """A KV pool of vLLM that the plan configures, with a node that has a disk."""
    raw = cpu()
    raw["connector"]["also"] = [{"name": "MooncakeStoreConnector"}]
    raw["hosts"]["s1"] = {"address": "192.0.2.41"}
    raw["store"] = {
        "segment_size": "4GiB",
        "nodes": [{"host": "s1", "segment_size": "32GiB", "ssd": {"path": "/data/kv", "quota": "1TiB"}}],
    }
    return raw


def npu_store():
    """A KV pool of vLLM-Ascend that the plan configures."""
    raw = pool()
    del raw["engine_environment"]
    raw["store"] = {"segment_size": "2GiB"}
    return raw


def _beside(raw):
    return raw["connector"]["also"][0]


def _move(raw, old, new):
    for place in (*raw["prefill"], *raw["decode"], raw["router"], raw["master"]):
        place["host"] = new if place["host"] == old else place["host"]


# what is changed in a good topology -> what has to be found
def metadata():
    """A router, a master and etcd on three hosts."""
    raw = cpu()
    raw["etcd"] = {"hosts": ["control", "p1", "d1"]}
    return raw


def outside():
    raw = cpu()
    raw["etcd"] = {"endpoints": ["192.0.2.77:2379", "http://192.0.2.78:2379"]}
    return raw


def standby():
    """Three masters and etcd."""
    raw = metadata()
    raw["master"] = {"hosts": ["control", "p1", "d1"]}
    return raw


def _master(**keys):
    return lambda raw: raw["master"].update(keys)


def _released(version, **keys):
    return lambda raw: (raw["mooncake"].update(version=version), raw["master"].update(keys))


SNAPSHOT = {"enable_snapshot": True, "snapshot_path": "/data/snapshots"}

FAULTS = {
    "a master nowhere": (cpu, lambda raw: raw["master"].clear(), ("master-place", "master")),
    "one master and several": (standby, _master(host="control"), ("master-place", "master")),
    "an unknown host of a master that stands by": (
        standby,
        lambda raw: raw["master"]["hosts"].append("x"),
        ("host-unknown", "master.hosts[3]"),
    ),
    "two masters on a host": (standby, _master(hosts=["p1", "d1", "p1"]), ("master-hosts", "master.hosts")),
    "nobody stands by": (standby, _master(hosts=["p1"]), ("master-alone", "master.hosts")),
    "masters without etcd": (standby, lambda raw: raw.pop("etcd"), ("master-etcd", "master.hosts")),
    "masters that cannot tell who leads": (
        standby,
        _released("0.3.10.post2"),
        ("master-ha-release", "master.hosts"),
    ),
    "metadata that no other master has": (
        standby,
        _master(enable_http_metadata_server=True),
        ("master-metadata", "master.enable_http_metadata_server"),
    ),
    "snapshots that no other master has": (
        standby,
        _master(**SNAPSHOT),
        ("master-snapshot-local", "master.snapshot_path"),
    ),
    "a cluster with a slash": (standby, _master(cluster_id="a/b"), ("master-cluster", "master.cluster_id")),
    "a cluster of one master": (cpu, _master(cluster_id="a"), ("key-without-effect", "master.cluster_id")),
    "a flag that the release has not yet": (
        cpu,
        _released("0.3.10.post2", enable_offload=True, offload_on_evict=True),
        ("master-flag-too-old", "master.offload_on_evict"),
    ),
    "a strategy that the release has not yet": (
        cpu,
        _released("0.3.11.post1", allocation_strategy="local_first"),
        ("master-flag-too-old", "master.allocation_strategy"),
    ),
    "offload that is not enabled": (
        cpu,
        _master(offload_on_evict=True),
        ("key-without-effect", "master.offload_on_evict"),
    ),
    "a port of no metadata server": (
        cpu,
        _master(http_metadata_server_port=8081),
        ("key-without-effect", "master.http_metadata_server_port"),
    ),
    "metadata of nobody to clean up": (
        cpu,
        _master(enable_metadata_cleanup_on_timeout=True),
        ("key-without-effect", "master.enable_metadata_cleanup_on_timeout"),
    ),
    "a metadata server where the router listens": (
        cpu,
        lambda raw: (
            raw["router"].update(port=8080),
            raw["master"].update(enable_http_metadata_server=True),
        ),
        ("port-overlap", "router.port"),
    ),
    "snapshots without a folder": (
        cpu,
        _master(enable_snapshot=True),
        ("master-snapshot", "master.enable_snapshot"),
    ),
    "snapshots in a relative folder": (
        cpu,
        _master(enable_snapshot=True, snapshot_path="data"),
        ("master-snapshot", "master.snapshot_path"),
    ),
    "a watermark that is never reached": (
        cpu,
        _master(eviction_high_watermark_ratio=1),
        ("master-watermark", "master.eviction_high_watermark_ratio"),
    ),
    "a watermark in per cent": (
        cpu,
        _master(eviction_high_watermark_ratio=85),
        ("schema-range", "master.eviction_high_watermark_ratio"),
    ),
    "nothing to evict": (cpu, _master(eviction_ratio=0), ("master-watermark", "master.eviction_ratio")),
    "everything to evict": (
        cpu,
        _master(eviction_high_watermark_ratio=0.8, eviction_ratio=0.85),
        ("master-watermark", "master.eviction_ratio"),
    ),
    "clients that are lost at once": (
        cpu,
        _master(client_ttl=2, default_kv_lease_ttl=1000),
        ("master-client-ttl", "master.client_ttl"),
    ),
    "a lease in seconds that is one in hours": (
        cpu,
        _master(default_kv_lease_ttl=11_000_000, client_ttl=120),
        ("master-lease", "master.default_kv_lease_ttl"),
    ),
    "a pin that is none": (
        cpu,
        _master(default_kv_soft_pin_ttl=1800),
        ("master-lease", "master.default_kv_soft_pin_ttl"),
    ),
    "an unknown connector": (
        cpu,
        lambda raw: raw["connector"].update(name="MooncakeConector"),
        ("connector-unknown", "connector.name"),
    ),
    "the connector of another engine": (
        cpu,
        lambda raw: raw.update(connector={"name": "MooncakeConnectorV1"}),
        ("connector-unknown", "connector.name"),
    ),
    "an engine that is too old": (
        ascend,
        lambda raw: raw["engine"].update(version="0.10.0"),
        ("connector-version", "engine.version"),
    ),
    "an engine without the hybrid connector": (
        hybrid,
        lambda raw: (raw["engine"].update(version="0.19.1rc1"), raw["mooncake"].update(version="0.3.8.post1")),
        ("connector-version", "engine.version"),
    ),
    "another protocol": (
        cpu,
        lambda raw: raw["connector"].update(protocol="ascend"),
        ("connector-protocol", "connector.protocol"),
    ),
    "an unknown host": (cpu, lambda raw: raw["prefill"][0].update(host="p9"), ("host-unknown", "prefill[0].host")),
    "an unknown host of the router": (
        cpu,
        lambda raw: raw["router"].update(host="controll"),
        ("host-unknown", "router.host"),
    ),
    "an unknown host of the master": (cpu, lambda raw: raw["master"].update(host="x"), ("host-unknown", "master.host")),
    "an unknown host of etcd": (
        metadata,
        lambda raw: raw["etcd"]["hosts"].__setitem__(1, "p9"),
        ("host-unknown", "etcd.hosts[1]"),
    ),
    "etcd on a host twice": (
        metadata,
        lambda raw: raw["etcd"]["hosts"].__setitem__(1, "control"),
        ("etcd-hosts", "etcd.hosts"),
    ),
    "etcd with an even number of members": (
        metadata,
        lambda raw: raw["etcd"]["hosts"].pop(),
        ("etcd-even", "etcd.hosts"),
    ),
    "etcd on nine hosts": (
        metadata,
        lambda raw: (
            raw["hosts"].update({f"e{n}": {"address": f"192.0.2.{100 + n}"} for n in range(9)}),
            raw["etcd"].update(hosts=[f"e{n}" for n in range(9)]),
        ),
        ("etcd-many", "etcd.hosts"),
    ),
    "etcd nowhere": (metadata, lambda raw: raw["etcd"].clear(), ("etcd-place", "etcd")),
    "etcd here and elsewhere": (
        metadata,
        lambda raw: raw["etcd"].update(endpoints=["192.0.2.77:2379"]),
        ("etcd-place", "etcd"),
    ),
    "a port of etcd that a process has": (
        metadata,
        lambda raw: raw["etcd"].update(metrics_port=9003),
        ("port-overlap", "master.metrics_port"),
    ),
    "etcd with certificates for clients": (
        metadata,
        lambda raw: raw["etcd"].update(tls="all"),
        ("etcd-tls", "etcd.tls"),
    ),
    "an endpoint with certificates": (
        outside,
        lambda raw: raw["etcd"].update(endpoints=["https://192.0.2.77:2379"]),
        ("etcd-tls", "etcd.endpoints"),
    ),
    "an endpoint without a port": (
        outside,
        lambda raw: raw["etcd"]["endpoints"].__setitem__(0, "192.0.2.77"),
        ("etcd-endpoint", "etcd.endpoints[0]"),
    ),
    "an endpoint that is every host's own": (
        outside,
        lambda raw: raw["etcd"]["endpoints"].__setitem__(1, "localhost:2379"),
        ("etcd-endpoint", "etcd.endpoints[1]"),
    ),
    "an endpoint that is no address of one host": (
        outside,
        lambda raw: raw["etcd"]["endpoints"].__setitem__(1, "http://0.0.0.0:2379"),
        ("etcd-endpoint", "etcd.endpoints[1]"),
    ),
    "a port of an etcd that is there already": (
        outside,
        lambda raw: raw["etcd"].update(client_port=12379),
        ("key-without-effect", "etcd.client_port"),
    ),
    "a host that does nothing": (
        cpu,
        lambda raw: raw["hosts"].update(spare={"address": "192.0.2.99"}),
        ("host-unused", "hosts.spare"),
    ),
    "a host with the name of a group": (
        cpu,
        lambda raw: (raw["hosts"].update(router=raw["hosts"].pop("control")), _move(raw, "control", "router")),
        ("host-name", "hosts.router"),
    ),
    "a host whose name is a pattern": (
        cpu,
        lambda raw: (raw["hosts"].update({"p[1:2]": raw["hosts"].pop("p1")}), _move(raw, "p1", "p[1:2]")),
        ("host-name", "hosts.p[1:2]"),
    ),
    "an address twice": (
        cpu,
        lambda raw: raw["hosts"]["d1"].update(address="192.0.2.11"),
        ("address-duplicate", "hosts.d1.address"),
    ),
    "an IPv6 address": (
        ascend,
        lambda raw: raw["hosts"]["npu1"].update(address="2001:db8::1"),
        ("address-ipv6", "hosts.npu1.address"),
    ),
    "a loopback address among several hosts": (
        cpu,
        lambda raw: raw["hosts"]["p1"].update(address="127.0.0.1"),
        ("address-loopback", "hosts.p1.address"),
    ),
    "a variable that hides the plan": (
        cpu,
        lambda raw: raw["hosts"]["p1"].update(vars={"pd_host": {}}),
        ("host-vars", "hosts.p1.vars.pd_host"),
    ),
    "no prefill": (
        cpu,
        lambda raw: (raw["prefill"].clear(), raw["hosts"].pop("p1")),
        ("side-missing", "prefill"),
    ),
    "no decode": (cpu, lambda raw: (raw["decode"].clear(), raw["hosts"].pop("d1")), ("side-missing", "decode")),
    "a name that cannot be a group": (
        cpu,
        lambda raw: raw["prefill"][0].update(name="p-1"),
        ("instance-name", "prefill[0].name"),
    ),
    "the name of another unit": (
        cpu,
        lambda raw: raw["decode"][0].update(name="master"),
        ("instance-name", "decode[0].name"),
    ),
    "a name twice": (cpu, lambda raw: raw["decode"][0].update(name="p1"), ("instance-duplicate", "decode[0].name")),
    "instances of one side with different shapes": (
        dense,
        lambda raw: raw["prefill"].append(
            {"name": "p2", "host": "npu2", "tp": 4, "devices": [8, 9, 10, 11], "api_port": 8300, "kv_port": 28100}
        ),
        ("shape-differs", "prefill[1]"),
    ),
    "a decode that is wider than prefill": (
        ascend,
        lambda raw: raw["decode"][0].update(tp=8, dp=1),
        ("shape-tp", "decode[0].tp"),
    ),
    "a decode that does not divide prefill": (
        ascend,
        lambda raw: raw["decode"][0].update(tp=3, dp=1),
        ("shape-tp", "decode[0].tp"),
    ),
    "sizes that do not divide": (
        cpu,
        lambda raw: (raw["prefill"][0].update(tp=2), raw["decode"][0].update(tp=3)),
        ("shape-tp", "decode[0].tp"),
    ),
    "data parallelism on CPU": (cpu, lambda raw: raw["prefill"][0].update(dp=2), ("shape-single", "prefill[0].dp")),
    "recompute for hybrid models": (
        hybrid,
        lambda raw: raw["decode"][0].update(kv_load_failure_policy="recompute"),
        ("recompute-hybrid", "decode[0].kv_load_failure_policy"),
    ),
    "too few devices": (
        ascend,
        lambda raw: raw["prefill"][0].update(devices=[0, 1, 2]),
        ("devices-count", "prefill[0].devices"),
    ),
    "a device twice in an instance": (
        ascend,
        lambda raw: raw["prefill"][0].update(devices=[0, 1, 2, 3, 4, 5, 6, 6]),
        ("devices-overlap", "prefill[0].devices"),
    ),
    "a device of two instances": (
        dense,
        lambda raw: raw["prefill"].append(
            {"name": "p2", "host": "npu1", "tp": 8, "devices": list(range(7, 15)), "api_port": 8300, "kv_port": 28100}
        ),
        ("devices-overlap", "prefill[1].devices"),
    ),
    "a key of the other engine": (
        cpu,
        lambda raw: raw["prefill"][0].update(kv_port=28002),
        ("key-without-effect", "prefill[0].kv_port"),
    ),
    "a bootstrap port on NPUs": (
        ascend,
        lambda raw: raw["prefill"][0].update(bootstrap_port=8998),
        ("key-without-effect", "prefill[0].bootstrap_port"),
    ),
    "a bootstrap port of decode": (
        cpu,
        lambda raw: raw["decode"][0].update(bootstrap_port=8998),
        ("key-without-effect", "decode[0].bootstrap_port"),
    ),
    "an argument of the plan": (
        cpu,
        lambda raw: raw["prefill"][0].update(args=["--seed", "1", "--port=9000"]),
        ("planned-argument", "prefill[0].args[2]"),
    ),
    "an argument of the plan in another spelling": (
        cpu,
        lambda raw: raw.update(engine_args=["--kv_transfer_config.kv_role", "kv_both"]),
        ("planned-argument", "engine_args[0]"),
    ),
    "an argument that changes the shape": (
        ascend,
        lambda raw: raw["decode"][0].update(args=["--headless"]),
        ("planned-argument", "decode[0].args[0]"),
    ),
    "a shape in a short spelling": (
        ascend,
        lambda raw: raw["decode"][0].update(args=["-pp", "2"]),
        ("planned-argument", "decode[0].args[0]"),
    ),
    "a value glued to a short option": (
        cpu,
        lambda raw: raw.update(engine_args=["--seed", "1", "-tp4"]),
        ("planned-argument", "engine_args[2]"),
    ),
    "a value glued to an option of the shape": (
        ascend,
        lambda raw: raw.update(engine_args=["-n2"]),
        ("planned-argument", "engine_args[0]"),
    ),
    "the beginning of an option of the plan": (
        cpu,
        lambda raw: raw["prefill"][0].update(args=["--tensor-parallel", "4"]),
        ("abbreviated-argument", "prefill[0].args[0]"),
    ),
    "the beginning of an option of the plan with its value": (
        cpu,
        lambda raw: raw["prefill"][0].update(args=["--por=9000"]),
        ("abbreviated-argument", "prefill[0].args[0]"),
    ),
    "the beginning of a short option": (
        cpu,
        lambda raw: raw.update(engine_args=["-t", "4"]),
        ("abbreviated-argument", "engine_args[0]"),
    ),
    "the beginning of the count of API servers": (
        cpu,
        lambda raw: raw.update(engine_args=["--api_server", "4"]),
        ("abbreviated-argument", "engine_args[0]"),
    ),
    "a file of options": (
        cpu,
        lambda raw: raw.update(engine_args=["--config=/etc/vllm.yaml"]),
        ("refused-argument", "engine_args[0]"),
    ),
    "the end of the options": (cpu, lambda raw: raw.update(engine_args=["--"]), ("refused-argument", "engine_args[0]")),
    "a socket in the file system": (
        cpu,
        lambda raw: raw["decode"][0].update(args=["--uds", "/run/vllm.sock"]),
        ("refused-argument", "decode[0].args[0]"),
    ),
    "another protocol on the API's port": (
        cpu,
        lambda raw: raw.update(engine_args=["--grpc"]),
        ("refused-argument", "engine_args[0]"),
    ),
    "TLS of the engine": (
        cpu,
        lambda raw: raw["prefill"][0].update(args=["--ssl_keyfile", "/etc/ssl/key.pem"]),
        ("refused-argument", "prefill[0].args[0]"),
    ),
    "a key of the engine": (
        cpu,
        lambda raw: raw.update(engine_args=["--api-key", "secret"]),
        ("refused-argument", "engine_args[0]"),
    ),
    "a key of the engine in its environment": (
        cpu,
        lambda raw: raw["prefill"][0].update(environment={"VLLM_API_KEY": "secret"}),
        ("refused-variable", "prefill[0].environment.VLLM_API_KEY"),
    ),
    "no metrics": (
        cpu,
        lambda raw: raw.update(engine_args=["--disable-log-stats"]),
        ("refused-argument", "engine_args[0]"),
    ),
    "a log level that hides the line of readiness": (
        cpu,
        lambda raw: raw.update(engine_args=["--uvicorn-log-level", "warning"]),
        ("refused-argument", "engine_args[0]"),
    ),
    "a log level that hides the line of readiness with its value": (
        cpu,
        lambda raw: raw.update(engine_args=["--uvicorn-log-level=error"]),
        ("refused-argument", "engine_args[0]"),
    ),
    "a log level that hides the lines of the connector": (
        ascend,
        lambda raw: raw.update(engine_environment={"VLLM_LOGGING_LEVEL": "WARNING"}),
        ("refused-variable", "engine_environment.VLLM_LOGGING_LEVEL"),
    ),
    "a variable that tells of an upgrade": (
        cpu,
        lambda raw: raw.update(engine_environment={"MOONCAKE_PD_MOONCAKE": "0.3.13.post1"}),
        ("planned-variable", "engine_environment.MOONCAKE_PD_MOONCAKE"),
    ),
    "a variable of the plan": (
        cpu,
        lambda raw: raw.update(engine_environment={"VLLM_HOST_IP": "192.0.2.1"}),
        ("planned-variable", "engine_environment.VLLM_HOST_IP"),
    ),
    "a variable of the plan at an instance": (
        ascend,
        lambda raw: raw["prefill"][0].update(environment={"ASCEND_RT_VISIBLE_DEVICES": "0"}),
        ("planned-variable", "prefill[0].environment.ASCEND_RT_VISIBLE_DEVICES"),
    ),
    "a variable beside the interface": (
        ascend,
        lambda raw: raw.update(engine_environment={"GLOO_SOCKET_IFNAME": "eth0"}),
        ("planned-variable", "engine_environment.GLOO_SOCKET_IFNAME"),
    ),
    "a router that speaks another contract": (
        ascend,
        lambda raw: raw["router"].update(kind="ascend_layerwise"),
        ("router-kind", "router.kind"),
    ),
    "a router for layerwise that speaks another contract": (
        lambda: ascend("MooncakeLayerwiseConnector"),
        lambda raw: raw["router"].update(kind="vllm_router"),
        ("router-kind", "router.kind"),
    ),
    "one router process only": (
        cpu,
        lambda raw: raw["router"].update(backend_ports=[18001]),
        ("router-backends", "router.backend_ports"),
    ),
    "two metrics on one port": (
        cpu,
        lambda raw: raw["router"].update(metrics_ports=[19001, 19001]),
        ("port-overlap", "router.metrics_ports[1]"),
    ),
    "two instances on one host with the default port": (
        cpu,
        lambda raw: raw["decode"].append({"name": "d2", "host": "d1"}),
        ("port-overlap", "decode[1].api_port"),
    ),
    "two prefills on one host with the default bootstrap port": (
        cpu,
        lambda raw: raw["prefill"].append({"name": "p2", "host": "p1", "api_port": 8101}),
        ("port-overlap", "prefill[1].bootstrap_port"),
    ),
    "two ports of one process": (
        cpu,
        lambda raw: raw["prefill"][0].update(bootstrap_port=8100),
        ("port-overlap", "prefill[0].bootstrap_port"),
    ),
    "a port that the transfer engine draws from": (
        cpu,
        lambda raw: raw["decode"][0].update(api_port=16000),
        ("port-in-pool", "decode[0].api_port"),
    ),
    "kv ports among those of the NPU transport": (
        dense,
        lambda raw: raw["prefill"][0].update(kv_port=20793),
        ("port-in-pool", "prefill[0].kv_port"),
    ),
    "the last rank's kv ports among the API ports": (
        ascend,
        lambda raw: raw["prefill"][0].update(kv_port=8094),
        ("port-overlap", "prefill[0].kv_port"),
    ),
    "a metrics port where an old master listens on all addresses": (
        cpu,
        lambda raw: (raw["mooncake"].update(version="0.3.12"), raw["router"].update(metrics_ports=[9003, 19002])),
        ("port-overlap", "router.metrics_ports[0]"),
    ),
    "a computed port beyond the end": (
        ascend,
        lambda raw: raw["prefill"][0].update(kv_port=65530),
        ("port-out-of-range", "prefill[0].kv_port"),
    ),
    "an ephemeral port": (
        cpu,
        lambda raw: raw["master"].update(rpc_port=50051),
        ("port-in-ephemeral-range", "master.rpc_port"),
    ),
    "a range that reaches into the ephemeral ports": (
        ascend,
        lambda raw: raw["prefill"][0].update(kv_port=32761),
        ("port-in-ephemeral-range", "prefill[0].kv_port"),
    ),
    "a NodePort": (
        ascend,
        lambda raw: raw["prefill"][0].update(kv_port=30000),
        ("port-in-nodeport-range", "prefill[0].kv_port"),
    ),
    "a release that is newer than the plan": (
        ascend,
        lambda raw: raw["engine"].update(version="0.99.0"),
        ("version-newer", "engine.version"),
    ),
    "a Mooncake that is newer than the plan": (
        cpu,
        lambda raw: raw["mooncake"].update(version="0.9.0"),
        ("version-newer", "mooncake.version"),
    ),
    "a Mooncake that is older than the image's": (
        ascend,
        lambda raw: raw["mooncake"].update(version="0.3.9"),
        ("mooncake-behind", "mooncake.version"),
    ),
    "a Mooncake that is newer than the image's": (
        ascend,
        lambda raw: raw["mooncake"].update(version="0.3.13.post1"),
        ("mooncake-ahead", "mooncake.version"),
    ),
    "a connector that went away": (
        ascend,
        lambda raw: raw["connector"].update(name="MooncakeConnector"),
        ("connector-version", "connector.name"),
    ),
    "a connector that needs no Mooncake": (
        ascend,
        lambda raw: raw["connector"].update(name="SfaRemoteD2HConnector"),
        ("connector-unknown", "connector.name"),
    ),
    "an unknown connector beside": (
        pool,
        lambda raw: _beside(raw).update(name="AscendStorConnector"),
        ("companion-unknown", "connector.also[0].name"),
    ),
    "a connector beside on CPU": (
        cpu,
        lambda raw: raw["connector"].update(also=[{"name": "UCMConnector"}]),
        ("companion-unknown", "connector.also[0].name"),
    ),
    "a connector beside that came later": (
        ascend,
        lambda raw: raw["connector"].update(also=[{"name": "OffloadingConnector"}]),
        ("companion-version", "connector.also[0].name"),
    ),
    "a connector beside on the wrong side": (
        ascend,
        lambda raw: raw["connector"].update(also=[{"name": "RecomputeCPUOffloadConnector", "side": "both"}]),
        ("companion-side", "connector.also[0].side"),
    ),
    "a pool beside layerwise": (
        pool,
        lambda raw: raw["connector"].update(name="MooncakeLayerwiseConnector"),
        ("pool-layerwise", "connector.also[0].name"),
    ),
    "a pool with an old Mooncake": (
        pool,
        lambda raw: (raw["engine"].update(version="0.18.0rc1"), raw["mooncake"].update(version="0.3.8.post1")),
        ("pool-mooncake", "mooncake.version"),
    ),
    "a pool without a master": (
        pool,
        lambda raw: raw.pop("master"),
        ("pool-master", "connector.also[0]"),
    ),
    "a pool without its file": (
        pool,
        lambda raw: (_beside(raw).update(side="prefill"), raw.pop("engine_environment")),
        ("pool-config", "prefill[0].environment"),
    ),
    "a store without a master": (store, lambda raw: raw.pop("master"), ("store-master", "store")),
    "a store that nobody uses": (store, lambda raw: raw["connector"].pop("also"), ("store-idle", "store")),
    "a store beside a pool of others": (
        npu_store,
        lambda raw: _beside(raw)["extra_config"].update(backend="memcache"),
        ("store-backend", "connector.also[0].extra_config.backend"),
    ),
    "a store node of an old release": (
        store,
        lambda raw: (raw["mooncake"].update(version="0.3.10"), raw["store"]["nodes"][0].pop("ssd")),
        ("store-release", "mooncake.version"),
    ),
    "two store nodes on a host": (
        store,
        lambda raw: raw["store"]["nodes"].append({"host": "s1", "segment_size": "1GiB"}),
        ("store-host", "store.nodes[1].host"),
    ),
    "a store without memory": (
        store,
        lambda raw: (raw["store"].update(segment_size=0, nodes=[]), raw["hosts"].pop("s1")),
        ("store-empty", "store.segment_size"),
    ),
    "a segment in pieces of fabric memory": (
        npu_store,
        lambda raw: (
            raw["store"].update(segment_size="1536MiB"),
            raw.update(engine_environment={"ASCEND_ENABLE_USE_FABRIC_MEM": "1"}),
        ),
        ("store-segment", "store.segment_size"),
    ),
    "a segment larger than adapters take": (
        store,
        lambda raw: (
            raw["connector"].update(protocol="rdma"),
            raw["store"]["nodes"][0].update(segment_size="65GiB"),
        ),
        ("store-segment-large", "store.nodes[0].segment_size"),
    ),
    "a store that speaks another protocol than NPUs": (
        npu_store,
        lambda raw: raw["store"].update(protocol="tcp"),
        ("store-protocol", "store.protocol"),
    ),
    "a store over another transport": (
        store,
        lambda raw: raw["store"].update(protocol="rdma"),
        ("store-transport", "store.protocol"),
    ),
    "a store node without an NPU": (
        npu_store,
        lambda raw: raw["store"].update(nodes=[{"host": "npu1", "segment_size": "1GiB"}]),
        ("store-node-npu", "store.nodes"),
    ),
    "devices of a store over TCP": (
        store,
        lambda raw: raw["store"].update(devices=["mlx5_0"]),
        ("store-devices", "store.devices"),
    ),
    "a disk that is memory": (
        store,
        lambda raw: raw["store"]["nodes"][0]["ssd"].update(path="/dev/shm/kv"),
        ("store-ssd-path", "store.nodes[0].ssd.path"),
    ),
    "a disk that others have their folders on": (
        store,
        lambda raw: raw["store"]["nodes"][0]["ssd"].update(path="/home"),
        ("store-ssd-path", "store.nodes[0].ssd.path"),
    ),
    "a disk by way of another folder": (
        store,
        lambda raw: raw["store"]["nodes"][0]["ssd"].update(path="/data/../kv"),
        ("store-ssd-path", "store.nodes[0].ssd.path"),
    ),
    "a disk with too small a quota": (
        store,
        lambda raw: raw["store"]["nodes"][0]["ssd"].update(quota="100MiB"),
        ("store-ssd-quota", "store.nodes[0].ssd.quota"),
    ),
    "a disk of workers that have none": (
        store,
        lambda raw: raw["store"].update(ssd={"path": "/data/kv", "quota": "1TiB"}),
        ("store-ssd-engine", "store.ssd"),
    ),
    "a variable that the store has instead": (
        npu_store,
        lambda raw: raw.update(engine_environment={"MOONCAKE_CONFIG_PATH": "/etc/mooncake.json"}),
        ("planned-variable", "engine_environment.MOONCAKE_CONFIG_PATH"),
    ),
    "workers of a pool that hash in two ways": (
        store,
        lambda raw: raw["decode"][0].update(environment={"PYTHONHASHSEED": "1"}),
        ("variable-differs", "decode[0].environment"),
    ),
    "several hosts without interfaces": (
        internal,
        lambda raw: raw["hosts"]["npu4"].pop("interface"),
        ("interface-missing", "decode[0].hosts"),
    ),
    "an address of docker0": (
        cpu,
        lambda raw: raw["hosts"]["p1"].update(address="172.17.0.5"),
        ("address-docker", "hosts.p1.address"),
    ),
    "host and hosts": (
        internal,
        lambda raw: raw["prefill"][0].update(hosts=["npu1"]),
        ("instance-host", "prefill[0].hosts"),
    ),
    "a host twice": (
        internal,
        lambda raw: raw["prefill"][0].update(host=None, hosts=["npu1", "npu1"], dp=2, devices=list(range(8))),
        ("instance-host", "prefill[0].hosts"),
    ),
    "two generations of NPUs": (
        internal,
        lambda raw: raw["hosts"]["npu4"].update(generation="A2", chips=16),
        ("generation-mixed", "hosts.npu4"),
    ),
    "ranks that cannot be dealt out to the hosts": (
        internal,
        lambda raw: raw["decode"][0].update(dp=31),
        ("shape-hosts", "decode[0].dp"),
    ),
    "pipeline stages on decode": (
        ascend,
        lambda raw: raw["decode"][0].update(dp=2, pp=2),
        ("shape-decode", "decode[0].pp"),
    ),
    "prefill context parallelism on decode": (
        ascend,
        lambda raw: raw["decode"][0].update(dp=2, pcp=2),
        ("shape-decode", "decode[0].pcp"),
    ),
    "pipeline stages and context parallelism": (
        ascend,
        lambda raw: raw["prefill"][0].update(dp=1, pp=2, pcp=2),
        ("shape-pp-pcp", "prefill[0].pcp"),
    ),
    "pipeline stages with layerwise": (
        layerwise,
        lambda raw: raw["prefill"][0].update(pp=2),
        ("shape-pp-push", "prefill[0].pp"),
    ),
    "pipeline stages that the ports do not count": (
        ascend,
        lambda raw: (
            raw["engine"].update(version="0.11.0"),
            raw["mooncake"].update(version="0.3.7.post2"),
            raw["prefill"][0].update(pp=2),
        ),
        ("shape-uncounted", "prefill[0].pp"),
    ),
    "context parallelism that the ports do not count": (
        hybrid,
        lambda raw: raw["prefill"][0].update(pcp=2),
        ("shape-uncounted", "prefill[0].pcp"),
    ),
    "a dcp that does not divide tp": (
        ascend,
        lambda raw: raw["prefill"][0].update(dcp=3),
        ("shape-dcp", "prefill[0].dcp"),
    ),
    "sparse attention with dcp on one side": (
        ascend,
        lambda raw: (raw["model"].update(features=["moe", "sparse"]), raw["prefill"][0].update(dcp=2)),
        ("shape-dcp-sides", "decode[0].dcp"),
    ),
    "a dense model with data parallelism": (
        dense,
        lambda raw: (raw["model"].update(features=["dense"]), raw["decode"][0].update(tp=4, dp=2)),
        ("dense-dp", "decode[0].dp"),
    ),
    "data parallelism of who knows what": (
        dense,
        lambda raw: (raw["model"].pop("features"), raw["decode"][0].update(tp=4, dp=2)),
        ("dense-dp-unsure", "decode[0].dp"),
    ),
    "an eight-bit KV cache that is pulled": (
        ascend,
        lambda raw: raw["model"].update(features=["moe", "c8"]),
        ("c8-pull", "connector.name"),
    ),
    "recompute for a model that is said to be hybrid": (
        ascend,
        lambda raw: (
            raw["model"].update(features=["moe", "hybrid"]),
            raw["decode"][0].update(kv_load_failure_policy="recompute"),
        ),
        ("recompute-hybrid", "decode[0].kv_load_failure_policy"),
    ),
    "a block size of its own on one side": (
        ascend,
        lambda raw: raw["decode"][0].update(args=["--block-size", "64"]),
        ("option-differs", "decode[0].args"),
    ),
    "a hybrid model that speculates on one side": (
        hybrid,
        lambda raw: (
            raw["model"].update(features=["moe", "hybrid"]),
            raw["decode"][0].update(args=["--speculative-config", '{"method":"mtp","num_speculative_tokens":2}']),
        ),
        ("speculation-differs", "decode[0].args"),
    ),
    "a prefill that speculates far": (
        ascend,
        lambda raw: raw.update(engine_args=["--speculative-config", '{"method":"mtp","num_speculative_tokens":3}']),
        ("speculation-prefill", "prefill[0].args"),
    ),
    "a device that the host does not have": (
        internal,
        lambda raw: raw["prefill"][0].update(devices=list(range(1, 17))),
        ("devices-beyond", "prefill[0].devices"),
    ),
    "a size in extra_config": (
        ascend,
        lambda raw: raw["connector"].update(extra_config={"prefill": {"tp_size": 4}}),
        ("planned-extra-config", "connector.extra_config.prefill.tp_size"),
    ),
    "a meeting port without a group": (
        dense,
        lambda raw: raw["prefill"][0].update(dp_rpc_port=12321),
        ("dp-rpc-idle", "prefill[0].dp_rpc_port"),
    ),
    "a port for supervisors on one host": (
        ascend,
        lambda raw: raw["prefill"][0].update(group_port=17600),
        ("group-idle", "prefill[0].group_port"),
    ),
    "a network that only one side knows": (
        ascend,
        lambda raw: raw["decode"][0].update(environment={"HCCL_INTRA_ROCE_ENABLE": "1"}),
        ("variable-differs", "decode[0].environment"),
    ),
    "a waiver of no rule": (
        ascend,
        lambda raw: raw.update(waive=[{"rule": "port-in-nodport-range", "reason": "x"}]),
        ("waiver-unknown", "waive[0].rule"),
    ),
    "a waiver of what cannot be waived": (
        ascend,
        lambda raw: raw.update(waive=[{"rule": "port-overlap", "reason": "x"}]),
        ("waiver-refused", "waive[0].rule"),
    ),
    "a waiver for a host that is none": (
        ascend,
        lambda raw: raw.update(waive=[{"rule": "selinux-enforcing", "reason": "x", "host": "npu9"}]),
        ("waiver-host", "waive[0].host"),
    ),
    "a waiver of preflight for a key of the file": (
        ascend,
        lambda raw: raw.update(waive=[{"rule": "selinux-enforcing", "reason": "x", "where": "prefill[0]"}]),
        ("waiver-host", "waive[0].where"),
    ),
    "a waiver of nothing": (
        ascend,
        lambda raw: raw.update(waive=[{"rule": "port-in-nodeport-range", "reason": "x"}]),
        ("waiver-unused", "waive[0]"),
    ),
    "a pool of no workers": (
        ascend,
        lambda raw: raw.update(engine_environment={"ASCEND_THREAD_POOL_SIZE": "0"}),
        ("variable-value", "engine_environment.ASCEND_THREAD_POOL_SIZE"),
    ),
    "a resource configuration that is no JSON": (
        ascend,
        lambda raw: raw.update(engine_environment={"ASCEND_GLOBAL_RESOURCE_CONFIG": "x"}),
        ("variable-json", "engine_environment.ASCEND_GLOBAL_RESOURCE_CONFIG"),
    ),
    "a range upside down": (
        cpu,
        lambda raw: raw.update(engine_environment={"MC_MIN_RPC_PORT": "17000", "MC_MAX_RPC_PORT": "16000"}),
        ("variable-range", "engine_environment"),
    ),
    "a zero that switches on": (
        ascend,
        lambda raw: raw.update(engine_environment={"ASCEND_USE_ASYNC_TRANSFER": "0"}),
        ("variable-presence-only", "engine_environment.ASCEND_USE_ASYNC_TRANSFER"),
    ),
    "two links at once": (
        ascend,
        lambda raw: raw.update(engine_environment={"HCCL_INTRA_ROCE_ENABLE": "1", "HCCL_INTRA_PCIE_ENABLE": "1"}),
        ("variables-exclude", "engine_environment"),
    ),
    "a variable of former times": (
        ascend,
        lambda raw: raw.update(engine_environment={"PHYSICAL_DEVICES": "0"}),
        ("variable-dead", "engine_environment.PHYSICAL_DEVICES"),
    ),
    "a variable that nobody reads": (
        ascend,
        lambda raw: raw.update(engine_environment={"ASCEND_USE_FABRIC_MEM": "1"}),
        ("variable-unknown-spelling", "engine_environment.ASCEND_USE_FABRIC_MEM"),
    ),
    "ports from one port on": (
        ascend,
        lambda raw: raw.update(engine_environment={"VLLM_PORT": "8200"}),
        ("variable-ports", "engine_environment.VLLM_PORT"),
    ),
    "a proxy": (
        cpu,
        lambda raw: raw.update(engine_environment={"http_proxy": "http://192.0.2.1:3128"}),
        ("proxy-variable", "engine_environment.http_proxy"),
    ),
    "random ports on the NPU": (
        ascend,
        lambda raw: raw.update(engine_environment={"HCCL_NPU_SOCKET_PORT_RANGE": "auto"}),
        ("npu-port-auto", "engine_environment.HCCL_NPU_SOCKET_PORT_RANGE"),
    ),
    "a short transfer time": (
        ascend,
        lambda raw: raw.update(engine_environment={"ASCEND_TRANSFER_TIMEOUT": "10000"}),
        ("transfer-timeout-short", "engine_environment"),
    ),
    "a long execution time with AIV": (
        ascend,
        lambda raw: raw.update(engine_environment={"HCCL_EXEC_TIMEOUT": "3600", "HCCL_OP_EXPANSION_MODE": "AIV"}),
        ("exec-timeout-capped", "engine_environment"),
    ),
    "an option that went away": (
        ascend,
        lambda raw: raw.update(engine_args=["--device", "npu"]),
        ("option-dead", "engine_args"),
    ),
    "a configuration that is no JSON": (
        ascend,
        lambda raw: raw.update(engine_args=["--additional-config", "enable_kv_nz"]),
        ("option-json", "engine_args"),
    ),
    "a misspelt key of additional-config": (
        ascend,
        lambda raw: raw.update(engine_args=["--additional-config", '{"enable_kv_nzz":true}']),
        ("additional-config-unknown", "engine_args"),
    ),
    "a key on the wrong side": (
        ascend,
        lambda raw: raw["prefill"][0].update(args=["--additional-config", '{"recompute_scheduler_enable":true}']),
        ("additional-config-side", "prefill[0].args"),
    ),
    "a key without what it needs": (
        ascend,
        lambda raw: raw["decode"][0].update(
            args=["--additional-config", '{"finegrained_tp_config":{"oproj_tensor_parallel_size":2}}']
        ),
        ("additional-config-needs", "decode[0].args"),
    ),
    "a weight form that does not exist": (
        ascend,
        lambda raw: raw.update(engine_args=["--additional-config", '{"weight_nz_mode":7}']),
        ("additional-config-value", "engine_args"),
    ),
    "a key that went away": (
        ascend,
        lambda raw: raw["connector"].update(extra_config={"use_ascend_direct": True}),
        ("extra-config-dead", "connector.extra_config"),
    ),
    "a key that never was": (
        ascend,
        lambda raw: raw["connector"].update(extra_config={"delayed_free": True}),
        ("extra-config-unknown", "connector.extra_config"),
    ),
    "an old name of a key": (
        pool,
        lambda raw: _beside(raw).update(extra_config={"backend": "mooncake", "mooncake_rpc_port": "3"}),
        ("extra-config-renamed", "connector.also[0].extra_config"),
    ),
    "an old release without the Ascend transport": (
        ascend,
        lambda raw: (
            raw["engine"].update(version="0.11.0"),
            raw["mooncake"].update(version="0.3.7.post2"),
            raw["connector"].update(extra_config={"use_ascend_direct": False}),
        ),
        ("extra-config-direct", "connector.extra_config"),
    ),
    "a store that does not exist": (
        pool,
        lambda raw: _beside(raw).update(extra_config={"backend": "redis"}),
        ("extra-config-value", "connector.also[0].extra_config"),
    ),
    "a variable of a later release": (
        ascend,
        lambda raw: (
            raw["engine"].update(version="0.13.0"),
            raw["mooncake"].update(version="0.3.7.post2"),
            raw.update(engine_environment={"ASCEND_BASE_PORT": "21000"}),
        ),
        ("variable-too-old", "engine_environment.ASCEND_BASE_PORT"),
    ),
    "a policy of a later release": (
        ascend,
        lambda raw: (
            raw["engine"].update(version="0.11.0"),
            raw["mooncake"].update(version="0.3.7.post2"),
            raw["decode"][0].update(kv_load_failure_policy="recompute"),
        ),
        ("transfer-config-key", "decode[0].kv_load_failure_policy"),
    ),
    "an option of a later release": (
        old,
        lambda raw: raw.update(engine_args=["--attention-backend", "x"]),
        ("option-too-old", "engine_args"),
    ),
    "a key of additional-config that went away": (
        ascend,
        lambda raw: raw.update(engine_args=["--additional-config", '{"enable_npugraph_ex":true}']),
        ("additional-config-dead", "engine_args"),
    ),
    "a key of additional-config of a later release": (
        old,
        lambda raw: raw.update(engine_args=["--additional-config", '{"weight_nz_mode":1}']),
        ("additional-config-too-old", "engine_args"),
    ),
    "a key of extra_config of a later release": (
        old,
        lambda raw: raw["connector"].update(extra_config={"ascend_local_comm_res_path": "/x"}),
        ("extra-config-too-old", "connector.extra_config"),
    ),
    "an option that went away on CPU": (
        cpu,
        lambda raw: raw["decode"][0].update(args=["--device", "cpu"]),
        ("option-dead", "decode[0].args"),
    ),
    "a connector beside, twice": (
        pool,
        lambda raw: raw["connector"]["also"].append(dict(_beside(raw))),
        ("companion-twice", "connector.also[1].name"),
    ),
    "one number for two instances of a host": (
        pool,
        lambda raw: (
            _beside(raw)["extra_config"].update(lookup_rpc_port="0"),
            raw["prefill"].append({"name": "p2", "host": "npu1", "tp": 4, "dp": 2, "devices": list(range(8, 16))}),
        ),
        ("companion-lookup", "connector.also[0].extra_config.lookup_rpc_port"),
    ),
    "ranks of a host with one socket": (
        pool,
        lambda raw: (
            raw["engine"].update(version="0.12.0rc1"),
            raw["mooncake"].update(version="0.3.7.post2"),
            _beside(raw)["extra_config"].update(backend="memcache"),
            _beside(raw).update(side="prefill"),
        ),
        ("pool-ranks", "prefill[0].dp"),
    ),
    "an engine id of another instance": (
        ascend,
        lambda raw: (
            raw["engine"].update(version="0.11.0"),
            raw["mooncake"].update(version="0.3.7.post2"),
            raw["prefill"][0].update(engine_id="d1"),
        ),
        ("engine-id-duplicate", "decode[0].engine_id"),
    ),
    "a dense mixture of experts": (
        ascend,
        lambda raw: raw["model"].update(features=["dense", "moe"]),
        ("features-contradict", "model.features"),
    ),
    "a dense model that is run as a mixture of experts": (
        dense,
        lambda raw: (
            raw["model"].update(features=["dense"]),
            raw["decode"][0].update(tp=4, dp=2),
            raw.update(engine_args=["--enable-expert-parallel"]),
        ),
        ("dense-dp", "decode[0].dp"),
    ),
    "more ranks than any host has NPUs": (
        ascend,
        lambda raw: raw["prefill"][0].update(dp=1024),
        ("devices-beyond", "prefill[0].devices"),
    ),
    "a second prefill with another cache": (
        ascend,
        lambda raw: (
            raw["hosts"].update(npu3={"address": "192.0.2.33"}),
            raw["prefill"].append({"name": "p2", "host": "npu3", "tp": 4, "dp": 2, "args": ["--block-size=64"]}),
        ),
        ("option-differs", "prefill[1].args"),
    ),
    "a quantization in short": (
        ascend,
        lambda raw: raw["prefill"][0].update(args=["-q", "ascend"]),
        ("option-differs", "decode[0].args"),
    ),
    "a drawn port beyond the end": (
        ascend,
        lambda raw: (
            raw["prefill"][0].update(dp=1, tp=8, environment={"ASCEND_BASE_PORT": "65500"}),
            raw["decode"][0].update(dp=1, tp=8),
        ),
        ("port-out-of-range", "prefill[0].devices"),
    ),
    "hardware on CPU": (
        cpu,
        lambda raw: raw.update(hardware={"generation": "A3"}),
        ("key-without-effect", "hardware"),
    ),
    "internal data parallelism on CPU": (
        cpu,
        lambda raw: raw["engine"].update(data_parallel="internal"),
        ("key-without-effect", "engine.data_parallel"),
    ),
    "another seed on one side of a pool": (
        pool,
        lambda raw: raw["decode"][0].update(environment={"PYTHONHASHSEED": "0"}),
        ("variable-differs", "decode[0].environment"),
    ),
    "a waiver for the wrong place": (
        ascend,
        lambda raw: (
            raw["prefill"][0].update(kv_port=30000, dp=1, tp=8),
            raw["decode"][0].update(dp=1, tp=8),
            raw.update(waive=[{"rule": "port-in-nodeport-range", "reason": "x"}]),
            raw["waive"].append({"rule": "port-in-nodeport-range", "reason": "x", "where": "decode"}),
        ),
        ("waiver-unused", "waive[1]"),
    ),
    "an option and its value in one": (
        ascend,
        lambda raw: raw.update(engine_args=["--seed=1", "--max-num-seqs 8"]),
        ("glued-argument", "engine_args[1]"),
    ),
    "sizes for which a host is too small": (
        internal,
        lambda raw: (raw["prefill"].pop(), raw["hosts"].pop("npu2"), raw["prefill"][0].update(dp=2, tp=16)),
        ("devices-beyond", "prefill[0].dp"),
    ),
}
