# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who holds a TCP port: a real bind tells the truth, /proc/net/tcp{,6} and /proc/*/fd only explain it."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
import sys
from dataclasses import dataclass, field
from typing import Iterable, Optional

# linux/include/net/tcp_states.h
LISTEN = "LISTEN"
BOUND = "BOUND"  # bound, neither listening nor connected; only sock_diag lists such sockets
TIME_WAIT = "TIME-WAIT"
STATES = {
    "01": "ESTABLISHED",
    "02": "SYN-SENT",
    "03": "SYN-RECV",
    "04": "FIN-WAIT-1",
    "05": "FIN-WAIT-2",
    "06": TIME_WAIT,
    "07": "CLOSE",
    "08": "CLOSE-WAIT",
    "09": "LAST-ACK",
    "0A": LISTEN,
    "0B": "CLOSING",
    "0C": "NEW-SYN-RECV",
}

FREE = "free"
TAKEN = "taken"
NO_ADDRESS = "no-address"
NO_PERMISSION = "no-permission"
INVALID = "invalid"

_REFUSALS = {
    errno.EADDRINUSE: TAKEN,
    errno.EADDRNOTAVAIL: NO_ADDRESS,
    errno.EACCES: NO_PERMISSION,
    errno.EPERM: NO_PERMISSION,
}
_SOCKET = re.compile(r"socket:\[(\d+)\]")


@dataclass(frozen=True)
class Row:
    """One socket of /proc/net/tcp or tcp6; a v4-mapped IPv6 address is shown as the IPv4 address it is."""

    address: str
    port: int
    state: str
    inode: int
    remote: str = field(default="", compare=False)  # address:port
    v6only: Optional[bool] = field(default=None, compare=False)  # None: not told, or not IPv6


