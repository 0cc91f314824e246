# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""1P1D with MooncakeLayerwiseConnector behind its proxy."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Fleet, Started, ask, free_port, free_range, sizes, transfer, wait_until

from ansible_collections.mooncake.pd.plugins.module_utils.vllm_metrics import prompt_tokens_by_source

Home = Callable[..., Path]
P_HOST, D_HOST, PROXY = "127.0.72.1", "127.0.72.2", "127.0.72.9"
NAME = "load_balance_proxy_layerwise_server_example.py"
PROMPT = "the quick brown fox jumps over the lazy dog " * 40


class Cluster:
    def __init__(self, fleet: Fleet, home: Path, fault: str = "") -> None:
        kv_port = free_range(2)
        ports = {P_HOST: free_port(), D_HOST: free_port(), PROXY: free_port()}
        self.processes: dict[str, Started] = {}
        for host, role, tp, devices in ((P_HOST, "kv_producer", 4, "0,1,2,3"), (D_HOST, "kv_consumer", 2, "4,5")):
            config = transfer("MooncakeLayerwiseConnector", role, kv_port, sizes((1, 4), (1, 2)))
            self.processes[host] = fleet.vllm(
                home,
                *("--host", host, "--port", str(ports[host]), "--served-model-name", "q", "-tp", str(tp)),
                *("--kv-transfer-config", config),
                VLLM_HOST_IP=host,
                ASCEND_RT_VISIBLE_DEVICES=devices,
                MOONCAKE_PD_TWIN_FAULT=fault if role == "kv_producer" else "",
            )
        for host, process in self.processes.items():
            process.wait_healthy(f"http://{host}:{ports[host]}")
        self.prefill, self.decode, self.url = (f"http://{host}:{port}" for host, port in ports.items())
        self.proxy = fleet.start(
            [
                *(str(home / "bin/python3"), str(home / "bin" / NAME), "--host", PROXY, "--port", str(ports[PROXY])),
                *("--prefiller-hosts", P_HOST, "--prefiller-ports", str(ports[P_HOST])),
                *("--decoder-hosts", D_HOST, "--decoder-ports", str(ports[D_HOST])),
            ]
        )
        wait_until(lambda: ask(f"{self.url}/healthcheck").status == 200, "proxy up")


@pytest.mark.parametrize("ascend", ["0.11.0", "0.23.0"])
def test_prefill_pushes_to_decode(fleet: Fleet, home: Home, ascend: str) -> None:
    its = Cluster(fleet, home(ascend))
    body = {"model": "q", "prompt": PROMPT, "max_tokens": 6}
    answer = ask(f"{its.url}/v1/completions", body).json
    alone = ask(f"{its.prefill}/v1/completions", body).json
    assert answer["choices"][0]["text"] == alone["choices"][0]["text"]
    sources = prompt_tokens_by_source(ask(f"{its.decode}/metrics").text)
    assert sources is not None
    assert sources["external_kv_transfer"] == answer["usage"]["prompt_tokens"]
    assert sources["local_compute"] == 0
    # each decode worker was pushed to
    assert set(re.findall(r"\((Worker_TP\d) .*Got GET META INFO", its.processes[D_HOST].text)) == {
        "Worker_TP0",
        "Worker_TP1",
    }
    chat = {"model": "q", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2, "stream": True}
    assert ask(f"{its.url}/v1/chat/completions", chat).events[-1] == "[DONE]"
    assert ask(f"{its.url}/healthcheck").json == {"status": "ok", "prefill_instances": 1, "decode_instances": 1}
    assert ask(f"{its.url}/v1/models").status == 404
    assert ask(f"{its.url}/v1/metaserver", {"request_id": "nobody"}).status == 404
    assert its.proxy.terminate() == 0


def test_a_push_that_never_comes_leaves_decode_waiting(fleet: Fleet, home: Home) -> None:
    its = Cluster(fleet, home("0.23.0"), "no-push")
    with pytest.raises(TimeoutError):
        ask(f"{its.url}/v1/completions", {"model": "q", "prompt": PROMPT, "max_tokens": 2}, timeout=1)
    assert 'vllm:num_requests_waiting{engine="0",model_name="q"} 1.0' in ask(f"{its.decode}/metrics").text


def test_the_wrong_proxy_kills_prefill(fleet: Fleet, home: Home) -> None:
    """The proxy of the pull connectors asks prefill first."""
    its = Cluster(fleet, home("0.23.0"))
    told = {"do_remote_decode": True, "do_remote_prefill": False}
    body = {"model": "q", "prompt": PROMPT, "max_tokens": 1, "kv_transfer_params": told}
    assert ask(f"{its.prefill}/v1/completions", body).status == 500
    assert its.processes[P_HOST].wait() == 0
    assert its.processes[P_HOST].said("KeyError: 'remote_cached_tokens'")


def test_without_prefill_the_proxy_says_so_and_decode_waits(fleet: Fleet, home: Home) -> None:
    its = Cluster(fleet, home("0.23.0"))
    its.processes[P_HOST].kill()
    with pytest.raises(TimeoutError):
        ask(f"{its.url}/v1/completions", {"model": "q", "prompt": PROMPT, "max_tokens": 2}, timeout=1)
    its.proxy.wait_said("Post metaserver failed")


def test_without_decode_the_answer_is_empty(fleet: Fleet, home: Home) -> None:
    its = Cluster(fleet, home("0.23.0"))
    its.processes[D_HOST].kill()
    answer = ask(f"{its.url}/v1/completions", {"model": "q", "prompt": PROMPT, "max_tokens": 2})
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "Wildcard Address 0.0.0.0 is not allowed"),
        (["--host", "127.0.72.9", "--prefiller-hosts", "a", "b", "--prefiller-ports", "1"], "must match number of"),
        (["--host", "127.0.72.9", "--decoder-hosts", "192.0.0.3192.0.0.3"], "Invalid host"),
        (["--host", "127.0.72.9", "--workers", "2"], "unrecognized arguments: --workers 2"),
    ],
)
def test_the_proxy_refuses(home: Home, words: list[str], message: str) -> None:
    its = home("0.23.0")
    command = [str(its / "bin/python3"), str(its / "bin" / NAME), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode != 0
    assert message in done.stderr
