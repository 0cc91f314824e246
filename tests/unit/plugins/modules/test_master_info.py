# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import store_master
from ansible_collections.mooncake.pd.plugins.modules import master_info

from .conftest import RunModule

UNIT = "mooncake-pd-master.service"
METRICS = """# HELP master_key_count Total
master_key_count {keys}
master_active_clients {clients}
master_allocated_bytes 113000
master_total_capacity_bytes 67108864
"""
LEADS = {
    "status": "ok",
    "role": "leader",
    "ha_state": "serving",
    "service_ready": True,
    "leader_address": "10.0.0.1:17051",
}
STANDS_BY = {**LEADS, "role": "standby", "ha_state": "standby", "service_ready": False}


class Master:
    health: str | None = json.dumps(LEADS)
    metrics: str | None = METRICS.format(keys=14, clients=1)


@pytest.fixture
def master() -> Iterator[tuple[Master, str]]:
    told = Master()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = {"/health": told.health, "/metrics": told.metrics}[self.path]
            self.send_response(503 if body is None else 200)
            self.end_headers()
            self.wfile.write((body or "").encode())

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield told, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def look(run_module: RunModule, monkeypatch: pytest.MonkeyPatch, master: tuple[Master, str]) -> Any:
    def ask(state: str = "active") -> dict[str, Any]:
        shown = f"Id={UNIT}\nLoadState=loaded\nActiveState={state}\nMainPID=0\n"
        monkeypatch.setattr(AnsibleModule, "run_command", lambda self, command, **more: (0, shown, ""))
        # a proxy would answer for it
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        return run_module(master_info, url=master[1], unit=UNIT, timeout=2)

    return ask


def test_one_that_leads_has_something_to_lose(look: Any) -> None:
    seen = look()
    assert (seen["running"], seen["role"], seen["state"], seen["leader"]) == (
        True,
        "leader",
        "serving",
        "10.0.0.1:17051",
    )
    assert (seen["key_count"], seen["clients"], seen["bytes"], seen["capacity"]) == (14, 1, 113000, 67108864)
    assert (seen["in_use"], seen["changed"], seen["error"]) == (True, False, "")


@pytest.mark.parametrize(
    ("health", "metrics", "in_use"),
    [
        (json.dumps(LEADS), METRICS.format(keys=0, clients=0), False),
        (json.dumps(LEADS), METRICS.format(keys=3, clients=0), True),
        (json.dumps(LEADS), METRICS.format(keys=0, clients=2), True),
        (json.dumps(STANDS_BY), METRICS.format(keys=0, clients=0), False),
        # releases before 0.3.11
        ("OK", METRICS.format(keys=0, clients=0), False),
        ("OK", METRICS.format(keys=1, clients=1), True),
        # what cannot be learnt may be everything
        (json.dumps(LEADS), None, True),
        (json.dumps(LEADS), "nothing of that kind 1\n", True),
        (None, None, True),
        ("[]", METRICS.format(keys=0, clients=0), False),
    ],
)
def test_what_would_be_lost(
    look: Any, master: tuple[Master, str], health: str | None, metrics: str | None, in_use: bool
) -> None:
    master[0].health, master[0].metrics = health, metrics
    seen = look()
    assert seen["in_use"] is in_use
    assert bool(seen["error"]) is (health is None or metrics is None)


def test_what_does_not_run_is_not_asked(look: Any) -> None:
    seen = look("inactive")
    assert (seen["running"], seen["in_use"], seen["error"], seen["role"], seen["release"]) == (
        False,
        False,
        "",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("program", "told", "release"),
    [
        ("mooncake_master", "mooncake_master version 0.3.13.post1 (git: 7197358)\n", "0.3.13.post1"),
        ("mooncake_master", "exe version v0.3.11-rc1\n", "0.3.11-rc1"),
        # what an older release says
        ("mooncake_master", "", "0.3.11.post1"),
        # the program of the process was replaced, so what lies there now says nothing
        ("mooncake_master (deleted)", "mooncake_master version 0.3.13.post1\n", "0.3.11.post1"),
        ("python3.11", "python version 3.11.2\n", "0.3.11.post1"),
    ],
)
def test_the_release_that_runs(tmp_path: Path, program: str, told: str, release: str) -> None:
    (tmp_path / "7").mkdir()
    path = tmp_path / program
    if "deleted" not in program:
        path.touch()
    os.symlink(path, tmp_path / "7" / "exe")
    (tmp_path / "7" / "environ").write_bytes(b"HOME=/\0MOONCAKE_PD_MOONCAKE=0.3.11.post1\0")
    assert store_master.release_of(7, lambda command: (0, told, ""), str(tmp_path)) == release
    assert store_master.release_of(8, lambda command: (0, told, ""), str(tmp_path)) is None
