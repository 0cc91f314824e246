# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With the real Mooncake it is tested in tests/integration/pool."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.modules import store_proof

from .conftest import RunModule

MOONCAKE = """
import os, sys


class MooncakeDistributedStore:
    def setup(self, *given):
        print("CPP noise", os.environ["MC_STORE_CLIENT_SETUP_RETRIES"], os.environ.get("MC_STORE_CLUSTER_ID"))
        return 0

    def put(self, key, value):
        return 0 if "full" not in key else -200

    def close(self):
        pass
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An environment whose Python has a Mooncake that says yes."""
    package = tmp_path / "packages" / "mooncake"
    package.mkdir(parents=True)
    (package / "store.py").write_text(MOONCAKE)
    program = tmp_path / "bin" / "python3"
    program.parent.mkdir()
    # -I leaves PYTHONPATH out
    program.write_text(
        f"#!/bin/sh\nshift 2\nexec {sys.executable} -c \"import sys; sys.path.insert(0, '{package.parent}');"
        " exec(compile(sys.argv.pop(1), 'client', 'exec'))\" \"$@\"\n"
    )
    program.chmod(0o755)
    return tmp_path


@pytest.fixture
def master() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def ask(run_module: RunModule, path: Path, server: str, token: str = "t", **changes: Any) -> dict[str, Any]:
    store = {"server_address": server, "protocol": "tcp", "environment": {"MC_STORE_CLUSTER_ID": "lab"}}
    given = {"step": "put", "path": str(path), "address": "127.0.0.1", "store": store, "token": token, **changes}
    return run_module(store_proof, **given)


def test_it_puts_and_changes_nothing(run_module: RunModule, path: Path, master: str) -> None:
    answer = ask(run_module, path, master, sizes=[10, 20])
    assert (answer["failed"], answer["changed"], answer["finding"]) == (False, False, ""), answer
    assert [(item["step"], item["size"]) for item in answer["objects"]] == [("put", 10), ("put", 20)]


def test_it_says_what_is_wrong(run_module: RunModule, path: Path, master: str) -> None:
    answer = ask(run_module, path, master, "full")
    assert (answer["failed"], answer["finding"], answer["objects"]) == (True, "no-space", [])
    assert answer["msg"].startswith("[no-space]")


def test_without_a_master_nothing_is_started(run_module: RunModule, tmp_path: Path) -> None:
    answer = ask(run_module, tmp_path, "127.0.0.1:1")
    assert (answer["failed"], answer["finding"]) == (True, "no-master")


def test_a_path_without_python(run_module: RunModule, tmp_path: Path, master: str) -> None:
    for _turn in range(5):
        assert ask(run_module, tmp_path, master)["finding"] == "crashed"


def test_check_mode_does_nothing(run_module: RunModule, tmp_path: Path) -> None:
    answer = ask(run_module, tmp_path, "127.0.0.1:1", check=True)
    assert (answer["failed"], answer["changed"], answer["objects"]) == (False, False, [])


def test_the_client_runs_as_the_user_and_no_longer_than_it_may() -> None:
    params = {"path": "/opt/x", "timeout": 60, "user": "mooncake"}
    assert store_proof.command(params, {})[:9] == [
        *("timeout", "--kill-after=5", "60", "runuser", "-u", "mooncake", "--", "/opt/x/bin/python3", "-I")
    ]
