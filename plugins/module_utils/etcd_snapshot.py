# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of etcd: a database and the SHA-256 of it, which the member appends (server/etcdserver/api/v3rpc)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

from ansible_collections.mooncake.pd.plugins.module_utils.etcd_api import EtcdError, Member

HASH = hashlib.sha256().digest_size
# pages of the database, of which a whole number is in it
_PAGE = 512
_PIECE = 1 << 20


class BrokenSnapshot(Exception):
    """The file is no snapshot, or not all of one."""


def save(member: Member, path: str) -> int:
    """Writes a verified snapshot, or nothing; returns its bytes."""
    handle, fresh = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=os.path.dirname(path) or ".")
    try:
        with open(handle, "wb") as file:
            for piece in _pieces(member):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        size = verify(fresh)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
    return size


def verify(path: str) -> int:
    """The bytes of a snapshot that is whole."""
    size = os.stat(path).st_size
    if size <= HASH or size % _PAGE != HASH:
        raise BrokenSnapshot(f"{path} has {size} bytes, which is no database and the hash of it")
    with open(path, "rb") as file:
        digest = _digest(file, size - HASH)
        if digest != file.read(HASH):
            raise BrokenSnapshot(f"{path} is not what the member sent: its hash is another one")
    return size


def _digest(file: BinaryIO, left: int) -> bytes:
    digest = hashlib.sha256()
    while left:
        piece = file.read(min(left, _PIECE))
        digest.update(piece)
        left -= len(piece)
    return digest.digest()


def _pieces(member: Member) -> Iterator[bytes]:
    for result in member.stream("/v3/maintenance/snapshot"):
        try:
            yield base64.b64decode(result.get("blob", ""), validate=True)
        except (binascii.Error, ValueError):
            raise EtcdError("it sends something else than a snapshot") from None
