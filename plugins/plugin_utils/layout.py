# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the ranks of an instance run, and on which devices."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import EXTERNAL, Instance, Topology


@dataclass(frozen=True)
class Part:
    """What one process of an instance serves."""

    host: str
    node: int  # the place of the host among those of the instance
    ranks: tuple[int, ...]  # data-parallel ranks, counted over the whole instance
    first_local: int  # the first of them, counted on this host
    devices: tuple[int, ...]

    @property
    def leads(self) -> bool:
        return self.ranks[:1] == (0,)


def workers(instance: Instance) -> int:
    """Workers, each with a device of its own, that serve one data-parallel rank."""
    return instance.tp * instance.pp * instance.pcp


def local_ranks(instance: Instance) -> int:
    """Ranks on each host. dp is a multiple of the hosts, else the plan is refused."""
    return max(instance.dp // max(len(instance.places), 1), 1)


def devices(instance: Instance) -> tuple[int, ...]:
    """Those it takes on each of its hosts."""
    if instance.devices is not None:
        return instance.devices
    return tuple(range(local_ranks(instance) * workers(instance)))


def lowest_device(instance: Instance) -> int:
    return min(devices(instance), default=0)


def external(topology: Topology, instance: Instance) -> bool:
    return topology.style(instance) == EXTERNAL


def parts(topology: Topology, instance: Instance) -> tuple[Part, ...]:
    """The processes of an instance in the order of their ranks, on all hosts that it names."""
    size, local = workers(instance), local_ranks(instance)
    step = 1 if external(topology, instance) else local
    own = devices(instance)
    return tuple(
        Part(
            host=host,
            node=node,
            ranks=tuple(range(node * local + first, node * local + first + step)),
            first_local=first,
            devices=own[first * size : (first + step) * size],
        )
        for node, host in enumerate(instance.places)
        for first in range(0, local, step)
    )


def width(instance: Instance, counts: tuple[str, ...]) -> int:
    return prod(getattr(instance, size) for size in counts)
