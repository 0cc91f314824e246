# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the router role writes and runs for each contract, rendered by Ansible from the role's own variables."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.tests.sim.router.harness import render

KINDS = {"mooncake": "vllm_router", "nixl": "vllm_router", "layerwise": "ascend_layerwise"}
PROGRAMS = {"vllm_router": ["vllm-router"], "ascend_layerwise": ["python3", "proxy.py"]}


def settings(contract: str, address: str = "10.0.0.1", **more: Any) -> dict[str, Any]:
    kind = KINDS[contract]
    behind = address if kind == "ascend_layerwise" else "127.0.0.1"
    argv = [*PROGRAMS[kind], "--host", behind, "--port", "18001"]
    names = ["router-a", "router-b"]
    return {
        "router_processes": [
            {"name": name, "unit": {"name": f"mooncake-pd-{name}.service", "argv": argv, "timeout_stop": 50}}
            for name in names
        ],
        "router_frontend": {
            "unit": {
                "name": "mooncake-pd-router.service",
                "description": "Front door of test",
                "environment": {},
                "timeout_stop": 50,
            }
        },
        "router_cluster": {
            "kind": kind,
            "contract": contract,
            "address": address,
            "port": 8000,
            "backends": [{"name": name, "address": behind, "port": 18001 + i} for i, name in enumerate(names)],
        },
        **more,
    }


@dataclass
class Rendered:
    config: str
    keys: str
    facts: dict[str, Any]

    @property
    def lines(self) -> list[str]:
        return [line.strip() for line in self.config.splitlines()]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rendered]:
    """One Ansible run a case; several seconds, so they are shared."""
    script = tmp_path_factory.mktemp("proxy") / "proxy.py"
    script.write_text("")
    pem = script.with_name("tls.pem")
    pem.write_text("certificate")
    cases = {
        "mooncake": settings("mooncake", router_api_keys=["sk-one", "sk-two"], router_tls_certificate=str(pem)),
        "nixl": settings("nixl", "fd00::1", router_drain_timeout=7, router_retry_on=["conn-failure"]),
        "layerwise": settings("layerwise", router_proxy_script=str(script), router_proxy_python="/opt/engine/python"),
    }
    answers = {}
    for name, variables in cases.items():
        directory = tmp_path_factory.mktemp(name)
        done = render(directory, variables)
        assert done.returncode == 0, done.stdout + done.stderr
        texts = [(directory / file).read_text() for file in ("haproxy.cfg", "haproxy-keys", "facts.json")]
        answers[name] = Rendered(texts[0], texts[1], json.loads(texts[2]))
    return answers


def test_every_router_is_started_by_the_launcher(rendered: dict[str, Rendered]) -> None:
    launcher = ["/usr/bin/python3", "/usr/local/lib/mooncake-pd/pd_router.py", "exec", "--"]
    router = ["/opt/mooncake-pd/router/bin/vllm-router", "--host", "127.0.0.1", "--port", "18001"]
    assert rendered["mooncake"].facts["argv"] == [*launcher, *router]
    assert rendered["nixl"].facts["argv"] == [*launcher, *router]
    layerwise = rendered["layerwise"].facts["argv"]
    assert layerwise[:5] == [*launcher, "/opt/engine/python"]
    assert layerwise[5].endswith("/proxy.py")
    assert layerwise[6:] == ["--host", "10.0.0.1", "--port", "18001"]


def test_drain_timeout_is_that_of_the_plan_unless_it_is_set(rendered: dict[str, Rendered]) -> None:
    runtimes = ["/run/mooncake-pd/mooncake-pd-router-a", "/run/mooncake-pd/mooncake-pd-router-b"]
    watch = [str(word) for word in rendered["mooncake"].facts["watch"]]
    admin = "/run/mooncake-pd/mooncake-pd-router/admin.sock"
    assert watch == ["--drain-timeout", "50", "--settle", "2", "--haproxy", admin, *runtimes]
    assert f"stats socket {admin} " in rendered["mooncake"].config
    assert str(rendered["nixl"].facts["watch"][1]) == "7"


