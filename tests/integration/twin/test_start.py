# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts: ports and log lines by release, ports that are taken, faults, ends."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Fleet, Started, ask, free_port, free_range, sizes, transfer, wait_until

from ansible_collections.mooncake.pd.plugins.module_utils.signatures import CauseFinder

Home = Callable[..., Path]
HOST = "127.0.74.1"
V1, LAYERWISE = "MooncakeConnectorV1", "MooncakeLayerwiseConnector"
ROOT = Path(__file__).parents[3]


class One:
    """One process of tp 2."""

    def __init__(self, fleet: Fleet, home: Path, connector: str = V1, role: str = "kv_producer", **more: Any) -> None:
        self.kv_port = more.pop("kv_port", None) or free_range(2)
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        words = more.pop("words", ())
        config = transfer(connector, role, self.kv_port, sizes((1, 2), (1, 2)))
        self.process: Started = fleet.vllm(
            home,
            *("--host", HOST, "--port", str(self.port), "--served-model-name", "q", "-tp", "2", *words),
            *("--kv-transfer-config", config),
            **{"VLLM_HOST_IP": HOST, "ASCEND_RT_VISIBLE_DEVICES": "6,7", **more},
        )


@pytest.mark.parametrize(
    ("ascend", "mooncake", "connector", "role", "kv_line", "adxl"),
    [
        ("0.11.0", "0.3.7.post2", V1, "kv_producer", "Starting listening on path: tcp://", (26000, 28000)),
        ("0.11.0", "0.3.7.post2", LAYERWISE, "kv_consumer", "Starting listening on path: tcp://", (26000, 28000)),
        (
            "0.23.0",
            "0.3.11.post1",
            V1,
            "kv_producer",
            "KVCacheSendingThread started listening on path: tcp://",
            (20600, 20800),
        ),
        (
            "0.23.0",
            "0.3.11.post1",
            LAYERWISE,
            "kv_consumer",
            "KVCacheRecvingLayerThread listening on tcp://",
            (20600, 20800),
        ),
    ],
)
def test_lines_and_ports(  # noqa: PLR0917 - a table
    fleet: Fleet, home: Home, ascend: str, mooncake: str, connector: str, role: str, kv_line: str, adxl: tuple[int, int]
) -> None:
    its = One(fleet, home(ascend, mooncake), connector, role)
    its.process.wait_healthy(its.url)
    text = its.process.text
    assert len(re.findall(rf"\(Worker_TP\d pid=\d+\) INFO .*{re.escape(kv_line)}{HOST}:", text)) == 2
    ports = [int(p) for p in re.findall(rf"Success to initialize adxl engine:{HOST}:(\d+) with device_id:[67]", text)]
    assert len(ports) == 2
    assert all(adxl[0] <= port <= adxl[1] for port in ports)
    assert len(re.findall(r"listening on [\d.]+:1[5-7]\d\d\d$", text, re.M)) == 2
    for port in (its.kv_port, its.kv_port + 1, *ports):
        with socket.create_connection((HOST, port), 2):
            pass


def test_the_side_that_does_not_bind(fleet: Fleet, home: Home) -> None:
    its = One(fleet, home("0.23.0"), V1, "kv_consumer")
    its.process.wait_healthy(its.url)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, its.kv_port), 2)
    assert "KVCacheSendingThread" not in its.process.text


def taken(port: int) -> socket.socket:
    listener = socket.socket()
    listener.bind((HOST, port))
    listener.listen()
    return listener


def test_a_taken_kv_port_fails_since_0_12(fleet: Fleet, home: Home) -> None:
    first = free_range(2)
    with taken(first + 1):
        its = One(fleet, home("0.23.0"), kv_port=first, MOONCAKE_PD_TWIN_PORT_SECONDS="0.2")
        assert its.process.wait() == 1
    assert its.process.said(f"zmq.error.ZMQError: Address already in use (addr='tcp://{HOST}:{first + 1}')")
    assert its.process.said("RuntimeError: KV Cache sending/receiving thread failed to start.")
    assert its.process.said("Engine core initialization failed. See root cause above. Failed core proc(s): {")


