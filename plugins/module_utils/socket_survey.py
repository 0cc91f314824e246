# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All TCP sockets of this host, looked at once: those on the ports in question, every listener, and numbers."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from ansible_collections.mooncake.pd.plugins.module_utils import sock_diag, sockets

_KEPT = (sockets.LISTEN, sockets.BOUND)


@dataclass
class Survey:
    rows: list[sockets.Row] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # by state
    time_wait: set[int] = field(default_factory=set)  # local ports with a TIME-WAIT
    bound_listed: bool = False  # bound sockets that do not listen are among the rows
    problems: list[str] = field(default_factory=list)

    def count(self, state: str, port: int) -> None:
        self.counts[state] += 1
        if state == sockets.TIME_WAIT:
            self.time_wait.add(port)


def take(ports: Container[int], proc: str = "/proc") -> Survey:
    """By sock_diag where the kernel answers, else from the tables of /proc."""
    if proc == "/proc":
        try:
            return by_sock_diag(ports)
        except OSError:
            pass
    return by_tables(ports, proc)


def by_sock_diag(ports: Container[int]) -> Survey:
    survey = Survey()
    # The kernel lists bound sockets if it lists this one.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as own:
        own.bind(("127.0.0.1", 0))
        inode = os.fstat(own.fileno()).st_ino
        for chunk, begin, end in sock_diag.messages():
            state, port = sock_diag.state_and_port(chunk, begin)
            if state in _KEPT or port in ports:
                row = sock_diag.row(chunk, begin, end)
                if row.inode == inode:
                    survey.bound_listed = True
                    continue
                survey.rows.append(row)
            survey.count(state, port)
    return survey


def by_tables(ports: Container[int], proc: str = "/proc") -> Survey:
    survey = Survey()
    for name in ("tcp", "tcp6"):
        path = os.path.join(proc, "net", name)
        bad = 0
        try:
            with open(path, encoding="ascii", errors="replace") as table:
                for line in table:
                    fields = line.split()
                    if not fields or fields[0] == "sl":
                        continue
                    try:
                        state = sockets.STATES.get(fields[3], fields[3])
                        port = int(fields[1].partition(":")[2], 16)
                        if state == sockets.LISTEN or port in ports:
                            survey.rows.append(sockets.row_of(fields))
                    except (IndexError, ValueError):
                        bad += 1
                        continue
                    survey.count(state, port)
        except FileNotFoundError:  # tcp6 is missing where IPv6 is switched off
            if name == "tcp":
                survey.problems.append(f"{path} is missing.")
        except OSError as error:
            survey.problems.append(f"{path} cannot be read: {error.strerror}.")
        if bad:
            survey.problems.append(f"{bad} rows of {path} could not be understood.")
    return survey


def inodes(proc: str = "/proc") -> set[int]:
    """Of every socket that a table of this network namespace shows, whatever its family."""
    found: set[int] = set()
    folder = os.path.join(proc, "net")
    for name, column in _tables():
        try:
            with open(os.path.join(folder, name), encoding="ascii", errors="replace") as table:
                next(table, "")
                for line in table:
                    fields = line.split(None, column + 1)
                    if len(fields) > column and fields[column].isdigit():
                        found.add(int(fields[column]))
        except OSError:
            continue
    return found


def _tables() -> Iterator[tuple[str, int]]:
    """Tables of /proc/net and their column of inodes."""
    for name in ("tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6"):
        yield name, 9
    yield "unix", 6
    yield "netlink", 9
    yield "packet", 8
