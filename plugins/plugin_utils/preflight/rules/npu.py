# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NPUs of one host: they are there, they are well, and the service may open them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import npu as view
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import some

_NO_START = "An engine that finds no NPU ends at the start."
_DCMI = "https://github.com/Ascend/cann-container-image/issues/46"
_INSTALLATION = "docs/source/installation.md@182b75ea of vllm-ascend"
_NODES = ("manager", "devmm_svm", "hisi_hdc")


def _failed_with(host: Host, code: str) -> str:
    """What npu-smi said with the code; empty when it did not."""
    for item in host.each("npu.unknown") if host.ascend else ():
        if item["what"] == "chips" and code in item["why"] + item["raw"]:
            return str(item["raw"] or item["why"])
    return ""


@rule(
    "npu-smi-missing",
    family="npu",
    about="npu-smi is there",
    why="It comes with the driver: without it there is none, or it is not in this container.",
    source=_INSTALLATION,
    cases=("C-046",),
)
def npu_smi_missing(host: Host) -> Iterator[Found]:
    if host.ascend and host.fact("npu") and host.fact("npu.tool") is None:
        yield Found(
            what="there is no npu-smi",
            evidence="; ".join(item["why"] for item in host.each("npu.unknown") if item["what"] == "tool"),
            fix="install the Ascend driver and firmware; in a container mount /usr/local/bin/npu-smi and"
            " /usr/local/Ascend/driver.",
        )


@rule(
    "npu-driver-absent",
    family="npu",
    about="the driver of the NPUs is loaded",
    why=_NO_START,
    source=f"{_DCMI}; https://github.com/vllm-project/vllm-ascend/issues/2698",
    cases=("C-046",),
)
def npu_driver_absent(host: Host) -> Iterator[Found]:
    said = _failed_with(host, "-8005")
    if said:
        yield Found(
            what="npu-smi does not reach the driver (dcmi -8005)",
            evidence=said,
            fix="load the driver (lsmod | grep drv_pcie) and reboot after its installation; in a container mount"
            " /usr/local/dcmi, /usr/local/Ascend/driver and /dev/davinci_manager, /dev/devmm_svm, /dev/hisi_hdc.",
        )


@rule(
    "npu-used-elsewhere",
    family="npu",
    about="no container has the NPUs for itself",
    why=_NO_START,
    source=_DCMI,
    cases=("C-046",),
)
def npu_used_elsewhere(host: Host) -> Iterator[Found]:
    said = _failed_with(host, "-8020")
    if said:
        yield Found(
            what="another container has the NPUs (dcmi -8020)",
            evidence=said,
            fix="stop the container that has them (`docker ps`, `crictl ps`), or take its NPUs out of the plan.",
        )


@rule(
    "npu-smi-fails",
    family="npu",
    about="npu-smi lists the NPUs",
    why="Nobody knows then whether the NPUs are there, are well and are free.",
    source="https://github.com/vllm-project/vllm-ascend/issues/6512",
    cases=("C-037",),
)
def npu_smi_fails(host: Host) -> Iterator[Found]:
    if not host.ascend or not host.fact("npu.tool") or host.each("npu.chips"):
        return
    if _failed_with(host, "-8005") or _failed_with(host, "-8020"):
        return
    entries = [item for item in host.each("npu.unknown") if item["what"] == "chips"]
    yield Found(
        what="npu-smi lists no NPU",
        evidence="; ".join(item["raw"] or item["why"] for item in entries),
        fix="run `npu-smi info` as root; when it hangs or fails look into `dmesg` and"
        " /var/log/ascend_seclog, and reboot the host.",
    )


@rule(
    "npu-chip-missing",
    family="npu",
    about="every NPU of the plan is there",
    why="The rank of that NPU ends at the start, and its whole group with it.",
    source="ASCEND_RT_VISIBLE_DEVICES as the plan sets it",
)
def npu_chip_missing(host: Host) -> Iterator[Found]:
    there = _listed(host)
    missing = sorted(set(host.devices) - there)
    if there and missing:
        yield Found(
            what=f"{view.told(missing)} of the plan {view.are(missing)} not there",
            evidence=f"npu-smi lists {view.told(there)}; device nodes: {_nodes(host)}",
            fix="look for failed NPUs (`npu-smi info -l`, `lspci -d 19e5:`, `dmesg`), or plan others with `devices`.",
        )


@rule(
    "npu-chips-few",
    family="npu",
    severity="warning",
    about="a host has as many NPUs as the plan thinks",
    why="A NPU that is gone is a fault of the hardware or the driver that often takes others with it.",
    source="hardware.chips_per_host of the topology, or its generation",
)
def npu_chips_few(host: Host) -> Iterator[Found]:
    there = _listed(host)
    wanted = (host.cluster.get("hardware") or {}).get("chips")
    if there and wanted and len(there) < wanted and set(host.devices) <= there:
        yield Found(
            what=f"there are {len(there)} NPUs instead of {wanted}",
            evidence=f"npu-smi lists {view.told(there)}; device nodes: {_nodes(host)}",
            fix="look for failed NPUs (`npu-smi info -l`, `lspci -d 19e5:`, `dmesg`), or set hardware.chips_per_host.",
        )


