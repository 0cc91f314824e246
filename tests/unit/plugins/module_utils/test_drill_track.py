# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.module_utils.drill_track import Sample, Track, ask_until, outage, summary


def samples(text: str, step: float = 0.5) -> list[Sample]:
    """+ good, - bad, one after the other."""
    return [Sample(n * step, n * step + 0.1, mark == "+", "why" if mark == "-" else "") for n, mark in enumerate(text)]


def seconds(text: str) -> float:
    return round(outage(samples(text)), 6)


def test_an_outage_is_from_a_good_answer_to_the_next() -> None:
    assert seconds("++--++") == 1.5
    assert seconds("++++") == 0
    assert seconds("+-+++---+") == 2.0  # the longest one
    # from the first on: nobody knows since when
    assert seconds("--+") == 1.1
    # and nobody knows until when
    assert seconds("+---") == 1.5


def test_an_answer_that_hangs_is_an_outage_though_it_comes() -> None:
    late = [Sample(0, 0.1, True), Sample(0.3, 4.3, True)]
    assert round(outage(late), 3) == 4.2
    assert outage(late, patient=True) == 0  # a request takes its time


def test_the_summary_says_whether_anything_can_be_said() -> None:
    told = summary("x", samples("+-+"))
    assert (told["asked"], told["failed"], told["before"], told["recovered"]) == (3, 1, True, True)
    assert (told["reasons"], told["since"]) == (["why"], 0.1)
    assert not summary("x", samples("-+"))["before"]
    assert not summary("x", samples("+-"))["recovered"]
    empty = summary("x", [])
    assert (empty["before"], empty["recovered"], empty["since"]) == (False, False, None)


def test_settled() -> None:
    track = Track("x")
    assert not track.settled(0, 1)  # nothing was asked
    track.answered(1, True)
    assert track.settled(1.1, 1)
    track.answered(2, False)
    assert not track.settled(9, 1)  # the last one counts, however long ago
    track.answered(10, True)
    assert not track.settled(10.1, 10)
    assert track.settled(12.5, 10)
    track.asking(13)
    assert track.settled(13.5, 1)
    assert not track.settled(15, 1)  # it hangs


def test_what_never_answered_is_bad_and_what_comes_later_does_not_count() -> None:
    track = Track("x")
    track.answered(0, True)
    track.asking(1)
    track.close(9)
    track.answered(10, True)
    track.close(20)
    told = track.summary()
    assert (told["asked"], told["failed"], told["recovered"], told["outage"]) == (2, 1, False, 9)


def test_it_asks_until_it_is_told_to_stop() -> None:
    track, stop, ticks = Track("x"), threading.Event(), iter(range(100))
    answers = iter([(True, ""), (False, "no"), (True, "")])

    def ask() -> tuple[bool, str]:
        answer = next(answers)
        if answer == (True, "") and len(track._samples) == 2:
            stop.set()
        return answer

    ask_until(track, ask, 0, stop, lambda: float(next(ticks)))
    told = track.summary()
    # asked at 0, 2 and 4, answered at 1, 3 and 5
    assert (told["asked"], told["outage"]) == (3, 4)


@given(st.lists(st.booleans(), max_size=30), st.floats(0.01, 0.9))
def test_never_shorter_than_what_failed_and_never_longer_than_all(marks: list[bool], step: float) -> None:
    given_samples = [Sample(n * step, n * step + step / 2, good) for n, good in enumerate(marks)]
    found = outage(given_samples)
    assert (found > 0) is (False in marks)
    if given_samples:
        assert found <= given_samples[-1].answered - given_samples[0].asked
