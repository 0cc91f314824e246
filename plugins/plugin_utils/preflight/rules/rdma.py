# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices of one host, where the plan moves KV by RDMA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import rdma as view
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import size, some

SMALL_REGION = 64 << 30

_GID_SOURCE = "RdmaContext::findBestGidIndex, rdma_context.cpp@v0.3.11.post1; rdma_gid_probe.h@v0.3.12"
_C011 = "https://github.com/kvcache-ai/Mooncake/issues/204"
_TOPOLOGY = "isIbDeviceAvailable, mooncake-transfer-engine/src/topology.cpp@v0.3.12"
_FIX_GID = (
    "give the interface of the adapter an IPv4 address that all hosts of the plan reach, then `show_gids` or"
    " /sys/class/infiniband/*/ports/1/gid_attrs/types has to name a RoCE v2 entry for it."
)


@rule(
    "rdma-no-device",
    family="rdma",
    about="a host that moves KV by RDMA has an RDMA device",
    why="Without one Mooncake falls back to TCP, and a line of the log is all that tells it.",
    source="transfer_engine_impl.cpp@v0.3.11.post1: TCP is installed where the topology has no HCA",
    cases=("C-011",),
)
def rdma_no_device(host: Host) -> Iterator[Found]:
    facts = host.fact("rdma")
    if view.concerned(host) and facts and facts["devices"] == [] and not facts["unknown"]:
        yield Found(
            what="there is no RDMA device, and connector.protocol is rdma",
            evidence=f"/sys/class/infiniband is empty; kernel modules: {some(facts['modules']) or 'none'}",
            fix="load the adapter's driver (mlx5_ib, erdma, hns_roce_hw_v2 ...), or plan connector.protocol tcp.",
        )


@rule(
    "rdma-device-missing",
    family="rdma",
    about="devices that the plan names are there",
    why="Mooncake uses the named devices only, and falls back to TCP when none of them is there.",
    source=f"{_TOPOLOGY}; getIbvDeviceWhitelist",
    cases=("C-011",),
)
def rdma_device_missing(host: Host) -> Iterator[Found]:
    there = [device["name"] for device in host.each("rdma.devices")]
    if not view.concerned(host) or not there:
        return
    missing = {name: where for name, where in view.named_devices(host).items() if name not in there}
    if missing:
        yield Found(
            what=f"{some(dict.fromkeys(missing.values()))} names {some(missing)}, which is no device here",
            evidence=f"devices: {some(there, 16)}",
            fix="name devices of `ls /sys/class/infiniband`, or name none and let Mooncake take all.",
        )


@rule(
    "rdma-port-down",
    family="rdma",
    about="the ports of the RDMA devices are active",
    why="Mooncake leaves out what is not active; the others carry its share, and with none it falls back to TCP.",
    source=_TOPOLOGY,
    cases=("C-011",),
)
def rdma_port_down(host: Host) -> Iterator[Found]:
    ports = view.ports_of(host)
    down = [port for port in ports if port["state"] is not None and not port.active]
    with_port = {port.device["name"] for port in ports}
    without = [
        device["name"] for device in view.devices_of(host) if device["ports"] and device["name"] not in with_port
    ]
    if down or without:
        gone = [f"no port {view.port_number(host)}: {some(without)}"] if without else []
        yield Found(
            what=f"{some([*down, *without])} {'is' if len(down) + len(without) == 1 else 'are'} not ACTIVE",
            evidence="; ".join(filter(None, [view.told(down, "{state}, {phys_state}"), *gone])),
            fix="connect the cable, enable the switch's port and set the interface up (`ip link set`); or name those"
            " that work in MC_TE_FILTERS (from Mooncake 0.3.12 on).",
            severity="error" if len(down) == len(ports) else "warning",
        )


@rule(
    "rdma-gid-none",
    family="rdma",
    about="every active port has a GID that Mooncake takes",
    why="A device without one is left out ('No suitable GID found'); when no device is left, the engine ends.",
    source=_GID_SOURCE,
    cases=("C-011",),
)
def rdma_gid_none(host: Host) -> Iterator[Found]:
    active = [] if view.gid_indexes(host) else view.active_ports(host)
    known = [port for port in active if not view.is_unknown(host, port, "chosen")]
    without = [port for port in known if port["chosen"] is None]
    if without:
        tables = [f"{port}: {some(_entries(port)) or 'the table is empty'}" for port in without]
        yield Found(
            what=f"{some(without)}: no GID that Mooncake takes",
            evidence="; ".join(tables),
            fix=_FIX_GID,
            severity="error" if len(without) == len(active) else "warning",
        )


