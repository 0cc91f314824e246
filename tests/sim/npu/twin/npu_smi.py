# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""npu-smi of A2 (8 cards of one chip), A3 (8 cards of two) and A5. Forms as reports show them, all values our own.

What the tool says to wrong arguments is known to us only in part: the twin says something and ends with code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from . import state
from .hccn import Host, misbehave

_NAMES = {"A2": "910B3", "A3": "Ascend910", "A5": "Ascend950DT"}
_BUSES = ("C1", "C2", "81", "82", "01", "02", "41", "42")


@dataclass(frozen=True)
class Chip:
    """phy: number over the whole host, as ASCEND_RT_VISIBLE_DEVICES and hccn_tool count."""

    phy: int
    card: int
    place: int
    bus: str
    health: str
    hbm: int
    total: int
    aicore: int

    @staticmethod
    def all(host: Host) -> list[Chip]:
        each = 2 if host.generation == "A3" else 1
        chips = []
        for phy in range(host.chips):
            used = sum(p["memory"] for p in _processes(host) if p["chip"] == phy)
            chips.append(
                Chip(
                    phy=phy,
                    card=phy // each,
                    place=phy % each,
                    bus=f"0000:{_BUSES[phy // each % 8]}:0{phy % each}.0",
                    health=str(host.fault("health", phy, "OK")),
                    hbm=int(host.fault("hbm", phy, 3120 + 7 * phy + used)),
                    total=65536,
                    aicore=int(host.fault("aicore", phy, 0)),
                )
            )
        return chips


def _processes(host: Host) -> list[dict[str, Any]]:
    return [
        {
            "chip": int(p["chip"]),
            "pid": int(p["pid"]),
            "name": str(p.get("name", "")),
            "memory": int(p.get("memory", 150)),
        }
        for p in host.faults.get("processes", ())
    ]


def _table(host: Host, chips: list[Chip]) -> Iterator[str]:
    wide = host.smi_version.startswith("26")
    a, b, c = 27, 15, 70 if wide else 52
    # inside the third column: power, temperature, hugepages / AICore, memory, HBM
    p, q = (21, 24) if wide else (12, 18)
    rule, double = f"+{'-' * a}+{'-' * b}+{'-' * c}+", f"+{'=' * a}+{'=' * b}+{'=' * c}+"
    title = f" npu-smi {host.smi_version}"
    yield "+" + "-" * (a + b + c + 2) + "+"
    yield f"|{title:<34}{'Version: ' + host.smi_version:<{a + b + c + 2 - 34}}|"
    yield rule
    third = f" {'Power(W)':<{p}}{'Temp(C)':<{q}}{'Hugepages-Usage(page)'}"
    yield f"| {'NPU   Name':<{a - 1}}| {'Health':<{b - 1}}|{third:<{c}}|"
    third = f" {'AICore(%)':<{p}}{'Memory-Usage(MB)':<{q}}{'HBM-Usage(MB)'}"
    yield f"| {'Chip' + ('  Phy-ID' if host.generation == 'A3' else ''):<{a - 1}}| {'Bus-Id':<{b - 1}}|{third:<{c}}|"
    yield double
    for chip in chips:
        name = _NAMES[host.generation]
        power = f"{101.5 + chip.phy / 2:.1f}" if chip.place == 0 else "-"
        third = f" {power:<{p}}{33 + chip.phy % 5:<{q}}{'0    / 0'}"
        yield f"| {f'{chip.card:<6}{name}':<{a - 1}}| {chip.health:<{b - 1}}|{third:<{c}}|"
        place = f"{chip.place:<6}{chip.phy}" if host.generation == "A3" else str(chip.place)
        third = f" {chip.aicore:<{p}}{'0    / 0':<{q - 4 if not wide else q}}{chip.hbm:<5}/ {chip.total}"
        yield f"| {place:<{a - 1}}| {chip.bus:<{b - 1}}|{third:<{c}}|"
        yield double
    widths = (27, 15, 20, 23, 25) if wide else (27, 15, 26, 25)
    heads = ("NPU     Chip", "Process id", "Process name", "Process memory(MB)", "Process id in container")
    rule = "+" + "+".join("-" * w for w in widths) + "+"

    yield rule
    yield "|" + "|".join(f" {head:<{w - 1}}" for head, w in zip(heads, widths)) + "|"
    yield double
    for card in sorted({chip.card for chip in chips}):
        mine = [(chip, p) for chip in chips if chip.card == card for p in _processes(host) if p["chip"] == chip.phy]
        for chip, process in mine:
            cells = (f"{card:<8}{chip.place}", process["pid"], process["name"], process["memory"], "NA")
            yield "|" + "|".join(f" {cell!s:<{w - 1}}" for cell, w in zip(cells, widths)) + "|"
        if not mine:
            text = f" No running processes found in NPU {card}"
            yield f"|{text:<{sum(widths) + len(widths) - 1}}|"
        yield double


