# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drill showed, against what it may cost. What was not seen is unknown, and unknown is not good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.known import ETCD, FILL

GOOD, BROKEN, UNKNOWN = "good", "BROKEN", "UNKNOWN"
_MIB = 1 << 20
# The clocks of two hosts may differ by this much (preflight asks for no less).
_CLOCKS = 1.0
_NAMES = {
    "leader": "a master serves again",
    "etcd": "etcd serves",
    "target": "what was lost is back",
    "pool": "the KV pool serves again",
}
# measure -> limit
_LIMITS = {"leader": "leader", "etcd": "etcd", "target": "back", "pool": "pool"}


@dataclass(frozen=True)
class Row:
    measure: str
    seen: str
    limit: str
    verdict: str
    why: str = ""

    def as_dict(self) -> dict[str, str]:
        return dict(vars(self))


def rows(drill: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]], ready: bool) -> list[Row]:
    """drill: as planned; results: what the module drill returned, by host; ready: whether what was lost is proven to
    be as planned again."""
    watcher = results.get(drill["watcher"]) or {}
    strike = (results.get(drill["target"]) or {}).get("strike") if drill["target"] else None
    watched = {one["name"]: one for one in watcher.get("watched") or ()}
    why = _why(watcher)
    found = [*_strike(drill, strike, results)]
    for probe in drill["probes"]:
        name = probe["name"]
        if name == "requests":
            found.append(_requests(watched.get(name), strike, drill, why))
        else:
            found.append(_outage(name, watched.get(name), strike, drill, why))
    if drill["pool"] and drill["name"] != FILL:
        found.append(_outage("pool", watched.get("pool"), strike, drill, why))
        found.append(_objects(watcher.get("pool"), strike, drill, why))
    if drill["pool"]:
        found += _fill(watcher.get("pool") or {}, drill, why) if drill["name"] == FILL else []
        found.append(_tidy(watcher.get("pool"), why))
    if drill["target"]:
        seen = "proven ready" if ready else "not proven ready"
        found.append(Row("put back", seen, "proven ready", GOOD if ready else BROKEN, "" if ready else "see above"))
    return found


def good(found: Sequence[Row]) -> bool:
    return bool(found) and all(row.verdict == GOOD for row in found)


def _why(result: Mapping[str, Any]) -> str:
    told = " ".join(str(result.get("msg") or "").split())
    return told or ("nothing was told from there" if not result.get("watched") else "")


def _strike(
    drill: Mapping[str, Any], strike: Mapping[str, Any] | None, results: Mapping[str, Mapping[str, Any]]
) -> Iterator[Row]:
    if not drill["target"]:
        return
    measure = f"{drill['unit']} was lost on {drill['target']}"
    if strike is None:
        yield Row(measure, "-", "yes", UNKNOWN, _why(results.get(drill["target"]) or {}) or "nobody told")
    elif not strike["lost"]:
        yield Row(measure, "no", "yes", UNKNOWN, "the same start of it runs on")
    else:
        yield Row(measure, f"yes, {strike['how']}, back by {strike['by']}", "yes", GOOD)


def _blind(seen: Mapping[str, Any] | None, strike: Mapping[str, Any] | None, drill: Mapping[str, Any], why: str) -> str:
    """Why nothing can be said by it; empty when something can."""
    if seen is None or not seen["asked"]:
        return why or "it was not watched"
    if not seen["before"]:
        return f"it was not well before: {'; '.join(seen['reasons'])}"
    if drill["target"] and strike and seen["since"] > strike["at"] + _CLOCKS:
        return "it was watched only after the loss; both hosts have to work at the same time (forks), with equal clocks"
    return ""


