# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The waves of a roll: their order, what they keep serving, and what makes them impossible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.roll import Known, lines, plan_roll
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.rolling.worlds import (
    OPTIONS,
    State,
    World,
    cluster,
    instance,
    names,
    rules,
    waves,
)

TOGETHER = {"engine.version": "0.31.0"}
REFUSE = {"model.served_name": "other"}
PAIRS = (("p1", "prefill", "a"), ("p2", "prefill", "b"), ("d1", "decode", "a"), ("d2", "decode", "b"))


def down() -> State:
    return State([False], outdated=False, healthy=False)


def current(**more: Any) -> State:
    return State([True], outdated=False, **more)


# ---- the order


def test_a_canary_of_each_kind_then_both_kinds_together() -> None:
    roll = World(cluster(3, 4)).plan()
    assert names(roll) == [["p1"], ["d1"], ["p2", "d2"], ["p3", "d3"], ["d4"]]
    assert [wave["canary"] for wave in waves(roll)] == [True, True, False, False, False]
    assert waves(roll)[2]["serving"] == {"prefill": 2, "decode": 3}


def test_without_canaries() -> None:
    assert names(World(cluster(2, 2)).plan(canary=0)) == [["p1", "d1"], ["p2", "d2"]]


def test_batches_and_a_larger_canary() -> None:
    roll = World(cluster(6, 5)).plan(batch="50%", canary=2)
    assert names(roll) == [["p1", "p2"], ["d1", "d2"], ["p3", "p4", "p5", "d3", "d4"], ["p6", "d5"]]


def test_a_batch_is_cut_to_what_has_to_serve() -> None:
    roll = World(cluster(4, 1)).plan(only="prefill", batch="4", canary=0, min_healthy={"prefill": "75%"})
    assert names(roll) == [["p1"], ["p2"], ["p3"], ["p4"]]
    assert all(wave["serving"]["prefill"] == 3 for wave in waves(roll))


def test_what_an_earlier_run_left_comes_first() -> None:
    world = World(cluster(3, 3))
    world.states["p3"] = State([True], outdated=True, out=True)
    world.states["d2"] = down()
    world.states["d3"] = State([True], outdated=True, healthy=False)
    roll = world.plan()
    assert names(roll) == [["p3"], ["d2"], ["d3"], ["p1", "d1"], ["p2"]]
    why = {name: text for wave in waves(roll) for name, text in wave["why"].items()}
    assert why == {
        "p3": "is out of the router since an earlier run",
        "d2": "does not run",
        "d3": "runs something else than planned and is not healthy, so nothing is lost by beginning with it",
        **dict.fromkeys(("p1", "p2", "d1"), "runs something else than planned"),
    }


def test_what_only_waits_to_be_put_back_is_not_restarted() -> None:
    world = World(cluster(2, 1))
    world.states = {"p1": current(out=True), "p2": current(), "d1": current()}
    (wave,) = waves(world.plan())
    assert (wave["instances"], wave["restart"]) == (["p1"], [])
    assert wave["why"] == {
        "p1": "is out of the router since an earlier run and runs as planned: it is proven and put back"
    }
    assert waves(world.plan(only="p1", restart=True))[0]["restart"] == ["p1"]


def test_an_instance_is_taken_with_all_its_hosts() -> None:
    world = World(
        [instance("p1", "prefill"), instance("d1", "decode", "n3", "n4"), instance("d2", "decode", "n5", "n6")]
    )
    world.states |= {"p1": current(), "d1": State([True, False], outdated=False), "d2": current()}
    world.states["d2"].active = [True, True]
    (wave,) = waves(world.plan())
    assert (wave["instances"], wave["hosts"]) == (["d1"], ["n3", "n4"])
    assert wave["why"] == {"d1": "runs in part, without d1-1"}


def test_of_two_kinds_on_a_host_one_goes_after_the_other() -> None:
    world = World([instance(name, kind, host) for name, kind, host in PAIRS])
    assert names(world.plan(canary=0)) == [["p1", "d2"], ["p2", "d1"]]