def _table_a5(host: Host, chips: list[Chip]) -> Iterator[str]:
    yield f"| npu-smi {host.smi_version}    Version: {host.smi_version} |"
    yield "| NPU ID | Name        | Health | Power(W) Temp(C) Hugepages-Usage(page) |"
    yield "|        |             | Bus-Id | NPU Util(%) Memory-Usage(MB) HBM-Usage(MB) |"
    for chip in chips:
        yield f"| {chip.card:<6} | {_NAMES['A5']} | {chip.health:<6} | {98 + chip.phy}.0 {38 + chip.phy} 0 / 0 |"
        yield f"|        |             | NA     | {chip.aicore} 0 / 0 {chip.hbm} / {chip.total} |"
    yield "| NPU ID | Process id | Process name | Process memory(MB) | Process id in container |"
    for chip in chips:
        mine = [p for p in _processes(host) if p["chip"] == chip.phy]
        for p in mine:
            yield f"| {chip.card:<6} | {p['pid']:<10} | {p['name']:<12} | {p['memory']:<18} | NA                      |"
        if not mine:
            yield f"| No running processes found in NPU {chip.card} |"


def _refuse(text: str) -> NoReturn:
    print(text)
    sys.exit(1)


def _pairs(values: dict[str, Any]) -> list[str]:
    return [f"\t{name:<31}: {value}" for name, value in values.items()]


def _of_card(host: Host, kind: str, card: list[Chip]) -> list[str]:
    """`info -t kind -i card [-c chip]`."""
    first = card[0]
    if kind == "board":
        return _pairs(
            {
                "NPU ID": first.card,
                "Product Name": "NA",
                "Model": "NA",
                "Manufacturer": "Huawei",
                "Serial Number": f"TWIN{first.card:06d}",
                "Software Version": host.smi_version,
                "Firmware Version": host.firmware,
                "Compatibility": "OK",
                "Board ID": "0x64",
                "PCB ID": "A",
                "BOM ID": "1",
                "PCIe Bus Info": first.bus,
                "Slot ID": first.card,
                "Class ID": "NA",
                "PCI Vendor ID": "0x19E5",
                "PCI Device ID": "0xD802",
                "Subsystem Vendor ID": "0x0200",
                "Subsystem Device ID": "0x0100",
                "Chip Count": len(card),
            }
        )
    if kind == "spod-info":
        if host.generation == "A2":
            _refuse("This device does not support querying spod-info.")
        chip = card[-1]
        return _pairs(
            {
                "NPU ID": chip.card,
                "Chip ID": chip.place,
                "SDID": 117440512 + host.server * 4194304 + chip.phy,
                "Super Pod Size": 384,
                "Super Pod ID": host.pod,
                "Server Index": host.server,
            }
        )
    lines: list[str] = []
    if kind in ("usages", "memory", "common"):
        lines += [*_pairs({"NPU ID": first.card, "Chip Count": len(card)}), ""]
    for chip in card:
        lines += _pairs(_of_chip(kind, chip))
        if kind in ("usages", "memory", "common") and chip is not card[-1]:
            lines.append("")
    return lines


