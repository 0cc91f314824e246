# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small topologies that tests change one thing in."""

from __future__ import annotations

from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan, build_plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError, Problem
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import read_topology

Raw = dict[str, Any]


def cpu() -> Raw:
    return {
        "plugin": "mooncake.pd.topology",
        "name": "lab",
        "engine": {"kind": "vllm_cpu", "version": "0.32.0"},
        "connector": {"name": "MooncakeConnector", "protocol": "tcp"},
        "mooncake": {"version": "0.3.13.post1"},
        "model": {"path": "/srv/tiny", "served_name": "tiny"},
        "hosts": {
            "control": {"address": "192.0.2.10"},
            "p1": {"address": "192.0.2.11"},
            "d1": {"address": "192.0.2.21"},
        },
        "prefill": [{"name": "p1", "host": "p1"}],
        "decode": [{"name": "d1", "host": "d1"}],
        "router": {"host": "control"},
        "master": {"host": "control"},
    }


def ascend(connector: str = "MooncakeConnectorV1") -> Raw:
    return {
        "plugin": "mooncake.pd.topology",
        "name": "npu",
        "engine": {"kind": "vllm_ascend", "version": "0.23.0"},
        "connector": {"name": connector},
        "mooncake": {"version": "0.3.11.post1"},
        "model": {"path": "/srv/moe", "served_name": "moe", "features": ["moe"]},
        "hosts": {
            "npu1": {"address": "192.0.2.31", "interface": "eth1"},
            "npu2": {"address": "192.0.2.32"},
        },
        "prefill": [{"name": "p1", "host": "npu1", "tp": 4, "dp": 2}],
        "decode": [{"name": "d1", "host": "npu2", "tp": 2, "dp": 4}],
        "router": {"host": "npu1"},
    }


def plan(raw: Raw) -> Plan:
    return build_plan(read_topology(raw))


def problems(raw: Raw) -> tuple[Problem, ...]:
    """Everything that is found, errors and warnings."""
    try:
        return plan(raw).warnings
    except PlanError as error:
        return error.problems


def rules(raw: Raw) -> set[tuple[str, str]]:
    return {(problem.rule, problem.where) for problem in problems(raw)}


def processes(raw: Raw, host: str) -> dict[str, Raw]:
    """Those that serve; see test_supervisor.py for those that watch them."""
    return {process["name"]: process for process in complete(plan(raw), host) if process["kind"] != "supervisor"}


def complete(built: Plan, host: str) -> list[Raw]:
    """The processes of a host, each with its whole environment and with the ports that it draws at random."""
    found = []
    for process in built.processes.get(host, ()):
        told = process.as_dict()
        told["unit"]["environment"] = dict(process.environment)
        told["claims"]["ports"] = [{**claim.as_dict(), "kind": claim.kind} for claim in process.claims]
        found.append(told)
    return found


def ports(process: Raw) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for claim in process["claims"]["ports"]:
        found.setdefault(claim["purpose"], []).append((claim["first"], claim["last"]))
    return found


def option(argv: list[str], name: str) -> str:
    return argv[argv.index(name) + 1]
