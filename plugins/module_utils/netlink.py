# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask the kernel over netlink. Needs no tool and no package."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Iterator, Optional

_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
_REQUEST, _DUMP = 0x001, 0x300  # NLM_F_REQUEST, NLM_F_DUMP
_ERROR, _DONE = 2, 3
_BUFFER = 1 << 18


class Refused(OSError):
    """The kernel does not answer this question."""


def split(chunk: bytes) -> Iterator[tuple[int, int, int]]:
    """Messages of one answer: type, and where the body begins and ends."""
    offset = 0
    while offset + _HEADER.size <= len(chunk):
        length, kind, _flags, _sequence, _port = _HEADER.unpack_from(chunk, offset)
        if length < _HEADER.size or offset + length > len(chunk):
            raise Refused(errno.EBADMSG, "netlink message is cut off")
        yield kind, offset + _HEADER.size, offset + length
        offset += (length + 3) & ~3


def attributes(chunk: bytes, begin: int = 0, end: Optional[int] = None) -> dict[int, bytes]:
    """struct rtattr / nlattr by type."""
    found: dict[int, bytes] = {}
    end = len(chunk) if end is None else end
    while begin + 4 <= end:
        length, kind = struct.unpack_from("=HH", chunk, begin)
        if length < 4 or begin + length > end:
            break
        found[kind & 0x3FFF] = chunk[begin + 4 : begin + length]
        begin += (length + 3) & ~3
    return found


def dump(protocol: int, kind: int, body: bytes, timeout: float = 5.0) -> Iterator[tuple[bytes, int, int]]:
    """A list: the body of each message, as chunk, begin and end. Refused when the kernel cannot, TimeoutError (before
    Python 3.10 socket.timeout) when it hangs.

    A list that changed while it was read (NLM_F_DUMP_INTR) is what /proc/net gives as well, so it is taken.
    """
    for chunk in _chunks(protocol, kind, _DUMP, body, timeout):
        for answer, begin, end in split(chunk):
            if answer == _DONE:
                return
            yield _checked(answer, chunk, begin, end)


def get(protocol: int, kind: int, body: bytes, timeout: float = 5.0) -> tuple[bytes, int, int]:
    """One thing; Refused also when there is none."""
    chunk = next(_chunks(protocol, kind, 0, body, timeout))
    answer, begin, end = next(split(chunk))
    return _checked(answer, chunk, begin, end)


def _chunks(protocol: int, kind: int, flags: int, body: bytes, timeout: float) -> Iterator[bytes]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as link:
        link.settimeout(timeout)
        link.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 1, 0) + body)
        while True:
            chunk = link.recv(_BUFFER)
            if len(chunk) < _HEADER.size:
                raise Refused(errno.EBADMSG, "netlink answer is empty")
            yield chunk


def _checked(answer: int, chunk: bytes, begin: int, end: int) -> tuple[bytes, int, int]:
    if answer == _ERROR:
        code = -struct.unpack_from("=i", chunk, begin)[0]
        raise Refused(code, os.strerror(code))
    return chunk, begin, end