def _entries(port: view.Port) -> list[str]:
    return [f"{gid['index']} {gid['address'] or gid['gid']} {gid['type']}" for gid in port["gids"]]


@rule(
    "rdma-gid-version-1",
    family="rdma",
    about="transfers use RoCE v2",
    why="RoCE v1 does not pass a router, and a peer that uses v2 is not reached: 'Failed to modify QP to RTR'.",
    source=f"{_C011}; {_GID_SOURCE}",
    cases=("C-011",),
)
def rdma_gid_version_1(host: Host) -> Iterator[Found]:
    old = [
        port
        for port in view.active_ports(host)
        if port.roce and (gid := view.taken(host, port)) and gid["type"] != view.V2
    ]
    if old:
        yield Found(
            what=f"{some(old)}: Mooncake takes a GID of RoCE v1",
            evidence=view.told(old, "index {chosen[index]}, {chosen[gid]}"),
            fix=_FIX_GID,
        )


@rule(
    "rdma-gid-link-local",
    family="rdma",
    about="transfers use a GID with an address, not a link-local one",
    why="A link-local GID reaches no host behind a router; connections end in 'Connection timed out [110]'.",
    source=f"{_C011}; https://github.com/kvcache-ai/Mooncake/pull/2741",
    cases=("C-011",),
)
def rdma_gid_link_local(host: Host) -> Iterator[Found]:
    local = [
        port
        for port in view.active_ports(host)
        if port.roce and (gid := view.taken(host, port)) and gid["type"] == view.V2 and view.is_link_local(gid)
    ]
    if not local:
        return
    better = {port.routable()[0] for port in local if port.routable()}
    yield Found(
        what=f"{some(local)}: Mooncake takes a link-local GID",
        evidence=view.told(local, "index {chosen[index]}, {chosen[gid]}"),
        # its release ends at the first empty entry of the table
        fix=f"set MC_GID_INDEX={min(better)} (engine_environment), or take Mooncake from 0.3.12 on, which looks at the"
        " whole table."
        if better
        else _FIX_GID,
    )


@rule(
    "rdma-gid-address",
    family="rdma",
    severity="notice",
    about="the GID of transfers is made of the planned address",
    why="Transfers take the network of the GID, not that of the planned address: routes, firewalls and measurements of"
    " the planned network tell nothing about them.",
    source=_GID_SOURCE,
    cases=("C-011",),
)
def rdma_gid_address(host: Host) -> Iterator[Found]:
    ports = [port for port in view.active_ports(host) if port.roce and view.taken(host, port)]
    passed_by = [port for port in ports if port["chosen"]["address"] != host.address and port.routable(host.address)]
    if passed_by:
        index = min(port.routable(host.address)[0] for port in passed_by)
        yield Found(
            what=f"{some(passed_by)}: Mooncake takes another GID than that of the planned address",
            evidence=view.told(passed_by, "index {chosen[index]}, {chosen[gid]}"),
            fix=f"set MC_GID_INDEX={index} (engine_environment), or plan the address that it takes.",
            severity="warning",
        )
    elif ports and not any(port["chosen"]["address"] == host.address for port in ports):
        gids = some(port["chosen"]["address"] or port["chosen"]["gid"] for port in ports)
        yield Found(
            what="no GID of transfers has the planned address",
            evidence=f"planned {host.address}; GIDs of {gids}",
            fix="nothing, when the adapters have networks of their own that all hosts reach (playbook baseline measures"
            " it). Otherwise plan the address of the adapter's interface (hosts.<name>.address).",
        )


