# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Internal data parallelism after site.yml: who listens where, who started when, and that the headless host serves."""

from __future__ import annotations

import json

import pytest

KV = set(range(19200, 19232))
ENGINES = [
    ("npu1", "mooncake-pd-p1"),
    ("npu2", "mooncake-pd-p2"),
    ("npu3", "mooncake-pd-d1-0"),
    ("npu4", "mooncake-pd-d1-1"),
]
DRAWN = {"10.90.77.1": range(20000, 36001), "0.0.0.0": range(15000, 17001)}


def fixed(found):
    """Ports that are planned one by one; the rest is drawn at random from where the plan says."""
    return {
        (address, port)
        for address, ports in found.items()
        for port in ports
        if not any(address.startswith(drawn) and port in ports_drawn for drawn, ports_drawn in DRAWN.items())
    }


@pytest.mark.parametrize(("host", "unit"), ENGINES)
def test_engine_runs_as_the_service_user_and_comes_back_at_boot(scenario, host, unit):
    service = scenario.hosts[host].service(unit)
    assert service.is_running
    assert service.is_enabled
    pid = scenario.hosts[host].check_output(f"systemctl show --value -p MainPID {unit}")
    assert scenario.hosts[host].check_output(f"stat -c %U /proc/{pid}") == "mooncake"


@pytest.mark.parametrize(
    ("host", "unit", "expected"),
    [
        # prefill pushes, so it does not listen for KV: 30000 and 30100 stay closed
        ("npu1", "mooncake-pd-p1", {("10.90.77.11", 8004)}),
        ("npu2", "mooncake-pd-p2", {("10.90.77.12", 8004)}),
        ("npu3", "mooncake-pd-d1-0", {("10.90.77.13", port) for port in {8004, *range(19200, 19216)}}),
        ("npu4", "mooncake-pd-d1-1", {("10.90.77.14", port) for port in range(19216, 19232)}),
    ],
)
def test_exactly_the_planned_ports_are_open(scenario, host, unit, expected):
    assert fixed(scenario.listening(host, unit)) == expected


def test_every_worker_has_a_port_of_the_npu_transport_and_one_for_rpc(scenario):
    found = scenario.listening("npu4", "mooncake-pd-d1-1")
    devices = sorted((port - 20000) // 1000 for port in found["10.90.77.14"] - KV)
    assert devices == list(range(16))
    assert len([port for port in found["0.0.0.0"] if 15000 <= port <= 17000]) == 16


def test_prefill_was_ready_before_decode_started_and_decode_started_together(scenario):
    prefill = max(scenario.started(host, unit) for host, unit in ENGINES[:2])
    head, headless = (scenario.started(host, unit) for host, unit in ENGINES[2:])
    assert prefill < min(head, headless)
    # one at a time would never end: the head waits for the headless host
    assert abs(head - headless) < 10


def test_headless_host_has_no_api_and_serves_all_the_same(scenario):
    head, headless = scenario.hosts["npu3"], scenario.hosts["npu4"]
    assert headless.run("curl -s -m 2 http://10.90.77.14:8004/health").rc == 7
    log = headless.file("/var/log/mooncake-pd/mooncake-pd-d1-1.log").content_string
    assert "Application startup complete." not in log
    metrics = head.check_output("curl -sS -m 10 http://10.90.77.13:8004/metrics")
    assert {f'engine="{rank}"' for rank in (0, 31)} <= set(metrics.replace(",", " ").replace("{", " ").split())


def test_clients_get_text_through_the_layerwise_proxy(scenario):
    body = json.dumps({"model": "qwen3-moe", "prompt": "hello", "max_tokens": 8})
    post = f"curl -sS -m 30 -H 'Content-Type: application/json' -d '{body}' http://10.90.77.11:8080/v1/completions"
    assert json.loads(scenario.hosts["npu2"].check_output(post))["choices"][0]["text"]


def test_what_decode_tells_the_proxy_does_not_pass_the_front_door(scenario):
    post = "curl -s -o /dev/null -w '%{http_code}' -X POST http://10.90.77.11:8080/v1/metaserver"
    assert scenario.hosts["npu2"].run(post).stdout == "404"
