# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.host import names
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees

HOSTS = """127.0.0.1 localhost
127.0.1.1\tp1.example.net P1   # by the installer
192.0.2.11 p1 p1.example.net
127.0.0.53 p10
::1 localhost ip6-localhost
#127.0.2.1 p1-commented
192.0.2.12
"""


@pytest.mark.parametrize(
    ("hostname", "found"),
    [("p1", ["p1.example.net", "P1"]), ("p1.example.net", ["p1.example.net", "P1"]), ("p2", [])],
)
def test_own_name_at_loopback(hostname: str, found: list[str]) -> None:
    assert names.at_loopback(HOSTS, hostname) == found


def test_names(tmp_path: Path) -> None:
    told = trees.Told()
    told.resolves = {"p1": ("p1.example.net", ["127.0.1.1", "192.0.2.11"]), "d1": ("d1", ["192.0.2.21"])}
    look = trees.look(tmp_path, {"/etc/hosts": HOSTS}, told)
    wishes = [{"name": "d1", "address": "192.0.2.22"}, {"name": "d9", "address": "192.0.2.29"}]
    assert names.names(look, wishes) == {
        "hostname": "p1",
        "fqdn": "p1.example.net",
        "own": ["127.0.1.1", "192.0.2.11"],
        "resolved": [
            {"name": "d1", "address": "192.0.2.22", "addresses": ["192.0.2.21"], "error": None},
            {"name": "d9", "address": "192.0.2.29", "addresses": [], "error": "name or service not known"},
        ],
        "hosts_loopback": ["p1.example.net", "P1"],
    }
    assert look.unknowns == []


def test_an_own_name_that_resolves_to_nothing_is_known_but_no_name_server_is_not(tmp_path: Path) -> None:
    class Temporarily(trees.Told):
        def resolve(self, name: str) -> tuple[str, list[str]]:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    look = trees.look(tmp_path, {"/etc/hosts": ""})
    assert names.names(look, [])["own"] == []
    assert look.unknowns == []
    look = trees.look(tmp_path, system=Temporarily())
    found = names.names(look, [])
    assert (found["own"], found["fqdn"]) == ([], "p1")
    assert trees.what(look.unknowns) == {"names.own", "names.fqdn"}


def test_a_name_server_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "SECONDS", 0.2)
    released = threading.Event()

    class Dead(trees.Told):
        def resolve(self, name: str) -> tuple[str, list[str]]:
            released.wait(60)
            return name, []

    look = trees.look(tmp_path, {"/etc/hosts": ""}, Dead())
    begun = time.monotonic()
    found = names.names(look, [{"name": f"d{number}", "address": "192.0.2.1"} for number in range(40)])
    released.set()
    assert time.monotonic() - begun < 30
    assert {entry["error"] for entry in found["resolved"]} == {"no answer within 0.2 s"}
    assert trees.what(look.unknowns) == {"names.own", "names.fqdn"}


def test_a_canonical_name_that_is_an_address_is_none(tmp_path: Path) -> None:
    told = trees.Told()
    told.resolves = {"p1": ("192.0.2.11", ["192.0.2.11"])}
    assert names.names(trees.look(tmp_path, {"/etc/hosts": ""}, told), [])["fqdn"] == "p1"
