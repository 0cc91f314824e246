# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands of a build, one after the other, with their output in one log."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import failures, lock, supervised


class StepFailed(Exception):
    """With all that is to be said about it."""


class Steps:
    def __init__(self, work_dir: str, log: str, environment: Mapping[str, str]) -> None:
        self.log = log
        self._work_dir = work_dir
        self._environment = {**environment, lock.VARIABLE: work_dir}
        with suppress(FileNotFoundError):
            os.replace(log, f"{log}.1")
        with open(log, "wb"):
            pass

    def run(self, step: str, argv: Sequence[str], folder: str, environment: Mapping[str, str]) -> str:
        """What it said. StepFailed when it fails."""
        begin = os.path.getsize(self.log)
        with open(self.log, "ab") as log:
            log.write(f"--- {step}: {' '.join(argv)}\n".encode("utf-8", "surrogateescape"))
        code = supervised.run(argv, {**self._environment, **environment}, folder, self.log)
        with open(self.log, "rb") as log:
            log.seek(begin)
            said = log.read().decode("utf-8", "replace")
        if code:
            lock.end_left_running(self._work_dir)
            raise StepFailed(self.tell(step, code, said.splitlines()[1:]))
        return said

    def tell(self, step: str, code: int, lines: Sequence[str]) -> str:
        failure = failures.explain(lines)
        return "\n".join(
            (
                f"{step} failed with code {code}: {failure.cause}",
                f"What to do: {failure.advice}",
                f"The last lines of {self.log}:",
                *(f"  {line}" for line in failures.tail(lines)),
            )
        )
