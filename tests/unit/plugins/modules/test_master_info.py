# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import http.server
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
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
    def ask(state: str = "active", command: Sequence[str] = (), **params: Any) -> dict[str, Any]:
        shown = f"Id={UNIT}\nLoadState=loaded\nActiveState={state}\nMainPID={7 if command else 0}\n"
        monkeypatch.setattr(store_master, "command_of", lambda pid: list(command))
        monkeypatch.setattr(store_master, "release_of", lambda pid, run: "0.3.11.post1")
        monkeypatch.setattr(AnsibleModule, "run_command", lambda self, command, **more: (0, shown, ""))
        # a proxy would answer for it
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        return run_module(master_info, **{"url": master[1], "unit": UNIT, "timeout": 2, **params})

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


def test_the_command_of_a_process(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_bytes(b"/opt/mooncake_master\0--rpc_port=17051\0--cluster_id=\0")
    assert store_master.command_of(7, str(tmp_path)) == ["/opt/mooncake_master", "--rpc_port=17051", "--cluster_id="]
    assert store_master.command_of(8, str(tmp_path)) == []


def test_one_that_runs_elsewhere_than_planned_is_asked_where_it_runs(look: Any, master: tuple[Master, str]) -> None:
    port = master[1].rpartition(":")[2]
    command = ["mooncake_master", "--metrics_host=127.0.0.1", f"--metrics_port={port}"]
    seen = look(command=command, url="http://192.0.2.1:9")
    assert (seen["error"], seen["key_count"]) == ("", 14)
    # releases before 0.3.13 listen on all addresses
    assert look(command=["mooncake_master", f"--metrics_port={port}"], url="http://127.0.0.1:9")["key_count"] == 14


@pytest.mark.parametrize("serves", [True, False])
def test_one_that_stands_by_is_settled_when_the_one_that_it_follows_serves(
    look: Any, master: tuple[Master, str], serves: bool
) -> None:
    """One server is both here."""
    master[0].health = json.dumps({**STANDS_BY, "service_ready": serves})
    seen = look(leaders={"10.0.0.1:17051": master[1]})
    assert seen["settled"] is serves
    assert ("it is standby" in seen["leader_error"]) is not serves


def test_waiting_ends_when_its_time_is_over_and_at_once_when_there_is_nothing_to_wait_for(
    look: Any, master: tuple[Master, str]
) -> None:
    leaders = {"10.0.0.1:17051": "http://127.0.0.1:1"}
    began = time.monotonic()
    assert look(leaders=leaders, wait=60)["settled"] is True  # it leads
    assert look("inactive", leaders=leaders, wait=60)["settled"] is False
    master[0].health = json.dumps(STANDS_BY)
    assert look(wait=60)["settled"] is True  # nobody says who might lead
    assert time.monotonic() - began < 5
    began = time.monotonic()
    seen = look(leaders=leaders, wait=1.2)
    assert seen["settled"] is False
    assert "refused" in seen["leader_error"]
    assert 0.5 < time.monotonic() - began < 4


def test_one_that_follows_a_stranger_is_told_so(look: Any, master: tuple[Master, str]) -> None:
    master[0].health = json.dumps(STANDS_BY)
    seen = look(leaders={"10.0.0.2:17051": "http://127.0.0.1:1"})
    assert "stands by for 10.0.0.1:17051, which is none of the planned masters (10.0.0.2:17051)" in seen["misled"]


def test_what_is_planned_decides_whether_it_may_restart(look: Any) -> None:
    command = ["mooncake_master", "--rpc_port=17051", "--enable_ha=true"]
    assert look(command=command, argv=command, release="0.3.11.post1")["refusal"] == ""
    assert "0.3.13" in look(command=command, argv=command, release="0.3.13")["refusal"]
    assert "17052" in look(command=command, argv=["--rpc_port=17052", "--enable_ha=true"])["refusal"]
