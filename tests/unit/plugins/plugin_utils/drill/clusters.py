# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster in which every drill is possible, as its plan and its hosts tell of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.known import Known
from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import build_plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import read_topology

GIB = 1 << 30
TOPOLOGY: dict[str, Any] = {
    "plugin": "mooncake.pd.topology",
    "name": "lab",
    "engine": {"kind": "vllm_cpu", "version": "0.32.0"},
    "connector": {"name": "MooncakeConnector", "protocol": "tcp", "also": [{"name": "MooncakeStoreConnector"}]},
    "mooncake": {"version": "0.3.13.post1"},
    "model": {"path": "/data/tiny", "served_name": "tiny"},
    "hosts": {
        name: {"address": f"192.0.2.{place}"} for place, name in enumerate(("a", "b", "c", "p", "d", "s", "t"), 1)
    },
    "prefill": [{"name": "p1", "host": "p"}],
    "decode": [{"name": "d1", "host": "d"}],
    "router": {"host": "c"},
    "etcd": {"hosts": ["a", "b", "c"]},
    "master": {"hosts": ["a", "b"], "client_ttl": 20, "eviction_high_watermark_ratio": 0.8},
    "store": {
        "segment_size": "0",
        "nodes": [{"host": "s", "segment_size": "6GiB"}, {"host": "t", "segment_size": "2GiB"}],
    },
}
MASTERS: dict[str, dict[str, Any]] = {
    "a": {"running": True, "role": "standby", "service_ready": False, "error": ""},
    "b": {
        **{"running": True, "role": "leader", "service_ready": True, "error": ""},
        **{"key_count": 1234, "bytes": GIB, "capacity": 8 * GIB},
    },
}
ETCD: dict[str, Any] = {
    "healthy": True,
    "problems": [],
    "answering": ["a", "b", "c"],
    "leader": "c",
    "quorum": 2,
    "members": [{"name": name, "healthy": True, "learner": False} for name in ("a", "b", "c")],
}


def known(topology: dict[str, Any] | None = None, **changes: Any) -> Known:
    made = build_plan(read_topology({**TOPOLOGY, **(topology or {})}))
    hosts = {name: made.hostvars(name)["pd_host"] for name in made.topology.hosts}
    well = Known(
        cluster=made.cluster(),
        hosts=hosts,
        played=frozenset(hosts),
        masters=MASTERS,
        etcd=ETCD,
        tools=frozenset({"a", "b", "d", "p", "s", "t"}),
        router_url="http://192.0.2.3:8000",
    )
    return replace(well, **changes)