@pytest.mark.parametrize(
    ("ascend", "connector", "role"), [("0.11.0", V1, "kv_producer"), ("0.23.0", LAYERWISE, "kv_consumer")]
)
def test_a_taken_kv_port_hangs(fleet: Fleet, home: Home, ascend: str, connector: str, role: str) -> None:
    first = free_range(2)
    with taken(first):
        its = One(fleet, home(ascend), connector, role, kv_port=first, MOONCAKE_PD_TWIN_PORT_SECONDS="0.2")
        its.process.wait_said("zmq.error.ZMQError: Address already in use")
        time.sleep(1)
        assert its.process.process.poll() is None
    assert ask(f"{its.url}/health").status == 0
    # all that the collection can go by
    finder = CauseFinder()
    finder.feed(its.process.text.splitlines())
    assert finder.proof is not None
    assert finder.proof.signature is not None
    assert finder.proof.signature.name == "address-in-use"


def test_stages_of_a_pipeline_collide_up_to_0_11(fleet: Fleet, home: Home) -> None:
    its = One(fleet, home("0.11.0"), words=("-pp", "2"), ASCEND_RT_VISIBLE_DEVICES="0,1,2,3")
    its.process.wait_said("zmq.error.ZMQError: Address already in use")
    its = One(fleet, home("0.23.0"), words=("-pp", "2"), ASCEND_RT_VISIBLE_DEVICES="0,1,2,3", kv_port=free_range(4))
    its.process.wait_healthy(its.url)


def test_a_full_adxl_range(fleet: Fleet, home: Home) -> None:
    """A base port so that the range of device 6 ends at the port range's end, and all of it taken."""
    base = free_range(101) - 600
    listeners = []
    try:
        for port in range(base + 600, base + 701):
            listener = socket.socket()
            listener.bind(("0.0.0.0", port))
            listener.listen()
            listeners.append(listener)
        its = One(fleet, home("0.23.0"), ASCEND_BASE_PORT=str(base))
        assert its.process.wait() == 1
        assert its.process.said("Find available port failed for device: 6")
        assert its.process.said("TransferEngine initialization failed with ret_value: -1")
    finally:
        for listener in listeners:
            listener.close()


def test_a_taken_api_port(fleet: Fleet, home: Home) -> None:
    first = One(fleet, home("0.23.0"))
    first.process.wait_healthy(first.url)
    second = fleet.vllm(home("0.23.0"), "--host", HOST, "--port", str(first.port), VLLM_HOST_IP=HOST)
    assert second.wait() == 1
    assert second.said("OSError: [Errno 98] Address already in use")


@pytest.mark.parametrize(
    ("fault", "code", "text"),
    [
        ("fatal:ValueError: no such thing", 1, "ValueError: no such thing"),
        ("oom", 1, "NPU out of memory"),
        ("exit:7", 7, ""),
        ("killed", -9, ""),
        ("die-after-ready:0.5", 0, "EngineCore encountered a fatal error"),
    ],
)
def test_faults_that_end_it(fleet: Fleet, home: Home, fault: str, code: int, text: str) -> None:
    its = One(fleet, home("0.23.0"), MOONCAKE_PD_TWIN_FAULT=fault)
    assert its.process.wait() == code
    assert text in its.process.text


@pytest.mark.parametrize("fault", ["hang", "fatal-line:EI0006 no peer", "slow:30"])
def test_faults_that_keep_it_from_ready(fleet: Fleet, home: Home, fault: str) -> None:
    its = One(fleet, home("0.23.0"), MOONCAKE_PD_TWIN_FAULT=fault)
    time.sleep(1.5)
    assert its.process.process.poll() is None
    assert ask(f"{its.url}/health").status == 0
    assert its.process.terminate() == -15


def test_faults_of_a_running_one(fleet: Fleet, home: Home) -> None:
    told = {"engine_faults": {"prefill": "no-kv-ports", "*": "health-503"}}
    (fleet.directory / "state.json").write_text(json.dumps(told))
    its = One(fleet, home("0.23.0"))
    its.process.wait_said("Application startup complete.")
    assert its.process.said("KVCacheSendingThread started listening") == 2
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, its.kv_port), 2)
    wait_until(lambda: ask(f"{its.url}/health").status == 503, "503")


