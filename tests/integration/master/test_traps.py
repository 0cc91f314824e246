# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real mooncake_master that cannot start: what it says, and what is made of it. On 127.0.0.1 only."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import store_master
from ansible_collections.mooncake.pd.plugins.module_utils.signatures import CauseFinder
from ansible_collections.mooncake.pd.plugins.module_utils.watch import ask_health
from ansible_collections.mooncake.pd.plugins.plugin_utils import master
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.test_master import EVERY
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import cpu, processes

MASTER = "/var/cache/mooncake-pd/engine/bin/mooncake_master"


def taken() -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


def free() -> int:
    with taken() as listener:
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def running(folder: Path, *flags: str, **environment: str) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    metrics = free()
    own = [f"--rpc_address=127.0.0.1 --rpc_port={free()} --metrics_host=127.0.0.1 --metrics_port={metrics}"]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [MASTER, *" ".join(own).split(), *flags],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            cwd=folder,
        )
        try:
            yield process, f"http://127.0.0.1:{metrics}", log
        finally:
            process.kill()
            process.wait()


def end(folder: Path, *flags: str) -> tuple[int, str | None, list[str]]:
    """Exit status, the signature that explains it, and what the log says of errors."""
    with running(folder, *flags) as (process, _url, log):
        code = process.wait(20)
        lines = log.read_text().splitlines()
    finder = CauseFinder([])
    finder.feed(lines)
    cause = finder.cause
    return (
        code,
        cause.signature.name if cause and cause.signature else None,
        [line for line in lines if line[:1] in "EF"],
    )


def test_a_taken_rpc_port_has_no_error_line(tmp_path: Path) -> None:
    with taken() as other:
        assert end(tmp_path, f"--rpc_port={other.getsockname()[1]}") == (1, None, [])


def test_a_taken_port_of_metrics_is_named(tmp_path: Path) -> None:
    with taken() as other:
        code, name, _lines = end(tmp_path, f"--metrics_port={other.getsockname()[1]}")
    assert (code, name) == (1, "address-in-use")


def test_a_taken_port_of_metadata_aborts(tmp_path: Path) -> None:
    with taken() as other:
        flags = ["--enable_http_metadata_server=true", f"--http_metadata_server_port={other.getsockname()[1]}"]
        code, name, _lines = end(tmp_path, *flags)
    assert (code, name) == (-signal.SIGABRT, "metadata-port")


@pytest.mark.parametrize(
    ("flag", "code", "name"),
    [
        ("--offload_on_evikt=true", 1, "unknown-flag"),
        ("--client_ttl=soon", 1, "flag-value"),
        ("--default_kv_lease_ttl=-5", 1, "flag-value"),
        ("--enable_snapshot=true", -signal.SIGABRT, "master-snapshot"),
    ],
)
def test_flags_that_end_it(tmp_path: Path, flag: str, code: int, name: str) -> None:
    assert end(tmp_path, flag)[:2] == (code, name)


def test_every_flag_that_can_be_planned_is_known_to_it() -> None:
    done = subprocess.run([MASTER, "--helpxml"], capture_output=True, text=True, check=False)
    assert [name for name in master.FLAGS if f"<name>{name}</name>" not in done.stdout] == []


def test_what_is_planned_is_taken_and_serves(tmp_path: Path) -> None:
    raw = cpu()
    raw["master"].update(EVERY, http_metadata_server_port=free())
    planned = processes(raw, "control")["master"]["unit"]["argv"]
    # the addresses of the plan are not here
    flags = [flag for flag in planned[1:] if not flag.startswith(("--rpc_address", "--rpc_port", "--metrics_"))]
    with running(tmp_path, *flags, MOONCAKE_SNAPSHOT_LOCAL_PATH=str(tmp_path)) as (process, url, log):
        until = time.monotonic() + 20
        while ask_health(f"{url}/health", {"service_ready": True})[0] and time.monotonic() < until:
            time.sleep(0.1)
        health, why = store_master.ask(url, "/health", 5)
        metrics, _why = store_master.ask(url, "/metrics", 5)
        assert why == "", log.read_text()
        told = store_master.told(health, metrics)
        assert (told["role"], told["service_ready"], told["in_use"]) == ("leader", True, False)
        assert (told["clients"], told["key_count"]) == (0, 0)
        assert json.loads(health or "")["leader_address"] is None
        assert store_master.release_of(process.pid, run) == raw["mooncake"]["version"]


def run(command: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr
