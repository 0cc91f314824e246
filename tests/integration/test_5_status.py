# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real service is looked at while it is well, hurt and stopped; and it is stopped in an order that loses nothing.

The tests tell one story: each goes on where the one before it ended, and the last leaves the service as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Lab, Play, Runner
from .test_2_service import ask, wait_until

FRONT, WATCHER = "mooncake-pd-router.service", "mooncake-pd-router-watch.service"
ROUTERS = ("mooncake-pd-router-a.service", "mooncake-pd-router-b.service", WATCHER)
UNITS = {
    FRONT: "it-control",
    **dict.fromkeys(ROUTERS, "it-control"),
    "mooncake-pd-d1.service": "it-d1",
    "mooncake-pd-p1.service": "it-p1",
    "mooncake-pd-master.service": "it-control",
}
Status = Callable[..., tuple[Play, dict[str, Any]]]


@pytest.fixture
def status(play: Runner, tmp_path: Path) -> Status:
    """Run status.yml; returns the run and what it wrote."""

    def run(**more: str) -> tuple[Play, dict[str, Any]]:
        done = play("playbooks/status.yml", extravars={"status_dest": str(tmp_path), **more})
        assert done.changes() == []
        return done, json.loads((tmp_path / "status.json").read_text())

    return run


def told(hosts: Lab, key: str) -> dict[str, str]:
    """One property of every unit."""
    found: dict[str, str] = {}
    for host in dict.fromkeys(UNITS.values()):
        units = [unit for unit, where in UNITS.items() if where == host]
        answers = hosts.exec(host, "systemctl", "show", "--value", "-p", key, *units).split("\n\n")
        found.update(zip(units, answers, strict=True))
    return found


def rules(content: dict[str, Any], name: str) -> list[str]:
    return [each["rule"] for each in content["problems"] if each["severity"] == "error" and each["name"] == name]


def test_status_of_a_service_that_is_well(service: Lab, status: Status) -> None:
    done, content = status()
    assert done.rc == 0, done.stdout
    assert (content["ok"], content["summary"]["as_planned"], content["summary"]["looked_at"]) == (True, 2, 3)
    prefill, decode = content["instances"]
    for one in (prefill, decode):
        assert (one["up"], one["health"], one["in_router"], one["version"]) == (1, "healthy", "yes", "0.32.0")
        assert (one["plan"], one["running"], one["waiting"]) == ("as planned", 0, 0)
        assert content["now"] - 3600 < one["since"] < content["now"]
    assert decode["external_tokens"] > 0  # of the proof that site.yml ends with
    assert {(one["state"], one["plan"], one["ok"]) for one in content["services"]} == {("active", "as planned", True)}
    assert len(content["services"]) == 5
    assert "STATUS integration: 2 instances as planned and healthy" in done.stdout


def test_killed_engine_is_seen(service: Lab, status: Status) -> None:
    service.exec("it-d1", "systemctl", "kill", "-s", "KILL", "mooncake-pd-d1.service")
    done, content = status()
    assert done.rc == 2, done.stdout
    # it waits to be started again, or has been and is loading
    assert rules(content, "d1") in (["restarting"], ["not-healthy"])
    assert re.search(r"  d1 +decode +it-d1 +[01]/1  (down|not healthy) ", done.stdout), done.stdout
    assert "Status of integration: 1 of 2 instances as planned and healthy" in done.message
    assert rules(content, "p1") == []


def test_stop_wants_to_be_confirmed(service: Lab, play: Runner) -> None:
    before = told(service, "InvocationID")
    other = play("playbooks/stop.yml", extravars={"stop_confirm": "another"}, cmdline="--limit decode")
    unknown = play("playbooks/stop.yml", extravars={"stop_only": "p1,x9"})
    for done in (other, unknown):
        assert done.rc == 2, done.stdout
        assert done.message.startswith("Nothing was stopped.")
    assert "confirm it with -e stop_confirm=integration" in other.message
    assert "--limit leaves out it-control, it-p1" in other.message
    assert "x9 is no instance of integration. Mend: name some of" in unknown.message
    # d1 may have come back by itself meanwhile, from the kill before
    after = told(service, "InvocationID")
    assert {unit for unit in UNITS if after[unit] != before[unit]} <= {"mooncake-pd-d1.service", *ROUTERS}


def test_stop_of_the_only_decode_is_refused(service: Lab, play: Runner) -> None:
    # killed by the test before; until it is back nothing is lost by its stop
    wait_until("decode is back", lambda: ask(service, "is it back", limit=5).get("text"), 180)
    done = play("playbooks/stop.yml", extravars={"stop_only": "d1"})
    assert done.rc == 2, done.stdout
    assert "min_healthy" in done.message
    assert done.changes() == []


def test_stop_is_ordered_and_stays(service: Lab, play: Runner, status: Status) -> None:
    foretold = play("playbooks/stop.yml", cmdline="--check")
    assert foretold.rc == 0, foretold.stdout
    assert "inactive" not in told(service, "ActiveState").values()
    done = play("playbooks/stop.yml", extravars={"stop_confirm": "integration"})
    assert done.rc == 0, done.stdout
    assert done.changes() == foretold.changes()
    assert set(told(service, "ActiveState").values()) == {"inactive"}
    # the hosts share this machine's clock
    ended = {unit: int(moment) for unit, moment in told(service, "InactiveEnterTimestampMonotonic").items()}
    assert ended[FRONT] < min(ended[unit] for unit in ROUTERS)
    assert max(ended[unit] for unit in ROUTERS) < ended["mooncake-pd-d1.service"] < ended["mooncake-pd-p1.service"]
    assert ended["mooncake-pd-p1.service"] < ended["mooncake-pd-master.service"]

    again = play("playbooks/stop.yml", extravars={"stop_confirm": "integration"})
    assert (again.rc, again.changes()) == (0, [])
    looked, content = status(status_format="json")
    assert looked.rc == 2
    assert "INSTANCE" not in looked.stdout.split("PLAY [Tell how")[1].split("FAILED")[0]
    assert looked.result("mooncake.pd.status_report")["status"] == content
    assert {each["rule"] for each in content["problems"] if each["severity"] == "error"} == {"stopped"}
    assert len(content["problems"]) == len(UNITS)


def test_start_brings_all_of_it_back(service: Lab, play: Runner, status: Status) -> None:
    started = play("playbooks/start.yml")
    assert started.rc == 0, started.stdout
    done, content = status()
    assert done.rc == 0, done.stdout
    assert content["problems"] == []
