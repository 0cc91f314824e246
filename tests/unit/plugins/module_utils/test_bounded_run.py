# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
from pathlib import Path

from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Runner

SLACK = 15.0  # seconds: others may be at work beside us


def sh(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


def gone(pid: int) -> bool:
    """Neither running nor a zombie of ours; what it left to pid 1 may wait for that."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return True
    return state == "Z" and parent != str(os.getpid())


def test_answers_in_order_with_code_and_both_streams() -> None:
    answers = Runner(10).run([sh("sleep 0.2; echo one; echo two >&2; exit 3"), sh("echo $LC_ALL; cat")])
    assert [(answer.code, answer.text, answer.why) for answer in answers] == [(3, "one\ntwo\n", ""), (0, "C\n", "")]
    assert (answers[0].out, answers[0].err, answers[0].failure) == ("one\n", "two\n", "ended with code 3")


def test_bounded_and_parallel() -> None:
    begun = time.monotonic()
    Runner(10, 4).run([sh("sleep 0.3")] * 8)
    assert 0.6 <= time.monotonic() - begun < 15


def test_hanging_costs_the_time_once_and_leaves_no_process(tmp_path: Path) -> None:
    script = f"echo $$ >> {tmp_path}/pids; sleep 60 & echo $! >> {tmp_path}/pids; echo half; wait"
    begun = time.monotonic()
    answers = Runner(1.0, 8).run([sh(script)] * 20)
    assert time.monotonic() - begun < 1.0 + SLACK
    assert {answer.code for answer in answers} == {None}
    assert all("gave no answer" in answer.why for answer in answers[:8])
    assert answers[0].text == "half\n"
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 40
    assert [pid for pid in pids if not gone(pid)] == []


def test_one_that_hangs_gives_its_place_to_those_that_wait() -> None:
    answers = Runner(2.0, 2).run([sh("sleep 60"), sh("sleep 60"), *[sh("echo ok")] * 4])
    assert [answer.text for answer in answers] == ["", "", *["ok\n"] * 4]
    assert answers[0].seconds < 1.9


def test_one_that_hangs_alone_has_all_the_time() -> None:
    answers = Runner(1.0, 2).run([sh("sleep 60"), *[sh("echo ok")] * 8])
    assert answers[0].seconds >= 0.9


def test_what_cannot_start_says_so() -> None:
    answers = Runner(5).run([("/nowhere/tool", "-x"), sh("echo ok")])
    assert answers[0].why == "cannot be started: No such file or directory"
    assert answers[0].name == "tool -x"
    assert answers[1].text == "ok\n"


def test_time_that_is_over() -> None:
    runner = Runner(0.2)
    runner.run([sh("sleep 60")])
    assert runner.run([sh("echo late")])[0].why == "was not started: the time was over"


def test_endless_output_is_kept_in_part() -> None:
    begun = time.monotonic()
    answer = Runner(0.5).run([sh("exec yes")])[0]
    assert time.monotonic() - begun < 0.5 + SLACK
    assert answer.code is None
    assert len(answer.text) == 1 << 20
    assert len(Runner(5, most=3).run([sh("echo 12345; echo 67890 >&2")])[0].text) == len("123\n678")


def test_closed_output_of_a_process_that_stays(tmp_path: Path) -> None:
    begun = time.monotonic()
    answers = Runner(1.0, 4).run([sh(f"echo $$ >> {tmp_path}/pids; exec >&- 2>&-; sleep 60")] * 8)
    assert time.monotonic() - begun < 1.0 + SLACK
    assert {answer.code for answer in answers} == {None}
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_nothing_to_do() -> None:
    assert Runner(1).run([]) == []
