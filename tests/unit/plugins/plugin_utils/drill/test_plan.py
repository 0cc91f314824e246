# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils.drill import text
from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.known import Asked, Limits
from ansible_collections.mooncake.pd.plugins.plugin_utils.drill.plan import planned

from .clusters import GIB, MASTERS, known

# as the plan asks a member
HEALTH = ":2381/health?exclude=NOSPACE"


def test_the_master_that_leads_is_killed_and_an_engine_watches() -> None:
    drill = planned(Asked("master"), known())
    assert (drill.target, drill.watcher, drill.unit) == ("b", "p", "mooncake-pd-master.service")
    assert drill.strike == {"unit": drill.unit, "how": "kill", "after": 20, "hold": 15}
    assert {probe["name"]: (probe["kind"], probe["urls"]) for probe in drill.probes} == {
        "leader": ("masters", ["http://192.0.2.1:9003/health", "http://192.0.2.2:9003/health"]),
        "etcd": ("etcd", [f"http://192.0.2.{place}{HEALTH}" for place in (1, 2, 3)]),
        "target": ("tcp", ["192.0.2.2:9003"]),
        "requests": ("completion", ["http://192.0.2.3:8000/v1/completions"]),
    }
    assert drill.pool is not None
    assert drill.pool["store"]["environment"]["MC_STORE_CLUSTER_ID"] == "mooncake_cluster"
    # the keys are in its memory
    assert drill.limits["lost"] == 1


def test_of_etcd_the_leader_is_stopped_and_the_others_are_watched() -> None:
    drill = planned(Asked("etcd", hold=4), known())
    assert (drill.target, drill.strike and drill.strike["how"], drill.strike and drill.strike["hold"]) == (
        "c",
        "stop",
        4,
    )
    probes = {probe["name"]: probe["urls"] for probe in drill.probes}
    assert probes["etcd"] == [f"http://192.0.2.1{HEALTH}", f"http://192.0.2.2{HEALTH}"]
    assert probes["target"] == [f"http://192.0.2.3{HEALTH}"]
    # the others keep all
    assert drill.limits["lost"] == 0
    assert planned(Asked("etcd", host="a"), known()).target == "a"


def test_what_a_node_may_lose_is_its_share() -> None:
    drill = planned(Asked("store", host="t"), known())
    assert (drill.target, drill.limits["lost"]) == ("t", 2 / 8 + 0.2)
    assert planned(Asked("store"), known()).limits["lost"] == 6 / 8 + 0.2
    # client_ttl of the plan
    assert drill.limits["pool"] == 45 + 20
    assert planned(Asked("store", limits=Limits(lost=0.1)), known()).limits["lost"] == 0.1


def test_objects_fit_into_what_is_free() -> None:
    """0.8 of the pool, an eighth of that for 64 objects."""
    for capacity, size in ((8 * GIB, 1 << 20), (64 << 20, (int((64 << 20) * 0.8)) // (8 * 64))):
        masters = {**MASTERS, "b": {**MASTERS["b"], "bytes": 0, "capacity": capacity}}
        drill = planned(Asked("etcd"), known(masters=masters))
        assert drill.pool is not None
        assert drill.pool["size"] == size
    full = {**MASTERS, "b": {**MASTERS["b"], "bytes": int(6.4 * GIB)}}
    drill = planned(Asked("etcd"), known(masters=full))
    assert (drill.pool, drill.unwatched) == (None, ("the KV pool: it is full, so what is put would be evicted",))


def test_filling_loses_nothing_and_puts_no_more_than_it_may() -> None:
    drill = planned(Asked("fill", most=7 * GIB), known())
    assert (drill.target, drill.strike) == ("", None)
    assert drill.pool is not None
    assert (drill.pool["mode"], drill.pool["most"]) == ("fill", 7 * GIB)
    assert drill.pool["metrics"] == ["http://192.0.2.1:9003", "http://192.0.2.2:9003"]
    assert drill.as_dict()["hosts"] == ["p"]
    # it has the time that so much takes
    assert drill.timeout >= 7 * 10
    assert drill.timeout > planned(Asked("fill", most=1 * GIB), known()).timeout


def test_who_watches() -> None:
    assert planned(Asked("master"), known(tools=frozenset({"s", "b"}))).watcher == "s"
    # nobody with Mooncake is left: the pool is not watched, and that is told
    drill = planned(Asked("master"), known(tools=frozenset({"b"})))
    assert (drill.watcher, drill.pool) == ("a", None)
    assert "no Python with Mooncake" in drill.unwatched[0]
    # the only host that was reached watches itself
    assert planned(Asked("store"), known(played=frozenset({"s"}))).watcher == "s"


def test_what_is_not_watched_is_told() -> None:
    drill = planned(Asked("etcd"), known(router_url=""))
    assert drill.unwatched == ("requests of clients: the plan has no router",)
    assert "requests" not in [probe["name"] for probe in drill.probes]


def test_the_announcement_tells_what_it_costs_and_how_it_is_done() -> None:
    told = list(text.announced(planned(Asked("master"), known()).as_dict(), "lab", go=False))
    assert told[0] == "DRILL master of lab: what would happen"
    assert any("1,234 keys" in line for line in told)
    assert "drill_confirm=true" in told[-1]
    done = list(text.announced(planned(Asked("fill"), known()).as_dict(), "lab", go=True))
    assert not [line for line in done if "drill_confirm" in line]
