# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The line of /dev/shm in /etc/fstab; every other byte stays as it is. Rules: fstab(5).

systemd-remount-fs.service applies it at boot, for /dev/shm is mounted long before fstab is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional, Sequence

FILE = "/etc/fstab"
PLACE = "/dev/shm"
_KEPT = ("nosuid", "nodev", "noexec")  # what an entry has to repeat, as a remount takes what is not told for off
_LINE = re.compile(r"(?P<before>[ \t]*\S+[ \t]+(?P<place>\S+)[ \t]+(?P<type>\S+)[ \t]+)(?P<options>\S+)(?P<after>.*)")
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class FstabError(ValueError):
    """A line that cannot be edited without guessing."""


@dataclass(frozen=True)
class Edited:
    text: str
    before: Optional[str]  # the line that stood there
    line: Optional[str]  # the one that stands there now


def size(given: str) -> str:
    """16G, 16GB, 16GiB, 50% -> as mount has it."""
    match = re.fullmatch(r"\s*(\d+)\s*(?:(%)|([KMGT])(?:i?B)?)?\s*", str(given), re.IGNORECASE)
    if not match or not int(match.group(1)):
        raise ValueError(f"{given!r} is no size, like 16G or 50%")
    return match.group(1) + (match.group(2) or (match.group(3) or "").upper())


def bytes_of(text: str, memory: int, page: int) -> int:
    """What the kernel makes of it: whole pages."""
    if text.endswith("%"):
        # mm/shmem.c of Linux, shmem_parse_one: a hundredth of the bytes, rounded up to pages
        return -(-(memory // page * page * int(text[:-1]) // 100) // page) * page
    unit = text[-1] if text[-1] in _SIZES else ""
    wanted = int(text[: len(text) - len(unit)]) * _SIZES[unit]
    return -(-wanted // page) * page


def _lines(text: str) -> list[str]:
    """With their ends; only a line feed ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _place(line: str) -> bool:
    match = _LINE.match(line)
    if line.lstrip().startswith("#") or not match:
        return False
    place = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal.group(1), 8)), match.group("place"))
    return (place.rstrip("/") or "/") == PLACE


def _only(lines: Sequence[str]) -> Optional[int]:
    found = [index for index, line in enumerate(lines) if _place(line)]
    if len(found) > 1:
        numbers = ", ".join(str(index + 1) for index in found)
        raise FstabError(f"{FILE} has {PLACE} in the lines {numbers}: leave one")
    return found[0] if found else None


def edit(text: str, wanted: str, mounted: Sequence[str] = ()) -> Edited:
    """With size=wanted for /dev/shm. mounted: options that it is mounted with."""
    lines = _lines(text)
    index = _only(lines)
    if index is None:
        words = ",".join([*(word for word in _KEPT if word in mounted), f"size={wanted}"])
        line = f"tmpfs {PLACE} tmpfs {words} 0 0"
        gap = "\n" if text and not text.endswith("\n") else ""
        return Edited(f"{text}{gap}{line}\n", None, line)
    body = lines[index].rstrip("\r\n")
    match = _LINE.fullmatch(body)
    if not match or match.group("type") != "tmpfs":
        raise FstabError(f"{FILE} line {index + 1}: {PLACE} is no tmpfs there ({body.strip()})")
    options = [word for word in match.group("options").split(",") if not word.startswith("size=")]
    line = f"{match.group('before')}{','.join([*options, f'size={wanted}'])}{match.group('after')}"
    if size_in(match.group("options")) == wanted:
        line = body
    lines[index] = line + lines[index][len(body) :]
    return Edited("".join(lines), body, line)


def size_in(options: str) -> Optional[str]:
    found = [word[len("size=") :] for word in options.split(",") if word.startswith("size=")]
    return found[-1] if found else None


def undo(text: str, before: Optional[str], line: str) -> Optional[str]:
    """As it stood before; None when somebody else changed the line since."""
    lines = _lines(text)
    found = [index for index, row in enumerate(lines) if row.rstrip("\r\n") == line]
    if len(found) != 1:
        return None
    row = lines[found[0]]
    lines[found[0]] = "" if before is None else before + row[len(line) :]
    return "".join(lines)
