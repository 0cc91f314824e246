# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What npu-smi prints. Columns are found by the names in the heads of its tables, which differ by release and NPU.

Forms: 24.x and 25.x of A2, with a column Phy-ID of A3, the wide one of 26.x, and the one of A5, which has no chips on a
card (public reports; none of it was seen on hardware by us).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Optional

MIB = 1024 * 1024
Row = dict[str, Any]

# Names with blanks in them; every other word of a head is a name.
_NAMES = re.compile(r"NPU ID|NPU Util\(%\)|Process id in container|Process id|Process name|Process memory\(MB\)|\S+")
_SILENT = re.compile(r"No running processes found in NPU (\d+)")
_VERSION = re.compile(r"(?m)npu-smi(?: version:)?\s+v?(\d[\w.+-]*)")

# ret of dcmi_init -> what it means: Ascend/cann-container-image#46, vllm-ascend#2698
DCMI = {
    "-8020": "the NPUs are in use by another container that has them for itself",
    "-8005": "the driver is not loaded, or its device nodes and libraries are not in this container",
}
_DCMI = re.compile(r"dcmi mod\w+ initiali\w+ failed.*?ret is (-\d+)", re.DOTALL)
_REFUSED = re.compile(r"(?im)^.*(?:command execute failed|error while loading shared libraries|not support).*$")


@dataclass
class Overview:
    version: Optional[str] = None
    chips: list[Row] = field(default_factory=list)
    processes: list[Row] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)  # fact, why it is not known


def refusal(text: str) -> Optional[str]:
    """Why the tool says nothing about NPUs; it says so on stdout, also with exit code 0."""
    failed = _DCMI.search(text)
    if failed:
        return f"npu-smi failed with {failed[1]}: {DCMI.get(failed[1], 'unknown code')}"
    refused = _REFUSED.search(text)
    return f"npu-smi failed: {refused[0].strip()[:200]}" if refused else None


def version(text: str) -> Optional[str]:
    found = _VERSION.search(text)
    return found[1] if found else None


def overview(text: str) -> Overview:
    """`npu-smi info`"""
    found = Overview(version(text))
    table = _Table(found)
    for line in text.splitlines():
        row = line.strip()
        if row.startswith("|"):
            table.feed([cell.strip() for cell in row.strip("|").split("|")])
    table.end()
    _number(found.chips, found.processes)
    return found


class _Table:
    def __init__(self, found: Overview) -> None:
        self.found = found
        self.heads: list[list[list[str]]] = []  # of the two lines of a chip, or of a process
        self.first: Optional[list[str]] = None  # line of a chip whose second one is to come
        self.told: set[int] = set()  # cards whose processes are told
        self.about = ""  # chips or processes

    def feed(self, cells: list[str]) -> None:
        text = " ".join(cells)
        silent = _SILENT.search(text)
        if silent:
            self.told.add(int(silent[1]))
        elif "Health" in text and "Name" in text:
            self.about, self.heads = "chips", [_names(cells)]
        elif "Process id" in text:
            self.about, self.heads = "processes", [_names(cells)]
        elif self.about == "chips" and len(self.heads) == 1:
            self.heads.append(_names(cells))
        elif self.about == "chips":
            self._chip(cells)
        elif self.about == "processes":
            self._process(cells)

    def end(self) -> None:
        found = self.found
        if self.first:
            self._bad("chips", self.first)
        if not found.chips and not found.problems:
            found.problems.append(("chips", "npu-smi printed no table of NPUs that is understood"))
        if self.about != "processes":
            found.problems.append(("processes", "npu-smi printed no table of processes that is understood"))
        else:
            left = sorted({chip["card"] for chip in found.chips} - self.told)
            if left:
                cards = ", ".join(map(str, left))
                found.problems.append(("processes", f"npu-smi says nothing about the processes of NPU {cards}"))

    def _bad(self, what: str, cells: list[str]) -> None:
        self.found.problems.append((what, f"npu-smi printed a line that is not understood: | {' | '.join(cells)} |"))

    def _chip(self, cells: list[str]) -> None:
        if self.first is None:
            self.first = cells
            return
        first, self.first = self.first, None
        above, below = _values(self.heads[0], first), _values(self.heads[1], cells)
        card = _int(above.get("npu", above.get("npu id")))
        place = _int(below.get("chip", "0"))
        if card is None or place is None or len(first) != len(self.heads[0]) or len(cells) != len(self.heads[1]):
            self._bad("chips", [*first, *cells])
            return
        used, total = _share(below.get("hbm-usage(mb)"))
        chip = {
            "card": card,
            "chip": place,
            "phy_id": _int(below.get("phy-id")),
            "name": above.get("name") or None,
            "health": above.get("health") or None,
            "bus_id": _known(below.get("bus-id")),
            "aicore": _int(below.get("aicore(%)", below.get("npu util(%)"))),
            "hbm_used": used,
            "hbm_total": total,
            "temperature": _int(above.get("temp(c)")),
            "power": _float(above.get("power(w)")),
        }
        self.found.chips.append(chip)
        where = f"NPU {card}" + (f" chip {place}" if place else "")
        for name in ("name", "health", "aicore", "hbm_used", "temperature"):
            if chip[name] is None:
                self.found.problems.append(("chips", f"npu-smi does not tell {name} of {where} where it is expected"))

    def _process(self, cells: list[str]) -> None:
        row = _values(self.heads[0], cells)
        card, pid = _int(row.get("npu", row.get("npu id"))), _int(row.get("process id"))
        if card is None or pid is None or len(cells) != len(self.heads[0]):
            self._bad("processes", cells)
            return
        self.told.add(card)
        memory = _int(row.get("process memory(mb)"))
        if memory is None:
            self.found.problems.append(("processes", f"npu-smi does not tell the memory of pid {pid}"))
        self.found.processes.append(
            {
                "card": card,
                "place": _int(row.get("chip", "0")) or 0,
                "pid": pid,
                "name": row.get("process name", ""),
                "memory": None if memory is None else memory * MIB,
                "container_pid": _int(row.get("process id in container")),
            }
        )


