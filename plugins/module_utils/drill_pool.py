# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client of the pool that lives through a drill, seen from the process that started it.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from contextlib import suppress
from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.client_program import ONCE
from ansible_collections.mooncake.pd.plugins.module_utils.drill_client import MARK
from ansible_collections.mooncake.pd.plugins.module_utils.drill_track import Track

WATCH, FILL = "watch", "fill"
_LINES = 20  # of what it said besides


class Pool:
    """Runs the client, and keeps what it tells. Closing its input ends it."""

    def __init__(self, command: List[str], environment: Mapping[str, str], track: Track) -> None:
        self.track = track
        self.told: Dict[str, Any] = {}
        self.noise: List[str] = []
        self.begun = threading.Event()
        # it is talked to while it runs
        self.process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment, **ONCE},
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.take(line, time.monotonic())
        self.begun.set()

    def take(self, line: str, now: float) -> None:
        if not line.startswith(MARK):
            self.noise = [*self.noise, line.rstrip()][-_LINES:]
            return
        try:
            said = json.loads(line[len(MARK) :])
        except ValueError:
            return
        if "used" in said:
            self.track.answered(now, said["used"], said["why"])
            # the next question follows within its interval
            self.track.asking(now)
            return
        if "kept" in said:
            said["kept_at"] = round(time.time(), 3)
        self.told.update(said)
        if "kept" in said or "filling" in said or "filled" in said or said.get("setup", 0) != 0 or "import" in said:
            self.begun.set()

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def end(self, seconds: float) -> None:
        """Ask it to take back what it put, and wait for that."""
        with suppress(OSError):
            if self.process.stdin:
                self.process.stdin.close()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
            if self.lives:
                self.process.kill()
        self._reader.join(5)

    def result(self) -> Dict[str, Any]:
        return {**self.told, "error": self.error()}

    def error(self) -> str:
        if "import" in self.told:
            return f"the Python that has to have Mooncake cannot import it: {self.told['import']}"
        code: Optional[int] = self.told.get("setup")
        if code == 0 and "removed" in self.told:
            return ""
        last = next((line for line in reversed(self.noise) if line.strip()), "")
        if code is None:
            return f"the client ended with {self.process.poll()} before it got in: {last}"
        if code:
            return f"the client did not get in, code {code}: {last}"
        return f"the client ended with {self.process.poll()} and did not tell that it took back what it had put: {last}"
