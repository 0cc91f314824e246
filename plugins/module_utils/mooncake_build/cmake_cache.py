# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CMakeCache.txt and what CMake says about variables that it was given."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.options import truth

_ENTRY = re.compile(r'(?m)^(?:"([^"]+)"|([^#/\s"][^:=]*)):([A-Z]+)=(.*)$')
_UNUSED = re.compile(r"Manually-specified variables were not used by the project:\s*\n((?:[ \t]*\n|[ \t]+\S.*\n)*)")


class Entry(NamedTuple):
    kind: str
    value: str


def parse(text: str) -> dict[str, Entry]:
    entries = {}
    for quoted, name, kind, value in _ENTRY.findall(text):
        # CMake quotes values with blanks at an end
        inner = value[1:-1] if len(value) > 1 and value[0] == value[-1] == "'" else value
        entries[quoted or name] = Entry(kind, inner)
    return entries


def unused(output: str) -> list[str]:
    """Variables that nothing in the tree read."""
    found = _UNUSED.findall(output if output.endswith("\n") else output + "\n")
    return [name for block in found for name in block.split()]


def _same(kind: str, asked: str, got: str) -> bool:
    if asked == got:
        return True
    if kind in ("PATH", "FILEPATH"):
        return os.path.normpath(asked) == os.path.normpath(got)
    if kind in ("BOOL", "UNINITIALIZED"):
        return truth(asked) is not None and truth(asked) is truth(got)
    return False


def disagreements(asked: dict[str, str], cache: dict[str, Entry], not_read: list[str]) -> list[str]:
    """Where the configuration is not what was asked for, a sentence for each option."""
    said = []
    for name, value in sorted(asked.items()):
        entry = cache.get(name)
        if entry is None or (entry.kind == "UNINITIALIZED" and name in not_read):
            said.append(f"{name} is no option of this tree (asked for {value})")
        elif not _same(entry.kind, value, entry.value):
            said.append(f"{name} is {entry.value or 'empty'} in CMakeCache.txt, {value or 'empty'} was asked for")
    return said
