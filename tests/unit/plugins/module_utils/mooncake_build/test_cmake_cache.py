# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import cmake_cache

TEXT = """# This is the CMakeCache file.
//Build examples
BUILD_EXAMPLES:BOOL=OFF

CMAKE_BUILD_TYPE:STRING=Release
CMAKE_PREFIX_PATH:UNINITIALIZED=/var/deps/y;/opt/z
Some_DIR:PATH=/opt/a
"odd:name":STRING=x
MISSPELT:UNINITIALIZED=ON
READ:UNINITIALIZED=ON
BLANK:STRING=' a '
EMPTY:STRING=
"""
OUTPUT = """-- Configuring done
CMake Warning:
  Manually-specified variables were not used by the project:

    MISSPELT
    PYTHON_EXECUTABLE


-- Build files have been written to: /x
"""


def test_entries() -> None:
    found = cmake_cache.parse(TEXT)
    assert found["BUILD_EXAMPLES"] == ("BOOL", "OFF")
    assert found["CMAKE_PREFIX_PATH"] == ("UNINITIALIZED", "/var/deps/y;/opt/z")
    assert found["odd:name"] == ("STRING", "x")
    assert found["BLANK"].value == " a "
    assert found["EMPTY"].value == ""
    assert len(found) == 9


def test_variables_that_nobody_read() -> None:
    assert cmake_cache.unused(OUTPUT) == ["MISSPELT", "PYTHON_EXECUTABLE"]
    assert cmake_cache.unused("-- Configuring done\n") == []
    assert cmake_cache.unused(OUTPUT[: OUTPUT.index("PYTHON")] + "PYTHON_EXECUTABLE") == [
        "MISSPELT",
        "PYTHON_EXECUTABLE",
    ]


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("BUILD_EXAMPLES", "OFF", None),
        ("BUILD_EXAMPLES", "0", None),
        ("BUILD_EXAMPLES", "false", None),
        ("BUILD_EXAMPLES", "ON", "BUILD_EXAMPLES is OFF in CMakeCache.txt, ON was asked for"),
        ("CMAKE_BUILD_TYPE", "Release", None),
        ("CMAKE_BUILD_TYPE", "Debug", "CMAKE_BUILD_TYPE is Release in CMakeCache.txt, Debug was asked for"),
        ("EMPTY", "x", "EMPTY is empty in CMakeCache.txt, x was asked for"),
        ("Some_DIR", "/opt/a/", None),
        ("CMAKE_PREFIX_PATH", "/var/deps/y;/opt/z", None),
        ("READ", "1", None),
        ("MISSPELT", "ON", "MISSPELT is no option of this tree (asked for ON)"),
        ("ABSENT", "ON", "ABSENT is no option of this tree (asked for ON)"),
    ],
)
def test_what_was_asked_and_what_it_became(name: str, asked: str, said: str | None) -> None:
    wrong = cmake_cache.disagreements({name: asked}, cmake_cache.parse(TEXT), cmake_cache.unused(OUTPUT))
    assert wrong == ([said] if said else [])
