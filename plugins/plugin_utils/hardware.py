# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generations of Ascend NPUs, as far as a plan differs between them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Generation:
    name: str
    chips: int  # NPUs of a host that programs see; on A3 every die is one
    inside: str  # the network between the NPUs of a host
    between: str  # the network between hosts
    address: str | None  # option of hccn_tool that tells the address of an NPU on the network between hosts
    ping: str | None  # option of hccn_tool that pings the NPU of another host
    superpod: bool  # hosts share a network only inside of a superpod
    # A port of an NPU that is down then breaks the link between hosts. On A3 the RoCE ports may be unused.
    link_must_be_up: bool
    source: str


_PREFLIGHT = "docs/source/tutorials/features/pd_disaggregation_mooncake_multi_node.md@182b75ea of vllm-ascend"

GENERATIONS = {
    generation.name: generation
    for generation in (
        Generation("A2", 8, "HCCS", "RoCE", "-ip", "-ping", False, True, _PREFLIGHT),
        # the spod-info of npu-smi names the superpod
        Generation("A3", 16, "HCCS", "HCCS", "-vnic", "-hccs_ping", True, False, _PREFLIGHT),
        # The number of NPUs is documented, a check of the network by hccn_tool is not; the link is UB or UBoE
        # (docs/source/user_guide/feature_guide/kv_pool.md@182b75ea of vllm-ascend).
        Generation(
            "A5",
            8,
            "UB",
            "UB",
            None,
            None,
            False,
            False,
            "docs/source/installation.md@182b75ea of vllm-ascend (Atlas 950DT: davinci0 to davinci7)",
        ),
    )
}
