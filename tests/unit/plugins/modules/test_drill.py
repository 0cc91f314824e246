# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With the real Mooncake it is tried in tests/integration."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.modules import drill

from .conftest import RunModule

MOONCAKE = """
class MooncakeDistributedStore:
    kept = {}

    def setup(self, *given):
        print("CPP noise")
        return SETUP

    def put(self, key, value):
        self.kept[key] = value
        return 0

    def get(self, key):
        return self.kept.get(key, b"") if "/kept/1" not in key else b""

    def remove(self, key, force):
        return 0 if self.kept.pop(key, None) else -704

    def close(self):
        pass
"""
STORE = {"server_address": "127.0.0.1:1", "metadata_server": "P2PHANDSHAKE", "protocol": "tcp", "devices": []}
QUICK = {"least": 1.2, "settle": 0.3, "timeout": 8}


def environment(folder: Path, setup: int = 0) -> str:
    """An environment whose Python has a Mooncake of this file."""
    package = folder / "packages" / "mooncake"
    package.mkdir(parents=True)
    (package / "store.py").write_text(MOONCAKE.replace("SETUP", str(setup)))
    program = folder / "bin" / "python3"
    program.parent.mkdir()
    # -I leaves PYTHONPATH out
    program.write_text(
        f"#!/bin/sh\nshift 2\nexec {sys.executable} -c \"import sys; sys.path.insert(0, '{package.parent}');"
        " exec(compile(sys.argv.pop(1), 'client', 'exec'))\" \"$@\"\n"
    )
    program.chmod(0o755)
    return str(folder)


@pytest.fixture
def place() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def probe(place: str) -> dict[str, Any]:
    return {"name": "target", "kind": "tcp", "urls": [place], "interval": 0.05}


def pool(path: str, **changes: Any) -> dict[str, Any]:
    return {"path": path, "address": "127.0.0.1", "store": STORE, "token": "t", "objects": 4, "size": 9, **changes}


def test_it_watches_a_service_and_the_pool(run_module: RunModule, tmp_path: Path, place: str) -> None:
    answer = run_module(drill, probes=[probe(place)], pool=pool(environment(tmp_path)), **QUICK)
    assert (answer["failed"], answer["strike"]) == (False, None), answer
    target, client = answer["watched"]
    assert (target["name"], target["before"], target["recovered"], target["outage"]) == ("target", True, True, 0)
    assert (client["name"], client["before"], client["failed"]) == ("pool", True, 0)
    told = answer["pool"]
    # one of four cannot be read any more
    assert (told["kept"], told["there"], told["removed"], told["stuck"], told["error"]) == (4, 3, 12, 0, "")


def test_it_fills_as_far_as_it_may(run_module: RunModule, tmp_path: Path) -> None:
    answer = run_module(drill, pool=pool(environment(tmp_path), mode="fill", most=90), **QUICK)
    told = answer["pool"]
    assert (told["filled"]["put"], told["removed"], told["error"]) == (10, 10, "")
    assert told["evicted"] is None  # no master told


def test_what_does_not_serve_is_told_after_the_time(run_module: RunModule) -> None:
    answer = run_module(drill, probes=[probe("127.0.0.1:1")], least=0.2, settle=0.2, timeout=1)
    (target,) = answer["watched"]
    assert (target["before"], target["recovered"], target["reasons"]) == (False, False, ["Connection refused"])
    assert 1 <= answer["seconds"] < 3


@pytest.mark.parametrize(("setup", "said"), [(-900, "did not get in, code -900"), (0, "before it got in")])
def test_a_client_that_does_not_get_in(run_module: RunModule, tmp_path: Path, setup: int, said: str) -> None:
    path = environment(tmp_path, setup) if setup else str(tmp_path)
    answer = run_module(drill, pool=pool(path), least=0.2, settle=0.2, timeout=2)
    assert said in answer["pool"]["error"]
    assert not answer["watched"][0]["before"]


def test_a_unit_that_does_not_run_cannot_be_lost(run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_self: Any, _command: list[str]) -> tuple[int, str, str]:
        return 0, "Id=x.service\nActiveState=inactive\n", ""

    monkeypatch.setattr("ansible.module_utils.basic.AnsibleModule.run_command", run)
    answer = run_module(drill, strike={"unit": "x.service", "how": "kill", "after": 0})
    assert (answer["failed"], answer["strike"]) == (True, None)
    assert "does not run" in answer["msg"]


def test_check_mode_does_nothing(run_module: RunModule) -> None:
    strike = {"unit": "x.service", "how": "kill"}
    answer = run_module(drill, check=True, strike=strike, probes=[probe("127.0.0.1:1")])
    assert (answer["failed"], answer["changed"], answer["watched"]) == (False, False, [])


def test_the_client_runs_as_the_user_and_not_for_ever() -> None:
    given = {**pool("/opt/x", user="mooncake"), "mode": "watch", "most": 0}
    words = drill.command(given, 100)
    assert words[:9] == [
        *("timeout", "--kill-after=5", "220", "runuser", "-u", "mooncake", "--", "/opt/x/bin/python3", "-I")
    ]
