# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data-parallel groups: who waits for whom, which ports are open when, who dies with whom."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Fleet, Started, ask, free_port, free_range, sizes, transfer, wait_until

Home = Callable[..., Path]
HOSTS = ("127.0.73.1", "127.0.73.2")


def listening(process: Started) -> set[tuple[str, int]]:
    """(address, port) that the process listens on."""
    inodes = set()
    for link in Path(f"/proc/{process.process.pid}/fd").iterdir():
        target = str(link.readlink()) if link.is_symlink() else ""
        if target.startswith("socket:["):
            inodes.add(int(target[8:-1]))
    return {(address, port) for address, port, inode in _rows() if inode in inodes}


def _rows() -> list[tuple[str, int, int]]:
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A":
            host, port = words[1].split(":")
            address = ".".join(str(byte) for byte in reversed(bytes.fromhex(host)))
            found.append((address, int(port, 16), int(words[9])))
    return found


class Group:
    """A prefill of dp 4, tp 1 over two addresses."""

    def __init__(self, fleet: Fleet, home: Path) -> None:
        self.fleet = fleet
        self.home = home
        self.kv_port = free_range(4)
        self.rpc_port = free_port()
        self.urls: dict[int, str] = {}

    def start(self, host: int, *words: str, dp: int = 4, api: bool = True, **environment: str) -> Started:
        config = transfer("MooncakeConnectorV1", "kv_producer", self.kv_port, sizes((dp, 1), (1, 1)))
        if api:
            port = free_port()
            self.urls[len(self.urls)] = f"http://{HOSTS[host]}:{port}"
            words = (*words, "--host", HOSTS[host], "--port", str(port))
        return self.fleet.vllm(
            self.home,
            *("--served-model-name", "q", "--data-parallel-size", str(dp), "--data-parallel-address", HOSTS[0]),
            *("--data-parallel-rpc-port", str(self.rpc_port), "--kv-transfer-config", config, *words),
            VLLM_HOST_IP=HOSTS[host],
            **environment,
        )

    def head(self, **environment: str) -> Started:
        return self.start(0, "-dpl", "2", "--api-server-count", "1", **environment)

    def headless(self, start: int = 2, **more: Any) -> Started:
        return self.start(1, "-dpl", "2", "-dpr", str(start), "--headless", api=False, **more)


def test_internal_over_two_hosts(fleet: Fleet, home: Home) -> None:
    group = Group(fleet, home("0.23.0"))
    head = group.head(VLLM_LOGGING_LEVEL="DEBUG")
    head.wait_said("Waiting for 0 local, 2 remote core engine proc(s) to connect.")
    assert (HOSTS[0], group.rpc_port) in listening(head)
    assert ask(f"{group.urls[0]}/health").status == 0
    other = group.headless()
    head.wait_healthy(group.urls[0])
    assert head.said("Application startup complete.") == 1
    assert other.said("Application startup complete.") == 0
    assert other.said(f"Launching 2 data parallel engine(s) in headless mode, with head node address tcp://{HOSTS[0]}:")
    for process, host, first in ((head, HOSTS[0], 0), (other, HOSTS[1], 2)):
        process.wait_said("init engine (profile, create kv cache, warmup model) took", 2)
        wanted = {(host, group.kv_port + rank) for rank in (first, first + 1)}
        assert {row for row in listening(process) if row[1] - group.kv_port in range(4)} == wanted
    # the RPC port was for the start only
    assert (HOSTS[0], group.rpc_port) not in listening(head)
    # requests go round, also to the engines without an API
    for _request in range(4):
        assert ask(f"{group.urls[0]}/v1/completions", {"prompt": "hello world", "max_tokens": 2}).status == 200
    text = ask(f"{group.urls[0]}/metrics").text
    for rank in range(4):
        assert f'vllm:request_success_total{{engine="{rank}",finished_reason="length",model_name="q"}} 1.0' in text


def test_kv_of_a_headless_engine_is_where_it_says(fleet: Fleet, home: Home) -> None:
    group = Group(fleet, home("0.23.0"))
    head, _other = group.head(), group.headless()
    head.wait_healthy(group.urls[0])
    told = {"kv_transfer_params": {"do_remote_decode": True}, "prompt": "hello world", "max_tokens": 1}
    params = [ask(f"{group.urls[0]}/v1/completions", told).json["kv_transfer_params"] for _request in range(4)]
    places = {(p["remote_host"], p["remote_port"] - group.kv_port) for p in params}
    assert places == {(HOSTS[0], 0), (HOSTS[0], 1), (HOSTS[1], 2), (HOSTS[1], 3)}
    assert len({p["remote_engine_id"] for p in params}) == 4