@rule(
    "rdma-gid-index-wrong",
    family="rdma",
    about="MC_GID_INDEX is the RoCE v2 entry of an address on every device",
    why="With it Mooncake does not choose: an empty entry leaves the device out, another one does not reach the peers.",
    source="config.cpp@v0.3.6; RdmaContext::openRdmaDevice, rdma_context.cpp@v0.3.11.post1",
    cases=("C-011",),
)
def rdma_gid_index_wrong(host: Host) -> Iterator[Found]:
    for name, index in view.gid_indexes(host):
        wrong: dict[str, str] = {}
        right: set[int] = set()
        for port in view.active_ports(host):
            gid = port.entry(index)
            if view.is_unknown(host, port, "gids") or (gid and not port.roce):
                continue
            if gid is None:
                wrong[str(port)] = "empty"
            elif gid["type"] != view.V2:
                wrong[str(port)] = gid["type"]
            elif view.is_link_local(gid):
                wrong[str(port)] = f"link-local {gid['gid']}"
            else:
                continue
            right.update(port.routable())
        if wrong:
            there = f", and {some(sorted(right))} is right there" if right else ""
            yield Found(
                what=f"{name} is {index}, which is no RoCE v2 entry with an address on {some(wrong)}{there}",
                evidence="; ".join(f"{port}: {text}" for port, text in wrong.items()),
                fix=f"take {name} away and let Mooncake choose on each device, or set it to an index that is right on"
                " every host.",
            )


@rule(
    "rdma-mtu-low",
    family="rdma",
    severity="warning",
    about="the active MTU is as large as the interface allows",
    why="Mooncake sends with the active MTU; a quarter of it means four times the packets.",
    source="attr.path_mtu, rdma_endpoint.cpp@v0.3.12; iboe_get_mtu, include/rdma/ib_addr.h@v6.1",
    cases=("C-011", "C-059"),
)
def rdma_mtu_low(host: Host) -> Iterator[Found]:
    low = [
        port
        for port in view.active_ports(host)
        if port["active_mtu"] and port["active_mtu"] < (view.possible_mtu(port) or 0)
    ]
    if low:
        yield Found(
            what=f"{some(low)}: the active MTU is {some(sorted({port['active_mtu'] for port in low}))},"
            " and the interface allows more",
            evidence=view.told(low, "active_mtu {active_mtu}, max_mtu {max_mtu}, MTU of {netdev} {netdev_mtu}"),
            fix="after raising the interface's MTU set it down and up again; then look at the MTU settings of the"
            " adapter's firmware.",
        )


@rule(
    "rdma-netdev-mtu",
    family="rdma",
    severity="notice",
    about="the MTU of the interface leaves room for the largest MTU of RDMA",
    why="With 1500 bytes on Ethernet, RDMA sends 1024 bytes a packet.",
    source="iboe_get_mtu, include/rdma/ib_addr.h@v6.1",
    cases=("C-059",),
)
def rdma_netdev_mtu(host: Host) -> Iterator[Found]:
    small = [port for port in view.active_ports(host) if (view.possible_mtu(port) or 4096) < (port["max_mtu"] or 0)]
    if small:
        yield Found(
            what=f"the MTU of {some(dict.fromkeys(port['netdev'] for port in small))} keeps the MTU of RDMA small",
            evidence=view.told(small, "MTU of {netdev} {netdev_mtu}, max_mtu {max_mtu}"),
            fix="where all switches on the way carry it, raise the interface's MTU to 4200 or more on all hosts at"
            " once; mixed ones are worse than small ones.",
        )


@rule(
    "rdma-pcie-slow",
    family="rdma",
    severity="warning",
    about="the PCI link of the adapter is as wide and as fast as it can be",
    why="A link that was trained down caps the bandwidth of the adapter, and nothing else tells it.",
    source="PCI Express Base Specification, Link Status Register; /sys/bus/pci/devices/*/current_link_width",
)
def rdma_pcie_slow(host: Host) -> Iterator[Found]:
    for device in view.devices_of(host):
        pci = device["pci"]
        if not pci or None in pci.values() or _whole(pci):
            continue
        rates = sum(port["rate"] or 0 for port in device["ports"] if port["state"] == "ACTIVE")
        # 128 of 130 bits are data, from 8 GT/s on
        enough = pci["speed"] * pci["width"] * 128 / 130 >= rates
        yield Found(
            what=f"{device['name']}: its PCI link is x{pci['width']} at {pci['speed']:g} GT/s"
            + ("" if enough else f", which is less than its {rates:g} Gb/s"),
            evidence=f"{pci['address']}: capable of x{pci['max_width']} at {pci['max_speed']:g} GT/s",
            fix="put the adapter into a slot with all lanes, seat it again, and look at the slot's speed and"
            " bifurcation in the BIOS.",
            severity="notice" if enough else None,
        )


def _whole(pci: Mapping[str, Any]) -> bool:
    return bool(pci["speed"] >= pci["max_speed"] and pci["width"] >= pci["max_width"])