def test_wrong_devices(fleet: Fleet, home: Home) -> None:
    for devices in ("0", "0,16", "1,1"):
        its = One(fleet, home("0.23.0"), ASCEND_RT_VISIBLE_DEVICES=devices)
        assert its.process.wait() == 1
        assert its.process.said("Invalid device ID")


def test_an_address_of_another_host(fleet: Fleet, home: Home) -> None:
    its = One(fleet, home("0.23.0"), VLLM_HOST_IP="192.0.2.77")
    assert its.process.wait() == 1
    assert its.process.said("Failed to initialize AdxlEngine, status: 503900 (Cannot assign requested address)")


def test_a_line_for_each_api_server(fleet: Fleet, home: Home) -> None:
    its = One(fleet, home("0.23.0"), words=("--api-server-count", "3"))
    its.process.wait_healthy(its.url)
    assert its.process.said("Application startup complete.") == 3


@pytest.mark.parametrize(("timeout", "reason"), [("0", "abort"), ("20", "length")])
def test_sigterm_with_a_request_in_flight(fleet: Fleet, home: Home, timeout: str, reason: str) -> None:
    words = ("--shutdown-timeout", timeout)
    its = One(fleet, home("0.23.0"), words=words, MOONCAKE_PD_TWIN_TOKEN_SECONDS="0.05")
    its.process.wait_healthy(its.url)
    body = json.dumps({"prompt": "a", "max_tokens": 40}).encode()
    with socket.create_connection((HOST, its.port), 10) as client:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        wait_until(
            lambda: 'num_requests_running{engine="0",model_name="q"} 1.0' in ask(its.url + "/metrics").text, "runs"
        )
        its.process.process.terminate()
        wait_until(lambda: ask(its.url + "/health").status == 0, "no new connections")
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert its.process.wait() == 0
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["finish_reason"] == reason


def test_the_environment_passes_the_probes(home: Home) -> None:
    its = home("0.11.0", "0.3.7.post2")
    questions = {
        "engine": {"mode": "installed", "path": str(its), "packages": {"vllm": "0.11.0", "vllm-ascend": "0.11.0"}},
        "mooncake": {
            "mode": "installed",
            "installed_version": "",
            "path": str(its),
            "version": "0.3.7.post2",
            "packages": ["mooncake-transfer-engine-npu"],
            "prove": ["engine", "store", "master"],
        },
    }
    for role, question in questions.items():
        probe = ROOT / "roles" / role / "files/probe.py"
        text = json.dumps(question)
        done = subprocess.run(["/usr/bin/python3", str(probe)], input=text, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        assert not any(found.get(key) for key in ("problems", "version_problems", "proof_problems", "foreign")), found


def test_the_environment_spares_a_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    tool = str(ROOT / "tests/sim/npu/environment.py")
    command = [sys.executable, tool, "--vllm-ascend", "0.23.0", "--mooncake", "0.3.9", "--path", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert os.listdir(tmp_path) == ["precious"]


def test_a_host_is_equipped(tmp_path: Path) -> None:
    tool = str(ROOT / "tests/sim/npu/environment.py")
    command = [
        sys.executable,
        tool,
        "--vllm-ascend",
        "0.23.0",
        "--mooncake",
        "0.3.9",
        "--generation",
        "A2",
        "--host-root",
        str(tmp_path),
    ]
    subprocess.run(command, check=True)
    state = json.loads((tmp_path / "etc/mooncake-pd-twin/state.json").read_text())
    assert state == {
        "generation": "A2",
        "chips": 8,
        "address_prefix": "198.18.0",
        "address_first": 10,
        "server_index": 2,
    }
    assert (tmp_path / "etc/hccn.conf").read_text().count("address_") == 8
    assert os.access(tmp_path / "usr/local/Ascend/driver/tools/hccn_tool", os.X_OK)
    assert os.access(tmp_path / "usr/local/bin/npu-smi", os.X_OK)
