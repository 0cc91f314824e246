# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load in a process of its own: what else the caller does does not slow it.

    with Witness("http://10.0.0.1:8000", model="tiny") as witness:
        witness.mark("roll")
        ...
    print(witness.report)

By hand: python -m tests.load.witness http://10.0.0.1:8000 --seconds 30
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import multiprocessing
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from .clients import Load, Settings
from .judge import OK
from .report import Answer, Report


class Witness:
    def __init__(self, url: str, **settings: Any) -> None:
        settings["seed"] = random.randrange(2**32) if settings.get("seed") is None else settings["seed"]
        self.settings = Settings(url.rstrip("/"), **settings)
        self._answers: list[Answer] = []
        self._marks: list[tuple[float, str]] = []
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_work, args=(self.settings, there), daemon=True)
        self._there = there
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Witness:
        self._marks.append((-math.inf, "rest"))
        self._process.start()
        # else this end would keep the other one open after the process is gone
        self._there.close()
        self._reader.start()
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(OSError):  # it has ended: its exit code tells more
            self._here.send("stop")
        # what is on its way is waited for, as long as a client would
        self._process.join(self.settings.patience + 10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._reader.join()
        # of a witness that fell silent nobody can say that it saw no fault
        if self._process.exitcode != 0:
            raise RuntimeError(f"the witness ended with {self._process.exitcode}, {len(self._answers)} answers before")

    def mark(self, name: str) -> None:
        """Here begins a phase; the first one is "rest"."""
        self._marks.append((time.time(), name))

    @property
    def report(self) -> Report:
        """What has been seen so far, and after the end all of it."""
        return Report(list(self._answers), list(self._marks))

    def wait(self, what: str, true: Callable[[Report], bool], seconds: float) -> None:
        """Until the report is like this."""
        ends = time.monotonic() + seconds
        while not true(self.report):
            assert self._process.is_alive(), "the witness has ended"
            assert time.monotonic() < ends, f"not within {seconds} s: {what}\n{self.report}"
            time.sleep(0.1)

    def _read(self) -> None:
        while True:
            try:
                self._answers.append(Answer(**self._here.recv()))
            except (EOFError, OSError):
                return


def _work(settings: Settings, connection: Connection) -> None:
    asyncio.run(Load(settings, lambda answer: connection.send(asdict(answer))).run(connection.fileno()))


def main() -> int:
    parser = argparse.ArgumentParser(description="Load that judges bodies. Ends with 1 when it met a fault.")
    parser.add_argument("url", help="of the service, without /v1")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--model", default=Settings.model)
    parser.add_argument("--clients", type=int, default=Settings.clients)
    parser.add_argument("--slow", type=float, default=Settings.slow)
    parser.add_argument("--patience", type=float, default=Settings.patience)
    parser.add_argument("--pause", type=float, default=Settings.pause)
    parser.add_argument("--cancelled", type=float, default=Settings.cancelled)
    words = vars(parser.parse_args())
    seconds = words.pop("seconds")
    with Witness(**words) as witness:
        time.sleep(seconds)
    report = witness.report
    print(report)
    good = report.counts[OK]
    if not good:
        print("no answer came: nothing is known", file=sys.stderr)
    return 0 if good and not report.faults else 1


if __name__ == "__main__":
    sys.exit(main())
