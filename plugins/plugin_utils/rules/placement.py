# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every process has a host, every host an address and a name that Ansible can use."""

from __future__ import annotations

import ipaddress
import re

from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.fields import suggestion
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import (
    DECODE,
    PREFILL,
    Host,
    Instance,
    Reading,
    Topology,
)

GROUPS = ("pd", "engine", "prefill", "decode", "router", "master", "etcd")
INSTANCE_GROUP = "instance_"
_NOT_HOSTS = frozenset((*GROUPS, "all", "ungrouped"))
_NOT_INSTANCES = frozenset(("router", "master", "etcd"))  # their units would have the same name
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# the default network of docker0 (docs.docker.com, dockerd --bip)
_DOCKER = ipaddress.ip_network("172.17.0.0/16")
_INSTANCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,49}")


def check_hosts(topology: Topology, report: Report) -> None:
    first_with: dict[str, Host] = {}
    for host in topology.hosts.values():
        at = f"{host.where}.address"
        if not _HOST_NAME.fullmatch(host.name) or host.name in _NOT_HOSTS or host.name.startswith(INSTANCE_GROUP):
            report.error(
                "host-name",
                host.where,
                f"{host.name!r} is the name of a group, or Ansible would read it as a pattern.",
                "use letters, digits, dots and dashes, and no group name.",
            )
        twin = first_with.setdefault(host.address, host)
        if twin is not host:
            report.error(
                "address-duplicate",
                at,
                f"{host.address} is also the address of {twin.name} ({twin.where}.address): two hosts would be one "
                "machine, and their ports would clash unseen.",
                "give each machine one entry.",
            )
        address = ipaddress.ip_address(host.address)
        if address.version == 6:
            report.error(
                "address-ipv6",
                at,
                "the connectors listen on IPv4 only (vllm-ascend#4103, upstream's bootstrap server binds 0.0.0.0).",
                "write the IPv4 address of the host.",
            )
        if address in _DOCKER:
            report.warning(
                "address-docker",
                at,
                f"{host.address} belongs to the network that Docker makes on every host, so peers would reach their "
                "own docker0.",
                "write the address that the other hosts reach.",
            )
        if address.is_loopback and len(topology.hosts) > 1:
            report.error(
                "address-loopback",
                at,
                f"{host.address} is each host's own loopback, so the other hosts would connect to themselves.",
                "write the address that the other hosts reach.",
            )
        for name in sorted({"pd_cluster", "pd_host"} & set(map(str, host.vars))):
            report.error(
                "host-vars", f"{host.where}.vars.{name}", "would hide what the plan says.", "use another name."
            )


def check_placement(reading: Reading, topology: Topology, report: Report) -> None:
    """Every process has a host, every side an instance, every instance a name of its own."""
    placed = [place for item in topology.instances for place in _places(item)]
    if topology.router:
        placed.append((f"{topology.router.where}.host", topology.router.host))
    if topology.master and topology.master.host:
        placed.append((f"{topology.master.where}.host", topology.master.host))
    for several in (topology.master, topology.etcd):
        if several:
            placed += [(f"{several.where}.hosts[{index}]", host) for index, host in enumerate(several.hosts)]
    for where, name in placed:
        if name not in topology.hosts and not reading.is_broken(f"hosts.{name}"):
            known = ", ".join(list(topology.hosts)[:20])
            report.error(
                "host-unknown",
                where,
                f"{name} is not in hosts, so it has no address.",
                suggestion(name, topology.hosts) or f"add it to hosts or name one of {known}.",
            )
    used = {name for _where, name in placed}
    # a misspelt or faulty entry may be the one that belongs there
    certain = used <= set(topology.hosts) and not reading.broken and all(item.places for item in topology.instances)
    for host in topology.hosts.values():
        if certain and host.name not in used:
            report.warning(
                "host-unused",
                host.where,
                "nothing of the plan runs there.",
                "place something there or remove the host.",
            )
    for kind in (PREFILL, DECODE):
        if not topology.side(kind) and not reading.is_broken(kind):
            report.error(
                "side-missing",
                kind,
                f"there is no {kind} instance, so no request could be answered.",
                f"add `- {{name: {kind[0]}1, host: ...}}` to {kind}.",
            )
    _check_names(topology, report)
    for instance in topology.instances:
        _check_places(topology, instance, report)


def _places(instance: Instance) -> list[tuple[str, str]]:
    if instance.hosts:
        return [(f"{instance.where}.hosts[{index}]", host) for index, host in enumerate(instance.hosts)]
    return [(f"{instance.where}.host", instance.host)] if instance.host else []


def _check_places(topology: Topology, instance: Instance, report: Report) -> None:
    if not instance.places:
        report.error(
            "schema-required",
            f"{instance.where}.host",
            "is required: the plan cannot place the instance without it.",
            "add `host:` there, or `hosts:` for several.",
        )
    if instance.host and instance.hosts:
        report.error(
            "instance-host",
            f"{instance.where}.hosts",
            "stands beside host, so one of the two would have no effect.",
            "use host for one host and hosts for several.",
        )
    if len(set(instance.hosts)) != len(instance.hosts):
        report.error(
            "instance-host",
            f"{instance.where}.hosts",
            "names a host twice, so two of its processes would take the same devices and ports.",
            "name each host once; dp decides how many ranks it runs.",
        )
    first = topology.hosts.get(instance.places[0]) if len(instance.places) > 1 else None
    if first and not all(topology.hosts[name].interface for name in instance.places if name in topology.hosts):
        report.warning(
            "interface-missing",
            f"{instance.where}.hosts",
            "its ranks meet across hosts, but not every one of them says hosts.<name>.interface, so Gloo and HCCL take "
            "the interface that they find first, such as docker0.",
            "name the interface that carries the host's address.",
        )


def _check_names(topology: Topology, report: Report) -> None:
    first_named: dict[str, Instance] = {}
    for instance in topology.instances:
        at = f"{instance.where}.name"
        if not _INSTANCE_NAME.fullmatch(instance.name) or instance.name in _NOT_INSTANCES:
            report.error(
                "instance-name",
                at,
                f"{instance.name!r} cannot name a unit and a group.",
                "use up to 50 letters, digits and underscores, and neither router, master nor etcd.",
            )
        twin = first_named.setdefault(instance.name, instance)
        if twin is not instance:
            report.error(
                "instance-duplicate",
                at,
                f"{instance.name} is also the name of {twin.where}, so both would write the same unit.",
                "give each instance a name of its own.",
            )
