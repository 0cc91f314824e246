# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network of the NPUs of one host, and what its pings to the peers tell.

On A2 KV leaves a host by the RoCE ports. On A3 it goes by HCCS and the RoCE ports may have no cable: there link and
health are worth little, and pings decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import npu as view
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import some

_DOCS = "docs/source/tutorials/features/pd_disaggregation_mooncake_multi_node.md@182b75ea of vllm-ascend"
_INIT = "Init"  # no netdetect address is set, or it was not tried yet
_PLANES = {"hccs": "HCCS", "roce": "RoCE"}
_SLOW_TIMES, _SLOW_MS = 5, 0.5
_ENOUGH = 4  # pings before one of them can be odd


def _severity(host: Host, of_roce: str) -> str:
    """How bad it is that a RoCE port is not as it should be."""
    if view.roce_between(host):
        return "warning" if of_roce == "error" and view.proven(host, "roce") else of_roce
    return "notice" if view.proven(host, "hccs") else "warning"


def _split(host: Host, numbers: list[int]) -> list[tuple[list[int], str]]:
    """Chips of the plan, and others, which are told with less weight."""
    ours = view.planned(host, numbers)
    rest = sorted(set(numbers) - set(ours))
    return [(part, extra) for part, extra in ((ours, ""), (rest, ", which the plan does not use")) if part]


def _switch_ports(host: Host, bad: list[int]) -> str:
    """Where the cables of the other chips end: the missing one is near."""
    good = view.with_fact(view.ports(host), "lldp", bool)
    texts = [
        f"chip {number} at {lldp['port']}" + (f" of {lldp['switch']}" if lldp["switch"] else "")
        for number, lldp in sorted(good.items())
        if number not in bad
    ]
    return f"switch ports of the others: {some(texts, 16)}" if texts else "no chip sees a switch (LLDP)"


@rule(
    "hccn-tool-missing",
    family="npu",
    about="hccn_tool is there",
    why="Without it nobody can tell whether the network between the NPUs works.",
    source=f"{_DOCS}: /usr/local/Ascend/driver/tools/hccn_tool",
    cases=("C-067",),
)
def hccn_tool_missing(host: Host) -> Iterator[Found]:
    if host.ascend and host.fact("hccn") and host.fact("hccn.tool") is None:
        yield Found(
            what="there is no hccn_tool",
            evidence="; ".join(item["why"] for item in host.each("hccn.unknown") if item["what"] == "tool"),
            fix="it comes with the driver; in a container mount /usr/local/Ascend/driver/tools/hccn_tool.",
        )


@rule(
    "npu-chip-silent",
    family="npu",
    about="hccn_tool answers for every NPU",
    why="A NPU for which the driver has no answer while the others have one hangs or has failed.",
    source="https://github.com/vllm-project/vllm-ascend/issues/10224",
    cases=("C-088",),
)
def npu_chip_silent(host: Host) -> Iterator[Found]:
    ports = view.ports(host)
    asked = {name for port in ports for name, value in port.items() if name != "id" and value is not None}
    silent = [port["id"] for port in ports if all(port.get(name) is None for name in asked)]
    if asked and silent:
        yield Found(
            what=f"hccn_tool has no answer for {view.told(silent)}, though it has for the others",
            evidence=some((f"{item['what']}: {item['why']}" for item in host.each("hccn.unknown")), 3),
            fix="look into `dmesg` and `npu-smi info -t health` for these NPUs, and reset them or reboot the host.",
            severity="error" if view.planned(host, silent) else "warning",
        )


@rule(
    "npu-link-down",
    family="npu",
    about="the RoCE ports of the NPUs are up",
    why="On A2, and on A3 with HCCL_INTRA_ROCE_ENABLE=1, KV between hosts goes through them. A3 otherwise uses HCCS.",
    source=f"{_DOCS}; operators of A3 superpods see DOWN on all chips of a service that works",
    cases=("C-053", "C-054", "C-032"),
)
def npu_link_down(host: Host) -> Iterator[Found]:
    down = sorted(view.with_fact(view.ports(host), "link", lambda link: link == "DOWN"))
    for numbers, extra in _split(host, down):
        severity = "error" if view.roce_between(host) else _severity(host, "error")
        yield Found(
            what=f"the link of {view.told(numbers)} is DOWN{extra}",
            evidence=_switch_ports(host, down),
            fix="check cable, optic (`hccn_tool -i N -optical -g`) and the switch's port: a 400GE port has to be split"
            " for two NPUs."
            if severity != "notice"
            else "nothing, as long as KV goes by HCCS: the pings to the peers came back.",
            severity="warning" if extra and severity == "error" else severity,
        )


