# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A restart of all that is interrupted again and again restarts nothing twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.resuming import restarted, resume, starts
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.rolling.worlds import (
    State,
    World,
    cluster,
    instance,
    names,
    waves,
)

NOTED = {"p1": {"p1": "a"}, "d1": {"d1-0": "b", "d1-1": "c"}}


@pytest.mark.parametrize(
    ("now", "done"),
    [
        (NOTED, set()),
        ({"p1": {"p1": "x"}, "d1": {"d1-0": "y", "d1-1": "c"}}, {"p1"}),
        ({"p1": {"p1": "x"}, "d1": {"d1-0": "y", "d1-1": "z"}}, {"p1", "d1"}),
        # stopped, not told, or without processes: nobody knows that it was restarted
        ({"p1": {"p1": ""}, "d1": {}}, set()),
    ],
)
def test_what_runs_in_another_start_was_restarted(now: dict[str, dict[str, str]], done: set[str]) -> None:
    assert restarted(NOTED, now) == done


def test_what_did_not_run_when_it_began_and_runs_now_was_started_since() -> None:
    assert restarted({"p1": {"p1": ""}}, {"p1": {"p1": "a"}}) == {"p1"}


def test_starts_are_those_of_what_runs() -> None:
    planned = [instance("p1", "prefill", "n1"), instance("d1", "decode", "n2", "n3"), instance("d2", "decode", "n2")]
    running = {
        "n1": [{"name": "p1", "active": True, "invocation_id": "a"}],
        "n2": [{"name": "d1-0", "active": False, "invocation_id": "old"}, {"name": "d2", "active": True}],
    }
    assert starts(planned, ["p1", "d1", "d2"], running) == {
        "p1": {"p1": "a"},
        "d1": {"d1-0": "", "d1-1": ""},
        "d2": {"d2": ""},
    }
    assert list(starts(planned, ["p1"], running)) == ["p1"]


def test_none_to_go_on_with() -> None:
    new = {"p1": {"p1": "x"}, "d1": {"d1-0": "y", "d1-1": "z"}}
    both = ["p1", "d1"]
    assert resume(None, new, both, []) is None
    assert resume({"p1": NOTED["p1"]}, new, both, []) is None  # it was of fewer
    assert resume(NOTED, {"p1": new["p1"]}, ["p1"], []) is None  # it was of more than is asked for now
    assert resume("damaged", new, both, []) is None
    assert resume(NOTED, new, both, []) is None  # it is over
    assert resume(NOTED, new, both, ["d1"]) == {"p1", "d1"}  # one still has to be put back
    assert resume(NOTED, NOTED, both, []) == set()


def restart(world: World, **options: Any) -> Any:
    return world.plan(restart=True, **options)


def test_note_is_of_the_selected_and_only_of_a_restart() -> None:
    world = World(cluster(2, 2), states={name: State([True], outdated=False) for name in ("p1", "p2", "d1", "d2")})
    assert world.plan().begins is None
    assert restart(world, min_healthy={"decode": "3"}).begins is None  # refused
    assert restart(world, only="p1").begins == {"p1": {"p1": "p1-0"}}
    assert len(restart(world).begins) == 4


def test_interrupted_in_the_middle() -> None:
    world = World(cluster(2, 2), states={name: State([True], outdated=False) for name in ("p1", "p2", "d1", "d2")})
    first = restart(world)
    assert names(first) == [["p1", "d1"], ["p2", "d2"]]
    world.begun = first.begins
    world.carry_out(waves(first)[0])
    world.take_out(waves(first)[1])
    world.states["p2"].active = [False]
    again = restart(world)
    assert names(again) == [["p2"], ["d2"]]
    assert again.begins is None
    told = "The interrupted restart of 2026-03-01T10:00:00Z goes on; d1, p1 were restarted by it already."
    assert again.notes[0] == told
    # another selection is another restart
    for wave in waves(again):
        world.carry_out(wave)
    assert restart(world, only="p1,d2").begins is not None


def test_goes_on_while_a_host_is_lost() -> None:
    world = World(
        cluster(3, 3), states={f"{kind}{n}": State([True], outdated=False) for kind in "pd" for n in (1, 2, 3)}
    )
    first = restart(world)
    world.begun = first.begins
    world.carry_out(waves(first)[0])
    without = frozenset({"host-p3", "host-d3"})
    again = restart(world, left_out=without)
    assert names(again) == [["p2", "d2"]]
    assert again.begins is None


@given(
    st.integers(2, 4),
    st.integers(2, 4),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["out", "stopped", "renewed"])), max_size=6),
    st.sampled_from(["1", "2", "50%"]),
)
def test_nothing_is_restarted_twice(prefill: int, decode: int, breaks: list[tuple[int, str]], batch: str) -> None:
    """breaks: after so many waves a run ends in the middle of the next one."""
    planned = cluster(prefill, decode)
    world = World(planned, states={item["name"]: State([True], outdated=False) for item in planned})
    for finished, where in [*breaks, (len(planned), "")]:
        roll = restart(world, batch=batch)
        if roll.begins is not None:
            assert sum(world.started.values()) in (0, len(planned)), "it began anew before it was over"
            assert all(state.serves for state in world.states.values()), "it began anew before all served again"
            world.begun, world.started = roll.begins, {}
        todo = waves(roll)
        for wave in todo[:finished]:
            world.carry_out(wave)
        if len(todo) > finished:
            world.break_off(todo[finished], where)
    assert set(world.started.values()) == {1}
    assert set(world.started) == {item["name"] for item in planned}
    assert world.serving() == {"prefill": prefill, "decode": decode}
