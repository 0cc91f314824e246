# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.host import clock
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees


def test_clock(tmp_path: Path) -> None:
    class Clock(trees.Told):
        def now(self) -> float:
            return 1_796_000_000.12345

        def synchronized(self) -> bool:
            return True

    look = trees.look(tmp_path, {"/etc/hostname": ""}, Clock())
    assert clock.clock(look) == {
        "epoch": 1_796_000_000.123,
        "synchronized": True,
        "timezone": "UTC",
        "controller": None,
    }
    assert look.unknowns == []


def test_clock_that_cannot_be_asked(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/etc/hostname": ""}, trees.Broken())
    assert clock.clock(look)["synchronized"] is None
    assert trees.what(look.unknowns) == {"clock.synchronized"}


ZONE = b"TZif2" + bytes(90) + b"\x08\x0aLMT\0CST\0\nCST-8\n"


@pytest.mark.parametrize(
    ("zone", "rule"),
    [
        (ZONE, "CST-8"),
        (ZONE.replace(b"CST-8", b"CET-1CEST,M3.5.0,M10.5.0/3"), "CET-1CEST,M3.5.0,M10.5.0/3"),
        (ZONE.replace(b"CST-8", b"<+0330>-3:30"), "<+0330>-3:30"),
        (ZONE.replace(b"CST-8", b""), None),  # no rule holds from now on
        (b"TZif" + bytes(90) + b"UTC\0\nUTC0\n", None),  # the first version has none
        (b"no zone\nUTC0\n", None),
        (b"", None),
    ],
)
def test_rule_of_a_zone(zone: bytes, rule: str | None) -> None:
    assert clock.parse_rule(zone) == rule


def test_timezone_by_its_link_by_its_file_and_unknown(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/etc/hostname": ""})
    link = tmp_path / "etc/localtime"
    link.symlink_to("../usr/share/zoneinfo/Asia/Shanghai")
    assert clock.timezone(look) == "Asia/Shanghai"
    link.unlink()
    link.write_bytes(ZONE)
    assert clock.timezone(look) == "CST-8"
    assert look.unknowns == []
    link.write_bytes(b"TZif2")
    assert clock.timezone(look) is None
    assert trees.what(look.unknowns) == {"clock.timezone"}
    trees.tree(tmp_path, {"/etc/timezone": "Europe/Berlin\n"})
    assert clock.timezone(look) == "Europe/Berlin"