def test_instances_that_share_a_host_go_one_after_the_other() -> None:
    world = World(
        [
            instance("p1", "prefill", "a"),
            instance("p2", "prefill", "a"),
            instance("p3", "prefill", "b"),
            instance("p4", "prefill", "c"),
            instance("d1", "decode", "a"),
        ]
    )
    assert names(world.plan(only="prefill", batch="2", canary=0)) == [["p1", "p3"], ["p2", "p4"]]


def test_a_kind_of_which_one_is_renewed_already_needs_no_canary() -> None:
    world = World(cluster(4, 1))
    world.states["p1"] = current()
    assert names(world.plan(only="prefill", batch="2")) == [["p2", "p3"], ["p4"]]


def test_when_nothing_serves_the_first_of_both_kinds_prove_each_other() -> None:
    world = World(cluster(2, 2))
    world.states = {name: down() for name in world.states}
    roll = world.plan()
    assert names(roll) == [["p1", "d1"], ["p2"], ["d2"]]
    assert waves(roll)[0]["partners"] == ["p1", "d1"]
    assert waves(roll)[0]["min_healthy"] == {"prefill": 0, "decode": 0}


def test_nothing_to_do() -> None:
    world = World(cluster())
    world.states = {name: current() for name in world.states}
    roll = world.plan()
    assert waves(roll) == []
    assert roll.coherence.verdict == "none"
    assert roll.summary == "Nothing to do: all 4 instances run what is planned and are in the router."
    assert world.plan(only="p1").summary.startswith("Nothing to do: the 1 selected of 4 instances")


def test_restart_takes_what_runs_as_planned_too_and_begins_with_one_of_each() -> None:
    world = World(cluster(3, 3))
    world.states = {name: current() for name in world.states}
    roll = world.plan(restart=True, batch="2")
    assert names(roll) == [["p1", "d1"], ["p2", "p3", "d2", "d3"]]
    assert waves(roll)[0]["why"]["d1"] == "runs as planned and is restarted because restart asks for it"


def test_the_first_wave_says_what_it_is() -> None:
    text = "\n".join(lines(World(cluster()).plan()))
    assert "  wave 1 (canary): p1; 1 prefill, 2 decode serve meanwhile\n    p1 runs something else than planned" in text


# ---- old and new apart


def test_two_halves_that_never_meet() -> None:
    world = World(cluster(2, 3), differing=TOGETHER)
    first, second = waves(world.plan())
    assert (first["instances"], first["hold"], first["swap"], first["back"]) == (["p1", "d1"], True, False, [])
    assert first["partners"] == ["p1", "d1"]
    assert (second["instances"], second["hold"], second["swap"]) == (["p2", "d2", "d3"], False, True)
    assert second["back"] == ["p1", "d1"]
    assert second["serving"] == {"prefill": 1, "decode": 1}


def test_halves_keep_what_has_to_serve() -> None:
    world = World(cluster(2, 5), differing=TOGETHER)
    first, second = waves(world.plan(min_healthy={"decode": "2"}))
    assert (first["serving"], second["serving"]) == ({"prefill": 1, "decode": 3}, {"prefill": 1, "decode": 2})
    roll = world.plan(min_healthy={"decode": "3"})
    assert rules(roll) == [("coherence-halves", "decode")]
    assert "Each half needs 3 decode (min_healthy); there are 5, and 5 serve now" in roll.summary
    assert "engine.version 0.31.0 -> 0.32.0" in roll.summary


def test_what_is_new_already_counts_for_the_new_half() -> None:
    world = World(cluster(3, 2), differing=TOGETHER)
    world.states["p1"] = current()
    roll = world.plan(min_healthy={"prefill": "2"})
    assert names(roll) == [["p2", "d1"], ["p3", "d2"]]
    assert [wave["serving"] for wave in waves(roll)] == [{"prefill": 2, "decode": 1}] * 2


def test_the_first_half_is_not_restarted_again() -> None:
    world = World(cluster(), differing=TOGETHER)
    first, second = waves(world.plan())
    world.carry_out(first)
    again, rest = waves(world.plan())
    assert (again["instances"], again["restart"], again["hold"]) == (["p1", "d1"], [], True)
    assert rest["instances"] == second["instances"]
    assert rest["back"] == ["p1", "d1"]


