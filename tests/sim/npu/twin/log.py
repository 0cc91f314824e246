# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log lines in the form of vLLM, uvicorn and glog. Tests must not depend on the times in them."""

from __future__ import annotations

import os
import sys
import threading
import time

_LOCK = threading.Lock()
_LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}


def _write(stream: object, text: str) -> None:
    with _LOCK:
        try:
            stream.write(text + "\n")  # type: ignore[attr-defined]
            stream.flush()  # type: ignore[attr-defined]
        except (OSError, ValueError):
            pass  # nobody reads any more


class Log:
    """One process of an engine as the log names it. All of them are this process."""

    def __init__(self, who: str | None = None, prefix_uvicorn: bool = True) -> None:
        self.who = who
        self.prefix = f"({who} pid={os.getpid()}) " if who else ""
        self._uvicorn_prefix = self.prefix if prefix_uvicorn else ""
        self._least = _LEVELS.get(os.environ.get("VLLM_LOGGING_LEVEL", "INFO").upper(), 20)

    def say(self, level: str, text: str, place: str = "core.py") -> None:
        if _LEVELS[level] >= self._least:
            moment = time.strftime("%m-%d %H:%M:%S")
            for line in text.splitlines():
                _write(sys.stdout, f"{self.prefix}{level} {moment} [{place}:0] {line}")

    def debug(self, text: str, place: str = "core.py") -> None:
        self.say("DEBUG", text, place)

    def info(self, text: str, place: str = "core.py") -> None:
        self.say("INFO", text, place)

    def warning(self, text: str, place: str = "core.py") -> None:
        self.say("WARNING", text, place)

    def error(self, text: str, place: str = "core.py") -> None:
        self.say("ERROR", text, place)

    def uvicorn(self, text: str) -> None:
        _write(sys.stderr, f"{self._uvicorn_prefix}INFO:     {text}")

    def access(self, peer: str, request: str, status: int, reason: str) -> None:
        _write(sys.stdout, f'{self._uvicorn_prefix}INFO:     {peer} - "{request} HTTP/1.1" {status} {reason}')

    def raised(self, error: str) -> None:
        """A traceback that nobody caught, shortened to its ends."""
        _write(sys.stderr, f"{self.prefix}Traceback (most recent call last):")
        _write(sys.stderr, f"{self.prefix}{error}")

    def glog(self, letter: str, place: str, text: str) -> None:
        now = time.time()
        moment = time.strftime("%m%d %H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1e6):06d}"
        _write(sys.stderr, f"{letter}{moment} {os.getpid():5d} {place}:0] {text}")
