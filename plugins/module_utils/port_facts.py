# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything that module port_info tells, put together."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ansible_collections.mooncake.pd.plugins.module_utils import masking, published_ports, redirections, sockets
from ansible_collections.mooncake.pd.plugins.module_utils.port_court import FREE, OWN, Court
from ansible_collections.mooncake.pd.plugins.module_utils.port_evidence import Evidence

_FOREIGN = 10
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


class Facts:
    def __init__(self, proc: str = "/proc") -> None:
        self.proc = proc
        self.unknown: list[dict[str, str]] = []

    def doubt(self, what: str, why: str, raw: str = "") -> None:
        self.unknown.append({"what": what, "why": masking.masked(why), "raw": masking.raw(raw)})

    def gather(self, groups: Sequence[Mapping[str, Any]], pools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        if os.geteuid() != 0:
            why = "This did not run as root, so processes of other users, containers and NAT rules are not seen."
            for what in ("pools", "published", "redirections", "nodeports"):
                self.doubt(what, why)
        published, others, nodeports = self._elsewhere()
        court = Court(self.proc, lambda: published)
        rulings = [ruling for rulings in court.hear(groups) for ruling in rulings]
        self.unknown += court.unknown
        ephemeral = self._ephemeral()
        reserved_raw = self._setting("ip_local_reserved_ports", "reserved")
        made_pools = self._pools(court.evidence, pools, {group["unit"] for group in groups})
        late = ", ".join(map(str, court.evidence.late))
        if late:
            self.doubt("court.*.owners.*.command", f"Process {late} did not tell its command line in time.")
        return {
            "court": [ruling.as_dict() for ruling in rulings if ruling.verdict != FREE],
            "probed": sum(ruling.probed for ruling in rulings),
            "free": sum(ruling.verdict == FREE for ruling in rulings),
            "own": sum(ruling.verdict == OWN for ruling in rulings),
            "namespace": {"same_as_init": self._same_as_init()},
            "ephemeral": ephemeral,
            "reserved": None if reserved_raw is None else spans(reserved_raw),
            "reserved_raw": reserved_raw,
            "sockets": self._numbers(court.evidence, ephemeral),
            "pools": made_pools,
            "published": [item.as_dict() for item in published],
            "redirections": [item.as_dict() for item in others],
            "nodeports": nodeports,
            "unknown": self.unknown,
        }

    def _elsewhere(self) -> tuple[list[published_ports.Published], list[Any], Optional[bool]]:
        said, failed = published_ports.read()
        for failure in failed:
            self.doubt("published", failure.why, failure.raw)
        found = redirections.read(self.proc)
        for failure in found.unknown:
            self.doubt("redirections", failure.why, failure.raw)
            self.doubt("nodeports", failure.why)
        published, others = published_ports.told_apart(said, found.redirections)
        return published, others, None if found.unknown and not found.nodeports else found.nodeports

    def _setting(self, name: str, what: str) -> Optional[str]:
        path = os.path.join(self.proc, "sys", "net", "ipv4", name)
        try:
            with open(path, encoding="ascii", errors="replace") as setting:
                return setting.read().strip()
        except OSError as error:
            self.doubt(what, f"{path} cannot be read: {error.strerror}.")
            return None

    def _ephemeral(self) -> Optional[list[int]]:
        text = self._setting("ip_local_port_range", "ephemeral")
        parts = (text or "").split()
        if len(parts) == 2 and all(part.isdigit() for part in parts):
            return [int(part) for part in parts]
        if text is not None:
            self.doubt("ephemeral", "net.ipv4.ip_local_port_range is not understood.", text)
        return None

    def _same_as_init(self) -> Optional[bool]:
        try:
            own, init = (os.stat(os.path.join(self.proc, pid, "ns", "net")) for pid in ("self", "1"))
        except OSError as error:
            self.doubt(
                "namespace.same_as_init", f"The network namespace of process 1 cannot be seen: {error.strerror}."
            )
            return None
        return (own.st_dev, own.st_ino) == (init.st_dev, init.st_ino)

    def _numbers(self, evidence: Evidence, ephemeral: Optional[Sequence[int]]) -> dict[str, Optional[int]]:
        survey = evidence.survey
        for problem in survey.problems:
            self.doubt("sockets", problem)
        named = {"listen": sockets.LISTEN, "established": "ESTABLISHED", "time_wait": sockets.TIME_WAIT}
        numbers: dict[str, Optional[int]] = {key: survey.counts[state] for key, state in named.items()}
        numbers["other"] = sum(survey.counts.values()) - sum(survey.counts[state] for state in named.values())
        numbers["time_wait_ephemeral"] = None
        if ephemeral:
            numbers["time_wait_ephemeral"] = sum(ephemeral[0] <= port <= ephemeral[1] for port in survey.time_wait)
        else:
            self.doubt("sockets.time_wait_ephemeral", "The range of ephemeral ports is unknown.")
        return numbers

    def _pools(self, evidence: Evidence, pools: Sequence[Mapping[str, Any]], units: set[str]) -> list[dict[str, Any]]:
        listening: dict[int, list[sockets.Row]] = {}
        for row in evidence.survey.rows:
            if row.state == sockets.LISTEN:
                listening.setdefault(row.port, []).append(row)
        made = []
        unseen: set[int] = set()
        for pool in pools:
            ports = sorted(port for port in listening if pool["first"] <= port <= pool["last"])
            foreign: list[dict[str, Any]] = []
            for port in ports:
                owners = evidence.owners(listening[port])
                others = [owner for owner in owners if owner.unit not in units or owner.container]
                if not owners:
                    unseen.add(port)
                if (others or not owners) and len(foreign) < _FOREIGN:
                    said = " and ".join(str(owner) for owner in others) or "a process that is not seen here"
                    foreign.append({"port": port, "address": listening[port][0].address, "owner": said})
            made.append(
                {
                    "purpose": pool["purpose"],
                    "first": pool["first"],
                    "last": pool["last"],
                    "listeners": len(ports),
                    "foreign": foreign,
                }
            )
        if unseen:
            text = f"Which processes listen on port {sockets.ranges(unseen)} was not found out"
            hidden = evidence.holders.hidden
            self.doubt("pools", f"{text}, {hidden} processes may not be asked." if hidden else f"{text}.")
        return made


def spans(text: str) -> list[list[int]]:
    """The value of ip_local_reserved_ports: 36000-36015,50051"""
    found = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match:
            first = int(match.group(1))
            found.append([first, int(match.group(2) or first)])
    return found


def gather(groups: Sequence[Mapping[str, Any]], pools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return Facts().gather(groups, pools)
