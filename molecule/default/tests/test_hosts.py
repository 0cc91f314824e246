# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts as an operator finds them after site.yml."""

from __future__ import annotations

import json

import pytest
import testinfra

CONTROL, PREFILL, DECODE = (
    testinfra.get_host(f"podman://mooncake-pd-molecule-default-{name}") for name in ("mo-control", "mo-p1", "mo-d1")
)
URL = "http://10.90.76.10:8000"

UNITS = [
    pytest.param(CONTROL, "mooncake-pd-master", id="master"),
    pytest.param(PREFILL, "mooncake-pd-p1", id="prefill"),
    pytest.param(DECODE, "mooncake-pd-d1", id="decode"),
    pytest.param(CONTROL, "mooncake-pd-router-a", id="router-a"),
    pytest.param(CONTROL, "mooncake-pd-router-b", id="router-b"),
    pytest.param(CONTROL, "mooncake-pd-router", id="haproxy"),
]


@pytest.mark.parametrize(("host", "unit"), UNITS)
def test_unit_runs_and_comes_back_at_boot(host, unit):
    service = host.service(unit)
    assert service.is_running
    assert service.is_enabled


@pytest.mark.parametrize(("host", "unit"), UNITS)
def test_no_process_runs_as_root_that_need_not(host, unit):
    pid = host.check_output(f"systemctl show --value -p MainPID {unit}")
    user = host.check_output(f"stat -c %U /proc/{pid}")
    # HAProxy's master process stays root to hand over sockets on reload, its worker drops
    assert user == ("root" if unit == "mooncake-pd-router" else "mooncake")


@pytest.mark.parametrize(
    ("host", "address", "port"),
    [
        (CONTROL, "10.90.76.10", 8000),
        (CONTROL, "127.0.0.1", 18001),
        (CONTROL, "127.0.0.1", 18002),
        (PREFILL, "10.90.76.11", 8100),
        (PREFILL, "0.0.0.0", 8998),
        (DECODE, "10.90.76.21", 8200),
    ],
)
def test_planned_port_is_served(host, address, port):
    assert host.socket(f"tcp://{address}:{port}").is_listening


@pytest.mark.parametrize("port", [18001, 18002])
def test_routers_are_reached_from_inside_only(port):
    assert not CONTROL.socket(f"tcp://0.0.0.0:{port}").is_listening
    assert PREFILL.run(f"curl -s -m 2 http://10.90.76.10:{port}/workers").rc != 0


@pytest.mark.parametrize(
    "path", ["/workers", "/list_workers", "/metrics", "/flush_cache", "/v1/../workers", "/v1/metaserver"]
)
def test_admin_paths_are_refused_with_a_body(path):
    answer = PREFILL.run(f"curl -s --path-as-is -w '\\n%{{http_code}}' {URL}{path}").stdout.rsplit("\n", 1)
    assert answer[1] == "404"
    assert json.loads(answer[0])["error"]


def test_clients_get_text_and_models():
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8})
    post = f"curl -sS -m 30 -H 'Content-Type: application/json' -d '{body}'"
    out = PREFILL.check_output(f"{post} {URL}/v1/chat/completions")
    assert json.loads(out)["choices"][0]["message"]["content"]
    models = json.loads(PREFILL.check_output(f"curl -sS -m 30 {URL}/v1/models"))
    assert models["data"][0]["id"] == "tiny"


def test_streams_end_properly():
    body = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 8, "stream": True})
    out = PREFILL.check_output(f"curl -sSN -m 30 -H 'Content-Type: application/json' -d '{body}' {URL}/v1/completions")
    assert out.rstrip().endswith("data: [DONE]")


def test_log_of_each_start_begins_with_its_mark():
    log = PREFILL.file("/var/log/mooncake-pd/mooncake-pd-p1.log")
    invocation = PREFILL.check_output("systemctl show --value -p InvocationID mooncake-pd-p1")
    assert f"invocation={invocation}" in log.content_string


def test_log_is_rotated_under_the_running_process():
    """systemd holds the file open: it has to be emptied in place, and what follows has to arrive."""
    path = "/var/log/mooncake-pd/mooncake-pd-d1.log"
    inode = DECODE.check_output(f"stat -c %i {path}")
    DECODE.check_output("logrotate --force /etc/logrotate.d/mooncake-pd")
    assert DECODE.check_output(f"stat -c %i {path}") == inode
    assert "mooncake-pd start" in DECODE.file(f"{path}.1").content_string
    DECODE.check_output("curl -sS -m 10 http://10.90.76.21:8200/v1/models")
    assert "/v1/models" in DECODE.file(path).content_string
    assert "mooncake-pd start" not in DECODE.file(path).content_string


def test_hosts_own_haproxy_is_left_alone():
    assert "mooncake" not in CONTROL.file("/etc/haproxy/haproxy.cfg").content_string
