# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients in a closed loop: each asks again when it is answered."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import aiohttp

from .judge import CANCELLED, OK, Reply, Verdict, judge
from .questions import Question, questions
from .report import Answer


@dataclass(frozen=True)
class Settings:
    url: str
    model: str = "tiny"
    clients: int = 4
    slow: float = 10.0  # an answer that takes longer is a fault
    patience: float = 30.0  # then a client gives up: hung
    pause: float = 0.0  # of a client between two questions
    cancelled: float = 0.1  # share of the questions whose client goes away
    words: tuple[int, int] = (2, 30)  # of a prompt, fewest and most
    seed: int | None = None


class Load:
    def __init__(self, settings: Settings, tell: Callable[[Answer], None]) -> None:
        self.settings = settings
        self.tell = tell
        self.first: dict[tuple[bool, str, int], str] = {}
        self.stopped = asyncio.Event()

    async def run(self, control: int | None = None, seconds: float | None = None) -> None:
        """Until something comes from control (also its end: who wants to know is gone), or for this time."""
        loop = asyncio.get_running_loop()
        if control is not None:
            loop.add_reader(control, self._stop_by, control)
        if seconds is not None:
            loop.call_later(seconds, self.stopped.set)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            await asyncio.gather(*(self._client(session, number) for number in range(self.settings.clients)))

    def _stop_by(self, control: int) -> None:
        asyncio.get_running_loop().remove_reader(control)
        self.stopped.set()

    async def _client(self, session: aiohttp.ClientSession, number: int) -> None:
        seed = self.settings.seed or 0
        # the same prompts for all, each client in an order of its own
        asked = questions(seed, words=self.settings.words, cancelled=self.settings.cancelled)
        last = 1.0
        for question in itertools.islice(asked, number, None, self.settings.clients):
            if self.stopped.is_set():
                return
            answer = await self._ask(session, question, last)
            self.tell(answer)
            if answer.kind == OK:
                last = answer.seconds
            elif answer.kind == "failed":
                # a closed door is not to be battered: that would only multiply one fault
                await asyncio.sleep(0.05)
            await asyncio.sleep(self.settings.pause)

    async def _ask(self, session: aiohttp.ClientSession, question: Question, last: float) -> Answer:
        reply = Reply()
        leaves = question.leave is not None
        limit = question.leave * last if question.leave is not None else self.settings.patience
        started, clock = time.time(), time.monotonic()
        try:
            await asyncio.wait_for(self._exchange(session, question, reply), limit)
        except asyncio.TimeoutError:
            verdict = Verdict(CANCELLED) if leaves else Verdict("hung", f"no end after {limit:.0f} s")
        except (aiohttp.ClientError, OSError) as error:
            reply.broken = f"{type(error).__name__}: {error}"
            verdict = judge(question, reply)
        else:
            verdict = judge(question, reply)
        seconds = time.monotonic() - clock
        if verdict.kind == OK:
            verdict = self._compare(question, verdict.text, seconds)
        fault = verdict.kind not in (OK, CANCELLED)
        named = re.search(rb'"id":\s*"([^"]*)"', reply.body)
        return Answer(
            started,
            seconds,
            verdict.kind,
            json.dumps(asdict(question)),
            verdict.why,
            reply.body[:400].decode(errors="replace") if fault else "",
            named[1].decode() if named else "",
        )

    async def _exchange(self, session: aiohttp.ClientSession, question: Question, reply: Reply) -> None:
        url = self.settings.url + question.path
        timeout = aiohttp.ClientTimeout(total=None)
        async with session.post(url, json=question.body(self.settings.model), timeout=timeout) as response:
            reply.status = response.status
            async for part in response.content.iter_any():
                reply.body += part

    def _compare(self, question: Question, text: str, seconds: float) -> Verdict:
        first = self.first.setdefault(question.key, text)
        if text != first:
            return Verdict("wrong", f"{text!r} instead of {first!r}")
        if seconds > self.settings.slow:
            return Verdict("slow", f"over {self.settings.slow} s")
        return Verdict(OK)
