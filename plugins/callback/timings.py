# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: timings
type: aggregate
short_description: Show how long each play and the slowest tasks took
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - At the end of a run, prints the wall time of every play and of the slowest tasks.
requirements:
  - enable it with C(callbacks_enabled) in C(ansible.cfg)
options:
  slowest:
    description: How many tasks to show.
    type: int
    default: 5
    ini:
      - section: callback_timings
        key: slowest
    env:
      - name: MOONCAKE_PD_TIMINGS_SLOWEST
"""

import time
from typing import Any

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core carries no types
    """Collect start times only: a task lasts until the next one starts."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "mooncake.pd.timings"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plays: list[tuple[str, float]] = []
        self.tasks: list[tuple[str, float]] = []

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self.plays.append((play.get_name().strip(), time.monotonic()))

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self.tasks.append((task.get_name().strip(), time.monotonic()))

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self.v2_playbook_on_task_start(task, False)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        end = time.monotonic()
        if not self.plays:
            return
        self._display.banner(f"TIMES, {end - self.plays[0][1]:.1f} s in all")
        for name, seconds in self._durations(self.plays, end):
            self._display.display(f"{seconds:8.1f} s  {name}")
        slowest = sorted(self._durations(self.tasks, end), key=lambda item: -item[1])[: self.get_option("slowest")]
        if slowest:
            self._display.display("slowest tasks:")
        for name, seconds in slowest:
            self._display.display(f"{seconds:8.1f} s  {name}")

    @staticmethod
    def _durations(started: list[tuple[str, float]], end: float) -> list[tuple[str, float]]:
        if not started:  # --limit has left out the hosts of every play
            return []
        following = [at for _name, at in started[1:]] + [end]
        return [(name, then - at) for (name, at), then in zip(started, following, strict=True)]
