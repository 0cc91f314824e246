# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof of transfers between hosts: which pairs, and what was proven of each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.baseline import rate

SCHEMA = 1
ALL, SAMPLE = "all", "sample"

_CORRUPT = (
    "do not serve over this way: look at memory, adapter and firmware of both hosts, and at what stands between them"
)
# What to do about each finding. The rules are those of transfer_offer and transfer_proof, and of `rows` below.
MEND = {
    "mooncake": "run prepare.yml, or name the environment that Mooncake is in (transport_mooncake_path)",
    "ports": "give it others with transport_ports, or end what holds them",
    "metadata": "start the metadata server, open its port for this host, or mend its address (transport_metadata)",
    "engine": "read what the engine said; the same happens to vLLM on this host",
    "device": "source CANN's set_env.sh (engine_set_env), see that the NPU is free and that transport_user may use it",
    "memory": "raise the limit of locked memory (LimitMEMLOCK), give it less (transport_size), or look at the devices "
    "of the engine",
    "address": "see that the address of the host in the topology is its own, that a route leads there, and that the "
    "firewall lets transport_ports and Mooncake's own ports (15000-17000) in",
    "stranger": "see that no other host or address translation answers at the planned address",
    "unregistered": "see why the engine on that host lost its memory; a metadata server may also tell of an engine "
    "that is gone",
    "fallback": "see that the devices are there and up for transport_user (preflight --tags rdma,npu), that Mooncake "
    "was built for them, and that neither MC_FORCE_TCP nor MC_TE_FILTERS is in the environment; or plan the transport "
    "that is really there",
    "read": "read what the engine said; connections of the data go to ports and devices of their own",
    "write": "read what the engine said; connections of the data go to ports and devices of their own",
    **dict.fromkeys(("checksum-read", "checksum-write", "checksum-back"), _CORRUPT),
    "timeout": "see whether the peer hangs or packets get lost (MTU); a slow way wants a greater transport_timeout",
    "died": "see the journal of that host for out-of-memory, and what the engine said; the same happens to vLLM there",
    "lost": "see above what failed on that host, mend it and run again",
    "unknown": "see above what failed on that host, and run again: what was not told is not proven",
}
_SHOWN = 5  # of many names
# what a peer that dies looks like from here
_SEEN_OF_A_DEATH = ("", "address", "read", "write", "timeout", "checksum-back", "unknown")


def peers(prefill: Sequence[str], decode: Sequence[str], host: str, pairs: str = ALL) -> list[str]:
    """Whom a host proves transfers with; who is in whose list is so for both.

    The sample gives every host a partner with as few pairs as can be: the longer side takes turns with the shorter.
    """
    partners: dict[str, None] = {}
    for one, other in _pairs(prefill, decode, pairs):
        if host == one:
            partners[other] = None
        if host == other:
            partners[one] = None
    return list(partners)


def _pairs(prefill: Sequence[str], decode: Sequence[str], pairs: str) -> Iterable[tuple[str, str]]:
    if not prefill or not decode:
        return []
    if pairs == SAMPLE:
        longest = max(len(prefill), len(decode))
        return [(prefill[turn % len(prefill)], decode[turn % len(decode)]) for turn in range(longest)]
    return [(one, other) for one in prefill for other in decode]


@dataclass(frozen=True)
class Told:
    """What a host told in a run; what is None was not."""

    peers: Sequence[str] | None  # None: it was lost before it knew them
    results: Sequence[Mapping[str, Any]] | None = None
    witness: Mapping[str, Any] | None = None
    why: str = ""  # what ended its part, when something did


@dataclass(frozen=True)
class Row:
    """A host that read and wrote memory of another over one protocol."""

    source: str
    peer: str  # empty when the host was lost before it knew any
    protocol: str
    rule: str = ""
    problem: str = ""
    host: str = ""  # that it is wrong on; none when it is the way between the two
    segment: str = ""  # where the peer's engine answers
    installed: str = ""
    registered: int = 0  # bytes
    read: float | None = None  # bytes a second
    write: float | None = None

    @property
    def pair(self) -> str:
        return f"{self.source}-{self.peer or '?'}"

    def as_dict(self) -> dict[str, Any]:
        return {"pair": self.pair, **vars(self), "proven": not self.rule, "mend": MEND.get(self.rule, "")}