@rule(
    "npu-net-health",
    family="npu",
    about="the NPUs reach their netdetect address",
    why="What the health check does not reach peers probably do not reach either.",
    source=f"{_DOCS}; values as hccn_tool of the driver has them, Init where netdetect is not set",
    cases=("C-053",),
)
def npu_net_health(host: Host) -> Iterator[Found]:
    entries = {port["id"]: port for port in view.ports(host) if port.get("link") != "DOWN"}
    bad = view.with_fact(entries.values(), "net_health", lambda health: health != "Success")
    by_value: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for number, health in bad.items():
        by_value[health, bool(entries[number].get("netdetect"))].append(number)
    for (health, netdetect), all_numbers in sorted(by_value.items()):
        init = health == _INIT
        for numbers, extra in _split(host, all_numbers):
            severity = "notice" if init and not netdetect else _severity(host, "warning" if init else "error")
            yield Found(
                what=f"net_health of {view.told(numbers)} is {health}{extra}",
                evidence=f"netdetect address: {entries[numbers[0]].get('netdetect') or 'none'}",
                fix="set an address that answers: `hccn_tool -i N -netdetect -s address <gateway or peer>`."
                if init
                else "check address, mask and gateway of the NPU and VLAN of the switch's port;"
                " `hccn_tool -i N -netdetect -g` names the address that is tried.",
                severity="warning" if extra and severity == "error" else severity,
            )


@rule(
    "npu-netdetect-missing",
    family="npu",
    severity="notice",
    about="the NPUs have a netdetect address",
    why="Without one net_health says Init for ever and a broken link is not noticed.",
    source=_DOCS,
    cases=("C-053",),
)
def npu_netdetect_missing(host: Host) -> Iterator[Found]:
    numbers = sorted(view.with_fact(view.ports(host), "netdetect", lambda address: not address))
    if numbers and view.roce_between(host):
        yield Found(
            what=f"{view.told(numbers)} {'has' if len(numbers) == 1 else 'have'} no netdetect address",
            fix="set an address that answers: `hccn_tool -i N -netdetect -s address <gateway or peer>`.",
        )


@rule(
    "npu-gateway-missing",
    family="npu",
    severity="notice",
    about="the NPUs have a gateway",
    why="Without one they reach only NPUs of their own network.",
    source=_DOCS,
)
def npu_gateway_missing(host: Host) -> Iterator[Found]:
    numbers = sorted(view.with_fact(view.ports(host), "gateway", lambda address: not address))
    if numbers and view.roce_between(host):
        yield Found(
            what=f"{view.told(numbers)} {'has' if len(numbers) == 1 else 'have'} no gateway",
            fix="set it when NPUs are in several networks: `hccn_tool -i N -gateway -s gateway <address>`.",
        )


@rule(
    "npu-lldp-empty",
    family="npu",
    severity="warning",
    about="the NPUs see their switch ports (LLDP)",
    why="A port that is not split or a wrong cable shows here first; some switches have LLDP off.",
    source=_DOCS,
    cases=("C-054",),
)
def npu_lldp_empty(host: Host) -> Iterator[Found]:
    up = [port for port in view.ports(host) if port.get("link") == "UP"]
    empty = sorted(view.with_fact(up, "lldp", lambda lldp: lldp == {}))
    if empty:
        everywhere = len(empty) == len(up)
        yield Found(
            what=f"{view.told(empty)} {'sees' if len(empty) == 1 else 'see'} no switch",
            evidence=_switch_ports(host, empty),
            fix="switch LLDP on at the switch."
            if everywhere
            else "compare the switch's ports with those of the other chips: is the port split, is LLDP on?",
            severity="notice" if everywhere else None,
        )


def _unequal(host: Host, fact: str) -> dict[int, int]:
    """Chips whose value is not that of most."""
    values = view.with_fact(view.ports(host), fact, lambda value: value > 0)
    seen = list(values.values())
    usual = max(seen, key=seen.count, default=0)
    return {number: value for number, value in values.items() if value != usual}


@rule(
    "npu-speed-unequal",
    family="npu",
    severity="warning",
    about="the RoCE ports of a host have one speed",
    why="The slowest rank sets the pace of the transfer.",
    source="mooncake.pd",
)
def npu_speed_unequal(host: Host) -> Iterator[Found]:
    odd = _unequal(host, "speed")
    if odd:
        yield Found(
            what=f"{view.told(odd)} {'has' if len(odd) == 1 else 'have'} another speed than the others",
            evidence=some((f"chip {number}: {value} Mb/s" for number, value in odd.items()), 8),
            fix="check optic and the switch's port: `hccn_tool -i N -speed -g`, `hccn_tool -i N -optical -g`.",
        )


