# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import elf


def test_a_program_of_this_machine() -> None:
    found = elf.read(os.path.realpath("/bin/sh"))
    assert found is not None
    assert "libc.so.6" in found.needed
    assert found.search == []


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01", b"\x7fELF\x01\x01" + b"\0" * 100])
def test_what_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    assert elf.read(str(tmp_path / "x")) is None


@pytest.mark.parametrize(
    ("search", "said"),
    [
        (["/opt/m/lib"], []),
        (["/elsewhere", "$ORIGIN/../lib/"], []),
        (["${ORIGIN}/../lib"], []),
        (["$ORIGIN"], ["bin/p needs liba.so and looks in /opt/m/bin"]),
        ([], ["bin/p needs liba.so and looks in no folder of its own"]),
    ],
)
def test_what_the_tree_has_is_found_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: list[str], said: list[str]
) -> None:
    for path in ("bin/p", "lib/liba.so"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).touch()
    known = {"p": elf.Dynamic(["liba.so", "libc.so.6"], search)}
    monkeypatch.setattr(elf, "read", lambda path: known.get(os.path.basename(path)))
    assert elf.unresolved(str(tmp_path), "/opt/m") == said
