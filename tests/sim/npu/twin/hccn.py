# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hccn_tool, /etc/hccn.conf and the addresses of the NPUs of a host.

The forms of the answers are those of the driver's tool as guides and bug reports show them; all values are our own.
What the tool says to wrong arguments is not known to us: the twin says something and ends with a code that is not 0.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from . import state
from .state import CHIPS


class Host:
    """The host's state with its defaults."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.generation = str(told.get("generation", "A3"))
        self.chips = int(told.get("chips") or CHIPS[self.generation])
        self.prefix = str(told.get("address_prefix", "198.18.0"))
        self.first = int(told.get("address_first", 10))  # of NPU 0; its virtual one is 100 above
        self.gateway = str(told.get("gateway", f"{self.prefix}.1"))
        self.tls = int(told.get("tls", 0))
        self.roce = bool(told.get("roce", True))  # whether the NPUs have cables of their own
        self.smi_version = str(told.get("npu_smi", "25.5.0"))
        self.firmware = str(told.get("firmware", "7.8.0.5.216"))
        self.pod = int(told.get("super_pod", 7))
        self.server = int(told.get("server_index", 2))
        self.faults: dict[str, Any] = dict(told.get("faults", {}))

    def fault(self, kind: str, chip: int, otherwise: Any) -> Any:
        """A value of one chip that was told to differ."""
        return self.faults.get(kind, {}).get(str(chip), otherwise)

    def address(self, chip: int) -> str:
        return str(self.fault("ip", chip, f"{self.prefix}.{self.first + chip}"))

    def vnic(self, chip: int) -> str:
        return str(self.fault("vnic", chip, f"{self.prefix}.{self.first + 100 + chip}"))


def conf(told: Mapping[str, Any]) -> str:
    """/etc/hccn.conf of such a host; the fault `ip` with an empty value leaves a chip without an address."""
    host = Host(told)
    lines = []
    for chip in range(host.chips):
        values = {
            "address": host.address(chip),
            "netmask": "255.255.255.0",
            "netdetect": host.gateway,
            "gateway": host.gateway,
            "tls_enable": str(host.fault("tls", chip, host.tls)),
        }
        lines += [f"{name}_{chip}={value}" for name, value in values.items() if value]
    return "\n".join(lines) + "\n"


def misbehave(host: Host, tool: str) -> None:
    """Faults of a whole tool."""
    fault = str(host.faults.get(tool, ""))
    name, _colon, value = fault.partition(":")
    if name == "hang":
        time.sleep(float(value or 3600))
    elif name == "missing":
        print(f"bash: {tool}: command not found", file=sys.stderr)
        sys.exit(127)
    elif name == "exit":
        sys.exit(int(value or 1))
    elif name == "dcmi-8020":
        print("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)")
        print("dcmi model initialized failed, because the device is used. ret is -8020")
        sys.exit(1)
    elif name == "dcmi-8005":
        print("dcmi module initialize failed. ret is -8005")
        sys.exit(1)
    elif name == "failed":
        print("Command execute failed!")
        sys.exit(1)
    elif name and name != "unknown-layout":
        raise ValueError(f"{fault!r} is no fault of {tool}")


def _refuse(text: str) -> NoReturn:
    print(text)
    sys.exit(1)


def _link(host: Host, chip: int) -> str:
    return f"link status: {host.fault('link', chip, 'UP' if host.roce else 'DOWN')}"


def _net_health(host: Host, chip: int) -> str:
    down = host.fault("link", chip, "UP") == "DOWN"
    return (
        f"net health status: {host.fault('net_health', chip, 'Fault' if down else 'Success' if host.roce else 'Init')}"
    )


def _lldp(host: Host, chip: int) -> str:
    name = host.fault("lldp", chip, f"200GE2/0/{chip // 2 + 1}:{chip % 2 + 1}")
    if not name or host.fault("link", chip, "UP") == "DOWN" or not host.roce:
        return ""
    return (
        f"Chassis ID TLV\n\tMAC: 00:00:5e:00:53:{chip:02x}\nPort ID TLV\n\tIfname: {name}\nTime to Live TLV\n\t120\n"
        f"System Name TLV\n\tleaf-{chip % 4 + 1}\nMaximum Frame Size TLV\n\t9216\nEnd of LLDPDU TLV"
    )


def _ip(host: Host, chip: int) -> str:
    address = host.address(chip)
    return f"ipaddr:{address}\nnetmask:255.255.255.0" if address else ""


def _vnic(host: Host, chip: int) -> str:
    if host.generation == "A2":
        _refuse("Command execute failed!")
    return f"ipaddr:{host.vnic(chip)}\nnetmask:255.255.255.0"


def _tls(host: Host, chip: int) -> str:
    switch = host.fault("tls", chip, host.tls)
    return (
        f"dev_id:{chip}, tls switch[{switch}](0:disable, 1:enable), tls preconfigured[1](0:non-preset, 1:preset), "
        "tls alarm time threshold[60]days"
    )


def _stat(host: Host, chip: int) -> str:
    told = host.fault("stat", chip, {})
    names = ("mac_tx_total_pkt_num", "mac_rx_total_pkt_num", "mac_rx_bad_pkt_num", "roce_rx_err_pkt_num")
    values = {"mac_tx_total_pkt_num": 1000 + chip, "mac_rx_total_pkt_num": 2000 + chip, **told}
    return "packet statistics:\n" + "\n".join(f"{name}:{values.get(name, 0)}" for name in names)


QUESTIONS: dict[str, Callable[[Host, int], str]] = {
    "-link": _link,
    "-net_health": _net_health,
    "-lldp": _lldp,
    "-netdetect": lambda host, chip: f"netdetect address: {host.fault('netdetect', chip, host.gateway)}",
    "-gateway": lambda host, chip: f"default gateway:{host.fault('gateway', chip, host.gateway)}, Iface:eth{chip}",
    "-ip": _ip,
    "-vnic": _vnic,
    "-tls": _tls,
    "-stat": _stat,
    "-speed": lambda host, chip: f"Speed: {host.fault('speed', chip, 200000)} Mb/s",
    "-mtu": lambda host, chip: f"mtu:{host.fault('mtu', chip, 4200)}",
}


PINGS = ("-ping", "-hccs_ping")


def _ping(host: Host, chip: int, words: list[str], hccs: bool) -> str:
    if len(words) < 2 or words[0] != "address" or (len(words) > 2 and (hccs or words[2] != "pkt" or len(words) != 4)):
        _refuse("Input parameter error!")
    address = words[1]
    if address in host.faults.get("silent", ()):
        time.sleep(3600)
    broken = address in host.faults.get("unreachable", ()) or (not hccs and host.fault("link", chip, "UP") == "DOWN")
    if hccs:
        if host.generation == "A2":
            _refuse("Command execute failed!")
        return "This pkt ping fail" if broken else "This pkt ping success"
    count = int(words[3]) if len(words) == 4 else 3
    lines = [f"device {chip} PING {address}"]
    lines += [] if broken else [f"recv seq={i},time=0.{71 + i:03d}000ms" for i in range(count)]
    received, lost = (0, 100) if broken else (count, 0)
    lines.append(f"{count} packets transmitted, {received} received, {lost:.2f}% packet loss")
    return "\n".join(lines)


def answer(host: Host, argv: list[str]) -> str:
    if argv in (["-h"], ["--help"]):
        return "Usage: hccn_tool -i <device_id> <command> -g"
    if len(argv) < 4 or argv[0] != "-i" or argv[3] != "-g":
        _refuse("Input parameter error!")
    if not argv[1].isdigit() or int(argv[1]) >= host.chips:
        _refuse("Input parameter error! device id is invalid")
    chip, command, rest = int(argv[1]), argv[2], argv[4:]
    failing = host.faults.get("failing", {}).get(str(chip), [])
    if command.lstrip("-") in failing:
        _refuse("Command execute failed!")
    if command.lstrip("-") in host.faults.get("hanging", {}).get(str(chip), []):
        time.sleep(3600)
    if command.lstrip("-") in host.faults.get("failing-with-0", {}).get(str(chip), []):
        return "Cmd executed failed"
    if command in PINGS:
        return _ping(host, chip, rest, command == "-hccs_ping")
    if command not in QUESTIONS or rest:
        _refuse("Input parameter error!")
    return QUESTIONS[command](host, chip)


def main(argv: list[str] | None = None) -> None:
    host = Host(state.host())
    misbehave(host, "hccn_tool")
    text = answer(host, sys.argv[1:] if argv is None else argv)
    if text:
        print(text)
