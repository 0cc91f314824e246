# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a build: how they are spelled, which are refused, and what they need."""

from __future__ import annotations

import re
from typing import Any, Optional

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TRUE = ("1", "ON", "YES", "TRUE", "Y")
_FALSE = ("0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND", "")
_WORDS = ("ON", "YES", "TRUE", "Y", "OFF", "NO", "FALSE", "N")  # that mean nothing else
PREFIX_PATH = "CMAKE_PREFIX_PATH"
_OWN = {
    "CMAKE_INSTALL_PREFIX": "it is the prefix",
    "CMAKE_INSTALL_RPATH": "it follows from the prefix",
    "CMAKE_GENERATOR": "it is the generator",
    "CMAKE_C_COMPILER": "it is cc",
    "CMAKE_CXX_COMPILER": "it is cxx",
    "Python3_EXECUTABLE": "it is the python",
    "PYTHON_EXECUTABLE": "it is the python",
    "SKBUILD": "it is for building wheels",
}
# mooncake-common/common.cmake (v0.3.8 and later) sets BUILD_SHARED_LIBS itself for these, whatever it was told
_SHARED = ("USE_ASCEND_DIRECT", "USE_UBSHMEM")
_CANN = ("USE_ASCEND_DIRECT", "USE_UBSHMEM", "USE_ASCEND_HETEROGENEOUS")
_GO = ("USE_ETCD", "STORE_USE_ETCD", "STORE_USE_K8S_LEASE", "WITH_STORE_GO", "WITH_P2P_STORE")


def truth(value: str) -> Optional[bool]:
    """As CMake's if() takes a constant; None when it is neither true nor false."""
    upper = value.upper()
    if upper in _TRUE:
        return True
    return False if upper in _FALSE or upper.endswith("-NOTFOUND") else None


def spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    if isinstance(value, (list, tuple)):
        return ";".join(map(str, value))
    text = str(value)
    return ("ON" if truth(text) else "OFF") if text.upper() in _WORDS else text


def _wrong(name: str, value: Any) -> str:
    if not _NAME.match(name):
        return f"{name!r} is no name of a CMake variable"
    if value is None or isinstance(value, dict):
        return f"the value of {name} is neither a text nor a number nor a boolean"
    if "\n" in str(value) or "\0" in str(value):
        return f"the value of {name} has a line break"
    return f"{name} cannot be set here, {_OWN[name]}" if name in _OWN else ""


def normalised(given: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The options in one spelling, and what is wrong with others."""
    wrong = {name: _wrong(name, value) for name, value in sorted(given.items())}
    options = {name: spelled(given[name]) for name, why in wrong.items() if not why}
    return options, [why for why in wrong.values() if why]


def on(options: dict[str, str], name: str, default: bool = False) -> bool:
    value = truth(options[name]) if name in options else default
    return value is not False


def needs_cann(options: dict[str, str]) -> bool:
    return any(on(options, name) for name in _CANN)


def needs_go(options: dict[str, str]) -> list[str]:
    """The options that build Go code."""
    legacy = on(options, "USE_ETCD_LEGACY")
    return [name for name in _GO if on(options, name) and not (name == "USE_ETCD" and legacy)]


def refused(options: dict[str, str]) -> list[tuple[str, str]]:
    """What cannot come to a good end, and the way out."""
    found = []
    if on(options, "USE_ASCEND"):
        # Mooncake issue 1462
        found.append(
            (
                "USE_ASCEND=ON needs transport_mem.h, which no release of CANN contains, and MPI.",
                "Set USE_ASCEND_DIRECT instead, and leave USE_ASCEND out.",
            )
        )
    shared = [name for name in _SHARED if on(options, name)]
    if shared and "BUILD_SHARED_LIBS" in options and not on(options, "BUILD_SHARED_LIBS"):
        found.append(
            (
                f"{shared[0]} builds shared libraries whatever BUILD_SHARED_LIBS says.",
                "Leave BUILD_SHARED_LIBS out.",
            )
        )
    if on(options, "WITH_STORE_RUST") and not on(options, "WITH_STORE", True) and "WITH_STORE_RUST" in options:
        found.append(("WITH_STORE_RUST needs WITH_STORE.", "Set both or neither."))
    return found
