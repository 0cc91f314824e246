# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One pass over /proc: which processes there are, and what they have open, mapped, locked and bound."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from typing import Collection, Iterable, Mapping, Optional

from ansible_collections.mooncake.pd.plugins.module_utils import procs
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.find import Identity

_KERNEL_THREAD = 0x200000  # PF_KTHREAD, linux/include/linux/sched.h
_PIECE = 1 << 20
_USERS = re.compile(rb"^Uid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)", re.MULTILINE)
_PIDS = re.compile(rb"^NSpid:\t(.+)", re.MULTILINE)
_MOONCAKE = re.compile(rb"/(?:mooncake/[^/\n]*\.so|mooncake_(?:master|client)|libtransfer_engine[^/\n]*)(?:\n| )")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    pid: int
    comm: str
    users: frozenset[int]
    started: float  # seconds of the wall clock
    pids: frozenset[int] = frozenset()  # its numbers in all its PID namespaces
    ticks: int = 0  # start as the kernel writes it: with the pid, its name for ever


@dataclass
class Evidence:
    processes: dict[int, Process] = field(default_factory=dict)
    open: dict[Identity, set[int]] = field(default_factory=dict)
    mapped: dict[Identity, set[int]] = field(default_factory=dict)
    mapped_paths: dict[str, set[int]] = field(default_factory=dict)
    locked: dict[Identity, set[int]] = field(default_factory=dict)
    bound: dict[str, set[int]] = field(default_factory=dict)  # last part of the path of a Unix socket
    mooncake: set[int] = field(default_factory=set)
    unknown: list[tuple[str, str]] = field(default_factory=list)  # what, why
    boot: float = 0.0  # start of process 1: of the host, or of the container that it is

    @property
    def complete(self) -> bool:
        return not self.unknown