def test_after_the_swap_nothing_has_to_be_kept_apart() -> None:
    world = World(cluster(4, 4), differing=TOGETHER)
    first, second = waves(world.plan())
    world.carry_out(first)
    world.take_out(second)
    assert names(world.plan()) == [["p3"], ["p4"], ["d3"], ["d4"]]


def test_what_is_down_goes_into_the_first_half() -> None:
    world = World(cluster(3, 3), differing=TOGETHER)
    world.states["p3"] = down()
    world.states["d3"] = State([True], outdated=True, healthy=None)
    assert names(world.plan()) == [["p3", "d3"], ["p1", "p2", "d1", "d2"]]


def test_what_met_already_is_parted_at_once() -> None:
    world = World(cluster(3, 3), differing=TOGETHER)
    world.states |= {"p1": current(), "d1": current()}
    (wave,) = waves(world.plan())
    assert (wave["instances"], wave["swap"], wave["hold"]) == (["p2", "p3", "d2", "d3"], False, False)
    assert wave["serving"] == {"prefill": 1, "decode": 1}
    assert wave["partners"] == ["p1", "p2", "p3", "d1", "d2", "d3"]


def test_a_change_on_one_side_meets_the_other_as_it_stays() -> None:
    world = World(cluster(), differing=TOGETHER)
    world.states |= {"d1": current(), "d2": current()}
    roll = world.plan()
    assert roll.coherence.verdict == "free"
    assert names(roll) == [["p1"], ["p2"]]


def test_without_a_passport_old_and_new_are_kept_apart() -> None:
    world = World(cluster(), passport=False)
    assert names(world.plan()) == [["p1", "d1"], ["p2", "d2"]]
    assert names(world.plan(mix=True)) == [["p1"], ["d1"], ["p2", "d2"]]
    roll = World(cluster(1, 2), passport=False).plan()
    assert rules(roll) == [("coherence-halves", "prefill")]
    assert "there is no passport that tells what p1, d1, d2 ran when it was proven" in roll.summary
    assert "if you know that old and new can serve together, say mix=true (-e roll_mix=true)" in roll.summary


def test_what_stays_behind_is_refused() -> None:
    world = World(cluster(3, 3), differing=TOGETHER)
    assert ("coherence-partial", "p3, d3") in rules(world.plan(only="p1,p2,d1,d2"))
    assert ("coherence-partial", "d3") in rules(world.plan(left_out=frozenset({"host-d3"})))
    assert rules(world.plan(only="p3,d3,p1,p2,d1,d2", untold=frozenset({"host-d2"})))[-1] == ("coherence-partial", "d2")
    world.states["d3"].out = True
    assert names(world.plan(only="p1,p2,p3,d1,d2")) == [["p1", "d1"], ["p2", "p3", "d2"]]


def test_what_clients_see_is_refused_unless_downtime_is_accepted() -> None:
    world = World(cluster(), differing=REFUSE)
    roll = world.plan()
    assert rules(roll) == [("coherence-refused", "model.served_name")]
    assert "as a second cluster" in roll.summary
    assert rules(world.plan(mix=True)) == [("coherence-refused", "model.served_name")]
    (wave,) = waves(world.plan(downtime=True))
    assert (wave["instances"], wave["downtime"]) == (["p1", "p2", "d1", "d2"], True)
    assert ("coherence-partial", "d1, d2") in rules(world.plan(downtime=True, only="prefill"))


# ---- what speaks against it


def test_the_only_ones_of_their_kind() -> None:
    world = World(cluster(1, 1))
    roll = world.plan()
    assert rules(roll) == [("no-partner", "prefill"), ("no-partner", "decode")]
    assert "p1 is the only one of its kind that serves: without it decode has no partner" in roll.summary
    assert "say downtime=true (-e roll_downtime=true) to accept that nothing is served meanwhile" in roll.summary
    (wave,) = waves(world.plan(downtime=True))
    assert (wave["instances"], wave["kinds"]) == (["p1", "d1"], ["prefill", "decode"])
    assert (wave["downtime"], wave["min_healthy"]) == (True, {"prefill": 0, "decode": 0})


