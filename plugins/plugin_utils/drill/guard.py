# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What speaks against a drill: who would not survive the loss, or cannot be watched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.watermark import watermark
from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.known import ETCD, FILL, MASTER, STORE, Asked, Known

# of the pool, beyond the watermark: the master evicts in a thread of its own, a moment after it was passed
_BEYOND = 0.1
_GIB = 1 << 30


@dataclass(frozen=True)
class Refusal:
    rule: str
    what: str
    fix: str

    @property
    def text(self) -> str:
        return f"[{self.rule}] {self.what} Mend: {self.fix}"

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def refusals(asked: Asked, known: Known) -> list[Refusal]:
    return [*_host(asked, known), *_GUARDS[asked.drill](asked, known)]


def target(asked: Asked, known: Known) -> str:
    """The host that loses something; empty for none, and when nobody knows."""
    if asked.drill == MASTER:
        return known.leaders[0] if len(known.leaders) == 1 else ""
    if asked.drill == ETCD:
        # the hard case: the others have to elect another one
        leader = str((known.etcd or {}).get("leader") or "")
        return asked.host or (leader if leader in known.hosts else "")
    return asked.host or next(iter(known.on(STORE)), "") if asked.drill == STORE else ""


def high_watermark(known: Known) -> float:
    """Share of the pool from which on the master evicts: as it is started, else the default of its release."""
    for host in known.on(MASTER):
        argv = (known.process(host, MASTER) or {})["unit"]["argv"]
        given = next((word for word in argv if word.startswith("--eviction_high_watermark_ratio=")), None)
        if given:
            return float(given.partition("=")[2])
    return watermark(None, None, known.cluster["mooncake"]["version"]).high or 1.0


def room(known: Known) -> int | None:
    """Bytes that can be put before the master evicts; None when nobody knows."""
    capacity, used = known.leader.get("capacity"), known.leader.get("bytes")
    if capacity is None or used is None:
        return None
    return max(int(int(capacity) * high_watermark(known)) - int(used), 0)


def to_put(known: Known) -> int:
    """Bytes that fill the pool beyond its watermark."""
    capacity, used = int(known.leader.get("capacity") or 0), int(known.leader.get("bytes") or 0)
    return max(int(capacity * (high_watermark(known) + _BEYOND)) - used, 0)


def _host(asked: Asked, known: Known) -> Iterator[Refusal]:
    if not asked.host:
        return
    if asked.drill not in (ETCD, STORE):
        lost = "the master that leads" if asked.drill == MASTER else "nothing"
        yield Refusal("drill-host", f"drill_host is given, but this drill loses {lost}.", "leave it out.")
    elif asked.host not in known.on(asked.drill):
        what = f"drill_host {asked.host} runs no {asked.drill}."
        yield Refusal("drill-host", what, f"name one of {', '.join(known.on(asked.drill)) or 'none'}.")


def _missing(hosts: list[str], known: Known) -> Iterator[Refusal]:
    lost = [host for host in hosts if host not in known.played]
    if lost:
        what = f"{', '.join(lost)} cannot be reached, or --limit leaves it out, and has to be seen."
        yield Refusal("drill-unseen", what, "run it without --limit while all of them are there.")


def _master(asked: Asked, known: Known) -> Iterator[Refusal]:
    hosts = known.on(MASTER)
    if not hosts:
        yield Refusal("drill-none", "The plan has no master.", "choose another drill.")
        return
    if len(hosts) == 1:
        yield Refusal(
            "drill-alone",
            f"{hosts[0]} runs the only master, and nobody would take over.",
            "plan several (master.hosts). What its restart costs, master.yml -e master_restart=true --check tells.",
        )
        return
    yield from _missing(hosts, known)
    yield from _serving(known)
    standing = [host for host in hosts if known.masters.get(host, {}).get("role") == "standby"]
    if known.leader and not standing:
        told = ", ".join(f"{host}: {_how(known.masters.get(host))}" for host in hosts)
        yield Refusal(
            "drill-alone", f"No master stands by ({told}).", "start.yml, and see the log of the one that does not."
        )
    if (known.cluster["etcd"] or {}).get("managed"):
        yield from _etcd_well(known)