class Look:
    """The pass itself.

    files: what is asked for. paths: those of them whose device /proc/PID/maps may tell otherwise (overlay, btrfs).
    """

    def __init__(self, files: Collection[Identity], paths: Collection[str] = (), proc: str = "/proc") -> None:
        self.proc = proc
        self.files = set(files)
        self.paths = {os.fsencode(path): path for path in paths}
        devices = {device for device, _inode in self.files}
        self.devices = [
            (device, re.compile(b" %02x:%02x (\\d+)" % (os.major(device), os.minor(device)))) for device in devices
        ]
        self.found = Evidence()
        self.sockets: dict[str, set[int]] = {}
        self.spaces: dict[str, int] = {}
        self.hidden: list[int] = []
        self.begin = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)

    def run(self) -> Evidence:
        for pid in procs.pids(self.proc):
            self._process(pid)
        first = self.found.processes.get(1)
        self.found.boot = first.started if first else self.begin
        self._unix()
        self._locks()
        self._complete(first)
        return self.found

    def _process(self, pid: int) -> None:
        try:
            process, kernel = self._what(pid)
        except (OSError, ValueError, IndexError):  # it has ended
            return
        if kernel:
            return
        self.found.processes[pid] = process
        for part in (self._open, self._maps, self._space):
            try:
                part(pid)
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                return
            except OSError:
                self.hidden.append(pid)
                return

    def _read(self, path: str) -> bytes:
        with open(os.path.join(self.proc, path), "rb") as source:
            return source.read()

    def _what(self, pid: int) -> tuple[Process, bool]:
        head, _bracket, tail = self._read(f"{pid}/stat").rpartition(b")")
        fields = tail.split()  # from the third on, proc(5)
        ticks = int(fields[19])
        status = self._read(f"{pid}/status")
        users, pids = _USERS.search(status), _PIDS.search(status)
        process = Process(
            pid,
            head.partition(b"(")[2].decode("utf-8", "replace"),
            frozenset(map(int, users.groups())) if users else frozenset(),
            self.begin + ticks / _TICKS,
            frozenset(map(int, pids.group(1).split())) if pids else frozenset((pid,)),
            ticks,
        )
        return process, bool(int(fields[6]) & _KERNEL_THREAD)

    def _open(self, pid: int) -> None:
        folder = f"{self.proc}/{pid}/fd"
        for path in (*(f"{folder}/{name}" for name in os.listdir(folder)), *self._places(pid)):
            try:
                target = os.readlink(path)
                if target.startswith("/"):
                    status = os.stat(path)
                    self._note(self.found.open, (status.st_dev, status.st_ino), pid)
                elif target.startswith("socket:["):
                    self.sockets.setdefault(target[8:-1], set()).add(pid)
            except FileNotFoundError:  # closed meanwhile
                continue
            except (PermissionError, ProcessLookupError):
                raise
            except OSError:  # of a file system that does not answer; the other files can be seen all the same
                self.hidden.append(pid)

    def _places(self, pid: int) -> tuple[str, ...]:
        return f"{self.proc}/{pid}/cwd", f"{self.proc}/{pid}/root", f"{self.proc}/{pid}/exe"

    def _note(self, where: dict[Identity, set[int]], identity: Identity, pid: int) -> None:
        if identity in self.files:
            where.setdefault(identity, set()).add(pid)

    def _maps(self, pid: int) -> None:
        with open(f"{self.proc}/{pid}/maps", "rb", buffering=0) as source:
            rest = b""
            for part in iter(lambda: source.read(_PIECE), b""):
                text, _newline, rest = (rest + part).rpartition(b"\n")
                text += b"\n"
                for device, inodes in self.devices:
                    for inode in set(inodes.findall(text)):
                        self._note(self.found.mapped, (device, int(inode)), pid)
                for raw, path in self.paths.items():
                    if b" " + raw + b"\n" in text:
                        self.found.mapped_paths.setdefault(path, set()).add(pid)
                if pid not in self.found.mooncake and _MOONCAKE.search(text):
                    self.found.mooncake.add(pid)

    def _space(self, pid: int) -> None:
        self.spaces.setdefault(os.readlink(f"{self.proc}/{pid}/ns/net"), pid)

    def _unix(self) -> None:
        """Each network namespace has a table of its own, though all bind in the same folders."""
        for pid in self.spaces.values():
            try:
                table = self._read(f"{pid}/net/unix")
            except OSError as error:
                if os.path.exists(f"{self.proc}/{pid}"):
                    self.found.unknown.append(("sockets", f"{self.proc}/{pid}/net/unix: {error.strerror}."))
                continue
            for name, inode in bound(table.decode("utf-8", "surrogateescape").splitlines()):
                self.found.bound.setdefault(name, set()).update(self.sockets.get(inode, ()))

    def _locks(self) -> None:
        try:
            text = self._read("locks").decode()
        except OSError as error:
            self.found.unknown.append(("locks", f"{self.proc}/locks: {error.strerror}."))
            return
        for identity, pid in locks(text.splitlines()):
            self._note(self.found.locked, identity, pid)

    def _complete(self, first: Optional[Process]) -> None:
        if first is None:
            self.found.unknown.append(("processes", f"{self.proc} does not show all processes (hidepid?)."))
        if self.hidden:
            why = f"{len(self.hidden)} processes may not be looked into, pid {self.hidden[0]} for one: run as root."
            self.found.unknown.append(("processes", why))


def bound(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Last part of the path, and inode, of Unix sockets that are bound to a file: listening, or about to.

    Only the name counts: a table shows the path that the process used, in its own mounts and relative to its folder.
    A connection bears the path of the socket that it was accepted from, so it counts as well.
    """
    found = []
    for line in lines:
        words = line.split(None, 7)
        # the kernel writes @ for the zero that abstract names begin with
        if len(words) == 8 and words[0] != "Num" and not words[7].startswith("@"):
            found.append((os.path.basename(words[7]), words[6]))
    return found


def locks(lines: Iterable[str]) -> list[tuple[Identity, int]]:
    """Rows of /proc/locks (POSIX, FLOCK, OFDLCK, LEASE, DELEG); who waits for one counts as well."""
    found = []
    for line in lines:
        words = [word for word in line.split()[1:] if word != "->"]
        try:
            major, minor, inode = words[4].split(":")
            identity = os.makedev(int(major, 16), int(minor, 16)), int(inode)
            found.append((identity, int(words[3])))
        except (IndexError, ValueError):
            continue
    return found


def ran_at(processes: Mapping[int, Process], moment: float, user: int) -> list[Process]:
    """Processes of a user that ran already when something was made; ticks and clocks are a second apart at most."""
    return sorted(
        (one for one in processes.values() if user in one.users and one.started <= moment + 1.0),
        key=lambda one: one.pid,
    )
