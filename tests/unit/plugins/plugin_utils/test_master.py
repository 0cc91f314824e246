# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Masters: their command, and what proves each ready; how clients of the store find the one that leads."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils import master
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Master
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.faults import SNAPSHOT, outside, pool, standby
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import cpu, plan, problems, processes

# keys that are no optional flag: where it runs, what it always says, and a variable
OTHERS = {"where", "host", "hosts", "cluster_id", "rpc_port", "metrics_port", "snapshot_path"}
# values other than the default, by the kind of key
EVERY = {
    **{
        name: True
        for name in ("enable_snapshot", "enable_offload", "enable_http_metadata_server", "rpc_enable_tcp_no_delay")
    },
    "eviction_high_watermark_ratio": 0.85,
    "eviction_ratio": 0.15,
    "snapshot_path": "/data/snapshots",
    "allow_evict_soft_pinned_objects": False,
    "default_kv_lease_ttl": 11000,
    "client_ttl": 120,
    "memory_allocator": "cachelib",
}


def one(raw, host="control"):
    return processes(raw, host)["master"]


def argv(raw, host="control"):
    return one(raw, host)["unit"]["argv"]


def test_every_key_is_a_flag_of_some_release():
    assert {field.name for field in fields(Master)} - OTHERS == set(master.FLAGS)


def test_a_master_alone_says_no_more_than_it_has_to():
    assert argv(cpu()) == [
        "mooncake_master",
        "--rpc_address=192.0.2.10",
        "--rpc_port=17051",
        "--metrics_host=192.0.2.10",
        "--metrics_port=9003",
    ]
    assert one(cpu())["ready"]["health"] == {
        "url": "http://192.0.2.10:9003/health",
        "json": {"service_ready": True},
    }


def test_flags_stand_in_the_command_as_gflags_reads_them():
    raw = cpu()
    raw["master"].update(EVERY)
    assert problems(raw) == ()
    told = argv(raw)
    assert told[5:] == [
        "--cluster_id=mooncake_cluster",
        "--eviction_high_watermark_ratio=0.85",
        "--eviction_ratio=0.15",
        "--default_kv_lease_ttl=11000",
        "--allow_evict_soft_pinned_objects=false",
        "--client_ttl=120",
        "--memory_allocator=cachelib",
        "--rpc_enable_tcp_no_delay=true",
        "--enable_http_metadata_server=true",
        "--http_metadata_server_port=8080",
        "--enable_snapshot=true",
        "--enable_offload=true",
        "--snapshot_object_store_type=local",
    ]
    assert one(raw)["unit"]["environment"]["MOONCAKE_SNAPSHOT_LOCAL_PATH"] == "/data/snapshots"
    assert [(port["purpose"], port["address"], port["first"]) for port in one(raw)["claims"]["ports"]] == [
        ("master-rpc", "192.0.2.10", 17051),
        ("master-metrics", "192.0.2.10", 9003),
        ("master-metadata", "0.0.0.0", 8080),
    ]


@pytest.mark.parametrize("name", [name for name, since in master.FLAGS.items() if since != "0.0"])
def test_a_flag_that_the_release_has_not_is_refused(name):
    since, needed = master.FLAGS[name], master.NEEDS.get(name)
    raw = cpu()
    raw["master"] |= SNAPSHOT if needed == "enable_snapshot" or name == "enable_snapshot" else {}
    raw["master"] |= {"enable_offload": True} if needed == "enable_offload" else {}
    raw["master"] |= {"enable_http_metadata_server": True} if name == "enable_metadata_cleanup_on_timeout" else {}
    kind = Master.__dataclass_fields__[name].metadata["key"].kind
    raw["master"][name] = {"integer": 60, "share": 0.5, "boolean": True, "text": "random"}[kind]
    if name == "snapshot_backup_dir":
        raw["master"][name] = "/backup"
    for version in ("0.3.7.post2", "0.3.8", "0.3.9", "0.3.10", "0.3.11", "0.3.12", "0.3.13"):
        raw["mooncake"]["version"] = version
        refused = {problem.where for problem in problems(raw) if problem.rule == "master-flag-too-old"}
        assert (f"master.{name}" in refused) is not at_least(version, since)


def test_snapshots_of_the_first_release_that_has_them():
    raw = cpu()
    raw["mooncake"]["version"] = "0.3.10"
    raw["master"] |= SNAPSHOT
    assert argv(raw)[-1] == "--snapshot_backend_type=local"


def test_masters_that_stand_by_for_each_other():
    raw = standby()
    raw["master"]["cluster_id"] = "north"
    assert argv(raw, "d1") == [
        "mooncake_master",
        "--rpc_address=192.0.2.21",
        "--rpc_port=17051",
        "--metrics_host=192.0.2.21",
        "--metrics_port=9003",
        "--enable_ha=true",
        "--etcd_endpoints=192.0.2.10:2379;192.0.2.11:2379;192.0.2.21:2379",
        "--cluster_id=north",
    ]
    leads, stands_by = one(raw, "d1")["ready"]["health"]["states"]
    assert leads == {"name": "leader", "json": {"role": "leader", "service_ready": True}, "without": []}
    assert stands_by == {
        "name": "standby",
        "json": {
            "role": "standby",
            "ha_state": "standby",
            "leader_address": ["192.0.2.10:17051", "192.0.2.11:17051", "192.0.2.21:17051"],
        },
        "without": ["master-rpc"],
    }
    assert plan(raw).groups()["master"] == ["control", "p1", "d1"]
    told = plan(raw).cluster()["master"]["leaders"]
    assert list(told) == stands_by["json"]["leader_address"]
    assert told["192.0.2.21:17051"] == "http://192.0.2.21:9003"


def test_clients_are_told_the_same_cluster_as_the_masters():
    raw = standby()
    raw["master"]["cluster_id"] = "north"
    told = plan(raw).cluster()["master"]
    assert told["server_address"] == "etcd://192.0.2.10:2379;192.0.2.11:2379;192.0.2.21:2379"
    assert told["client_environment"]["MC_STORE_CLUSTER_ID"] == "north"
    assert one(raw)["unit"]["environment"]["MC_STORE_CLUSTER_ID"] == "north"


def test_an_etcd_of_others_elects_too():
    raw = outside()
    raw["master"] = {"hosts": ["control", "p1"]}
    assert plan(raw).cluster()["master"]["server_address"] == "etcd://192.0.2.77:2379;192.0.2.78:2379"
    assert "--etcd_endpoints=192.0.2.77:2379;192.0.2.78:2379" in argv(raw, "p1")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda raw: raw["etcd"].update(tls="all"), "master.hosts"),
        (lambda raw: raw.update(etcd={"endpoints": ["https://192.0.2.77:2379"]}), "master.hosts"),
    ],
)
def test_masters_know_no_tls(change, where):
    raw = standby()
    change(raw)
    assert ("master-etcd", where) in {(problem.rule, problem.where) for problem in problems(raw)}


def test_a_pool_makes_engines_clients_of_the_store():
    assert plan(pool()).cluster()["master"]["clients"] is True


def test_every_engine_tries_the_way_to_every_master():
    raw = standby()
    assert plan(raw).hostvars("p1")["pd_host"]["peers"] == ["d1", "control"]