@rule(
    "npu-chip-unlisted",
    family="npu",
    about="npu-smi lists every NPU that has a device node",
    why="The driver knows that NPU and cannot talk to it: it hangs or has failed.",
    source=_INSTALLATION,
)
def npu_chip_unlisted(host: Host) -> Iterator[Found]:
    there = _listed(host)
    silent = sorted(set(host.each("npu.devices.davinci")) - there)
    if there and silent:
        yield Found(
            what=f"{view.told(silent)} {view.are(silent)} not in npu-smi, though the device nodes are there",
            evidence=f"npu-smi lists {view.told(there)}",
            fix="look into `dmesg` for that device, and reset it or reboot the host.",
            severity="error" if view.planned(host, silent) else "warning",
        )


@rule(
    "npu-generation",
    family="npu",
    about="the NPUs are of the generation of the plan",
    why="Numbers of NPUs, ports and the network between hosts are planned for another machine.",
    source="docs/source/tutorials/features/pd_disaggregation_mooncake_multi_node.md@182b75ea of vllm-ascend",
)
def npu_generation(host: Host) -> Iterator[Found]:
    seen = host.fact("npu.generation")
    if host.ascend and seen and host.generation and seen != host.generation:
        names = sorted({str(chip["name"]) for chip in view.chips(host)})
        yield Found(
            what=f"the NPUs are {seen}, the plan is made for {host.generation}",
            evidence=f"npu-smi calls them {some(names)}",
            fix="set hardware.generation in the topology, and plan anew.",
        )


@rule(
    "npu-health",
    family="npu",
    about="the NPUs are well",
    why="A NPU with a fault fails at the start or while it serves; its rank takes the whole group with it.",
    source="https://github.com/vllm-project/vllm-ascend/issues/4930",
    cases=("C-037",),
)
def npu_health(host: Host) -> Iterator[Found]:
    ill = view.with_fact(view.chips(host), "health", lambda health: health != "OK")
    ours = view.planned(host, ill)
    for numbers, severity in ((ours, "error"), (sorted(set(ill) - set(ours)), "warning")):
        if numbers:
            yield Found(
                what=f"{view.told(numbers)} {view.are(numbers)} not OK"
                + ("" if severity == "error" else ", which the plan does not use"),
                evidence=", ".join(f"chip {number}: {ill[number]}" for number in numbers),
                fix="read the cause with `npu-smi info -t health -i <card>` (A3: also -c <chip>); reset or replace the"
                " NPU, or plan others with `devices`.",
                severity=severity,
            )


@rule(
    "npu-nodes-missing",
    family="npu",
    about="the device nodes of the NPUs are there",
    why=_NO_START,
    source=_INSTALLATION,
    cases=("C-046",),
)
def npu_nodes_missing(host: Host) -> Iterator[Found]:
    devices = host.fact("npu.devices") if host.ascend else None
    if not devices:
        return
    missing = [devices[name]["path"] for name in _NODES if not devices[name]["exists"]]
    missing += [f"/dev/davinci{number}" for number in host.devices if number not in devices["davinci"]]
    if missing:
        yield Found(
            what=f"{some(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            evidence=f"device nodes: {_nodes(host)}",
            fix="install or load the driver; in a container hand the devices in (docker run --device).",
        )


@rule(
    "npu-nodes-closed",
    family="npu",
    about="the service may open the device nodes of the NPUs",
    why="They belong to a group, usually HwHiAiUser; an engine outside of it finds no NPU.",
    source=f"{_INSTALLATION} (the user has to be in the driver's group)",
)
def npu_nodes_closed(host: Host) -> Iterator[Found]:
    devices = host.fact("npu.devices") if host.ascend else None
    user = host.fact("host.limits.user")
    if not devices or user == "root":
        return
    groups = {str(group) for group in (host.fact("host.settings") or {}).get("instance_groups") or ()}
    closed = [node for node in map(devices.get, _NODES) if node["exists"] and not _opens(node, user, groups, devices)]
    if closed:
        node = closed[0]
        yield Found(
            what=f"{some(item['path'] for item in closed)} cannot be opened by the service"
            + (f" (user {user})" if user else ""),
            evidence=f"mode {node['mode']}, owner {node['owner']}, group {node['group']}; groups of the units:"
            f" {some(sorted(groups)) or 'none'}",
            fix="put the group of the nodes into instance_groups (instance_groups: [HwHiAiUser]), or give the nodes"
            " back to it (chown :HwHiAiUser, chmod 0660; the driver's udev rule does that).",
        )


def _opens(node: Mapping[str, Any], user: str | None, groups: set[str], devices: Mapping[str, Any]) -> bool:
    mode = int(node["mode"], 8)
    if mode & 0o006 == 0o006 or (node["owner"] == user and mode & 0o600 == 0o600):
        return True
    if mode & 0o060 != 0o060:
        return False
    # whoever the service runs as is not known without the facts of the host
    same = node["group"] == devices["group"]
    return user is None or node["group"] in groups or (same and user in (devices.get("members") or ()))


def _listed(host: Host) -> set[int]:
    """The chips of npu-smi; none when its list is not sure to be whole."""
    return set() if view.unsure(host, "chips") else {chip["id"] for chip in view.chips(host)}


def _nodes(host: Host) -> str:
    numbers = host.each("npu.devices.davinci")
    return f"/dev/davinci of {view.told(numbers)}" if numbers else "no /dev/davinciN"
