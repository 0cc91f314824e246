# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Twins on loopback addresses. Nothing here needs the hosts of the folder above."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "sim" / "npu"))

from harness import Fleet, build


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """An environment of the twin for a release, built once."""
    built: dict[tuple[str, ...], Path] = {}

    def of(ascend: str, mooncake: str = "0.3.11.post1", *more: str) -> Path:
        key = (ascend, mooncake, *more)
        if key not in built:
            built[key] = build(tmp_path_factory.mktemp("twin") / "home", ascend, mooncake, "A3", *more)
        return built[key]

    return of


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    its = Fleet(tmp_path)
    yield its
    its.stop()
