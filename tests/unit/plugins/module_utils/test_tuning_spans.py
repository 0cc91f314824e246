# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.module_utils.tuning import spans, values
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.values import UNION, Wish

PORTS = st.integers(1, 200)
SPANS = st.lists(st.tuples(PORTS, st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=8)


def ports(some: list[spans.Span]) -> set[int]:
    return {port for first, last in some for port in range(first, last + 1)}


@pytest.mark.parametrize(
    ("given_", "span"),
    [(8100, (8100, 8100)), ("8100-8107", (8100, 8107)), ({"first": 5, "last": 9, "purpose": "api"}, (5, 9))],
)
def test_ports_are_told_in_three_ways(given_, span):
    assert spans.parse(given_) == span


@pytest.mark.parametrize("given_", ["", "x", "9-5", 0, 65536, "1-2-3", {"first": 1}, "1,2", None, "٣"])
def test_what_is_no_port_is_refused(given_):
    with pytest.raises(ValueError, match="port"):
        spans.parse(given_)


@given(SPANS)
def test_merged_is_the_same_ports_in_fewest_spans(some):
    made = spans.merged(some)
    assert ports(made) == ports(some)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(made))
    assert spans.read(spans.text(made)) == made


@given(SPANS, SPANS)
def test_without_and_inside(some, others):
    assert ports(spans.without(some, others)) == ports(some) - ports(others)
    assert ports(spans.inside(some, others)) == ports(some) & ports(others)


@given(foreign=SPANS, file=SPANS, first=SPANS, second=SPANS, later=SPANS)
def test_ports_of_others_are_never_dropped_and_ours_go(foreign, file, first, second, later):
    """Reserved by others at run time, by a file, by us, by others again; then we want other ones, then none."""
    others = spans.text(spans.merged(file))

    def plan(wanted, now, entry):
        return values.plan(Wish("reserved", "/p", UNION, spans.text(spans.merged(wanted)), others), now, entry)

    now = spans.text(spans.merged(foreign))
    step = plan(first, now, None)
    assert (
        ports(foreign) | ports(first) <= ports(spans.read(step.target)) <= ports(foreign) | ports(first) | ports(file)
    )
    again = plan(first, step.target, step.entry)
    assert again.target == step.target
    changed = spans.text(spans.merged([*spans.read(step.target), *later]))
    other = plan(second, changed, step.entry)
    assert ports(spans.read(other.target)) >= ports(foreign) | ports(second)
    if other.entry:
        back = values.restored(other.target, other.entry)
        assert back is not None
        assert ports(spans.read(back)) >= ports(foreign)
        assert not ports(spans.read(back)) & ports(spans.read(other.entry["added"]))
