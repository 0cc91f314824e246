# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dynamic section of an ELF file: which libraries it needs and where it looks for them."""

from __future__ import annotations

import os
import struct
from typing import NamedTuple, Optional

# elf(5)
_MAGIC = b"\x7fELF"
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _STRSZ, _RPATH, _RUNPATH, _NULL = 1, 5, 10, 15, 29, 0


class Dynamic(NamedTuple):
    needed: list[str]
    search: list[str]  # RUNPATH, or RPATH where there is none


def read(path: str) -> Optional[Dynamic]:
    """None for what is no 64-bit little-endian ELF file, or has no dynamic section."""
    with open(path, "rb") as source:
        data = source.read()
    if data[:6] != _MAGIC + b"\x02\x01":
        return None
    try:
        return _dynamic(data)
    except (struct.error, ValueError, IndexError):
        return None


def _dynamic(data: bytes) -> Optional[Dynamic]:
    offset, size, count = struct.unpack_from("<Q14xHH", data, 32)
    segments = [struct.unpack_from("<IIQQQQQQ", data, offset + number * size) for number in range(count)]
    dynamic = next((segment for segment in segments if segment[0] == _DYNAMIC), None)
    if dynamic is None:
        return None
    entries: list[tuple[int, int]] = []
    for position in range(dynamic[2], dynamic[2] + dynamic[5], 16):
        tag, value = struct.unpack_from("<QQ", data, position)
        if tag == _NULL:
            break
        entries.append((tag, value))
    values = dict(entries)
    address = values.get(_STRTAB, 0)
    holding = [segment for segment in segments if segment[0] == _LOAD and _holds(segment, address)]
    start = holding[0][2] + address - holding[0][3] if holding else 0
    names = data[start : start + values.get(_STRSZ, 0)]

    def name(position: int) -> str:
        return names[position : names.index(b"\0", position)].decode("utf-8", "surrogateescape")

    paths = [name(value) for tag, value in entries if tag == (_RUNPATH if _RUNPATH in values else _RPATH)]
    search = [part for text in paths for part in text.split(":") if part]
    return Dynamic([name(value) for tag, value in entries if tag == _NEEDED], search)


def _holds(segment: tuple[int, ...], address: int) -> bool:
    return segment[3] <= address < segment[3] + segment[5]


def unresolved(tree: str, prefix: str) -> list[str]:
    """Libraries of the tree that others in it need and would not find once the tree is at the prefix."""
    paths = [
        os.path.relpath(os.path.join(folder, name), tree) for folder, _folders, names in os.walk(tree) for name in names
    ]
    places: dict[str, set[str]] = {}
    for path in paths:
        place = os.path.normpath(os.path.join(prefix, os.path.dirname(path)))
        places.setdefault(os.path.basename(path), set()).add(place)
    said = []
    for path in sorted(paths):
        full = os.path.join(tree, path)
        found = None if os.path.islink(full) else read(full)
        if found is None:
            continue
        own = os.path.normpath(os.path.join(prefix, os.path.dirname(path)))
        search = {os.path.normpath(place.replace("${ORIGIN}", own).replace("$ORIGIN", own)) for place in found.search}
        said += [
            f"{path} needs {name} and looks in {', '.join(sorted(search)) or 'no folder of its own'}"
            for name in found.needed
            if name in places and not places[name] & search
        ]
    return said