def _number(chips: list[Row], processes: list[Row], mapped: Optional[dict[tuple[int, int], Row]] = None) -> None:
    """Number the chips over the whole host, as hccn_tool and ASCEND_RT_VISIBLE_DEVICES do."""
    each = max((chip["chip"] for chip in chips), default=0) + 1
    for chip in chips:
        known = (mapped or {}).get((chip["card"], chip["chip"]), {})
        if chip["phy_id"] is None:
            chip["phy_id"] = known.get("phy")
        if chip["phy_id"] is None and each == 1:
            # there the number of the card is that of the chip, and the map has no column for it
            chip["phy_id"] = known.get("logic", chip["card"])
        logic = known.get("logic")
        chip["id"] = next(
            number for number in (chip["phy_id"], logic, chip["card"] * each + chip["chip"]) if number is not None
        )
    ids = {(chip["card"], chip["chip"]): chip["id"] for chip in chips}
    for process in processes:
        place = (process["card"], process["place"])
        process["chip"] = ids.get(place, process["card"] * each + process["place"])


def number(found: Overview, mapped: dict[tuple[int, int], Row]) -> None:
    """Number them by `npu-smi info -m`, where the overview has no such column."""
    _number(found.chips, found.processes, mapped)


def mapping(text: str) -> dict[tuple[int, int], Row]:
    """`npu-smi info -m`: by card and chip, the logic id and the physical one. Chips without one are no NPUs."""
    found = {}
    names: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"\s{2,}|\t+|\|", line.strip().strip("|")) if cell.strip()]
        if "NPU ID" in cells and "Chip ID" in cells:
            names = cells
        elif names:
            row = dict(zip(names, cells))
            card, place, logic = (_int(row.get(name)) for name in ("NPU ID", "Chip ID", "Chip Logic ID"))
            if card is not None and place is not None and logic is not None:
                found[card, place] = {"logic": logic, "phy": _int(row.get("Chip Phy-ID"))}
    return found


def pairs(text: str) -> dict[str, str]:
    """`npu-smi info -t ...`: name -> value, in lower case; also where it draws a table around them."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        for cell in line.strip().strip("|").split("|"):
            name, colon, value = cell.partition(":")
            if colon and name.strip() and value.strip():
                found.setdefault(name.strip().lower(), value.strip())
    return found


def superpod(text: str) -> Row:
    """`npu-smi info -t spod-info -i CARD -c CHIP`"""
    told = pairs(text)
    names = {"superpod": "super pod id", "sdid": "sdid", "size": "super pod size", "server_index": "server index"}
    return {key: _int(told.get(name)) for key, name in names.items()}


def generation(chips: list[Row]) -> Optional[str]:
    """A2, A3 or A5 by the names; A3 and older NPUs share theirs, but only A3 has two chips on a card."""
    names = {str(chip["name"]).replace(" ", "").removeprefix("Ascend") for chip in chips}
    double = any(chip["chip"] for chip in chips)
    if names and all(name.startswith("910B") for name in names):
        return "A2"
    if names and double and all(name == "910" or name.startswith(("910_93", "910C")) for name in names):
        return "A3"
    if names and all(name.startswith("950") for name in names):
        return "A5"
    return None


def _names(cells: list[str]) -> list[list[str]]:
    return [[name.lower() for name in _NAMES.findall(cell)] for cell in cells]


def _values(heads: list[list[str]], cells: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for head, cell in zip(heads, cells):
        words = re.sub(r"\s*/\s*", "/", cell).split()
        # 26.x: the head does not name the second number
        names = ["chip", "phy-id"] if head == ["chip"] and len(words) == 2 else head
        if len(names) == 1:
            found[names[0]] = cell
        elif names and names[-1] == "name":
            found.update(zip(names, [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])]))
        elif len(names) == len(words):
            found.update(zip(names, words))
        # otherwise nobody can tell which value is missing
    return found


def _int(text: Optional[str]) -> Optional[int]:
    return int(text) if text and re.fullmatch(r"-?[0-9]+", text) else None


def _float(text: Optional[str]) -> Optional[float]:
    return float(text) if text and re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else None


def _known(text: Optional[str]) -> Optional[str]:
    return text if text and text not in ("NA", "-") else None


def _share(text: Optional[str]) -> tuple[Optional[int], Optional[int]]:
    used, _slash, total = (text or "").replace(" ", "").partition("/")
    numbers = [_int(used), _int(total)]
    if None in numbers:
        return None, None
    return numbers[0] * MIB, numbers[1] * MIB  # type: ignore[operator]
