# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The judgement on planned ports: a real bind tells the truth, everything else only explains why it failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.mooncake.pd.plugins.module_utils import port_sentences as say
from ansible_collections.mooncake.pd.plugins.module_utils import procs, sockets
from ansible_collections.mooncake.pd.plugins.module_utils.port_evidence import Evidence
from ansible_collections.mooncake.pd.plugins.module_utils.published_ports import Published

FREE, OWN, TAKEN, INVALID = sockets.FREE, "own", sockets.TAKEN, sockets.INVALID

LISTENER, CLIENT, TIME_WAIT, BOUND, HIDDEN, KERNEL = "listener", "client", "time-wait", "bound", "hidden", "kernel"

# options of modules that ask: a range that ports are drawn from, and a process with the ports it claims
POOL: dict[str, Any] = {
    "purpose": {"type": "str", "required": True},
    "first": {"type": "int", "required": True},
    "last": {"type": "int", "required": True},
}
_CLAIM: dict[str, Any] = {
    **POOL,
    "address": {"type": "str", "required": True},
    "where": {"type": "str", "default": ""},
}
GROUP: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "unit": {"type": "str", "required": True},
    "ports": {"type": "list", "elements": "dict", "default": [], "options": _CLAIM},
}


@dataclass
class Ruling:
    process: str
    unit: str
    purpose: str
    address: str
    port: int
    where: str
    verdict: str = FREE
    cause: Optional[str] = None
    states: list[str] = field(default_factory=list)
    owners: list[procs.Process] = field(default_factory=list)
    remote: Optional[str] = None
    published_by: Optional[str] = None
    said: str = ""  # what follows the name of the port
    fix: str = ""
    probed: bool = True

    @property
    def text(self) -> str:
        where = f" ({self.where})" if self.where else ""
        return f"{self.purpose} port {sockets.place(self.address, self.port)}{where} {self.said}" if self.said else ""

    @property
    def problem(self) -> str:
        return f"{self.process}: {self.text} {self.fix}" if self.said else ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "process": self.process,
            "unit": self.unit,
            "purpose": self.purpose,
            "address": self.address,
            "port": self.port,
            "where": self.where,
            "verdict": self.verdict,
            "cause": self.cause,
            "states": self.states,
            "owners": [owner.as_dict() for owner in self.owners],
            "remote": self.remote,
            "published_by": self.published_by,
            "text": self.text,
            "fix": self.fix,
        }


