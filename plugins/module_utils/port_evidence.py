# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be found out about the sockets on some ports. Everything is read once, and only when it is asked for."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from functools import cached_property

from ansible_collections.mooncake.pd.plugins.module_utils import procs, socket_holders, socket_survey, sockets

_SECONDS = 3.0


class Evidence:
    def __init__(self, ports: Collection[int], proc: str = "/proc") -> None:
        self.ports = ports
        self.proc = proc
        self.bound_problem = ""  # why bound sockets that do not listen cannot be seen
        self._described: dict[int, procs.Process] = {}
        self._deadline = 0.0  # for the command lines of all processes

    @cached_property
    def survey(self) -> socket_survey.Survey:
        return socket_survey.take(self.ports, self.proc)

    @cached_property
    def holders(self) -> socket_holders.Holders:
        return socket_holders.look(self.proc)

    @cached_property
    def rows(self) -> dict[int, list[sockets.Row]]:
        """The sockets on these ports, by port."""
        found: dict[int, list[sockets.Row]] = {}
        for row in [*self.survey.rows, *self._bound()]:
            if row.port in self.ports:
                found.setdefault(row.port, []).append(row)
        return found

    def _bound(self) -> list[sockets.Row]:
        if self.survey.bound_listed or self.proc != "/proc":
            return []
        try:
            return socket_holders.bound(self.holders, socket_survey.inodes(self.proc), self.ports)
        except socket_holders.Unreadable as error:
            self.bound_problem = str(error)
            return []

    def owners(self, rows: Iterable[sockets.Row]) -> list[procs.Process]:
        inodes = {row.inode for row in rows} - {0}
        return [self._describe(pid) for pid in self.holders.pids(inodes)] if inodes else []

    def _describe(self, pid: int) -> procs.Process:
        if pid not in self._described:
            self._deadline = self._deadline or time.monotonic() + _SECONDS
            self._described[pid] = procs.describe(pid, self.proc, self._deadline)
        return self._described[pid]

    @property
    def late(self) -> list[int]:
        """Processes that did not tell their command line in time."""
        return sorted(pid for pid, process in self._described.items() if process.late)