@dataclass
class Finding:
    """What is wrong, once for all pairs that it is wrong for."""

    rule: str
    problem: str
    hosts: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        """In front of the problem."""
        return f"{_some(self.hosts)}: " if self.hosts else ""


def rows(hosts: Mapping[str, Told], protocols: Sequence[str]) -> list[Row]:
    """Every planned pair has one for each protocol: what was not told is not proven."""
    return [
        _row(hosts, source, peer, protocol)
        for protocol in protocols
        for source in hosts
        for peer in _peers(hosts[source])
    ]


def _peers(told: Told) -> Sequence[str]:
    """Nobody else may have a pair with a host that was lost early, so it stands for itself."""
    return [""] if told.peers is None else told.peers


def _row(hosts: Mapping[str, Told], source: str, peer: str, protocol: str) -> Row:
    told = hosts[source]
    result = next((one for one in told.results or () if (one["peer"], one["protocol"]) == (peer, protocol)), None)
    if result is None:
        why = f"nothing was proven from here: {told.why or 'the run ended before'}"
        return Row(source, peer, protocol, "lost", why, source)
    rule, problem, host = result["rule"], result["problem"], result["host"]
    witness = (hosts[peer].witness if peer in hosts else None) or {}
    seen = witness.get(protocol)
    if not rule and (seen is None or (not seen["ended"] and source not in seen["received"])):
        rule, problem, host = "unknown", "did not tell what has arrived there", peer
    elif seen is not None and seen["ended"] and rule in _SEEN_OF_A_DEATH:
        rule, problem, host = "died", f"the engine {seen['ended']}", peer
    elif not rule and seen is not None and seen["received"].get(source) != result["written"]:
        rule, problem = "checksum-write", "writing answers success, and other bytes have arrived"
    return Row(
        source,
        peer,
        protocol,
        rule,
        problem,
        host,
        result["segment"],
        result["installed"],
        result["registered"],
        _rate(result["bytes"], result["read"]),
        _rate(result["bytes"], result["write"]),
    )


def _rate(size: int, seconds: float | None) -> float | None:
    return size / seconds if seconds else None


def findings(told: Iterable[Row]) -> list[Finding]:
    found: dict[tuple[str, str], Finding] = {}
    for row in told:
        if row.rule:
            finding = found.setdefault((row.rule, row.problem), Finding(row.rule, row.problem))
            if row.host and row.host not in finding.hosts:
                finding.hosts.append(row.host)
            finding.steps.append(f"{row.pair} {row.protocol}")
    return list(found.values())


# ---- for people and scripts

_TITLES = ("PAIR", "STEP", "READ", "WRITE", "PEER", "INSTALLED", "REGISTERED", "")


def summary(told: Sequence[Row], cluster: str) -> str:
    if not told:
        return f"transport of {cluster}: no pair of a prefill and a decode host in this run, so nothing is proven"
    steps = []
    for protocol in dict.fromkeys(row.protocol for row in told):
        of = [row for row in told if row.protocol == protocol]
        steps.append(f"{protocol} {sum(not row.rule for row in of)} of {len(of)} pairs proven")
    return f"transport of {cluster}: {', '.join(steps)}"


def table(told: Sequence[Row]) -> list[tuple[str, bool | None]]:
    """(text, proven) of each line; the title is neither."""
    cells = [_TITLES, *[_cells(row) for row in told]]
    widths = [max(len(line[place]) for line in cells) for place in range(len(_TITLES))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return list(zip(lines, [None, *[not row.rule for row in told]], strict=True))


def _cells(row: Row) -> tuple[str, ...]:
    proven = "proven" if not row.rule else f"NOT PROVEN: {row.rule}"
    registered = f"{row.registered / (1 << 20):.1f} MiB" if row.registered else "-"
    figures = (rate(row.read), rate(row.write))
    return (row.pair, row.protocol, *figures, row.segment or "-", row.installed or "-", registered, proven)


def said(finding: Finding) -> list[str]:
    return [
        f"ERROR [{finding.rule}] {finding.where}{finding.problem}",
        f"  Pairs: {_some(finding.steps)}",
        f"  Mend: {MEND[finding.rule]}.",
    ]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def document(told: Sequence[Row], cluster: str, when: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "cluster": cluster,
        "when": when,
        "proven": bool(told) and not any(row.rule for row in told),
        "rows": [row.as_dict() for row in told],
        "findings": [{**vars(finding), "mend": MEND[finding.rule]} for finding in findings(told)],
    }
