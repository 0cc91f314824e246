# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""etcd can keep a quorum, and those that need it can reach it."""

from __future__ import annotations

import ipaddress
import re

from ansible_collections.mooncake.pd.plugins.plugin_utils.etcd import with_scheme
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import MAX_PORT
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.fields import keys
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Etcd, Topology

_MOST = 7  # etcd's FAQ, "What is maximum cluster size?"
_ENDPOINT = re.compile(r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):(?P<port>\d{1,5})")
_MANAGED_ONLY = ("client_port", "peer_port", "metrics_port", "tls")


def check_etcd(topology: Topology, report: Report) -> None:
    etcd = topology.etcd
    if etcd is None:
        return
    if bool(etcd.hosts) == bool(etcd.endpoints):
        report.error(
            "etcd-place",
            etcd.where,
            "has both hosts and endpoints, so it would be there twice."
            if etcd.hosts
            else "has neither hosts nor endpoints, so it is nowhere.",
            "name hosts to have it installed there, or endpoints of one that is there already.",
        )
    if etcd.hosts:
        _check_members(etcd, report)
    if etcd.endpoints:
        _check_endpoints(topology, etcd, report)
    if etcd.tls == "all" or any(with_scheme(end).startswith("https:") for end in etcd.endpoints):
        report.warning(
            "etcd-tls",
            f"{etcd.where}.{'tls' if etcd.hosts else 'endpoints'}",
            "Mooncake cannot connect: its client of etcd has neither a certificate nor a CA of its own "
            "(mooncake-common/etcd/etcd_wrapper.go up to 0.3.13).",
            "use tls: peers, and close the port of the clients to other networks.",
        )


def _check_members(etcd: Etcd, report: Report) -> None:
    at, count = f"{etcd.where}.hosts", len(etcd.hosts)
    if len(set(etcd.hosts)) != count:
        report.error(
            "etcd-hosts",
            at,
            "names a host twice, so one machine would vote twice.",
            "name each host once.",
        )
    if count % 2 == 0:
        report.warning(
            "etcd-even",
            at,
            f"{count} members stand the loss of {(count - 1) // 2}, as {count - 1} do, and one more can fail.",
            f"name {count - 1} or {count + 1} hosts.",
        )
    if count > _MOST:
        report.warning(
            "etcd-many",
            at,
            f"{count} members: each write waits for {count // 2 + 1} of them.",
            "five stand the loss of two, which is what etcd advises.",
        )


def _check_endpoints(topology: Topology, etcd: Etcd, report: Report) -> None:
    for index, endpoint in enumerate(etcd.endpoints):
        at = f"{etcd.where}.endpoints[{index}]"
        found = _ENDPOINT.fullmatch(with_scheme(endpoint))
        if found is None or not 0 < int(found["port"]) <= MAX_PORT:
            report.error(
                "etcd-endpoint",
                at,
                f"{endpoint!r} is no endpoint of etcd.",
                "write it as 192.0.2.11:2379 or http://192.0.2.11:2379.",
            )
        elif _is_own(found["host"], len(topology.hosts) > 1):
            report.error(
                "etcd-endpoint",
                at,
                f"{found['host']} is on every host that host itself, so there they would look for it.",
                "write an address that all hosts reach.",
            )
    if len({with_scheme(end).partition("://")[0] for end in etcd.endpoints}) > 1:
        report.error(
            "etcd-endpoint",
            f"{etcd.where}.endpoints",
            "has http and https, but there is one scheme for all of them.",
            "write all with the same scheme.",
        )
    if not etcd.hosts:
        for name in _MANAGED_ONLY:
            if getattr(etcd, name) != keys(Etcd)[name].default:
                report.error(
                    "key-without-effect",
                    f"{etcd.where}.{name}",
                    "has no effect: this etcd is not of this plan.",
                    "remove the key; endpoints say how it is reached.",
                )


def _is_own(host: str, several: bool) -> bool:
    if host == "localhost":
        return several
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return address.is_unspecified or (address.is_loopback and several)
