# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the supervisors of a group do in any order of deaths, restarts and losses, with a simulated systemd."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pd_group.model import STOPPED, WAITING, Member
from pd_group.rules import Contact, Group, alone

from ansible_collections.mooncake.pd.tests.sim.group.world import (
    DOWN,
    ENDING,
    FAILED,
    LIMIT,
    RESTART_SECONDS,
    UP,
    Host,
    World,
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.start_all()
    made.run(20)
    assert made.orders == []
    return made


def starts(world: World) -> list[int]:
    return [len(unit.all_starts) for unit in world.units]


def test_one_that_dies_takes_all_others_with_it_once(world):
    _host, unit = world.find(1)
    began = world.now
    unit.die(world.now)
    world.run(2)
    assert all(other.state != UP for other in world.units)
    world.run(60)
    assert (world.states, world.coherent, starts(world)) == ({UP}, True, [2, 2, 2, 2])
    assert max(unit.start for unit in world.units) - began < RESTART_SECONDS + 6
    assert "d1 starts anew: d1-2 on npu1 died (killed by SIGKILL)" in world.texts
    assert world.texts[-1] == "d1 runs: 4 units"


def test_one_that_drains_for_long_is_killed_before_the_first_starts_again(world):
    for unit in world.units:
        unit.drain = 50
    world.find(0)[1].die(world.now)
    world.run(60)
    assert (world.states, world.coherent, starts(world)) == ({UP}, True, [2, 2, 2, 2])


@pytest.mark.parametrize("drain", [0.0, 20.0])
@pytest.mark.parametrize("apart", [0.0, 3.0, 60.0])
def test_a_stop_of_all_and_a_start_of_all_is_nothing_to_it(world, drain, apart):
    for unit in world.units:
        unit.drain = drain
    world.stop_all(apart)
    world.run(1)
    world.start_all(apart)
    world.run(120)
    assert (world.orders, world.states, starts(world)) == ([], {UP}, [2, 2, 2, 2])


def test_what_somebody_has_stopped_stays_so(world):
    world.stop_all()
    world.run(600)
    assert (world.orders, world.states) == ([], {DOWN})
    assert world.texts[-1] == "d1 is stopped"


def test_one_stopped_by_hand_leaves_the_others_alone_until_it_is_started(world):
    _host, unit = world.find(2)
    unit.told_to_end(world.now, True)
    world.run(60)
    assert world.orders == []
    unit.begin(world.now)
    world.run(60)
    assert (world.states, world.coherent) == ({UP}, True)


def test_hosts_that_boot_a_minute_apart_find_each_other_without_an_order(tmp_path):
    world = World(tmp_path)
    world.hosts[1].reboot(60)
    world.hosts[1].supervised = True
    for unit in world.hosts[0].units.values():
        unit.begin(world.now)
    world.run(120)
    assert (world.orders, world.states, starts(world)) == ([], {UP}, [1, 1, 1, 1])


def test_a_restart_of_the_deciding_supervisor_changes_nothing(world):
    world.head_supervisor_restarts()
    world.run(60)
    assert world.orders == []


def test_a_death_while_the_deciding_supervisor_is_away_is_seen(world):
    world.hosts[0].supervised = False
    world.find(1)[1].die(world.now)
    world.run(14)
    world.hosts[0].supervised = True
    world.head_supervisor_restarts()
    world.run(60)
    assert (world.states, world.coherent) == ({UP}, True)


def test_one_that_never_starts_ends_all_within_the_limit_and_says_so(world):
    host, unit = world.find(1)
    unit.broken = True
    unit.die(world.now)
    world.run(120)
    assert unit.state == FAILED
    assert world.states <= {FAILED, DOWN}
    assert all(count <= LIMIT for count in starts(world))
    assert f"d1 gives up, as d1-2 on {host.name} failed (exit status 1)" in world.texts[-1].replace(" and 3 more", "")
    before = starts(world)
    world.run(3600)
    assert starts(world) == before


def test_wrong_arguments_end_all_at_once(world):
    _host, unit = world.find(3)
    unit.die(world.now, 1, 2)
    world.run(30)
    assert unit.state == FAILED
    assert {other.state for other in world.units if other is not unit} == {DOWN}
    assert starts(world) == [1, 1, 1, 1]
    # mended: whoever starts the one that failed gets all of them, unless the same hand starts them
    unit.starts = []
    unit.begin(world.now)
    world.run(4)
    assert not [order for order in world.orders if order.startswith("release")]
    world.run(60)
    assert (world.states, world.coherent) == ({UP}, True)


def test_a_start_of_all_after_a_failure_is_not_undone_host_by_host(world):
    """Hosts that are started first wait for those that have failed and are started next."""
    world.find(1)[1].broken = True
    world.find(1)[1].die(world.now)
    world.run(120)
    assert UP not in world.states
    world.find(1)[1].broken = False
    before = len(world.orders)
    world.start_all(apart=4)
    world.run(60)
    assert (world.states, world.coherent) == ({UP}, True)
    assert not [order for order in world.orders[before:] if order.startswith("hold")]


@pytest.mark.parametrize("number", [0, 1])
def test_a_host_that_is_gone_stops_the_others_and_costs_no_try(world, number):
    lost, other = world.hosts[number], world.hosts[1 - number]
    lost.reboot(400)
    world.run(50)
    assert {unit.state for unit in other.units.values()} == {DOWN}
    assert all(held[1].startswith("waiting for") for held in other.local.held.values())
    world.run(420)
    assert (world.states, world.coherent) == ({UP}, True)
    assert [len(unit.all_starts) for unit in other.units.values()] == [2, 2]


@pytest.mark.parametrize("number", [0, 1])
def test_a_reboot_that_is_over_before_anybody_misses_the_host(world, number):
    world.hosts[number].reboot(5)
    world.run(90)
    assert (world.states, world.coherent) == ({UP}, True)
    assert all(count == 2 for count in starts(world))


def test_a_short_loss_of_contact_is_nothing(world):
    world.hosts[1].cut_until = world.now + 20
    world.run(60)
    assert (world.orders, starts(world)) == ([], [1, 1, 1, 1])


def test_a_host_alone_holds_what_dies_and_what_knew_the_lost_one():
    contact = Contact("192.0.2.33:17600", heard=100.0, began=50.0, grace=30.0)
    members = [
        Member("old.service", UP, "a", start=60.0),
        # somebody has started it since; it waits for the lost host by itself
        Member("new.service", UP, "b", start=110.0),
        Member("dead.service", WAITING, "c", start=110.0),
        Member("stopped.service", STOPPED, "d"),
    ]
    assert alone(members, contact, 129.0) == []
    assert [(order.do, order.unit, order.run) for order in alone(members, contact, 131.0)] == [
        ("hold", "old.service", "a"),
        ("hold", "dead.service", "c"),
    ]
    never = contact._replace(heard=float("-inf"))
    assert alone(members, never, 79.0) == []
    assert [order.unit for order in alone(members, never, 81.0)] == ["dead.service"]


@pytest.mark.parametrize("drift", [-1e-4, -2e-5, 2e-5, 1e-4])
def test_clocks_that_drift_apart_for_months_are_nothing(world, drift):
    world.hosts[1].rate = 1 + drift
    for day in range(90):
        world.now += 86400
        world.run(2)
        if day % 10 == 9:
            # contact is lost and made again
            world.hosts[1].cut_until = world.now + 10
            world.run(20)
    assert (world.orders, starts(world)) == ([], [1, 1, 1, 1])
    # what ended long ago is not taken for the death of what lives now, whoever asks anew
    world.find(0)[1].die(world.now)
    world.run(60)
    assert (world.states, world.coherent, starts(world)) == ({UP}, True, [2, 2, 2, 2])
    before = len(world.orders)
    for _week in range(12):
        world.now += 7 * 86400
        world.run(2)
        world.head_supervisor_restarts()
        world.run(10)
    assert (len(world.orders), starts(world)) == (before, [2, 2, 2, 2])
    # and a death still is one
    world.find(1)[1].die(world.now)
    world.run(60)
    assert (world.states, world.coherent, starts(world)) == ({UP}, True, [3, 3, 3, 3])


@pytest.mark.parametrize("number", [0, 1])
def test_a_supervisor_that_said_goodbye_is_not_missed_until_it_is_back(world, number):
    host = world.hosts[number]
    world.supervisor_leaves(host)
    world.run(300)
    assert (world.orders, starts(world)) == ([], [1, 1, 1, 1])
    if number:
        assert world.texts[-1] == f"d1 is not watched on {host.name}: its supervisor was told to end there"
    # nobody watches there
    _host, unit = world.find(number)
    unit.die(world.now)
    world.run(60)
    assert world.orders == []
    be_back(world, host)
    world.run(90)
    assert (world.states, world.coherent, world.texts[-1]) == ({UP}, True, "d1 runs: 4 units")
    # from then on it is
    host.supervised = False
    world.run(60)
    assert any(order.startswith("hold") for order in world.orders)


def test_nothing_is_ordered_where_nobody_listens():
    group = Group("d1", ["npu1", "npu2"], 30.0, 100.0)
    for number, host in enumerate(group.places):
        group.see(host, [Member(f"mooncake-pd-d1-{number}.service", UP, "a", start=50.0)], 100.0, host == "npu2")
    dead = [Member("mooncake-pd-d1-0.service", WAITING, "a", start=50.0, ended=101.0)]
    group.see("npu1", dead, 101.0)
    assert group.decide(101.0).orders == []
    group.see("npu2", group.places["npu2"].members, 101.0)
    assert [(host, order.do) for host, order in group.decide(101.0).orders] == [("npu2", "restart")]


def test_a_message_that_comes_late_does_not_make_a_life_longer():
    group = Group("d1", ["npu1", "npu2"], 30.0, 100.0)
    group.see("npu2", [Member("mooncake-pd-d1-1.service", UP, "a", start=50.0)], 120.0)
    group.see("npu2", [Member("mooncake-pd-d1-1.service", UP, "b", start=111.0, ended=101.0)], 120.1)
    group.see("npu1", [Member("mooncake-pd-d1-0.service", UP, "b", start=110.0, ended=101.0)], 120.2)
    assert group.decide(121.0).orders == []


EVENT = st.one_of(
    st.tuples(st.just("kill"), st.integers(0, 5)),
    st.tuples(st.just("restart"), st.integers(0, 5)),
    st.tuples(st.just("cut"), st.integers(0, 2), st.floats(1, 90)),
    st.tuples(st.just("reboot"), st.integers(0, 2), st.floats(2, 90)),
    st.tuples(st.just("supervisor")),
    st.tuples(st.just("goodbye"), st.integers(0, 2), st.floats(1, 90)),
    st.tuples(st.just("stop and start"), st.floats(0, 8)),
)


def be_away(world: World, host: Host, seconds: float) -> None:
    if host.on:
        world.supervisor_leaves(host)
        world.run(seconds)
        be_back(world, host)


def be_back(world: World, host: Host) -> None:
    host.supervised = True
    if host is world.hosts[0]:
        world.head_supervisor_restarts()
    else:
        host.begin()


def happen(world: World, event: tuple) -> None:
    if event[0] == "kill":
        host, unit = world.find(event[1])
        if host.on and unit.state in (UP, ENDING):
            unit.die(world.now)
    elif event[0] == "restart":
        host, unit = world.find(event[1])
        if host.on and unit.state == UP:
            unit.lives.append((unit.start, world.now))
            unit.exit = unit.inactive = world.now
            unit.result = "success"
            unit.begin(world.now)
    elif event[0] == "cut":
        world.hosts[event[1]].cut_until = world.now + event[2]
    elif event[0] == "reboot":
        if world.hosts[event[1]].on:
            world.hosts[event[1]].reboot(event[2])
    elif event[0] == "goodbye":
        be_away(world, world.hosts[event[1]], event[2])
    elif event[0] == "supervisor" and world.hosts[0].on:
        world.head_supervisor_restarts()
    elif all(host.on for host in world.hosts):
        world.stop_all(event[1])
        world.start_all(event[1])


@settings(max_examples=25)
@given(
    st.lists(st.tuples(EVENT, st.floats(0, 25)), max_size=8), st.lists(st.sampled_from([0.0, 2.0, 30.0]), min_size=6)
)
def test_whatever_happens_the_group_ends_coherent(events, drains):
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), hosts=3)
        world.hosts[1].rate, world.hosts[2].rate = 1 + 5e-5, 1 - 5e-5
        for unit, drain in zip(world.units, drains, strict=False):
            unit.drain = drain
        world.start_all()
        world.run(5)
        for event, pause in events:
            happen(world, event)
            world.run(pause)
        world.run(400)
        assert world.coherent
        if FAILED in world.states:
            # one that was started later, as by a boot, waits for what failed
            failed = max(unit.inactive for unit in world.units if unit.state == FAILED)
            assert all(unit.start > failed for unit in world.units if unit.state == UP)
            world.start_all()
            world.run(120)
        assert world.states == {UP}, [(unit.name, unit.state) for unit in world.units]
        assert world.coherent
        quiet = len(world.orders)
        world.run(100)
        assert len(world.orders) == quiet


@settings(max_examples=30)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.floats(0, 40))
def test_tries_are_bounded_by_the_limit_of_the_units(numbers, pause):
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), hosts=3)
        world.start_all()
        for number in numbers:
            _host, unit = world.find(number)
            if unit.state == UP:
                unit.die(world.now)
            world.run(pause)
        world.run(100)
        assert all(len(unit.all_starts) <= LIMIT for unit in world.units)
