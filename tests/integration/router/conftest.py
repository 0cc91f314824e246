# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real HAProxy and real vllm-router on 127.0.0.1, before stand-ins of the instances.

MOONCAKE_PD_TEST_HAPROXY and MOONCAKE_PD_TEST_VLLM_ROUTER name the programs; without them the tests fail.
"""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.tests.sim.router.harness import (
    Cluster,
    Unit,
    free_ports,
    render,
    request,
    wait_until,
)
from ansible_collections.mooncake.pd.tests.unit.plugins.modules.conftest import run_module  # noqa: F401

# as in the plan
ROUTER_OPTIONS = ["--vllm-pd-disaggregation", "--kv-connector", "mooncake", "--policy", "round_robin"]
ROUTER_OPTIONS += ["--health-check-interval-secs", "1", "--health-check-timeout-secs", "2"]
ROUTER_OPTIONS += ["--health-failure-threshold", "2", "--health-success-threshold", "1"]
ROUTER_OPTIONS += ["--worker-startup-check-interval", "1"]


def program(variable: str) -> str:
    path = os.environ.get(variable, "")
    if not (path and os.access(path, os.X_OK)):
        pytest.fail(f"{variable} has to name the program (it is {path!r}); this test is worth nothing without it")
    return path


class Service:
    """HAProxy as the role configures it, two routers started by the launcher, the watcher, and the instances."""

    def __init__(self, directory: Path, prefill: int, decode: int, settings: dict[str, Any]) -> None:
        self.haproxy_path = program("MOONCAKE_PD_TEST_HAPROXY")
        self.cluster = Cluster(directory, prefill, decode, [program("MOONCAKE_PD_TEST_VLLM_ROUTER"), *ROUTER_OPTIONS])
        for router in self.cluster.routers:
            # the role's RestartSec
            router.delay = 1.0
        self.directory = directory
        self.port = free_ports(1)[0]
        self.config = directory / "haproxy.cfg"
        self.render(settings)
        self.haproxy = Unit(directory, "haproxy", [self.haproxy_path, "-W", "-f", str(self.config)], respawn=False)
        self.cluster.units.append(self.haproxy)

    def render(self, settings: dict[str, Any]) -> None:
        backends = [
            {"name": name, "address": "127.0.0.1", "port": port}
            for name, port in zip(("router-a", "router-b"), self.cluster.ports, strict=True)
        ]
        frontend = {"name": "mooncake-pd-router.service", "description": "Front door"}
        cluster = {"kind": "vllm_router", "contract": "mooncake", "address": "127.0.0.1", "port": self.port}
        variables = {
            "router_processes": [{"unit": {"name": "mooncake-pd-router-a.service", "argv": [], "timeout_stop": 50}}],
            "router_frontend": {"unit": {**frontend, "environment": {}, "timeout_stop": 50}},
            "router_cluster": {**cluster, "backends": backends},
            "router_group": grp.getgrgid(os.getgid()).gr_name,
            "router_haproxy_user": pwd.getpwuid(os.getuid()).pw_name,
            "router_haproxy_group": grp.getgrgid(os.getgid()).gr_name,
            "router_haproxy_path": self.haproxy_path,
            "__router_frontend_runtime": str(self.directory),
            **settings,
        }
        done = render(self.directory, variables)
        assert done.returncode == 0, done.stdout + done.stderr
        subprocess.run([self.haproxy_path, "-c", "-q", "-f", str(self.config)], check=True)

    def start(self) -> Service:
        self.cluster.start()
        self.cluster.watch(interval=1.0, settle=2.0, drain_timeout=8.0, haproxy=str(self.directory / "admin.sock"))
        self.haproxy.start()
        wait_until(lambda: b'"routers_up":2' in request(self.port, "/health")[1], "HAProxy sees both routers")
        return self

    def ask(self, path: str = "/v1/completions", **options: Any) -> tuple[int, bytes, str]:
        body = options.pop("body", {"model": "tiny", "prompt": "hello", "max_tokens": 2})
        return request(self.port, path, body, **options)


@pytest.fixture
def make_service(tmp_path: Path) -> Iterator[Any]:
    made: list[Service] = []

    def make(prefill: int, decode: int, **settings: Any) -> Service:
        made.append(Service(tmp_path, prefill, decode, settings))
        return made[-1]

    yield make
    for service in made:
        service.cluster.stop()
        print(service.cluster.logs())
