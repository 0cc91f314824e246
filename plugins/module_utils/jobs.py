# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Functions with a time limit, for what may wait for ever: name servers, mounts, files of processes that hang."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any, Callable, Optional, Sequence


class Late(Exception):
    """A job did not end in its time."""


class Job:
    """A function in a thread that does not keep the module alive: a name server or a mount may never answer."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._value: Any = None
        self._error: Optional[Exception] = None
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            self._value = function()
        except Exception as error:
            self._error = error

    def result(self, deadline: float) -> Any:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            raise Late
        if self._error:
            raise self._error
        return self._value


def in_parallel(functions: Sequence[Callable[[], Any]], workers: int, seconds: float) -> list[Any]:
    """What each one returned, or the exception: Late for those that did not end or were never begun."""
    results: list[Any] = [Late()] * len(functions)
    waiting = iter(range(len(functions)))
    lock = threading.Lock()

    def work() -> None:
        while time.monotonic() < deadline:
            with lock:
                index = next(waiting, None)
            if index is None:
                return
            try:
                results[index] = functions[index]()
            except Exception as error:
                results[index] = error

    deadline = time.monotonic() + seconds
    for job in [Job(work) for _number in range(min(workers, len(functions)))]:
        with suppress(Late):
            job.result(deadline)
    return list(results)
