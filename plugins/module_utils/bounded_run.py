# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many commands at once within one time for all of them, whatever the commands do."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any, Optional

_REAP = 0.5  # seconds in which a killed process has to be gone
# In a container the loader does not know the driver's libraries, and the tools do not start without them.
_LIBRARIES = (
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/lib64/common",
    "/usr/local/Ascend/driver/lib64/driver",
    "/usr/local/dcmi",
)


@dataclass(frozen=True)
class Answer:
    code: Optional[int] = 0  # None when it did not end by itself
    out: str = ""  # as far as it came
    err: str = ""
    why: str = ""  # why there is no code
    argv: tuple[str, ...] = ()
    seconds: float = 0.0  # that it ran

    @property
    def name(self) -> str:
        return " ".join((os.path.basename(self.argv[0]), *self.argv[1:]))

    @property
    def text(self) -> str:
        between = "\n" if self.err and self.out and not self.out.endswith("\n") else ""
        return f"{self.out}{between}{self.err}"

    @property
    def failure(self) -> str:
        """Why the answer is none, without the command's name; empty when it is one."""
        return self.why or (f"ended with code {self.code}" if self.code else "")


@dataclass
class _Running:
    number: int
    argv: tuple[str, ...]
    process: subprocess.Popen[bytes]
    begun: float
    taken: dict[IO[bytes], bytearray]  # of stdout and of stderr
    speaking: set[IO[bytes]] = field(init=False)  # streams that have not ended

    def __post_init__(self) -> None:
        self.speaking = set(self.taken)


class Runner:
    """Each command is a process group of its own. What has used up its share of the time ends when others wait, and
    all that still runs ends with the time of the call."""

    def __init__(
        self,
        seconds: float,
        concurrency: int = 32,
        environment: Optional[Mapping[str, str]] = None,
        most: int = 1 << 20,
    ) -> None:
        """environment: by default that of the module, in English, with the driver's libraries. most: bytes that are
        kept of a stream."""
        self._deadline = time.monotonic() + seconds
        self._most = most
        self._concurrency = max(1, concurrency)
        self._environment = _driver_environment() if environment is None else environment

    @property
    def left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def run(self, commands: Sequence[Sequence[str]]) -> list[Answer]:
        """Their answers in the order of the commands; each has one."""
        given = [tuple(command) for command in commands]
        share = self.left / max(1, -(-len(given) // self._concurrency))
        answers: dict[int, Answer] = {}
        waiting = deque(enumerate(given))
        running: list[_Running] = []
        with selectors.DefaultSelector() as selector:
            try:
                while waiting or running:
                    while waiting and len(running) < self._concurrency and self.left:
                        number, argv = waiting.popleft()
                        started = self._start(number, argv)
                        if isinstance(started, Answer):
                            answers[number] = started
                            continue
                        running.append(started)
                        for stream in started.speaking:
                            selector.register(stream, selectors.EVENT_READ, started)
                    # nothing speaks when no command could be started
                    ended = list(self._ended(selector, running, share if waiting else None)) if running else []
                    answers.update(self._finish(selector, running, ended))
                    if not self.left:
                        answers.update(self._finish(selector, running, running))
                        for number, argv in waiting:
                            answers[number] = Answer(None, argv=argv, why="was not started: the time was over")
                        waiting.clear()
            finally:  # of an interrupt
                self._finish(selector, running, running)
        return [answers[number] for number in range(len(given))]

    def _start(self, number: int, argv: tuple[str, ...]) -> _Running | Answer:
        try:
            # run_command has no time limit, and may not be called by several threads
            process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            return Answer(None, argv=argv, why=f"cannot be started: {error.strerror or error}")
        streams = [stream for stream in (process.stdout, process.stderr) if stream]
        for stream in streams:
            os.set_blocking(stream.fileno(), False)
        return _Running(number, argv, process, time.monotonic(), {stream: bytearray() for stream in streams})

    def _ended(
        self, selector: selectors.BaseSelector, running: list[_Running], share: Optional[float]
    ) -> Iterator[_Running]:
        """Waits for output; those whose output has ended or whose share is over."""
        now = time.monotonic()
        until = self._deadline
        if share is not None and running:
            until = min(until, min(one.begun for one in running) + share)
        for key, _events in selector.select(max(0.0, until - now)):
            one: _Running = key.data
            stream: Any = key.fileobj
            with suppress(BlockingIOError):
                data = os.read(key.fd, 65536)
                one.taken[stream] += data[: max(0, self._most - len(one.taken[stream]))]
                if not data:
                    selector.unregister(stream)
                    one.speaking.remove(stream)
        now = time.monotonic()
        for one in running:
            if not one.speaking or (share is not None and now - one.begun >= share):
                yield one

    def _finish(
        self, selector: selectors.BaseSelector, running: list[_Running], these: Iterable[_Running]
    ) -> Iterator[tuple[int, Answer]]:
        """What they said. Those that still run are killed with their children; all are reaped."""
        ending = list(these)
        found = []
        for one in ending:
            running.remove(one)
            for stream in one.speaking:
                selector.unregister(stream)
            code = self._code(one)
            seconds = time.monotonic() - one.begun
            with suppress(ProcessLookupError, PermissionError):  # also what it left behind
                os.killpg(one.process.pid, signal.SIGKILL)
            for stream in one.taken:
                stream.close()
            found.append((one, code, seconds))
        until = time.monotonic() + _REAP
        answers = []
        for one, code, seconds in found:
            why = ""
            if code is None:
                why = f"gave no answer in {seconds:.1f} s"
                try:
                    one.process.wait(max(0.0, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    why += f", and pid {one.process.pid} cannot be killed (it hangs in the kernel)"
            out, err = (taken.decode("utf-8", "replace") for taken in one.taken.values())
            answers.append((one.number, Answer(code, out, err, why, one.argv, round(seconds, 3))))
        return iter(answers)

    def _code(self, one: _Running) -> Optional[int]:
        if one.speaking:
            return one.process.poll()
        with suppress(subprocess.TimeoutExpired):  # its output has ended, so it is about to end
            return one.process.wait(max(0.02, min(0.5, self.left)))
        return None


def _driver_environment() -> dict[str, str]:
    given = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    paths = [*filter(None, given), *(path for path in _LIBRARIES if os.path.isdir(path))]
    return {**os.environ, "LC_ALL": "C", "LANG": "C", **({"LD_LIBRARY_PATH": ":".join(paths)} if paths else {})}
