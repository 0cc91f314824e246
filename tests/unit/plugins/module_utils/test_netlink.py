# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import struct

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import netlink


def message(kind: int, body: bytes) -> bytes:
    raw = struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body
    return raw + bytes(-len(raw) % 4)


def test_messages_of_one_answer() -> None:
    chunk = message(20, b"abc") + message(3, b"")
    assert [(kind, chunk[begin:end]) for kind, begin, end in netlink.split(chunk)] == [(20, b"abc"), (3, b"")]


@pytest.mark.parametrize("chunk", [message(20, b"abcdefgh")[:20], struct.pack("=IHHII", 0, 16, 0, 0, 0)])
def test_answer_that_is_cut_off(chunk: bytes) -> None:
    with pytest.raises(netlink.Refused):
        list(netlink.split(chunk))


def test_attributes_end_where_one_makes_no_sense() -> None:
    chunk = struct.pack("=HH4s", 8, 0x8000 | 7, b"abcd") + struct.pack("=HH", 40, 9)
    assert netlink.attributes(chunk) == netlink.attributes(b"...." + chunk + b"....", 4, 16) == {7: b"abcd"}


def test_question_that_the_kernel_does_not_know() -> None:
    with pytest.raises(netlink.Refused) as refused:
        list(netlink.dump(4, 20, bytes(56)))  # sock_diag of address family 0
    assert refused.value.errno in (errno.EINVAL, errno.ENOENT)


def test_one_thing_and_none() -> None:
    loopback = struct.pack("=BxHiII", 0, 0, 1, 0, 0)
    chunk, begin, _end = netlink.get(0, 18, loopback)  # RTM_GETLINK of NETLINK_ROUTE
    assert struct.unpack_from("=BxHi", chunk, begin)[2] == 1
    with pytest.raises(netlink.Refused) as refused:
        netlink.get(0, 18, struct.pack("=BxHiII", 0, 0, 1 << 30, 0, 0))
    assert refused.value.errno == errno.ENODEV
