# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NPUs: every worker has one of its own."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils import layout
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import (
    MOST_RANKS,
    Instance,
    Topology,
)


def check_devices(topology: Topology, report: Report) -> None:
    owner: dict[tuple[str, int], Instance] = {}
    for instance in topology.instances:
        _check_count(instance, report)
        if is_absurd(instance):
            continue
        for host in dict.fromkeys(instance.places):
            _check_host(topology, instance, host, owner, report)
    _check_generations(topology, report)


def is_absurd(instance: Instance) -> bool:
    """More workers on a host than any host has NPUs; counting them all out would take minutes."""
    return layout.local_ranks(instance) * layout.workers(instance) > MOST_RANKS


def _check_count(instance: Instance, report: Report) -> None:
    needed = layout.local_ranks(instance) * layout.workers(instance)
    if is_absurd(instance):
        report.error(
            "devices-beyond",
            f"{instance.where}.devices",
            f"{instance.name} needs {needed} devices on a host, and no host has that many.",
            "use smaller sizes or more hosts.",
        )
        return
    own = layout.devices(instance)
    if len(own) != needed:
        sizes = " x ".join(
            f"{size} {getattr(instance, size)}" for size in ("tp", "pp", "pcp") if getattr(instance, size) > 1
        )
        report.error(
            "devices-count",
            f"{instance.where}.devices",
            f"names {len(own)} devices, but {layout.local_ranks(instance)} rank(s) of {sizes or 'tp 1'} on each host "
            f"need {needed}.",
            "name one device for each worker of a host, or change the sizes.",
        )


def _check_host(
    topology: Topology, instance: Instance, host: str, owner: dict[tuple[str, int], Instance], report: Report
) -> None:
    at, own = f"{instance.where}.devices", layout.devices(instance)
    taken = [device for device in own if owner.setdefault((host, device), instance) is not instance]
    chips = topology.chips(host)
    if taken or len(set(own)) != len(own):
        others = sorted({owner[host, device].name for device in taken}) or ["itself"]
        report.error(
            "devices-overlap",
            at,
            f"devices {', '.join(map(str, taken or own))} of {host} are given to {instance.name} and "
            f"{', '.join(others)}: the later one finds no memory, or port 16666 of the device taken.",
            _free_devices(topology, host, len(own)) or "give each instance devices of its own.",
        )
    beyond = [device for device in own if chips is not None and device >= chips]
    if beyond and instance.devices is None:
        report.error(
            "devices-beyond",
            f"{instance.where}.{'dp' if instance.dp > 1 else 'tp'}",
            f"the sizes of {instance.name} need {len(own)} devices of {host}, which has {chips}.",
            "use smaller sizes, more hosts, or correct hardware.",
        )
    elif beyond:
        report.error(
            "devices-beyond",
            at,
            f"{instance.name} needs device {beyond[-1]} of {host}, which has {chips}: 0 to {(chips or 1) - 1}.",
            "use fewer or other devices, more hosts, or correct hardware.",
        )


def _free_devices(topology: Topology, host: str, count: int) -> str:
    """Devices that no instance names for itself, when the file tells how many there are."""
    named = {
        device for instance in topology.instances if host in instance.places for device in (instance.devices or ())
    }
    free = [device for device in range(topology.chips(host) or 0) if device not in named]
    if len(free) < count:
        return ""
    return f"name devices for every instance of {host}; {', '.join(map(str, free))} are named by none."


def _check_generations(topology: Topology, report: Report) -> None:
    first: tuple[str, str] | None = None
    for host in dict.fromkeys(place for instance in topology.instances for place in instance.places):
        generation = topology.generation(host)
        if generation is None:
            continue
        first = first or (host, generation)
        if generation != first[1]:
            report.error(
                "generation-mixed",
                f"hosts.{host}",
                f"{generation} cannot exchange KV with {first[1]} of {first[0]}: prefill and decode run on one "
                "generation (design document of vLLM-Ascend, disaggregated_prefill.md).",
                "use hosts of one generation in a cluster.",
            )