def test_a_head_that_goes_away_ends_the_headless_one(fleet: Fleet, home: Home) -> None:
    group = Group(fleet, home("0.23.0"))
    head, other = group.head(), group.headless()
    head.wait_healthy(group.urls[0])
    head.kill()
    other.wait()
    assert other.said("Connection closed by peer (rank 0 of the data parallel group)")


def test_a_headless_one_that_goes_away_ends_the_service(fleet: Fleet, home: Home) -> None:
    group = Group(fleet, home("0.23.0"))
    head, other = group.head(), group.headless()
    head.wait_healthy(group.urls[0])
    other.kill()
    wait_until(lambda: ask(f"{group.urls[0]}/health").status in (503, 0), "503 or nothing")
    head.wait()
    assert head.said("EngineCore encountered an issue.")


def test_headless_ends_by_sigterm_with_0(fleet: Fleet, home: Home) -> None:
    group = Group(fleet, home("0.23.0"))
    head, other = group.head(), group.headless()
    head.wait_healthy(group.urls[0])
    assert other.terminate() == 0


def test_a_headless_one_waits_for_its_head(fleet: Fleet, home: Home) -> None:
    group = Group(fleet, home("0.23.0"))
    other = group.headless()
    time.sleep(1)
    assert other.process.poll() is None
    assert not other.said("init engine")
    group.head().wait_healthy(group.urls[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 1}, "HELLO message from remote engine 1, expected it to be local"),
        ({"start": 6, "dp": 8}, "Message from engine with unexpected data parallel rank: 6"),
    ],
)
def test_ranks_that_do_not_fit(fleet: Fleet, home: Home, options: dict[str, int], message: str) -> None:
    group = Group(fleet, home("0.23.0"))
    head = group.head()
    group.headless(**options)
    assert head.wait() == 1
    assert head.said(message)


def test_other_sizes_are_refused(fleet: Fleet, home: Home) -> None:
    group = Group(fleet, home("0.23.0"))
    head = group.head()
    group.start(1, "-dpl", "2", "-dpr", "2", "--headless", "--enable-expert-parallel", api=False)
    assert head.wait() == 1
    assert head.said("Configuration mismatch detected for engine 2.")


def test_external_ranks_wait_for_each_other(fleet: Fleet, home: Home) -> None:
    group = Group(fleet, home("0.23.0"))
    ranks = [group.start(r // 2, "-dpn", str(r), ASCEND_RT_VISIBLE_DEVICES=str(r)) for r in range(3)]
    time.sleep(1)
    assert all(ask(url + "/health").status == 0 for url in group.urls.values())
    assert (HOSTS[0], group.rpc_port) in listening(ranks[0])
    ranks.append(group.start(1, "-dpn", "3", ASCEND_RT_VISIBLE_DEVICES="3"))
    for rank, process in enumerate(ranks):
        process.wait_healthy(group.urls[rank])
        assert (HOSTS[rank // 2], group.kv_port + rank) in listening(process)
        # metrics of a rank bear its number
        assert f'vllm:num_requests_running{{engine="{rank}"' in ask(group.urls[rank] + "/metrics").text
    ranks[3].kill()
    assert ranks[0].wait() == 0
    assert [process.wait() for process in ranks[1:3]] == [0, 0]


def test_a_rank_that_never_joins_keeps_all_waiting(fleet: Fleet, home: Home) -> None:
    group = Group(fleet, home("0.23.0"))
    head = group.head()
    group.headless(MOONCAKE_PD_TWIN_FAULT="never-join")
    time.sleep(1.5)
    assert head.process.poll() is None
    assert ask(f"{group.urls[0]}/health").status == 0


def test_a_taken_rpc_port(fleet: Fleet, home: Home) -> None:
    group = Group(fleet, home("0.23.0"))
    first = group.head()
    wait_until(lambda: (HOSTS[0], group.rpc_port) in listening(first), "rpc port open")
    second = group.head()
    assert second.wait() == 1
    assert second.said("zmq.error.ZMQError: Address already in use")