class Court:
    """published is only asked when a port is taken."""

    def __init__(self, proc: str = "/proc", published: Callable[[], Iterable[Published]] = tuple) -> None:
        self.proc = proc
        self.published = published
        self.evidence = Evidence((), proc)
        self.unknown: list[dict[str, str]] = []

    def hear(self, groups: Sequence[Mapping[str, Any]]) -> list[list[Ruling]]:
        """For each group (name, unit, ports) a ruling on each of its ports, in their order."""
        rulings = [list(_rulings(group)) for group in groups]
        asked = [ruling for group in rulings for ruling in group if ruling.probed]
        answers = {place: sockets.probe(*place, self.proc) for place in {(one.address, one.port) for one in asked}}
        self.evidence = Evidence({ruling.port for ruling in asked}, self.proc)
        for ruling in asked:
            self._judge(ruling, answers[ruling.address, ruling.port])
        self._doubts(asked)
        return rulings

    def _judge(self, ruling: Ruling, answer: str) -> None:
        if answer == sockets.FREE:
            self._free(ruling)
            return
        ruling.verdict = answer
        if answer == sockets.NO_ADDRESS:
            ruling.said, ruling.fix = say.no_address(ruling.address)
        elif answer == sockets.NO_PERMISSION:
            ruling.said, ruling.fix = say.no_permission()
        elif answer == sockets.INVALID:
            ruling.said, ruling.fix = say.invalid(ruling.address, ruling.port)
        else:
            self._taken(ruling)

    def _free(self, ruling: Ruling) -> None:
        """Two that allow it (SO_REUSEADDR) bind one port as long as neither listens: vLLM binds before it loads."""
        silent = [row for row in self._rows(ruling) if row.state == sockets.BOUND]
        owners = self.evidence.owners(silent)
        if not owners:
            return
        ruling.cause, ruling.states, ruling.owners = BOUND, [sockets.BOUND], owners
        if _own(owners, ruling.unit):
            ruling.verdict = OWN
        else:
            ruling.verdict = TAKEN
            ruling.said, ruling.fix = say.bound(owners, ruling.unit, shared=True)

    def _taken(self, ruling: Ruling) -> None:
        rows = self._rows(ruling)
        owners = self.evidence.owners(rows)
        ruling.owners = owners
        ruling.states = sorted({row.state for row in rows})
        ruling.cause = _cause(rows, owners, self.evidence)
        if ruling.cause in (CLIENT, TIME_WAIT):
            ruling.remote = next((row.remote for row in rows if row.remote), None)
        if owners and _own(owners, ruling.unit):
            ruling.verdict = OWN
            return
        if ruling.cause == LISTENER:
            ruling.published_by = self._publisher(ruling)
        ruling.said, ruling.fix = self._explain(ruling)

    def _explain(self, ruling: Ruling) -> tuple[str, str]:
        owners, states = ruling.owners, ruling.states
        if ruling.cause == LISTENER:
            return say.listener(owners, ruling.unit, ruling.published_by)
        if ruling.cause == BOUND:
            return say.bound(owners, ruling.unit, shared=False)
        if ruling.cause == CLIENT:
            return say.client(owners, states, ruling.remote)
        if ruling.cause == TIME_WAIT:
            return say.time_wait(states, ruling.remote)
        return say.kernel(states) if ruling.cause == KERNEL else self._hidden()

    def _hidden(self) -> tuple[str, str]:
        if self.evidence.holders.hidden:
            return say.unseen(self.evidence.holders.hidden)
        return say.hidden([*self.evidence.survey.problems, *filter(None, [self.evidence.bound_problem])])

    def _rows(self, ruling: Ruling) -> list[sockets.Row]:
        return sockets.conflicting(self.evidence.rows.get(ruling.port, ()), ruling.address, ruling.port)

    def _publisher(self, ruling: Ruling) -> Optional[str]:
        """A process that holds the port for a container; one in a container listens for itself."""
        kind = next(filter(None, map(say.proxied, ruling.owners)), None)
        if kind is None:
            return None
        for item in self.published():
            if item.port == ruling.port and item.catches(ruling.address):
                return str(item)
        return kind

    def _doubts(self, asked: Iterable[Ruling]) -> None:
        unclear = [ruling for ruling in asked if ruling.cause == HIDDEN]
        if not unclear:
            return
        ports = sockets.ranges(ruling.port for ruling in unclear)
        why = self.evidence.bound_problem
        if self.evidence.holders.hidden:
            why = f"{self.evidence.holders.hidden} processes may not be asked for their sockets."
        text = f"Who holds port {ports} was not found out. {why}".strip()
        self.unknown.append({"what": "court", "why": text, "raw": ""})


def _rulings(group: Mapping[str, Any]) -> Iterable[Ruling]:
    for claim in group["ports"]:
        first, last = claim["first"], claim["last"]
        named = (group["name"], group["unit"], claim["purpose"], claim["address"])
        where = claim.get("where") or ""
        if not 1 <= first <= last <= 65535:
            said, fix = say.no_range(first, last)
            yield Ruling(*named, first, where, INVALID, said=said, fix=fix, probed=False)
            continue
        for port in range(first, last + 1):
            yield Ruling(*named, port, where)


def _cause(rows: Sequence[sockets.Row], owners: Sequence[procs.Process], evidence: Evidence) -> str:
    if owners:
        states = {row.state for row in rows}
        if sockets.LISTEN in states:
            return LISTENER
        return BOUND if sockets.BOUND in states else CLIENT
    if rows and all(row.inode == 0 for row in rows):
        return TIME_WAIT
    if evidence.holders.hidden or not rows:
        return HIDDEN
    return KERNEL


def _own(owners: Iterable[procs.Process], unit: str) -> bool:
    return all(owner.unit == unit and not owner.container for owner in owners)
