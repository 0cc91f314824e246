# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps the units of an instance together: on each of its hosts a process that watches those of that host.

The one on the first host decides, the others connect to it. An instance of one unit needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import exact
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import LogLine, Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Instance, Topology

SUPERVISOR = "supervisor"
# Ranks and numbers of hosts are what else stands behind the dash, and an instance's name has none.
_SUFFIX = "group"
GRACE = 30  # seconds
_STOP_SECONDS = 10
# When one has died, all others have to be gone before it starts again: the slowest to leave its devices decides.
RESTART_SECONDS = 30


def name_of(instance: str) -> str:
    """Of the supervisors of an instance."""
    return f"{instance}-{_SUFFIX}"


def members(made: Sequence[Process]) -> tuple[Process, ...]:
    """The processes of an instance, as units that start again together."""
    return tuple(made) if len(made) < 2 else tuple(replace(one, restart_after=RESTART_SECONDS) for one in made)


def processes(topology: Topology, instance: Instance, members: Sequence[Process], port: int) -> tuple[Process, ...]:
    """members: the processes of the instance; port: where the supervisor of its first host listens, if it has more."""
    if len(members) < 2:
        return ()
    hosts = [host for host in instance.places if host in topology.hosts]
    return tuple(_process(topology, instance, members, host, port) for host in hosts)


def _process(topology: Topology, instance: Instance, members: Sequence[Process], host: str, port: int) -> Process:
    address, head = topology.hosts[host].address, topology.hosts.get(instance.places[0])
    leads = host == instance.places[0]
    several = len(instance.places) > 1
    options = [
        *("--cluster", topology.name, "--instance", instance.name, "--host", host),
        *("--grace", str(instance.group_grace or GRACE)),
    ]
    if leads:
        known = [place for place in instance.places if place in topology.hosts]
        options += ["--hosts", *(f"{place}={topology.hosts[place].address}" for place in known)]
        options += ["--listen", f"{address}:{port}"] if several else []
    else:
        options += ["--head", f"{head.address if head else instance.places[0]}:{port}", "--address", address]
    listens = leads and several
    return Process(
        name=name_of(instance.name),
        kind=SUPERVISOR,
        host=host,
        where=instance.where,
        description=f"Supervisor of {instance.kind} {instance.name} of {topology.name}",
        argv=("pd_group", *options, "--units", *(member.unit for member in members if member.host == host)),
        environment={},
        timeout_stop=_STOP_SECONDS,
        claims=(exact("group", address, port, f"{instance.where}.group_port"),) if listens else (),
        health=None,
        lines=(LogLine(rf"^watching {instance.name} of ", text="watching"),),
        supervises=instance.name,
    )