def _of_chip(kind: str, chip: Chip) -> dict[str, Any]:
    rate = round(100 * chip.hbm / chip.total)
    if kind == "health":
        return {"Health Status": chip.health, "Error Code": "NA", "Error Information": "NA"}
    if kind == "memory":
        return {"DDR Capacity(MB)": 0, "HBM Capacity(MB)": chip.total, "Chip ID": chip.place}
    if kind == "common":
        return {
            "HBM Usage Rate(%)": rate,
            "Aicore Usage Rate(%)": chip.aicore,
            "Aicore Freq(MHZ)": 800,
            "Temperature(C)": 33 + chip.phy % 5,
            "Chip ID": chip.place,
        }
    return {
        "HBM Capacity(MB)": chip.total,
        "HBM Usage Rate(%)": rate,
        "Aicore Usage Rate(%)": chip.aicore,
        "Aicpu Usage Rate(%)": 0,
        "Ctrlcpu Usage Rate(%)": 1,
        "HBM Bandwidth Usage Rate(%)": 0,
        "Chip ID": chip.place,
    }


_KINDS = ("board", "health", "usages", "memory", "common", "spod-info")


def _typed(host: Host, chips: list[Chip], words: list[str]) -> list[str]:
    told = dict(zip(words[::2], words[1::2]))
    if len(words) % 2 or not set(told) <= {"-t", "-i", "-c"}:
        _refuse("Error parameter.")
    kind = told.get("-t", "")
    if kind not in _KINDS:
        _refuse("Error parameter of -t")
    if not told.get("-i", "").isdigit():
        _refuse("Error parameter of -i")
    card = [chip for chip in chips if chip.card == int(told["-i"])]
    if not card:
        _refuse("This device does not exist.")
    if "-c" in told:
        card = [chip for chip in card if str(chip.place) == told["-c"]]
        if not card:
            _refuse("This chip does not exist.")
    elif kind == "spod-info":
        _refuse("Error parameter of -c")
    return _of_card(host, kind, card)


def _list(chips: list[Chip]) -> list[str]:
    cards = sorted({chip.card for chip in chips})
    lines = _pairs({"Total Count": len(cards)})
    for card in cards:
        lines += ["", *_pairs({"NPU ID": card, "Chip Count": sum(chip.card == card for chip in chips)})]
    return lines


def _map(host: Host, chips: list[Chip]) -> list[str]:
    double = host.generation == "A3"
    name = f"Ascend {_NAMES[host.generation].replace('Ascend', '')}"
    rows = [["NPU ID", "Chip ID", "Chip Logic ID", *(["Chip Phy-ID"] if double else []), "Chip Name"]]
    for chip in chips:
        phy = [str(chip.phy)] if double else []
        rows.append([str(chip.card), str(chip.place), str(chip.phy), *phy, name])
    return ["\t" + "".join(f"{cell:<31}" for cell in row).rstrip() for row in rows]


def _overview(host: Host, chips: list[Chip]) -> list[str]:
    if host.faults.get("npu-smi") == "unknown-layout":
        return [f"npu-smi {host.smi_version}", *(f"npu={c.card} chip={c.place} state={c.health}" for c in chips)]
    return list(_table_a5(host, chips) if host.generation == "A5" else _table(host, chips))


def answer(host: Host, argv: list[str]) -> list[str]:
    if argv in (["-v"], ["--version"]):
        return [f"npu-smi version: {host.smi_version}"]
    if argv in (["-h"], ["--help"]):
        return ["npu-smi info", "npu-smi info -l | -m", "npu-smi info -t <type> -i <npu> [-c <chip>]"]
    if argv[:1] != ["info"]:
        _refuse("Error parameter.")
    chips, words = Chip.all(host), argv[1:]
    if not words:
        return _overview(host, chips)
    if words in (["-l"], ["-m"]):
        return _list(chips) if words == ["-l"] else _map(host, chips)
    return _typed(host, chips, words)


def main(argv: list[str] | None = None) -> None:
    host = Host(state.host())
    misbehave(host, "npu-smi")
    print("\n".join(answer(host, sys.argv[1:] if argv is None else argv)))