def test_one_that_serves_is_not_sought_at_another_address() -> None:
    world = World(cluster())
    world.differing = {}
    moving = next(item for item in world.instances if item["name"] == "d2")
    moving["api_urls"] = ["http://192.0.2.22:8200"]
    world.addresses = {"d2": {"api_urls": ["http://192.0.2.22:8201"]}}
    roll = world.plan()
    assert rules(roll) == [("address-changed", "d2")]
    assert "serves at http://192.0.2.22:8201 and is planned at http://192.0.2.22:8200" in roll.summary
    assert world.plan(only="prefill").refusals == ()
    assert world.plan(downtime=True).refusals == ()
    world.states["d2"].out = True
    assert world.plan().refusals == ()


def test_what_was_never_started_is_left_to_others() -> None:
    world = World(cluster(2, 3))
    world.states["d3"] = State([False], outdated=False, healthy=False)
    world.installed = {"d3": False}
    roll = world.plan()
    assert names(roll) == [["p1"], ["d1"], ["p2", "d2"]]
    assert "d3 was never started, which is not a roll's to do: scale.yml or site.yml starts it." in roll.notes
    world.installed = {}
    assert ["d3"] in names(world.plan())


def test_downtime_is_only_taken_where_it_has_to_be() -> None:
    roll = World(cluster(1, 3)).plan(downtime=True)
    assert [(wave["instances"], wave["downtime"]) for wave in waves(roll)] == [
        (["d1"], False),
        (["p1"], True),
        (["d2"], False),
        (["d3"], False),
    ]
    assert waves(roll)[1]["min_healthy"] == {"prefill": 0, "decode": 1}


def test_others_that_are_not_healthy() -> None:
    world = World(cluster(3, 2))
    world.states |= {"p2": current(healthy=False), "p3": current(healthy=None)}
    roll = world.plan(min_healthy={"prefill": "2"})
    assert rules(roll) == [("no-partner", "prefill")]
    assert "p2 is not healthy. p3 did not say whether it is healthy." in roll.summary
    assert "Mend: mend p2, p3 first, or say downtime=true (-e roll_downtime=true)" in roll.summary
    assert "p2 is not healthy and does not count as one that serves." in roll.notes


def test_more_have_to_serve_than_can() -> None:
    roll = World(cluster(3, 3)).plan(min_healthy={"prefill": "3", "decode": "100%"})
    assert rules(roll) == [("min-healthy", "prefill"), ("min-healthy", "decode")]
    assert "3 can serve and 3 have to (min_healthy), so none can be taken out" in roll.summary


def test_nobody_is_left_to_prove_with() -> None:
    world = World(cluster(2, 1))
    world.states["d1"] = current(healthy=False)
    roll = world.plan(downtime=True)
    assert rules(roll) == [("no-partner", "prefill")]
    assert "no decode instance serves or is among those to restart" in roll.summary
    world.differing = REFUSE
    assert rules(world.plan(downtime=True)) == [("no-partner", "prefill")]


def test_what_is_not_known_is_not_rolled() -> None:
    world = World(cluster(2, 2))
    untold = frozenset({"host-p1", "host-d2"})
    assert rules(world.plan(untold=untold)) == [("state-unknown", "p1"), ("state-unknown", "d2")]
    assert names(world.plan(untold=untold, only="p2,d1")) == [["p2"], ["d1"]]


def test_a_process_that_nobody_told_of_is_not_known() -> None:
    world = World(cluster(2, 1))
    known = Known({"host-p1": [], "host-p2": running("p2")}, healthy(world), frozenset(), frozenset())
    roll = plan_roll(world.instances, known, {**OPTIONS, "only": "prefill"})
    assert rules(roll) == [("state-unknown", "p1")]


