# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every way in which a service can fail its clients is counted as what it is."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import urllib.request

import pytest

from ansible_collections.mooncake.pd.tests.load.clients import Load, Settings
from ansible_collections.mooncake.pd.tests.load.judge import CANCELLED, FAULTS, OK, Reply, judge
from ansible_collections.mooncake.pd.tests.load.questions import Question, questions
from ansible_collections.mooncake.pd.tests.load.report import Answer, Report, percentile
from ansible_collections.mooncake.pd.tests.load.witness import Witness


def load(url, count=16, **settings):
    """What this many questions are answered, without a process of its own."""
    answers = []

    def tell(answer):
        answers.append(answer)
        if len(answers) >= count:
            clients.stopped.set()

    clients = Load(Settings(url, **{"seed": 7, "cancelled": 0.0, **settings}), tell)
    asyncio.run(clients.run())
    return Report(answers)


def kinds(report):
    return {kind for kind, count in report.counts.items() if count}


def test_good_service_has_no_fault(server):
    report = load(server.url, 40)
    assert kinds(report) == {OK}
    assert report.faults == []
    asked = [json.loads(answer.question) for answer in report.answers]
    assert {question["stream"] for question in asked} == {True, False}
    assert {question["chat"] for question in asked} == {True, False}


@pytest.mark.parametrize(
    ("mode", "kind", "why"),
    [
        ("closes", "failed", "ServerDisconnected"),
        ("status", "failed", "status 500"),
        ("error-in-body", "failed", "the engine is dead"),
        ("no-body", "empty", "no body"),
        ("no-text", "empty", "no text"),
        ("abort", "truncated", "finish_reason abort"),
        ("no-reason", "truncated", "finish_reason None"),
        ("fewer", "truncated", "tokens"),
        ("no-usage", "truncated", "None of"),
        ("breaks", "truncated", "ClientPayloadError"),
        ("hung", "hung", "no end after"),
    ],
)
def test_fault_of_every_answer(server, mode, kind, why):
    server.mode = "headers-only" if mode == "hung" else mode
    report = load(server.url, patience=0.3 if mode == "hung" else 30)
    assert kinds(report) == {kind}
    assert all(why in answer.why for answer in report.faults), report


def test_fault_of_streams_alone(server):
    server.mode = "no-done"
    report = load(server.url, 30)
    assert kinds(report) == {OK, "truncated"}
    streamed = {answer.kind for answer in report.answers if json.loads(answer.question)["stream"]}
    assert streamed == {"truncated"}


def test_page_of_somebody_else_is_no_answer(server):
    server.mode = "no-json"
    assert kinds(load(server.url)) <= {"empty", "truncated"}


def test_nobody_listens():
    report = load("http://127.0.0.1:1", 4)
    assert kinds(report) == {"failed"}
    assert "ClientConnectorError" in report.faults[0].why


def test_other_text_than_the_first_time_is_wrong(server):
    server.mode = "other-text"
    report = load(server.url, 200)
    # the first answer to each question is taken for right
    assert kinds(report) == {OK, "wrong"}
    assert "instead of" in report.faults[0].why


def test_slow_answer_is_counted_and_keeps_its_time(server):
    server.mode = "slow"
    report = load(server.url, 8, slow=0.2)
    assert kinds(report) == {"slow"}
    assert report.percentile(0.5) >= 0.4


def test_client_that_goes_away_is_no_fault(server):
    server.mode = "headers-only"
    report = load(server.url, 8, cancelled=1.0)
    assert kinds(report) == {CANCELLED}
    # and does so in the middle, not when it has lost its patience
    assert max(found.seconds for found in report.answers) < 15


def test_answer_that_fails_before_the_client_goes_away_is_a_fault(server):
    server.mode = "status"
    report = load(server.url, 24, cancelled=1.0)
    assert report.counts["failed"] > 0
    # on a busy machine some are gone before the answer is there
    assert kinds(report) <= {"failed", CANCELLED}


