# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of the running system and of no file: commands, system calls, the kernel's routing tables."""

from __future__ import annotations

import ctypes
import grp
import os
import pwd
import socket
import time
from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Answer, Runner
from ansible_collections.mooncake.pd.plugins.module_utils.host import identity, rtnetlink

# ansible's PATH over ssh often lacks the sbin folders
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_STA_UNSYNC = 0x0040  # linux/include/uapi/linux/timex.h
_TIME_ERROR = 5


class _Timex(ctypes.Structure):
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_long * 32),  # more than the kernel writes
    )


@dataclass(frozen=True)
class User:
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


class System:
    """The real one; tests put another one in its place."""

    def run(self, argv: Sequence[str], seconds: float) -> Answer:
        # no HOME, so that no tool writes settings or statistics there
        environment = {
            **{name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
            "PATH": PATH,
            "LC_ALL": "C",
            "SYSTEMD_PAGER": "",
            "SYSTEMD_COLORS": "0",
            "GOTOOLCHAIN": "local",  # else `go version` may fetch another go
        }
        return Runner(seconds, environment=environment).run([argv])[0]

    def uname(self) -> os.uname_result:
        return os.uname()

    def page_size(self) -> int:
        return os.sysconf("SC_PAGE_SIZE")

    def libc(self) -> Optional[str]:
        """`glibc 2.36`"""
        return os.confstr("CS_GNU_LIBC_VERSION")

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        """The clock of systemd's ...TimestampMonotonic."""
        return time.clock_gettime(time.CLOCK_MONOTONIC)

    def synchronized(self) -> bool:
        """Whether the kernel takes its clock for synchronized; adjtimex(2) with modes 0 changes nothing."""
        library = ctypes.CDLL(None, use_errno=True)
        state = _Timex()
        answer = library.adjtimex(ctypes.byref(state))
        if answer < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return answer != _TIME_ERROR and not state.status & _STA_UNSYNC

    def statvfs(self, path: str) -> os.statvfs_result:
        return os.statvfs(path)

    def user(self, name: str) -> Optional[User]:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            return None
        return User(name, entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(name, entry.pw_gid)))

    def user_name(self, uid: int) -> str:
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return str(uid)

    def group_name(self, gid: int) -> str:
        try:
            return grp.getgrgid(gid).gr_name
        except KeyError:
            return str(gid)

    def resolve(self, name: str) -> tuple[str, list[str]]:
        """The canonical name and the addresses, as getaddrinfo(3) orders them."""
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
        addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
        return found[0][3] if found else "", list(dict.fromkeys(addresses))

    def links(self) -> list[rtnetlink.Link]:
        return rtnetlink.links()

    def addresses(self) -> list[rtnetlink.Address]:
        return rtnetlink.addresses()

    def default_routes(self) -> list[rtnetlink.Route]:
        return rtnetlink.default_routes()

    def route(self, address: str) -> Optional[rtnetlink.Route]:
        return rtnetlink.route(address)

    def source(self, address: str) -> Optional[str]:
        """The address that the kernel would send from; None when there is no way."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:  # a connect of UDP sends nothing
            try:
                probe.connect((address, 9))
            except OSError:
                return None
            return str(probe.getsockname()[0])

    def as_user(self, user: User, function: Callable[[Callable[[], None]], Any], seconds: float) -> Any:
        return identity.as_user(user.uid, user.gid, user.groups, function, seconds)
