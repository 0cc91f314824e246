# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real mooncake_master and real mooncake_client as the plan starts them, on loopback addresses.

MOONCAKE_PD_TEST_MOONCAKE names a Python environment with Mooncake; without it the tests fail.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils import master as masters
from ansible_collections.mooncake.pd.plugins.plugin_utils import store as stores
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import connectors_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Process
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import read_topology
from ansible_collections.mooncake.pd.tests.unit.plugins.modules.conftest import run_module  # noqa: F401

HOSTS = {"control": "127.0.90.10", "p1": "127.0.90.11", "d1": "127.0.90.21", "s1": "127.0.90.41", "s2": "127.0.90.42"}
START_SECONDS = 60  # on a busy machine


@pytest.fixture(scope="session")
def environment() -> Path:
    path = Path(os.environ.get("MOONCAKE_PD_TEST_MOONCAKE", ""))
    if not os.access(path / "bin" / "mooncake_client", os.X_OK):
        pytest.fail(
            "MOONCAKE_PD_TEST_MOONCAKE has to name an environment with Mooncake; these tests are of no worth without"
        )
    return path


class Pool:
    """Two nodes of 96 MiB. Ports on loopback are one host's, so each node has one of its own.

    The planner makes them, but not its rules, which refuse addresses of loopback and a disk in a folder of tests.
    """

    def __init__(self, disk: Path | None = None) -> None:
        second: dict[str, Any] = {"host": "s2", "segment_size": "96MiB", "port": 19054}
        if disk:
            second["ssd"] = {"path": str(disk), "quota": "1GiB"}
        raw = {
            "plugin": "mooncake.pd.topology",
            "name": "pool",
            "engine": {"kind": "vllm_cpu", "version": "0.32.0"},
            "connector": {"name": "MooncakeConnector", "also": [{"name": "MooncakeStoreConnector"}]},
            "mooncake": {"version": "0.3.13.post1"},
            "model": {"path": "/srv/tiny", "served_name": "tiny"},
            "hosts": {name: {"address": address} for name, address in HOSTS.items()},
            "prefill": [{"name": "p1", "host": "p1"}],
            "decode": [{"name": "d1", "host": "d1"}],
            "master": {"host": "control", "rpc_port": 19051, "metrics_port": 19003},
            "store": {
                "segment_size": 0,
                "nodes": [{"host": "s1", "segment_size": "96MiB", "port": 19053}, second],
            },
        }
        reading = read_topology(raw)
        assert reading.topology, reading.problems
        topology, connector = reading.topology, connectors_of("vllm_cpu")["MooncakeConnector"]
        assert topology.master
        assert topology.store
        made = [*masters.processes(topology, topology.master), *stores.processes(topology, topology.store, connector)]
        self.processes = {process.host: process for process in made}
        self.told = stores.told(topology, topology.store, connector)

    def asked(self, path: str) -> str:
        """What the master says on its metrics port."""
        with urllib.request.urlopen(f"http://{HOSTS['control']}:19003/{path}", timeout=10) as answer:
            return str(answer.read().decode())


class Unit:
    """A process as systemd would run it: the argument vector and the environment of the plan, and nothing else."""

    def __init__(self, process: Process, environment: Path, log: Path) -> None:
        self.process, self.log = process, log
        program = environment / "bin" / process.argv[0]
        with log.open("wb") as out:
            self.running = subprocess.Popen(
                [program, *process.argv[1:]], env=dict(process.environment), stdout=out, stderr=out
            )

    def wait_until_ready(self) -> None:
        until = time.monotonic() + START_SECONDS
        claims = [claim for claim in self.process.claims if claim.kind == "exact"]
        while time.monotonic() < until:
            text = self.log.read_text(errors="replace")
            assert self.running.poll() is None, text
            lines = all(re.search(line.pattern, text) for line in self.process.lines)
            if lines and all(answers(claim.address, claim.first) for claim in claims):
                return
            time.sleep(0.05)
        pytest.fail(f"{self.process.name} is not ready after {START_SECONDS} s: {self.log.read_text(errors='replace')}")

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.running.send_signal(how)
        return self.running.wait(timeout=self.process.timeout_stop)


def answers(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True


Start = Callable[..., Unit]


@pytest.fixture
def start(environment: Path, tmp_path: Path) -> Iterator[Start]:
    started: list[Unit] = []

    def run(pool: Pool, host: str) -> Unit:
        unit = Unit(pool.processes[host], environment, tmp_path / f"{host}.log")
        started.append(unit)
        unit.wait_until_ready()
        return unit

    yield run
    for unit in reversed(started):
        if unit.running.poll() is None:
            unit.stop()