def test_streamed_text_is_the_text(server):
    """Else a stream could never be compared with an answer in one piece."""
    asked = questions(3)
    prompt = next(asked).prompt
    texts = set()
    for stream in (True, False):
        for chat in (True, False):
            body = Question(chat, prompt, 4, stream).body("tiny")
            texts.add(_text(server, chat, stream, body))
    assert texts == {f"{prompt.split()[0]}-0 {prompt.split()[0]}-1 {prompt.split()[0]}-2 {prompt.split()[0]}-3 "}


def _text(server, chat, stream, body):
    question = Question(chat, "", 4, stream)
    request = urllib.request.Request(server.url + question.path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        verdict = judge(question, Reply(200, answer.read()))
    assert verdict.kind == OK
    return verdict.text


def test_half_an_event_counts_for_nothing():
    question = Question(False, "p", 1, True)
    whole = b'data: {"choices": [{"text": "a", "finish_reason": "length"}]}\n\n'
    whole += b'data: {"usage": {"completion_tokens": 1}}\n\n'
    assert judge(question, Reply(200, whole + b"data: [DONE]\n\n")).kind == OK
    assert judge(question, Reply(200, whole + b"data: [DO")).why == "stream without [DONE]"
    assert judge(question, Reply(200, whole, "cut")).kind == "truncated"


def test_questions_are_the_same_with_the_same_seed_and_others_with_another():
    def some(seed):
        return [question for question, _number in zip(questions(seed), range(200), strict=False)]

    assert some(1) == some(1)
    assert {q.prompt for q in some(1)} & {q.prompt for q in some(2)} == set()
    first = some(1)
    assert len({q.key for q in first}) < 150  # many come again
    assert 0.2 < sum(q.stream for q in first) / 200 < 0.5
    assert 0.03 < sum(q.leave is not None for q in first) / 200 < 0.2


def answer(started, seconds=1.0, kind=OK):
    return Answer(started, seconds, kind, "{}")


def test_phases_are_told_by_when_it_was_asked():
    answers = [answer(5), answer(9.9, 5), answer(10), answer(15, kind="failed"), answer(20, 3)]
    report = Report(answers, [(-math.inf, "rest"), (10, "roll"), (20, "rest")])
    assert [a.started for a in report.phase("rest").answers] == [5, 9.9, 20]
    assert report.phase("roll").counts["failed"] == 1
    assert report.phase("rest").percentile(0.99) == 5
    assert "roll" in str(report)


def test_time_of_the_faults_is_from_the_first_seen_to_the_last():
    assert Report([answer(0)]).fault_seconds == 0
    report = Report([answer(0), answer(1, 0.5, "failed"), answer(1.2, 2.3, "truncated"), answer(9)])
    assert report.fault_seconds == pytest.approx(2.0)


def test_percentile_is_a_value_that_was_seen():
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile([3.0], 0.5) == 3.0
    assert math.isnan(percentile([], 0.5))


def test_every_kind_is_in_the_counts():
    assert set(Report([]).counts) == {OK, CANCELLED, *FAULTS}


def test_witness_runs_by_itself_and_tells_phases(server):
    with Witness(server.url, clients=2, cancelled=0.0) as witness:
        witness.wait("answers", lambda report: report.counts[OK] >= 5, 60)
        witness.mark("broken")
        server.mode = "status"
        witness.wait("faults", lambda report: report.counts["failed"] >= 2, 60)
    report = witness.report
    assert report.phase("rest").counts[OK] >= 5
    assert report.phase("broken").counts["failed"] >= 2
    assert "status 500" in str(report)
    assert "out of order" in str(report)


def test_witness_that_died_does_not_testify(server):
    witness = Witness(server.url)
    witness.__enter__()
    witness.wait("answers", lambda report: report.counts[OK] >= 1, 60)
    witness._process.kill()
    with pytest.raises(RuntimeError, match="the witness ended with -9"):
        witness.__exit__()


@pytest.mark.parametrize(("mode", "code"), [("good", 0), ("status", 1)])
def test_by_hand(server, mode, code):
    server.mode = mode
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.mooncake.pd.tests.load.witness", server.url, "--seconds", "2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "p99" in done.stdout
