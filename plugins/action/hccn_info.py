# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the module mooncake.pd.hccn_info with the addresses of the peers' NPUs, which only the controller knows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible.plugins.action import ActionBase

MODULE = "mooncake.pd.hccn_info"
REGISTER = "__preflight_hccn"
TIMEOUT = 10.0
EACH = 6.0  # seconds for one round of pings: more than those of the module for one that is lost
CONCURRENCY = 32  # the module's default

Chip = Mapping[str, Any]


class ActionModule(ActionBase):  # type: ignore[misc]
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        peers = arguments.pop("ping_peers", None) or []
        register = str(arguments.pop("register", None) or REGISTER)
        matrix = str(arguments.pop("matrix", None) or "rail")
        plane = str(arguments.pop("plane", None) or "auto")
        problem = _refuse(peers, matrix, plane)
        if problem:
            return {**result, "failed": True, "msg": problem}
        pairs = Pairs(None, matrix, plane)
        before: Chip = {}
        if peers:
            known = Known(task_vars.get("hostvars") or {}, register)
            own = known.chips(str(task_vars.get("inventory_hostname", "")))
            pairs.own = None if own is None else [chip["id"] for chip in own]
            pings = list(arguments.get("ping") or [])
            for peer in dict.fromkeys(map(str, peers)):
                pings += pairs.of(peer, known.chips(peer))
            arguments["ping"] = pings
            rounds = math.ceil(len(pings) / max(1, int(arguments.get("concurrency") or CONCURRENCY)))
            arguments["timeout"] = max(float(arguments.get("timeout") or TIMEOUT), EACH * rounds)
            if arguments.get("queries") == []:
                before = known.told(str(task_vars.get("inventory_hostname", "")))
        answer = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
        result.update(answer)
        if "hccn" in result:
            # who asks nothing anew still wants to know it all from one result
            result["hccn"]["chips"] = [*before.get("chips", ()), *result["hccn"]["chips"]]
            result["hccn"]["unknown"] = [*before.get("unknown", ()), *result["hccn"]["unknown"]]
            result["hccn"]["unknown"] += [{"what": "pings", "why": why, "raw": ""} for why in pairs.untold]
        return result


class Known:
    """What hosts told before. Read as it is: a template over all hosts would cost each of them that many."""

    def __init__(self, hostvars: Any, register: str) -> None:
        self._hostvars = hostvars
        self._register = register

    def told(self, host: str) -> Mapping[str, Any]:
        told = self._hostvars.raw_get(host).get(self._register) if host in self._hostvars else None
        found = told.get("hccn") if isinstance(told, Mapping) else None
        return found if isinstance(found, Mapping) else {}

    def chips(self, host: str) -> list[Chip] | None:
        """None when the host has told nothing."""
        told = self.told(host).get("chips")
        return [chip for chip in told if isinstance(chip, Mapping)] if isinstance(told, list) and told else None


def _refuse(peers: Any, matrix: str, plane: str) -> str:
    if not isinstance(peers, list):
        return f"ping_peers: {peers!r} is no list of hosts"
    if matrix not in ("rail", "full"):
        return f"matrix: {matrix!r} is neither rail nor full"
    return "" if plane in ("auto", "roce", "hccs") else f"plane: {plane!r} is neither auto, roce nor hccs"


@dataclass
class Pairs:
    """Which NPU pings which, and why some do not."""

    own: list[int] | None  # NPUs that ping; None when they are not known: those of the peer's numbers
    matrix: str
    plane: str
    untold: list[str] = field(default_factory=list)

    def of(self, peer: str, chips: list[Chip] | None) -> Iterator[dict[str, Any]]:
        if chips is None:
            self.untold.append(f"{peer} is not pinged: it has not told the addresses of its NPUs")
            return
        plane = self.plane
        if plane == "auto":
            plane = "hccs" if any(chip.get("vnic") for chip in chips) else "roce"
        others = {chip["id"]: str(chip.get("vnic" if plane == "hccs" else "address") or "") for chip in chips}
        nameless: set[int] = set()
        for number in sorted(others) if self.own is None else self.own:
            if self.matrix == "rail" and number not in others:
                self.untold.append(f"NPU {number} pings none of {peer}, which has no NPU of that number")
                continue
            for other in [number] if self.matrix == "rail" else sorted(others):
                if others[other]:
                    yield {"chip": number, "address": others[other], "plane": plane, "peer": peer}
                else:
                    nameless.add(other)
        if nameless:
            numbers = ", ".join(map(str, sorted(nameless)))
            name = "virtual address (vnic)" if plane == "hccs" else "address"
            self.untold.append(f"NPU {numbers} of {peer} is not pinged: its {name} is not known")
