# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How rules look at NPUs: those of the plan, whose processes run on them, and the network that the KV takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host

INTRA_ROCE = "HCCL_INTRA_ROCE_ENABLE"
Chip = Mapping[str, Any]
Order = tuple[tuple[int, ...], int]

_VERSION = re.compile(r"[vV]?([0-9]+(?:\.[0-9]+)*)(?:[.-]?rc\.?([0-9]+))?", re.IGNORECASE)


def told(numbers: Iterable[int]) -> str:
    """chip 3, or chips 3, 5-7"""
    spans: list[list[int]] = []
    ordered = sorted(set(numbers))
    for number in ordered:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    return f"chip{'' if len(ordered) == 1 else 's'} {', '.join(texts)}"


def are(numbers: Iterable[int]) -> str:
    return "is" if len(set(numbers)) == 1 else "are"


def planned(host: Host, numbers: Iterable[int]) -> list[int]:
    return sorted(set(numbers) & set(host.devices))


def chips(host: Host) -> list[Chip]:
    """npu_info's chips, where NPUs do the work."""
    return host.each("npu.chips") if host.ascend else []


def ports(host: Host) -> list[Chip]:
    """hccn_info's chips, where NPUs do the work."""
    return host.each("hccn.chips") if host.ascend else []


def with_fact(entries: Iterable[Chip], name: str, fits: Callable[[Any], bool]) -> dict[int, Any]:
    """Chip -> its fact, where the fact is known and fits."""
    return {entry["id"]: entry[name] for entry in entries if entry.get(name) is not None and fits(entry[name])}


def unsure(host: Host, fact: str, probe: str = "npu") -> bool:
    """Whether a fact, or a part of it, could not be found out."""
    return any(re.split(r"[.\[]", item["what"])[0] in (fact, "") for item in host.each(f"{probe}.unknown"))


def generation(host: Host) -> str | None:
    return host.generation or host.fact("npu.generation")


def variable(host: Host, name: str) -> str | None:
    """A planned variable, of the first engine process that has it."""
    return next((str(environment[name]) for environment in host.environments if name in environment), None)


def roce_between(host: Host) -> bool:
    """Whether KV leaves the host by the RoCE ports of the NPUs: on A2, and on A3 when the plan says so."""
    return generation(host) == "A2" or (generation(host) == "A3" and variable(host, INTRA_ROCE) == "1")


def pings(host: Host) -> list[Chip]:
    return host.each("hccn.pings") if host.ascend else []


def proven(host: Host, plane: str) -> bool:
    """Whether pings on the plane were made, and all of them came back."""
    answers = [ping["ok"] for ping in pings(host) if ping["plane"] == plane]
    return bool(answers) and all(answers)


def own_units(host: Host) -> set[str]:
    return {process["unit"]["name"] for process in host.processes}


def is_own(host: Host, process: Mapping[str, Any]) -> bool:
    return process["unit"] in own_units(host) and not process["container"]


def order(text: str | None) -> Order | None:
    """Sort key of a version of CANN or the driver: 8.3.RC2 < 8.3.0, 25.0.rc1.2 < 25.5.0. None when it is none."""
    match = _VERSION.match(text or "")
    if not match:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), int(match[2]) if match[2] else 1 << 30


def older(text: str | None, than: str) -> bool:
    """Whether a known version is older; what is unknown is not."""
    mine, theirs = order(text), order(than)
    return mine is not None and theirs is not None and mine < theirs


def toolkits(host: Host) -> list[Chip]:
    """The packages of CANN that an engine needs to run at all, newest last; not kernels and libraries beside them."""
    packages = [
        package
        for package in host.each("npu.cann")
        if re.search(r"toolkit|nnae|^cann", str(package["package"]).lower()) and order(package["version"])
    ]
    return sorted(packages, key=lambda package: order(package["version"]) or ((), 0))


def cann(host: Host) -> str | None:
    """The newest CANN that is installed."""
    return next((str(package["version"]) for package in reversed(toolkits(host))), None)