def test_limit_takes_an_instance_as_a_whole_or_not_at_all() -> None:
    world = World([*cluster(2, 1), instance("d2", "decode", "n1", "n2")])
    assert rules(world.plan(left_out=frozenset({"n2"}))) == [("limit-splits", "d2")]
    roll = world.plan(left_out=frozenset({"n1", "n2"}))
    assert names(roll) == [["p1"], ["d1"], ["p2"]]
    assert "d2 is left out by --limit." in roll.notes
    assert names(world.plan(left_out=frozenset({"n1", "n2"}), restart=True)) == [["p1"], ["d1"], ["p2"]]


def test_everything_is_said_at_once() -> None:
    roll = World(cluster(1, 2)).plan(
        only="p1, d3, decoder",
        batch="none",
        canary=-1,
        min_healthy={"prefill": "0", "decode": "101%"},
        untold=frozenset({"host-d2"}),
    )
    assert [rule for rule, _where in rules(roll)] == [
        *["setting-invalid"] * 4,
        *["only-unknown"] * 2,
        "no-partner",
    ]
    assert "only: [only-unknown] there is no instance and no kind decoder. Mend: did you mean decode?" in roll.summary
    assert roll.summary.startswith(
        "Nothing was changed, 7 reasons not to roll:\n  batch: [setting-invalid] none is not"
    )


def test_health_of_everybody_has_to_be_known() -> None:
    world = World(cluster(2, 2))
    known = Known({"host-p1": running("p1")}, healthy(world)[:3], frozenset(), frozenset())
    roll = plan_roll(world.instances, known, {**OPTIONS, "only": "p1"})
    assert rules(roll) == [("health-unknown", "d2")]


def running(name: str) -> list[dict[str, Any]]:
    return [{"name": name, "active": True, "outdated": True, "installed": True}]


def healthy(world: World) -> list[dict[str, Any]]:
    return [{"name": item["name"], "healthy": True} for item in world.instances]


# ---- whatever the cluster looks like


# a busy machine is slow, and many clusters have nothing to do or cannot be rolled
whatever = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], max_examples=60)
HOSTS = ("a", "b", "c", "ab", "cd", "def", "g", "h")
# active, outdated, healthy, out of the router; most of a cluster is well
CONDITIONS = (
    *[(True, True, True, False)] * 4,
    *[(True, False, True, False)] * 3,
    (True, True, False, False),
    (True, True, None, False),
    (True, False, False, False),
    (True, True, True, True),
    (True, False, True, True),
    (False, False, False, False),
    (False, False, False, True),
    (None, True, False, False),
    (None, False, False, True),
)


@st.composite
def worlds(draw: st.DrawFn, differing: st.SearchStrategy[dict[str, Any]]) -> World:
    instances, states = [], {}
    for kind, letter in (("prefill", "p"), ("decode", "d")):
        chosen = draw(st.lists(st.tuples(st.sampled_from(HOSTS), st.sampled_from(CONDITIONS)), min_size=1, max_size=5))
        for number, (hosts, (active, outdated, healthy, out)) in enumerate(chosen, 1):
            instances.append(instance(f"{letter}{number}", kind, *hosts))
            runs = [active is not False] * len(hosts)
            if active is None:  # in part
                runs[0] = len(hosts) == 1
            states[f"{letter}{number}"] = State(runs, outdated, healthy, out)
    return World(instances, states, differing=draw(differing))


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, Any]:
    amount = st.one_of(st.integers(1, 4).map(str), st.integers(1, 100).map("{}%".format))
    return {
        "batch": draw(amount),
        "canary": draw(st.integers(0, 2)),
        "min_healthy": {"prefill": draw(amount), "decode": draw(amount)},
        "restart": draw(st.booleans()),
        "downtime": draw(st.booleans()),
    }


FREE = st.just({"args.--max-num-seqs": "2"})
ANY = st.sampled_from(({"args.--max-num-seqs": "2"}, TOGETHER, REFUSE, {"args.--never-heard-of": "x"}))


