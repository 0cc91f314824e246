# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import hccn_conf

GOOD = """# NPUs of this host
netmask_0=255.255.0.0
address_0=203.0.113.10
netdetect_0=203.0.113.1
gateway_0=203.0.113.1
send_arp_status_0=1
tls_enable_0=0

address_11=203.0.113.21
"""


def test_all_of_it() -> None:
    assert hccn_conf.parse(GOOD.encode()) == {
        "type": "file",
        "crlf": False,
        "addresses": {"0": "203.0.113.10", "11": "203.0.113.21"},
        "netmasks": {"0": "255.255.0.0"},
        "gateways": {"0": "203.0.113.1"},
        "netdetect": {"0": "203.0.113.1"},
        "tls": {"0": "0"},
        "repeated": [],
        "bad_lines": [],
        "empty": [],
    }


def test_line_ends_of_windows() -> None:
    found = hccn_conf.parse(GOOD.replace("\n", "\r\n").encode())
    assert found["crlf"]
    assert found["addresses"] == {"0": "203.0.113.10", "11": "203.0.113.21"}
    assert found["bad_lines"] == []


def test_empty_value_and_repeated_key() -> None:
    found = hccn_conf.parse(b"address_0=203.0.113.10\naddress_1=\naddress_0=203.0.113.12\naddress_0=203.0.113.13\n")
    assert found["empty"] == ["address_1"]
    assert found["repeated"] == ["address_0"]
    assert found["addresses"] == {"0": "203.0.113.13"}
    assert found["bad_lines"] == []


@pytest.mark.parametrize(
    "line", ["address_0", "address=203.0.113.10", "address_0 = 203.0.113.10", "address_0=203.0.113.256", "{}"]
)
def test_lines_that_are_not_understood(line: str) -> None:
    found = hccn_conf.parse(f"netmask_0=255.255.0.0\n{line}\n".encode())
    assert found["bad_lines"] == [{"line": 2, "text": line}]


def test_nothing_in_it() -> None:
    assert hccn_conf.parse(b"") == hccn_conf.nothing("file")
    assert hccn_conf.parse(b"\x00\xff\xfe")["bad_lines"]


def test_reading(tmp_path: Path) -> None:
    path = tmp_path / "hccn.conf"
    assert hccn_conf.read(str(path)) == (hccn_conf.nothing("missing"), "")
    path.mkdir()
    assert hccn_conf.read(str(path)) == (hccn_conf.nothing("directory"), "")
    path.rmdir()
    path.write_text(GOOD)
    found, why = hccn_conf.read(str(path))
    assert (found["type"], found["tls"], why) == ("file", {"0": "0"}, "")
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    assert hccn_conf.read(str(path)) == (hccn_conf.nothing("missing"), "")
    path.unlink()
    path.symlink_to(path)
    found, why = hccn_conf.read(str(path))
    assert found["type"] is None
    assert "cannot be read" in why
    path.unlink()
    os.mkfifo(path)
    assert hccn_conf.read(str(path)) == (hccn_conf.nothing(None), "/etc/hccn.conf is no file")