def test_haproxy_checks_what_each_kind_offers(rendered: dict[str, Rendered]) -> None:
    checks = {name: [line for line in it.lines if "meth GET" in line] for name, it in rendered.items()}
    assert checks == {
        "mooncake": ["http-check send meth GET uri /readiness"],
        "nixl": ["http-check send meth GET uri /readiness"],
        "layerwise": ["http-check send meth GET uri /healthcheck"],
    }
    assert "server router-b 127.0.0.1:18002 check" in rendered["mooncake"].lines
    assert "server router-b 10.0.0.1:18002 check" in rendered["layerwise"].lines
    assert "bind [fd00::1]:8000" in rendered["nixl"].lines
    assert "retry-on conn-failure" in rendered["nixl"].lines


def test_keys_are_nowhere_in_clear(rendered: dict[str, Rendered]) -> None:
    one = hashlib.sha256(b"sk-one").hexdigest().upper()
    two = hashlib.sha256(b"sk-two").hexdigest().upper()
    case = rendered["mooncake"]
    assert case.keys == f"{one}\n{two}\n"
    assert "sk-" not in case.config + case.keys + json.dumps(case.facts)
    assert hashlib.sha256(case.keys.encode()).hexdigest() in case.config, "another key is another configuration"
    assert "has_key" not in rendered["nixl"].config


def test_certificate(rendered: dict[str, Rendered]) -> None:
    bind = next(line for line in rendered["mooncake"].lines if line.startswith("bind"))
    assert bind.startswith("bind 10.0.0.1:8000 ssl crt ")
    assert hashlib.sha256(b"certificate").hexdigest() in rendered["mooncake"].config
    assert "ssl" not in rendered["nixl"].config


def test_order_of_the_rules(rendered: dict[str, Rendered]) -> None:
    """First the health for everybody, then the path, then the key; and the key goes no further."""
    rules = [line for line in rendered["mooncake"].lines if line.startswith("http-request")]
    assert [rule.split()[3] for rule in rules if " return " in rule] == ["200", "503", "404", "401"]
    assert rules[-1] == "http-request del-header Authorization"


def test_every_own_answer_is_json(rendered: dict[str, Rendered]) -> None:
    answers = [line for line in rendered["mooncake"].lines if " status " in line and "string" in line]
    assert len(answers) == 6 + 4 + 4, "errors of HAProxy, answers of the frontend, errors of the routers"
    for line in answers:
        assert "content-type application/json" in line
        body = line.split("string '")[1].split("'")[0].replace("%[nbsrv(pd_routers)]", "1")
        json.loads(body)


def test_frontend_reloads_only_what_loads(rendered: dict[str, Rendered]) -> None:
    unit = rendered["mooncake"].facts["unit"]
    service = unit["sections"]["Service"]
    config = unit["argv"][-1]
    assert unit["argv"] == ["/usr/sbin/haproxy", "-Ws", "-f", config]
    assert service["Type"] == "notify"
    check, signal, note = service["ExecReload"]
    assert check == f"/usr/sbin/haproxy -c -q -f {config}"
    assert signal == "/bin/kill -USR2 $MAINPID"
    assert note == service["ExecStartPost"]


@pytest.mark.parametrize(
    ("contract", "more", "text"),
    [
        ("layerwise", {}, "router_proxy_script: is not set"),
        ("layerwise", {"router_proxy_script": "/nonexistent/proxy.py"}, "/nonexistent/proxy.py is not on localhost"),
        ("nixl", {"router_mode": "installed", "router_path": "/nonexistent"}, "/nonexistent/bin/vllm-router is not on"),
        (
            "nixl",
            {"router_allowed_paths": ["/workers", "v1"], "router_api_keys": ["sk a"]},
            "(?s)/workers in router_allowed_paths: manages.*v1 in router_allowed_paths: not.*router_api_keys: a",
        ),
    ],
)
def test_what_cannot_work_is_refused(contract: str, more: dict[str, Any], text: str, tmp_path: Path) -> None:
    done = render(tmp_path, settings(contract, **more))
    assert done.returncode != 0
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(done.stdout + done.stderr)
    assert "sk a" not in done.stdout + done.stderr