@whatever
@given(worlds(ANY), wishes())
def test_nothing_is_lost_and_enough_serve(world: World, wish: dict[str, Any]) -> None:
    roll = world.plan(**wish)
    assume(not roll.refusals)
    told = waves(roll)
    every = [name for wave in told for name in wave["instances"]]
    assert len(every) == len(set(every))
    outdated = {name for name, state in world.states.items() if state.outdated}
    assert outdated <= {name for wave in told for name in wave["restart"]}

    least = roll_min(world, wish)
    apart = roll.coherence.verdict in ("together", "refuse")
    for wave in told:
        assert wave["hosts"] == list(
            dict.fromkeys(
                h for name in wave["instances"] for i in world.instances if i["name"] == name for h in i["hosts"]
            )
        )
        served = world.serving()
        world.take_out(wave)
        after = world.serving()
        assert after == wave["serving"]
        for kind, number in after.items():
            if number < served[kind] and not wave["downtime"]:
                assert number >= least[kind]
            assert wave["min_healthy"][kind] <= number
        assert wave["downtime"] or not apart or not world.mixed()
        for kind in wave["kinds"]:
            other = {"prefill": "decode", "decode": "prefill"}[kind]
            assert any(world.kind(name) == other for name in wave["partners"])
        for name in wave["partners"]:
            assert name in wave["instances"] or world.states[name].serves or name in wave["back"]
        world.renew(wave)
        if apart:
            assert not any(world.states[name].outdated for name in wave["partners"])
        world.put_back(wave)
        assert not apart or wave["downtime"] or not world.mixed()
    assert not any(state.outdated or state.out or not all(state.active) for state in world.states.values())
    assert waves(world.plan(**{**wish, "restart": False})) == []


def roll_min(world: World, wish: dict[str, Any]) -> dict[str, int]:
    least = {}
    for kind, value in wish["min_healthy"].items():
        planned = sum(item["kind"] == kind for item in world.instances)
        least[kind] = -(-planned * int(value[:-1]) // 100) if value.endswith("%") else int(value)
    return least


@whatever
@given(worlds(FREE), wishes(), st.data())
def test_a_run_that_was_interrupted_goes_on_where_it_was(
    world: World, wish: dict[str, Any], data: st.DataObject
) -> None:
    """What is restarted although it runs as planned leaves no trace, so only what is outdated can be remembered."""
    wish = {**wish, "restart": False, "downtime": False}
    roll = world.plan(**wish)
    assume(roll.waves)
    told = waves(roll)
    done = data.draw(st.integers(1, len(told)))
    for wave in told[:done]:
        world.carry_out(wave)
    rest = waves(world.plan(**wish))
    assert [wave["instances"] for wave in rest] == [wave["instances"] for wave in told[done:]]
    assert [wave["restart"] for wave in rest] == [wave["restart"] for wave in told[done:]]


@whatever
@given(worlds(ANY), wishes(), st.data())
def test_a_run_that_broke_off_inside_of_a_wave_can_go_on(
    world: World, wish: dict[str, Any], data: st.DataObject
) -> None:
    wish = {**wish, "restart": False}
    roll = world.plan(**wish)
    assume(roll.waves)
    told = waves(roll)
    done = data.draw(st.integers(0, len(told) - 1))
    for wave in told[:done]:
        world.carry_out(wave)
    world.take_out(told[done])
    for name in told[done]["restart"]:
        if data.draw(st.booleans()):
            state = world.states[name]
            world.states[name] = replace(state, active=[False] * len(state.active), outdated=False, healthy=False)
    again = waves(world.plan(**wish))
    assert again[0]["instances"]
    left = {name for wave in told[done:] for name in wave["instances"]}
    assert left <= {name for wave in again for name in wave["instances"]}


@pytest.mark.parametrize("prefill", range(1, 4))
@pytest.mark.parametrize("decode", range(1, 4))
def test_with_downtime_every_healthy_cluster_can_be_rolled(prefill: int, decode: int) -> None:
    for differing in ({"args.--max-num-seqs": "2"}, TOGETHER, REFUSE):
        world = World(cluster(prefill, decode), differing=differing)
        for wave in waves(world.plan(downtime=True)):
            world.carry_out(wave)
        assert not any(state.outdated or state.out for state in world.states.values())
