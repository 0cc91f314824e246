# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two ends of a proof with the real transfer engine on the loopback, and what goes wrong with it.

Only systemd is put in place; test_transport.py has the real one, on hosts.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.module_utils import basic
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import systemd
from ansible_collections.mooncake.pd.plugins.module_utils import transfer_bench_units as units
from ansible_collections.mooncake.pd.plugins.module_utils import transfer_proof_units as proof
from ansible_collections.mooncake.pd.plugins.modules import transfer_offer, transfer_proof
from ansible_collections.mooncake.pd.plugins.plugin_utils import transport

from .conftest import CACHE

ENGINE = CACHE / "engine"
HERE = "127.0.0.1"
SIZE = 1 << 20
# a connection that has ended holds its port for a minute
PORTS = [18600, 19111]


class Ended(Exception):
    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer)
        self.answer = answer


class Machine:
    """What systemd-run and systemctl do, as far as the modules ask for it, with processes of this test."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def run_command(self, argv: list[str], data: str | None = None, **_more: Any) -> tuple[int, str, str]:
        if argv[0] == "systemd-run":
            return self._run(argv, data)
        if argv[:2] == ["systemctl", "stop"]:
            for name in argv[3:]:
                self.end(name, signal.SIGTERM)
        return 0, "", ""

    def _run(self, argv: list[str], data: str | None) -> tuple[int, str, str]:
        place = argv.index("--")
        options = [word.partition("=")[::2] for word in argv[:place]]
        set_ = dict(value.split("=", 1) for key, value in options if key == "--setenv")
        properties = dict(value.split("=", 1) for key, value in options if key == "--property")
        name = dict(options)["--unit"]
        environment = {"PATH": os.defpath, **set_}
        if "--wait" in argv:
            limit = int(properties["RuntimeMaxSec"])
            done = subprocess.run(
                argv[place + 1 :],
                input=data,
                env=environment,
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
            return done.returncode, done.stdout, done.stderr
        with ExitStack() as stack:
            files = {
                key: stack.enter_context(Path(properties[f"Standard{key}"].removeprefix("file:")).open(mode))
                for key, mode in (("Input", "rb"), ("Output", "r+b"), ("Error", "r+b"))
            }
            self.processes[name] = subprocess.Popen(
                argv[place + 1 :],
                stdin=files["Input"],
                stdout=files["Output"],
                stderr=files["Error"],
                env=environment,
            )
        return 0, "", ""

    def end(self, name: str, how: signal.Signals) -> None:
        process = self.processes.get(name)
        if process:
            process.send_signal(how)
            process.wait(20)

    def show(self, _run: Any, names: list[str]) -> dict[str, systemd.Unit]:
        running = {name for name, process in self.processes.items() if process.poll() is None}
        return {
            name: systemd.Unit(name, LoadState="loaded", ActiveState="active")
            if name in running
            else systemd.Unit(name)
            for name in names
        }


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine()
    monkeypatch.setattr(AnsibleModule, "run_command", lambda self, argv, **more: made.run_command(argv, **more))
    monkeypatch.setattr(systemd, "show", made.show)
    monkeypatch.setattr(units, "LOGS", str(tmp_path))
    yield made
    for name in made.processes:
        made.end(name, signal.SIGKILL)


@pytest.fixture
def run(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Any:
    def leave(self: AnsibleModule, **answer: Any) -> None:
        raise Ended(json.loads(json.dumps(answer)))  # as it goes over the wire

    monkeypatch.setattr(AnsibleModule, "exit_json", leave)
    monkeypatch.setattr(AnsibleModule, "fail_json", leave)

    def run_module(module: ModuleType, **params: Any) -> dict[str, Any]:
        arguments = {**params, "_ansible_remote_tmp": "/tmp", "_ansible_keep_remote_files": False}
        monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode())
        monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
        with pytest.raises(Ended) as ended:
            module.main()
        return ended.value.answer

    return run_module


COMMON: dict[str, Any] = {"path": str(ENGINE), "address": HERE, "size": SIZE, "ports": PORTS, "timeout": 10}


class Two:
    """d1 offers, p1 proves."""

    def __init__(self, run: Any, *protocols: str, **more: Any) -> None:
        self.run, self.protocols, self.more = run, list(protocols or ("tcp",)), {**COMMON, **more}
        self.offer = self.offered()

    def offered(self) -> dict[str, Any]:
        return self.run(transfer_offer, protocols=self.protocols, sources=["p1"], **self.more)["offer"]

    def proven(self, **more: Any) -> list[dict[str, Any]]:
        offers = {"d1": self.offer, "p1": {"protocols": {p: {"rule": "", "problem": ""} for p in self.protocols}}}
        told = self.run(
            transfer_proof, name="p1", peers=["d1"], offers=offers, protocols=self.protocols, **{**self.more, **more}
        )
        return told["proof"]["results"]

    def witness(self) -> dict[str, Any]:
        return self.run(transfer_offer, state="stopped")["witness"]

    def judged(self, results: list[dict[str, Any]]) -> list[transport.Row]:
        hosts = {"p1": transport.Told(["d1"], results), "d1": transport.Told([], witness=self.witness())}
        return transport.rows(hosts, self.protocols)


def test_memory_is_read_and_written_and_both_ends_say_so(run: Any, machine: Machine, tmp_path: Path) -> None:
    two = Two(run)
    offered = two.offer["protocols"]["tcp"]
    assert (offered["rule"], offered["installed"]) == ("", "tcp")
    assert PORTS[0] <= int(offered["segment"].rpartition(":")[2]) <= PORTS[1]
    begun = time.monotonic()
    (result,) = two.proven()
    print(f"proof of one pair: {time.monotonic() - begun:.2f} s, {result}")
    assert (result["rule"], result["problem"], result["installed"]) == ("", "", "tcp")
    assert result["read"] > 0
    assert result["write"] > 0
    assert (result["registered"], result["segment"]) == (2 * SIZE, offered["segment"])
    (row,) = two.judged([result])
    assert (row.rule, row.pair) == ("", "p1-d1")
    assert row.read
    assert row.read > 1e6
    assert list(tmp_path.iterdir()) == []


def test_claims_of_the_plan_are_left_alone(run: Any, machine: Machine) -> None:
    two = Two(run, claims=[{"first": PORTS[0], "last": PORTS[0] + 20, "purpose": "api"}])
    assert int(two.offer["protocols"]["tcp"]["segment"].rpartition(":")[2]) > PORTS[0] + 20


def test_engine_that_silently_falls_back_to_tcp(run: Any, machine: Machine) -> None:
    """The real engine, asked for RDMA on a machine without: it answers 0 and moves bytes over TCP."""
    two = Two(run, "tcp", "rdma")
    told = two.offer["protocols"]
    assert told["tcp"]["rule"] == ""
    assert (told["rdma"]["rule"], told["rdma"]["problem"]) == (
        "fallback",
        "rdma is planned, the engine has installed tcp",
    )
    tcp, rdma = two.proven()
    assert (tcp["rule"], rdma["rule"]) == ("", "fallback")
    assert (rdma["problem"], rdma["host"]) == ("rdma is planned, the engine has installed tcp", "d1")
    assert (rdma["read"], rdma["write"], rdma["installed"]) == (None, None, "tcp")


def test_peer_sees_a_fallback_that_the_host_did_not_tell(run: Any, machine: Machine) -> None:
    two = Two(run)
    two.protocols = ["rdma"]
    two.offer["protocols"] = {"rdma": two.offer["protocols"]["tcp"]}
    (result,) = two.proven()
    assert (result["rule"], result["installed"]) == ("fallback", "tcp")


def test_npu_without_cann(run: Any, machine: Machine) -> None:
    two = Two(run, "ascend")
    assert two.offer["protocols"]["ascend"]["rule"] == "device"
    assert "libascendcl.so" in two.offer["protocols"]["ascend"]["problem"]
    assert two.proven()[0]["rule"] == "device"


def test_wrong_address(run: Any, machine: Machine) -> None:
    """Nobody there, one that takes connections and is no engine, and another engine."""
    two = Two(run)
    offered = two.offer["protocols"]["tcp"]
    right = offered["segment"]
    with socket.create_server((HERE, 0)) as busy:
        busy.listen()
        free = socket.create_server((HERE, 0))
        closed = free.getsockname()[1]
        free.close()
        offered["segment"] = f"{HERE}:{closed}"
        (result,) = two.proven()
        assert (result["rule"], result["problem"]) == (
            "address",
            f"nobody answers at {HERE}:{closed}: Connection refused",
        )
        silent = busy.getsockname()[1]
        offered["segment"] = f"{HERE}:{silent}"
        begun = time.monotonic()
        (result,) = two.proven(timeout=1)
        assert (result["rule"], result["problem"]) == ("address", f"nobody answers at {HERE}:{silent} within 1 s")
        assert time.monotonic() - begun < 5
    offered["segment"] = right.replace(HERE, "127.0.0.2")
    (result,) = two.proven()
    assert result["rule"] == "stranger"
    assert f"is answered by another engine, which calls itself {right}" in result["problem"]


def test_memory_that_is_not_registered_is_not_touched(run: Any, machine: Machine) -> None:
    two = Two(run)
    offered = two.offer["protocols"]["tcp"]
    offered["address"] += 1 << 30
    (result,) = two.proven()
    assert (result["rule"], result["read"]) == ("unregistered", None)
    assert "are not among the 1 buffers" in result["problem"]


def test_engine_refuses_memory_that_is_not_registered(run: Any, machine: Machine) -> None:
    """What the descriptor does not tell beforehand is told by the transfer itself."""
    two = Two(run)
    two.offer["protocols"]["tcp"]["slots"]["p1"] += 1 << 30
    (result,) = two.proven()
    assert result["rule"] == "write"
    assert "rejected" in result["problem"]
    assert result["read"]


def test_other_bytes_than_were_offered(run: Any, machine: Machine) -> None:
    two = Two(run)
    offered = two.offer["protocols"]["tcp"]
    # one byte further on: all calls succeed
    offered["slots"]["p1"] -= 1
    (result,) = two.proven()
    assert result["rule"] == ""
    (row,) = two.judged([result])
    assert (row.rule, row.problem) == ("checksum-write", "writing answers success, and other bytes have arrived")

    two = Two(run)
    offered = two.offer["protocols"]["tcp"]
    offered["digest"] = "0" * 64
    (result,) = two.proven()
    assert result["rule"] == "checksum-read"


def test_target_dies_before_and_in_the_middle(run: Any, machine: Machine) -> None:
    two = Two(run)
    machine.end(proof.unit("tcp"), signal.SIGKILL)
    results = two.proven()
    assert results[0]["rule"] == "address"
    (row,) = two.judged(results)
    assert row.rule == "died"
    assert "the engine ended in the middle" in row.problem

    two = Two(run)
    results = two.proven()
    assert results[0]["rule"] == ""
    machine.end(proof.unit("tcp"), signal.SIGKILL)
    (row,) = two.judged(results)
    assert row.rule == "died"


def test_target_that_hangs(run: Any, machine: Machine) -> None:
    two = Two(run)
    process = machine.processes[proof.unit("tcp")]
    process.send_signal(signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        (result,) = two.proven(timeout=1)
    finally:
        process.send_signal(signal.SIGCONT)
    assert (result["rule"], "within 1 s" in result["problem"]) == ("address", True)


def test_without_mooncake(run: Any, machine: Machine, tmp_path: Path) -> None:
    two = Two(run, path=str(tmp_path / "none"))
    assert two.offer["protocols"]["tcp"] == {
        "rule": "mooncake",
        "problem": f"{tmp_path / 'none'} holds no Python (bin/python), so no Mooncake",
    }
    two = Two(run, path="/usr/bin/python3")
    assert "mooncake.engine cannot be imported" in two.offer["protocols"]["tcp"]["problem"]
    assert two.proven()[0]["rule"] == "mooncake"


@pytest.fixture
def metadata() -> Iterator[str]:
    with socket.create_server((HERE, 0)) as found:
        port = found.getsockname()[1]
    program = ENGINE / "bin/mooncake_http_metadata_server"
    server = subprocess.Popen(
        [program, "--host", HERE, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _turn in range(100):
            try:
                socket.create_connection((HERE, port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://{HERE}:{port}/metadata"
    finally:
        server.terminate()
        server.wait(10)


def test_metadata_server_and_a_dead_one(run: Any, machine: Machine, metadata: str) -> None:
    two = Two(run, metadata=metadata)
    assert two.offer["protocols"]["tcp"]["rule"] == ""
    (result,) = two.proven()
    assert (result["rule"], result["problem"]) == ("", "")
    (dead,) = two.proven(metadata=metadata.replace(HERE, "127.0.0.3"))
    (row,) = two.judged([result])
    assert row.rule == ""
    assert dead["rule"] == "metadata"
    assert "gives no answer: Connection refused" in dead["problem"]
    two = Two(run, metadata=metadata.replace(HERE, "127.0.0.3"))
    assert two.offer["protocols"]["tcp"]["rule"] == "metadata"
