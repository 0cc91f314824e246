# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports that the operator leaves to the plan, on hosts with NPUs.

A port is chosen from the instance's own devices and from nothing else. Instances on one host share no device, so they
share no port; and a port stays where it is when other instances come, go or change their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.mooncake.pd.plugins.plugin_utils import layout
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import EPHEMERAL, NODE_PORTS
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import DECODE, PREFILL, Instance

# the largest group that fits: 256 workers, such as dp 32 x tp 8
KV_WINDOW = 256
# Of each, the first that is free of what is drawn at random, for 16 NPUs. Mooncake 0.3.7 draws from 20000 to 36000
# there, so that its KV ports have to lie above the ephemeral range.
KV_BASES = (22000, 61000)
DP_RPC_BASES = (29550, 17500)  # the first is vLLM's own default (vllm/config/parallel.py)
GROUP_BASES = (17600, 29650)
MOST_DEVICES = 16
API_BASES = {PREFILL: 8100, DECODE: 8200}

Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Choice:
    """A port that the plan chose. where: the key that would decide it."""

    where: str
    value: int
    why: str

    def as_dict(self) -> dict[str, str | int]:
        return {"where": self.where, "value": self.value, "why": self.why}


def _base(bases: tuple[int, ...], size: int, drawn: Spans) -> tuple[int, str]:
    """Where to count from, and what that is clear of."""
    taken = [*drawn, EPHEMERAL, NODE_PORTS]

    def free(base: int) -> bool:
        return not any(base <= end and start <= base + size - 1 for start, end in taken)

    found = next(filter(free, bases), None)
    if found is None:
        return bases[0], "nothing is clear of all ranges that the variables of Mooncake and HCCL leave"
    return found, "clear of what Mooncake and HCCL draw from, of NodePorts and of the kernel's ephemeral range"


def kv_port(instance: Instance, drawn: Spans) -> Choice:
    lowest = layout.lowest_device(instance)
    base, clear = _base(KV_BASES, KV_WINDOW * MOST_DEVICES, drawn)
    return Choice(
        f"{instance.where}.kv_port",
        base + KV_WINDOW * lowest,
        f"{base} + {KV_WINDOW} x lowest device {lowest}: {clear}; instances of one host share no device, so no window.",
    )


def api_port(instance: Instance, device: int) -> Choice:
    base = API_BASES[instance.kind]
    return Choice(
        f"{instance.where}.api_port",
        base + device,
        f"{base} for {instance.kind} + lowest device {device} of the process.",
    )


def dp_rpc_port(instance: Instance, drawn: Spans) -> Choice:
    lowest = layout.lowest_device(instance)
    base, clear = _base(DP_RPC_BASES, MOST_DEVICES, drawn)
    return Choice(
        f"{instance.where}.dp_rpc_port",
        base + lowest,
        f"{base} + lowest device {lowest}: {clear}.",
    )


def group_port(instance: Instance, drawn: Spans) -> Choice:
    lowest = layout.lowest_device(instance)
    base, clear = _base(GROUP_BASES, MOST_DEVICES, drawn)
    return Choice(
        f"{instance.where}.group_port",
        base + lowest,
        f"{base} + lowest device {lowest}: {clear}.",
    )