@rule(
    "npu-mtu-unequal",
    family="npu",
    severity="warning",
    about="the RoCE ports of a host have one MTU",
    why="Small requests pass and large ones hang.",
    source="https://github.com/kvcache-ai/Mooncake/issues/1766",
    cases=("C-059",),
)
def npu_mtu_unequal(host: Host) -> Iterator[Found]:
    odd = _unequal(host, "mtu")
    if odd:
        yield Found(
            what=f"{view.told(odd)} {'has' if len(odd) == 1 else 'have'} another MTU than the others",
            evidence=some((f"chip {number}: {value}" for number, value in odd.items()), 8),
            fix="set them equal: `hccn_tool -i N -mtu -s size <size>`.",
        )


@rule(
    "npu-address-missing",
    family="npu",
    about="the NPUs of the plan have an address",
    why="Mooncake has no address to tell the peers: 'device_ip is not set correctly'.",
    source="https://github.com/vllm-project/vllm-ascend/issues/7711",
    cases=("C-014",),
)
def npu_address_missing(host: Host) -> Iterator[Found]:
    without = view.with_fact(view.ports(host), "address", lambda address: not address)
    numbers = view.planned(host, without)
    if numbers:
        yield Found(
            what=f"{view.told(numbers)} {'has' if len(numbers) == 1 else 'have'} no address",
            fix="set it: `hccn_tool -i N -ip -s address <address> netmask <mask>`.",
            severity=None if view.generation(host) in ("A2", "A3") else "warning",
        )


@rule(
    "npu-vnic-missing",
    family="npu",
    about="the NPUs of an A3 have a virtual address",
    why="Between hosts of a superpod KV goes by HCCS, which is reached by these addresses.",
    source=_DOCS,
    cases=("C-053",),
)
def npu_vnic_missing(host: Host) -> Iterator[Found]:
    if view.generation(host) != "A3":
        return
    numbers = view.planned(host, view.with_fact(view.ports(host), "vnic", lambda address: not address))
    if numbers:
        yield Found(
            what=f"{view.told(numbers)} {'has' if len(numbers) == 1 else 'have'} no virtual address (vnic)",
            fix="look whether the host has joined its superpod: `npu-smi info -t spod-info -i <card> -c <chip>`.",
            severity="warning" if view.roce_between(host) else None,
        )


@rule(
    "npu-ping-failed",
    family="npu",
    about="the NPUs of the plan reach those of the peers",
    why="KV between these ranks does not arrive: 'status: 103902', 'Connect timeout to', requests that hang.",
    source=f"{_DOCS}; https://github.com/vllm-project/vllm-ascend/issues/7401",
    cases=("C-053", "C-054", "C-088", "C-023"),
)
def npu_ping_failed(host: Host) -> Iterator[Found]:
    failed: dict[tuple[str, str], list[view.Chip]] = defaultdict(list)
    made: dict[tuple[str, str], int] = defaultdict(int)
    for ping in view.pings(host):
        made[ping["peer"], ping["plane"]] += 1
        if ping["ok"] is False:
            failed[ping["peer"], ping["plane"]].append(ping)
    for (peer, plane), lost in failed.items():
        whole = len(lost) == made[peer, plane] and len(lost) > 1
        roce = plane == "roce"
        yield Found(
            what=f"{view.told(ping['chip'] for ping in lost)} {'does' if len(lost) == 1 else 'do'} not reach"
            f" {peer or lost[0]['address']} by {_PLANES[plane]}" + (", as none does" if whole else ""),
            evidence=some(
                (
                    f"chip {ping['chip']} -> {ping['address']}: "
                    + ("no answer" if ping["loss"] in (None, 100) else f"{ping['loss']:g} % lost")
                    for ping in lost
                ),
                8,
            ),
            fix="check link, address, mask and gateway on both sides, VLAN and routes of the switches."
            if roce
            else "check that both hosts are in one superpod and that its switches are up"
            " (`npu-smi info -t spod-info`, `hccn_tool -i N -vnic -g`).",
        )


@rule(
    "npu-ping-slow",
    family="npu",
    severity="warning",
    about="pings between NPUs take about the same time",
    why="The slowest rank sets the pace of the transfer; a detour or a port with errors shows like this.",
    source="https://github.com/vllm-project/vllm-ascend/issues/7846",
    cases=("C-059",),
)
def npu_ping_slow(host: Host) -> Iterator[Found]:
    timed = [ping for ping in view.pings(host) if ping["ok"] and ping["time"] is not None]
    if len(timed) < _ENOUGH:
        return
    usual = median(ping["time"] for ping in timed)
    slow = [ping for ping in timed if ping["time"] > max(_SLOW_MS, _SLOW_TIMES * usual)]
    if slow:
        yield Found(
            what=f"pings of {view.told(ping['chip'] for ping in slow)} take much longer than the others",
            evidence=some(
                (f"chip {ping['chip']} -> {ping['address']} of {ping['peer']}: {ping['time']:g} ms" for ping in slow), 8
            )
            + f"; usual: {usual:g} ms",
            fix="look for errors of the port (`hccn_tool -i N -stat -g`) and for another way through the switches.",
        )
