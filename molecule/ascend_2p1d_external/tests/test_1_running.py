# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""External data parallelism after site.yml: a process and an API for each rank, with the ports that the plan chose."""

from __future__ import annotations

import json

import pytest


def fixed(found, address):
    """Ports of the host that are planned one by one; those of the NPU transport are drawn from 20000-21600."""
    return {port for port in found.get(address, ()) if not 20000 <= port <= 21600}


@pytest.mark.parametrize(
    ("host", "address", "unit", "expected"),
    [
        ("npu1", "10.90.78.11", "mooncake-pd-p1-0", {8100, *range(22000, 22008)}),
        ("npu1", "10.90.78.11", "mooncake-pd-p1-1", {8108, *range(22008, 22016)}),
        ("npu2", "10.90.78.12", "mooncake-pd-p2-1", {8108, *range(22008, 22016)}),
        # decode pulls, so it does not listen for KV
        ("npu3", "10.90.78.13", "mooncake-pd-d1-0", {8200}),
        ("npu4", "10.90.78.14", "mooncake-pd-d1-31", {8215}),
    ],
)
def test_exactly_the_planned_ports_are_open(scenario, host, address, unit, expected):
    assert fixed(scenario.listening(host, unit), address) == expected


@pytest.mark.parametrize(("host", "ranks"), [("npu3", range(16)), ("npu4", range(16, 32))])
def test_every_rank_is_a_unit_of_its_own_on_a_device_of_its_own(scenario, host, ranks):
    shown = scenario.hosts[host].check_output("systemctl show -p Id -p ActiveState 'mooncake-pd-d1-[0-9]*.service'")
    found = {line for line in shown.splitlines() if line.startswith("Id=")}
    assert found == {f"Id=mooncake-pd-d1-{rank}.service" for rank in ranks}
    assert shown.count("ActiveState=active") == 16
    for rank in ranks:
        pid = scenario.hosts[host].check_output(f"systemctl show --value -p MainPID mooncake-pd-d1-{rank}")
        environment = scenario.hosts[host].check_output(f"tr '\\0' '\\n' < /proc/{pid}/environ")
        assert f"ASCEND_RT_VISIBLE_DEVICES={rank % 16}" in environment.splitlines()


def test_routers_know_every_rank(scenario):
    workers = json.loads(scenario.hosts["npu1"].check_output("curl -sS -m 10 http://127.0.0.1:18001/workers"))
    urls = {worker["url"] for worker in workers["workers"]}
    assert urls == {
        *(f"http://10.90.78.{host}:{port}" for host in (11, 12) for port in (8100, 8108)),
        *(f"http://10.90.78.{host}:{port}" for host in (13, 14) for port in range(8200, 8216)),
    }


def test_clients_get_text(scenario):
    body = json.dumps({"model": "qwen3-moe", "prompt": "hello", "max_tokens": 8})
    post = f"curl -sS -m 30 -H 'Content-Type: application/json' -d '{body}' http://10.90.78.11:8000/v1/completions"
    assert json.loads(scenario.hosts["npu2"].check_output(post))["choices"][0]["text"]