def _outage(
    name: str, seen: Mapping[str, Any] | None, strike: Mapping[str, Any] | None, drill: Mapping[str, Any], why: str
) -> Row:
    limit, measure = drill["limits"][_LIMITS[name]], _NAMES[name]
    if name == drill["name"] == ETCD:
        measure = "the other members of etcd serve"
    blind = _blind(seen, strike, drill, why)
    if blind or seen is None:
        return Row(measure, "-", f"{limit:g} s", UNKNOWN, blind)
    told = f"{seen['outage']:.1f} s" if seen["failed"] or seen["outage"] else "no interruption"
    if len(seen["answers"]) > 1:
        told += f", then {seen['answers'][-1]}"
    if not seen["recovered"]:
        return Row(measure, told, f"{limit:g} s", BROKEN, f"it did not come back: {'; '.join(seen['reasons'])}")
    if seen["outage"] > limit:
        return Row(measure, told, f"{limit:g} s", BROKEN, "; ".join(seen["reasons"]) or "answers came late")
    return Row(measure, told, f"{limit:g} s", GOOD)


def _requests(
    seen: Mapping[str, Any] | None, strike: Mapping[str, Any] | None, drill: Mapping[str, Any], why: str
) -> Row:
    limit = drill["limits"]["requests"]
    measure, allowed = "requests that failed", f"{limit:g}"
    blind = _blind(seen, strike, drill, why)
    if blind or seen is None:
        return Row(measure, "-", allowed, UNKNOWN, blind)
    told = f"{seen['failed']} of {seen['asked']}"
    if seen["failed"] > limit or not seen["recovered"]:
        return Row(measure, told, allowed, BROKEN, "; ".join(seen["reasons"]))
    return Row(measure, told, allowed, GOOD)


def _objects(
    pool: Mapping[str, Any] | None, strike: Mapping[str, Any] | None, drill: Mapping[str, Any], why: str
) -> Row:
    share = drill["limits"]["lost"]
    measure, allowed = "objects that were lost", f"{share:.0%}"
    if not pool or not pool.get("kept") or "there" not in pool:
        return Row(measure, "-", allowed, UNKNOWN, (pool or {}).get("error") or why or "no object was put before")
    if strike and pool["kept_at"] > strike["at"] + _CLOCKS:
        return Row(measure, "-", allowed, UNKNOWN, "they were not all there when it was lost; this host is too busy")
    lost = pool["kept"] - pool["there"]
    told = f"{lost} of {pool['kept']}"
    return Row(measure, told, allowed, GOOD if lost <= share * pool["kept"] else BROKEN)


def _fill(pool: Mapping[str, Any], drill: Mapping[str, Any], why: str) -> list[Row]:
    filled = pool.get("filled") or {}
    put = f"{filled.get('put', 0)} objects, {filled.get('bytes', 0) / _MIB:.0f} MiB"
    evicted, share = pool.get("evicted"), drill["limits"]["refused"]
    if not filled:
        return [Row("the pool was filled", "-", "evicts", UNKNOWN, pool.get("error") or why or "nobody told")]
    found = []
    if evicted is None:
        found.append(Row("the master evicts", put, "1 or more", UNKNOWN, "no master told what it evicted"))
    elif evicted < 1:
        found.append(Row("the master evicts", f"nothing, after {put}", "1 or more", BROKEN, "puts are refused instead"))
    else:
        found.append(Row("the master evicts", f"{evicted} keys, with {put}", "1 or more", GOOD))
    tried = filled["put"] + filled["refused"] + filled["failed"]
    told = f"{filled['refused']} of {tried}, and {filled['failed']} for other reasons"
    fits = tried > 0 and filled["refused"] + filled["failed"] <= share * tried
    return [*found, Row("puts without room", told, f"{share:.0%}", GOOD if fits else BROKEN)]


def _tidy(pool: Mapping[str, Any] | None, why: str) -> Row:
    measure = "objects of the drill that stay"
    if not pool or "stuck" not in pool:
        return Row(measure, "-", "0", UNKNOWN, (pool or {}).get("error") or why or "nobody told")
    told = f"{pool['stuck']} of {pool['stuck'] + pool['removed']}"
    stay = "the master lets them go when it needs the room"
    return Row(measure, told, "0", GOOD if not pool["stuck"] else BROKEN, "" if not pool["stuck"] else stay)
