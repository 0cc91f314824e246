# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The master of the KV store has a place, and flags that its release takes and that fit each other."""

from __future__ import annotations

import re

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.watermark import lease_seconds
from ansible_collections.mooncake.pd.plugins.plugin_utils.master import FLAGS, HA_SINCE, NEEDS, STRATEGIES, offloads
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.fields import keys
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import MASTER_CLUSTER, Master, Topology
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

# A part of a key of etcd and of a path; a slash would be a level of its own in both.
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
# DEFAULT_CLIENT_LIVE_TTL_SEC of mooncake-store/include/types.h, 0.3.7.post2 to 0.3.13
_CLIENT_TTL = 10
# A client beats once a second and looks for another leader after three misses (client_service.cpp@3b5a594).
_SOME_BEATS = 5
_PATHS = ("snapshot_path", "snapshot_backup_dir")


def check_master(topology: Topology, report: Report) -> None:
    master = topology.master
    if master is None:
        return
    if bool(master.host) == bool(master.hosts):
        report.error(
            "master-place",
            master.where,
            "has both host and hosts, so it is not clear whether one master runs or several."
            if master.host
            else "has neither host nor hosts, so it is nowhere.",
            "name host for one master, or hosts for several that stand by for each other.",
        )
    elif master.ha:
        _check_ha(topology, master, report)
    if not _CLUSTER.fullmatch(master.cluster_id):
        report.error(
            "master-cluster",
            f"{master.where}.cluster_id",
            f"{master.cluster_id!r} cannot be a part of a key of etcd and of a path.",
            "use up to 100 letters, digits, dots, dashes and underscores, a letter or digit first.",
        )
    elif master.cluster_id != MASTER_CLUSTER and not (master.ha or master.enable_snapshot):
        report.error(
            "key-without-effect",
            f"{master.where}.cluster_id",
            "has no effect: one master without snapshots calls its cluster by no name.",
            "remove the key, or name hosts or enable_snapshot.",
        )
    _check_releases(topology, master, report)
    _check_needs(topology, master, report)
    _check_eviction(topology, master, report)
    _check_times(topology, master, report)


def _check_ha(topology: Topology, master: Master, report: Report) -> None:
    at, release = f"{master.where}.hosts", topology.mooncake.version
    if len(set(master.hosts)) != len(master.hosts):
        report.error(
            "master-hosts", at, "names a host twice, and there is one master on a host.", "name each host once."
        )
    elif len(master.hosts) == 1:
        report.warning(
            "master-alone",
            at,
            "one master has nobody to stand by for it, and a start takes five seconds longer for the election.",
            "name two or three hosts, or write host instead.",
        )
    if topology.etcd is None:
        report.error(
            "master-etcd",
            at,
            "several masters elect one of them through etcd, and the plan has none (HA backend connection string must "
            "be set).",
            "add etcd with hosts or endpoints, or write host for one master.",
        )
    elif topology.etcd.tls == "all" or any(end.startswith("https:") for end in topology.etcd.endpoints):
        report.error(
            "master-etcd",
            at,
            "the masters elect one of them through etcd, and they know neither certificates nor https.",
            "set etcd.tls to peers, or name endpoints without TLS.",
        )
    if not at_least(release, HA_SINCE):
        report.error(
            "master-ha-release",
            at,
            f"a master that stands by answers nobody before {HA_SINCE}, so with {release} nothing tells it from one "
            "that is lost.",
            f"use Mooncake {HA_SINCE} or later, or write host for one master.",
        )
    if master.enable_http_metadata_server:
        report.error(
            "master-metadata",
            f"{master.where}.enable_http_metadata_server",
            "every master would have metadata of its own, and what clients wrote is gone when another one leads.",
            "leave it out: clients that name P2PHANDSHAKE need no metadata server.",
        )
    if master.enable_snapshot:
        report.warning(
            "master-snapshot-local",
            f"{master.where}.snapshot_path",
            "a snapshot lies on the host of the master that wrote it; another one that leads does not find it.",
            "put snapshot_path on a file system that all of them have, and waive this.",
        )


def _check_releases(topology: Topology, master: Master, report: Report) -> None:
    release = topology.mooncake.version
    for name, since in FLAGS.items():
        if getattr(master, name) != keys(Master)[name].default and not at_least(release, since):
            report.error(
                "master-flag-too-old",
                f"{master.where}.{name}",
                f"mooncake_master of {release} does not know --{name}, and ends at once (unknown command line flag).",
                f"use Mooncake {since} or later, or remove the key.",
            )
    strategy = master.allocation_strategy
    if strategy and at_least(release, FLAGS["allocation_strategy"]) and not at_least(release, STRATEGIES[strategy]):
        report.error(
            "master-flag-too-old",
            f"{master.where}.allocation_strategy",
            f"mooncake_master of {release} does not know {strategy} and takes random instead, with a warning in its "
            "log only.",
            f"use Mooncake {STRATEGIES[strategy]} or later, or choose another one.",
        )