def _how(told: Mapping[str, Any] | None) -> str:
    if not told:
        return "unknown"
    return str(told.get("error") or told.get("role") or "unknown") if told.get("running") else "it does not run"


def _serving(known: Known) -> Iterator[Refusal]:
    if len(known.leaders) == 1:
        return
    told = ", ".join(f"{host}: {_how(known.masters.get(host))}" for host in known.on(MASTER))
    what = f"{len(known.leaders)} masters serve ({told}), where it has to be one."
    yield Refusal(
        "drill-no-leader", what, "bring the service to what is planned with start.yml; status.yml tells more."
    )


def _etcd_well(known: Known) -> Iterator[Refusal]:
    if known.etcd is None or not known.etcd.get("healthy"):
        told = "; ".join((known.etcd or {}).get("problems") or ["nobody told how it is"])
        yield Refusal("drill-etcd", f"etcd is not well: {told}.", "etcd.yml.")


def _etcd(asked: Asked, known: Known) -> Iterator[Refusal]:
    hosts = known.on(ETCD)
    if not hosts:
        yield Refusal("drill-none", "The plan runs no etcd.", "choose another drill.")
        return
    yield from _missing(hosts, known)
    if len(hosts) < 3:
        what = f"{len(hosts)} member{'s are' if len(hosts) > 1 else ' is'} no quorum without one of them."
        yield Refusal("drill-quorum", what, "plan three (etcd.hosts).")
        return
    yield from _etcd_well(known)
    members = (known.etcd or {}).get("members") or []
    well = [member for member in members if member.get("healthy") and not member.get("learner")]
    quorum = int((known.etcd or {}).get("quorum") or len(hosts))
    if known.etcd and len(well) - 1 < quorum:
        what = f"{len(well)} of {len(members)} members are healthy; one less is below the quorum of {quorum}."
        yield Refusal("drill-quorum", what, "etcd.yml.")


def _store(asked: Asked, known: Known) -> Iterator[Refusal]:
    hosts = known.on(STORE)
    if not hosts:
        yield Refusal("drill-none", "The plan has no node of a KV pool (store.nodes).", "choose another drill.")
        return
    yield from _missing([target(asked, known)] if target(asked, known) in hosts else [], known)
    yield from _serving(known)
    if known.leader:
        yield from _headroom(target(asked, known), known)


def _headroom(host: str, known: Known) -> Iterator[Refusal]:
    own = next((node["bytes"] for node in known.cluster["store"]["nodes"] if node["host"] == host), 0)
    capacity, used = known.leader.get("capacity"), known.leader.get("bytes")
    if capacity is None or used is None:
        what = "The master does not say how full the pool is, so nobody knows whether the others can take it."
        yield Refusal("drill-unknown", what, "see that its metrics can be reached (master.metrics_port).")
        return
    left = max(int(capacity) - own, 0)
    if not left:
        what = f"{host} brings all of the pool ({capacity / _GIB:.1f} GiB), and without it no put succeeds."
        yield Refusal("drill-alone", what, "plan another node or segments of the engines.")
        return
    most = left * high_watermark(known)
    # what lies on the node goes with it
    staying = int(used) * left / int(capacity)
    if staying > most:
        what = f"The others hold {staying / _GIB:.1f} GiB and evict from {most / _GIB:.1f} GiB on."
        yield Refusal("drill-headroom", what, "wait until the pool is less full, or enlarge it.")


def _fill(asked: Asked, known: Known) -> Iterator[Refusal]:
    if known.cluster["store"] is None:
        yield Refusal("drill-none", "The plan has no KV pool (store).", "choose another drill.")
        return
    yield from _missing(known.on(MASTER), known)
    yield from _serving(known)
    if known.leader and not known.leader.get("capacity"):
        yield Refusal("drill-unknown", "The master knows of no memory in the pool.", "start.yml, then status.yml.")
    elif known.leader and to_put(known) > asked.most:
        needed, most = to_put(known) / _GIB, asked.most / _GIB
        what = f"Some {needed:.1f} GiB have to be put until the master evicts, and {most:.1f} GiB may be."
        yield Refusal("drill-large", what, f"say -e drill_fill_most={to_put(known)}, and take time for it.")


_GUARDS = {MASTER: _master, ETCD: _etcd, STORE: _store, FILL: _fill}
