# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Order of version numbers, and tables of what changed at which version."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
VersionKey = tuple[tuple[int, ...], int, int]

_VERSION = re.compile(r"v?([0-9]{1,6}(?:\.[0-9]{1,6})*)(?:[.-]?(a|b|rc|post)\.?([0-9]{1,6}))?(\+[\w.]+)?")
_PHASE = {"a": -3, "b": -2, "rc": -1, None: 0, "post": 1}


def _match(text: str) -> re.Match[str]:
    match = _VERSION.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a version number")
    return match


def version_key(text: str) -> VersionKey:
    """Sort key of a version such as 0.23.0rc1 or v0.3.7.post2; ValueError when it is none."""
    match = _match(text)
    release = [int(part) for part in match[1].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    return tuple(release), _PHASE[match[2]], int(match[3] or 0)


def normal(text: str) -> str:
    """The spelling that packages carry, so that equal releases are equal text: v0.23.0-rc.1 is 0.23.0rc1."""
    release, phase, number, build = _match(text).groups()
    return f"{release}{'.' if phase == 'post' else ''}{phase or ''}{number or ''}{build or ''}"


def at_least(version: str, since: str) -> bool:
    return version_key(version) >= version_key(since)


def value_at(table: Sequence[tuple[str, T]], version: str) -> T:
    """The value in force at a version; table = (first version, value), oldest first."""
    return next((value for since, value in reversed(table) if at_least(version, since)), table[0][1])