@rule(
    "rdma-numa-unknown",
    family="rdma",
    severity="notice",
    about="the NUMA node of the adapters is known",
    why="Mooncake takes the adapters of the memory's own node first; without the node it takes any.",
    source="listInfiniBandDevices, topology.cpp@v0.3.12",
)
def rdma_numa_unknown(host: Host) -> Iterator[Found]:
    lost = [device["name"] for device in view.devices_of(host) if device["numa_node"] == -1]
    if lost and len(host.each("host.numa")) > 1:
        yield Found(
            what=f"{some(lost)}: no NUMA node, on a host with {len(host.each('host.numa'))}",
            evidence="numa_node is -1",
            fix="switch on NUMA (ACPI SRAT, _PXM of the slots) in the BIOS, or pass the topology through to the VM.",
        )


@rule(
    "rdma-numa-uneven",
    family="rdma",
    severity="notice",
    about="the adapters are spread over the NUMA nodes",
    why="KV in memory of a node without an adapter crosses the link between the sockets.",
    source="listInfiniBandDevices, topology.cpp@v0.3.12",
)
def rdma_numa_uneven(host: Host) -> Iterator[Found]:
    nodes = {port.device["name"]: port.device["numa_node"] for port in view.active_ports(host)}
    memory = [node for node in host.each("host.numa") if node.get("memory_total")]
    if len(nodes) > 1 and len(memory) > 1 and len(set(nodes.values())) == 1 and not {-1, None} & set(nodes.values()):
        yield Found(
            what=f"all {len(nodes)} adapters belong to NUMA node {max(nodes.values())}",
            evidence=f"{some(nodes)}; {len(memory)} nodes have memory",
            fix="spread the adapters over the slots of both sockets, or bind the engines to that node.",
        )


@rule(
    "rdma-mr-size",
    family="rdma",
    severity="warning",
    about="the adapters register memory of at least 64 GiB at once",
    why="Up to Mooncake 0.3.12 a larger buffer is registered in part, or not at all ('Input/output error [5]', 'Out of"
    " mr size'); later releases split it.",
    source="https://github.com/kvcache-ai/Mooncake/issues/2017; troubleshooting/troubleshooting.md@v0.3.11.post1",
    cases=("C-027",),
)
def rdma_mr_size(host: Host) -> Iterator[Found]:
    small = {d["name"]: d["max_mr_size"] for d in view.devices_of(host) if d["max_mr_size"] is not None}
    small = {name: largest for name, largest in small.items() if largest < SMALL_REGION}
    if small:
        yield Found(
            what=f"{some(small)}: memory regions end at {size(min(small.values()))}",
            evidence="; ".join(f"{name}: max_mr_size {largest}" for name, largest in small.items()),
            fix="keep each buffer (MOONCAKE_GLOBAL_SEGMENT_SIZE, the KV cache of a rank) below it, or update the"
            " firmware of the adapter.",
        )


@rule(
    "rdma-module-missing",
    family="rdma",
    about="the kernel modules that RDMA needs are loaded",
    why="Without ib_uverbs no program opens a device; without a peer memory module memory of GPUs is not registered"
    " ('Invalid argument [22]').",
    source="docs/source/getting_started/build.md@v0.3.11.post1; https://github.com/kvcache-ai/Mooncake/issues/351",
    cases=("C-027",),
)
def rdma_module_missing(host: Host) -> Iterator[Found]:
    modules = host.each("rdma.modules")
    if not view.devices_of(host):
        return
    evidence = f"loaded: {some(modules, 12) or 'none of them'}"
    if "ib_uverbs" not in modules:
        yield Found("ib_uverbs is not loaded", "`modprobe ib_uverbs`, and name it in /etc/modules-load.d.", evidence)
    if "rdma_cm" not in modules:
        fix = "`modprobe rdma_ucm`, and name it in /etc/modules-load.d; Mooncake itself does without it."
        yield Found("rdma_cm is not loaded, which rping and perftest need", fix, evidence, severity="notice")
    # environ.cpp@v0.3.11.post1: it is used where this variable does not say otherwise
    without = any(value.lower() in ("0", "off", "false") for _name, value in view.values(host, "WITH_NVIDIA_PEERMEM"))
    if "nvidia" in modules and not without and not {"nvidia_peermem", "nv_peer_mem"} & set(modules):
        fix = (
            "`modprobe nvidia_peermem`, or set WITH_NVIDIA_PEERMEM=0 (engine_environment), which takes dma-buf instead."
        )
        yield Found("nvidia_peermem is not loaded, and there are GPUs", fix, evidence, severity="warning")