def shown(raw: bytes) -> str:
    """A packed address, as it is written."""
    address = ipaddress.ip_address(raw)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def place(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _address(text: str) -> str:
    raw = bytes.fromhex(text)
    if len(raw) not in (4, 16):
        raise ValueError(text)
    if sys.byteorder == "little":  # the kernel prints each 32-bit word in host order
        raw = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
    return shown(raw)


def row_of(fields: list[str]) -> Row:
    """One row of /proc/net/tcp, split; ValueError or IndexError when it is not understood."""
    host, _colon, hexadecimal = fields[1].partition(":")
    port = int(hexadecimal, 16)
    # TIME-WAIT and NEW-SYN-RECV rows have no owner; older kernels cut them short.
    inode = int(fields[9])
    return Row(_address(host), port, STATES.get(fields[3], fields[3]), inode, _remote(fields[2]))


def _remote(text: str) -> str:
    """The other end, for the message only."""
    host, _colon, hexadecimal = text.partition(":")
    try:
        port = int(hexadecimal, 16)
        return place(_address(host), port) if port else ""
    except ValueError:
        return ""


def parse_table(text: str, ports: Optional[set[int]] = None) -> tuple[list[Row], int]:
    """Rows of one table (of these local ports) and the number of rows that could not be understood."""
    rows: list[Row] = []
    bad = 0
    for line in text.splitlines():
        fields = line.split()
        if not fields or fields[0] == "sl":
            continue
        try:
            if ports is None or int(fields[1].partition(":")[2], 16) in ports:
                rows.append(row_of(fields))
        except (IndexError, ValueError):
            bad += 1
    return rows, bad


def tables(proc: str = "/proc", ports: Optional[set[int]] = None) -> tuple[list[Row], int]:
    """The TCP sockets of this network namespace (on these local ports); dual-stack listeners are only in tcp6."""
    rows: list[Row] = []
    bad = 0
    for name in ("tcp", "tcp6"):
        try:
            with open(os.path.join(proc, "net", name), encoding="ascii", errors="replace") as table:
                found, skipped = parse_table(table.read(), ports)
        except FileNotFoundError:  # tcp6 is missing where IPv6 is switched off
            continue
        rows += found
        bad += skipped
    return rows, bad


def inodes_of(pid: int, proc: str = "/proc") -> set[int]:
    """Socket inodes a process has open; raises PermissionError when they may not be seen."""
    found: set[int] = set()
    folder = os.path.join(proc, str(pid), "fd")
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return found
    for name in names:
        try:
            match = _SOCKET.fullmatch(os.readlink(os.path.join(folder, name)))
        except OSError:  # closed meanwhile
            continue
        if match:
            found.add(int(match.group(1)))
    return found


def holders(inodes: Iterable[int], pids: Iterable[int], proc: str = "/proc") -> tuple[dict[int, list[int]], int]:
    """inode -> every process that has it open, and how many processes could not be looked into."""
    wanted = set(inodes) - {0}
    found: dict[int, list[int]] = {}
    hidden = 0
    for pid in pids if wanted else ():
        try:
            for inode in sorted(inodes_of(pid, proc) & wanted):
                found.setdefault(inode, []).append(pid)
        except PermissionError:
            hidden += 1
    return found, hidden


def _is_wildcard(address: str) -> bool:
    return address in ("0.0.0.0", "::")


def conflicting(rows: Iterable[Row], address: str, port: int) -> list[Row]:
    """Sockets that can make a bind of (address, port) fail, the surest explanation only.

    Listeners first, then what is bound and silent; a client connection that merely uses the port as its source comes
    third, what has no owner last. /proc does not say whether a [::] listener is v6only, so it explains an IPv4 bind
    only when no IPv4 socket does.
    """

    def overlaps(row: Row) -> bool:
        if row.address == address:
            return True
        if ":" in row.address and ":" not in address:
            return row.address == "::" and row.v6only is False
        return _is_wildcard(row.address) or _is_wildcard(address)

    kinds: list[list[Row]] = [[], [], [], []]
    for row in rows:
        if row.port == port:
            kinds[_surety(row)].append(row)
    for group in kinds:
        direct = [row for row in group if overlaps(row)]
        if direct:
            return direct
        dual = [row for row in group if row.address == "::" and row.v6only is None]
        if dual:
            return dual
    return []


def _surety(row: Row) -> int:
    if row.state == LISTEN:
        return 0
    if row.state == BOUND:
        return 1
    return 2 if row.inode else 3


def satisfies(listening: str, planned: str) -> bool:
    """Does a listener on one address serve the planned one? (a [::] listener: only if it is dual-stack)"""
    return listening in (planned, "::") or (listening == "0.0.0.0" and ":" not in planned)


def _non_local_allowed(address: str, proc: str) -> bool:
    family = "ipv6" if ":" in address else "ipv4"
    try:
        with open(os.path.join(proc, "sys", "net", family, "ip_nonlocal_bind"), encoding="ascii") as setting:
            return setting.read().strip() == "1"
    except OSError:
        return False


def _is_local(address: str) -> bool:
    """The kernel picks a local destination as its own source."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe_socket:
        try:
            probe_socket.connect((address, 9))
            return ipaddress.ip_address(probe_socket.getsockname()[0]) == ipaddress.ip_address(address)
        except OSError:
            return False


def probe(address: str, port: int, proc: str = "/proc") -> str:
    """Bind (address, port) as a server would (SO_REUSEADDR, as zmq and uvicorn set it) and let go at once."""
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    except ValueError:
        return INVALID
    if not 1 <= port <= 65535:
        return INVALID
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((address, port))
        except OSError as error:
            return _REFUSALS.get(error.errno or 0, INVALID)
    # net.ipv4.ip_nonlocal_bind=1 (keepalived hosts) lets a bind of any address succeed.
    if not _is_wildcard(address) and not address.startswith("127.") and _non_local_allowed(address, proc):
        return FREE if _is_local(address) else NO_ADDRESS
    return FREE


def ranges(ports: Iterable[int]) -> str:
    """8100, 36000-36003: consecutive ports as a person would write them."""
    parts: list[list[int]] = []
    for port in sorted(set(ports)):
        if parts and port == parts[-1][-1] + 1:
            parts[-1].append(port)
        else:
            parts.append([port])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def listeners(rows: Iterable[Row], port: int) -> list[Row]:
    return [row for row in rows if row.state == LISTEN and row.port == port]


def first_error(error: Optional[BaseException]) -> str:
    """The short text of a network error: 'connection refused', without the layers around it."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, (socket.timeout, TimeoutError)):
        return "no answer in time"
    return (getattr(reason, "strerror", None) or str(reason) or type(reason).__name__).lower()
