# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real hosts for the tests of this folder, and playbooks run through ansible-runner and judged by its events."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible_runner
import pytest

ROOT = Path(__file__).parents[2]
INVENTORY = Path(__file__).parent / "inventory"
CACHE = Path("/var/cache/mooncake-pd")
FAILED = ("runner_on_failed", "runner_on_unreachable")


@dataclass
class Play:
    """What a playbook run did, by ansible-runner's events."""

    rc: int
    seconds: float
    events: list[dict[str, Any]]
    stdout: str

    @property
    def failures(self) -> list[tuple[str, str, str]]:
        """(host, task, message) of everything that failed."""
        return [
            (data["host"], data["task"], str(data["res"].get("msg", "")))
            for data in (e["event_data"] for e in self.events if e["event"] in FAILED)
        ]

    @property
    def message(self) -> str:
        return "\n".join(message for _host, _task, message in self.failures)

    def tasks(self) -> list[str]:
        return [e["event_data"]["task"] for e in self.events if e["event"] == "runner_on_ok"]

    def result(self, action: str) -> dict[str, Any]:
        """What the last task with this module returned."""
        found = [e["event_data"] for e in self.events if e["event"] in ("runner_on_ok", "runner_on_failed")]
        return next(data["res"] for data in reversed(found) if data["task_action"] == action)

    def changes(self) -> list[str]:
        return [
            f"{e['event_data']['host']}: {e['event_data']['task']}"
            for e in self.events
            if e["event"] == "runner_on_ok" and e["event_data"]["res"].get("changed")
        ]


class Lab:
    """The hosts; every command runs inside them, none on this machine."""

    def __init__(self, name: str) -> None:
        self.name = name

    def exec(self, host: str, *command: str, check: bool = True) -> str:
        done = subprocess.run(
            [ROOT / "tests/hosts/lab", "exec", self.name, host, "--", *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, f"{host}: {command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def shell(self, host: str, script: str, check: bool = True) -> str:
        return self.exec(host, "sh", "-c", script, check=check)

    def tool(self, *words: str) -> None:
        subprocess.run([ROOT / "tests/hosts/lab", *words], stdin=subprocess.DEVNULL, check=True)

    def property(self, host: str, unit: str, name: str) -> str:
        return self.exec(host, "systemctl", "show", "--value", "-p", name, unit)


Runner = Callable[..., Play]


@pytest.fixture(scope="session")
def play(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Run a playbook of the collection; on_event sees each event as it comes, and killed ends it as kill -9 does."""

    def run(
        playbook: str,
        *,
        inventory: Path = INVENTORY,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        killed: Callable[[], bool] | None = None,
        cmdline: str = "",
        extravars: dict[str, Any] | None = None,
    ) -> Play:
        private = tmp_path_factory.mktemp("runner")
        started = time.monotonic()
        events: list[dict[str, Any]] = []

        def handle(event: dict[str, Any]) -> bool:
            events.append(event)
            if on_event:
                on_event(event)
            return True

        done = ansible_runner.run(
            private_data_dir=str(private),
            project_dir=str(ROOT),
            playbook=playbook,
            inventory=str(inventory),
            cmdline=cmdline or None,
            extravars=extravars,
            envvars={"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
            event_handler=handle,
            cancel_callback=killed,
            quiet=True,
        )
        stdout = done.stdout.read()
        print(f"{playbook} {cmdline}: rc {done.rc}, {time.monotonic() - started:.1f} s")
        return Play(done.rc, time.monotonic() - started, events, stdout)

    return run


@contextmanager
def fresh_hosts(name: str, inventory: Path) -> Iterator[Lab]:
    """Fresh hosts of an inventory, gone afterwards."""
    lab = Lab(name)
    mounts = [word for folder in ("engine", "router", "model") for word in ("--mount", str(CACHE / folder))]
    lab.tool("down", name)
    lab.tool("up", name, "--inventory", str(inventory), *mounts)
    try:
        yield lab
    finally:
        if not os.environ.get("MOONCAKE_PD_KEEP_HOSTS"):
            lab.tool("down", name)


@pytest.fixture(scope="session")
def hosts() -> Iterator[Lab]:
    with fresh_hosts("integration", INVENTORY) as lab:
        yield lab


@pytest.fixture(scope="session")
def service(hosts: Lab, play: Runner) -> Lab:
    """A running, proven service on the hosts."""
    done = play("site.yml")
    assert done.rc == 0, done.stdout
    return hosts