def _check_needs(topology: Topology, master: Master, report: Report) -> None:
    on = {needed: getattr(master, needed) for needed in NEEDS.values()} | {"enable_offload": offloads(topology, master)}
    for name, needed in NEEDS.items():
        if getattr(master, name) != keys(Master)[name].default and not on[needed]:
            report.error(
                "key-without-effect",
                f"{master.where}.{name}",
                f"has no effect without {needed}.",
                f"set {needed} to true, or remove the key.",
            )
    if master.enable_snapshot and not master.snapshot_path:
        report.error(
            "master-snapshot",
            f"{master.where}.enable_snapshot",
            "has no folder, and the master aborts (MOONCAKE_SNAPSHOT_LOCAL_PATH environment variable is not set).",
            "set snapshot_path to a folder that the service user may write.",
        )
    for name in _PATHS:
        value = getattr(master, name)
        if value and not value.startswith("/"):
            report.error(
                "master-snapshot",
                f"{master.where}.{name}",
                f"{value!r} is relative, and a unit starts in /.",
                "write the whole path.",
            )
    if master.enable_metadata_cleanup_on_timeout and not master.enable_http_metadata_server:
        report.error(
            "key-without-effect",
            f"{master.where}.enable_metadata_cleanup_on_timeout",
            "has no effect: the master cleans up its own metadata server and has none, which its log only warns of.",
            "set enable_http_metadata_server to true, or remove the key.",
        )


def _check_eviction(topology: Topology, master: Master, report: Report) -> None:
    high, evicted = master.eviction_high_watermark_ratio, master.eviction_ratio
    if high is not None and (high == 0 or high >= 1):
        report.warning(
            "master-watermark",
            f"{master.where}.eviction_high_watermark_ratio",
            # MasterService::EvictionThreadFunc@3b5a594
            "the master evicts all the time, whatever the pool holds."
            if high == 0
            else "the master evicts only after a put has failed, and what failed is not kept.",
            "use 0.9, the default since 0.3.12, or less where puts still fail.",
        )
    if evicted == 0:
        report.warning(
            "master-watermark",
            f"{master.where}.eviction_ratio",
            "one pass has no share to evict, so the pool stays at its watermark and puts fail.",
            "use 0.05, the default, or more.",
        )
    elif high and evicted is not None and evicted >= high:
        report.warning(
            "master-watermark",
            f"{master.where}.eviction_ratio",
            f"one pass evicts {evicted:g} of the pool when {high:g} of it are full, which is all there is.",
            "use 0.05 to 0.15.",
        )


def _check_times(topology: Topology, master: Master, report: Report) -> None:
    if master.client_ttl is not None and master.client_ttl < _SOME_BEATS:
        report.warning(
            "master-client-ttl",
            f"{master.where}.client_ttl",
            f"a client beats once a second, so {master.client_ttl} s take one that is late for one that is lost, and "
            "what it keeps leaves the pool.",
            f"use {_CLIENT_TTL}, the default, or more; vLLM-Ascend's guide of its pool takes 120.",
        )
    lease = master.default_kv_lease_ttl or lease_seconds(topology.mooncake.version) * 1000
    client_ttl = master.client_ttl or _CLIENT_TTL
    given = master.default_kv_lease_ttl is not None or master.client_ttl is not None
    if given and lease > client_ttl * 1000:
        report.warning(
            "master-lease",
            f"{master.where}.{'default_kv_lease_ttl' if master.default_kv_lease_ttl else 'client_ttl'}",
            f"what was read is leased for {lease / 1000:g} s, and after {client_ttl} s of silence the master drops all "
            "that a client keeps, leased or not.",
            "let client_ttl be the longer one: default_kv_lease_ttl is in milliseconds, client_ttl in seconds.",
        )
    pinned = master.default_kv_soft_pin_ttl
    if pinned is not None and pinned < lease:
        report.warning(
            "master-lease",
            f"{master.where}.default_kv_soft_pin_ttl",
            f"a pin of {pinned} ms ends before the lease of {lease} ms that everything has, so it keeps nothing.",
            "use more milliseconds than default_kv_lease_ttl; the default is 1800000.",
        )
