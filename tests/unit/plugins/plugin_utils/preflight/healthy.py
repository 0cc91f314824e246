# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two prefill and two decode servers with everything in order; tests break one thing in them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import plan_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.judge import judge
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.verdict import Verdict
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight.healthy_host import SERVERS, host, path
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight.healthy_npu import hccn, npu
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight.healthy_ports import ports

SETTINGS = {
    "engine_mode": "installed",
    "mooncake_mode": "installed",
    "engine_path": "/usr/local/python3.12.13",
    "instance_environment": [],
    "instance_groups": ["HwHiAiUser"],
    "instance_memlock": "infinity",
    "instance_nofile": "1048576",
}


@dataclass
class Cluster:
    cluster: dict[str, Any]
    plans: dict[str, dict[str, Any]]
    facts: dict[str, dict[str, Any]]
    absent: dict[str, str]

    def verdict(self, breaks: bool = False, **options: Any) -> Verdict:
        made = judge(self.cluster, self.plans, self.facts, self.absent, **options)
        broken = [(item.rule, item.evidence) for item in made.findings if "could not be judged" in item.what]
        assert breaks or not broken, broken
        return made

    def found(self, **options: Any) -> set[tuple[str, str | None]]:
        return {(finding.rule, finding.host) for finding in self.verdict(**options).findings}


def topology() -> dict[str, Any]:
    return {
        "plugin": "mooncake.pd.topology",
        "name": "npu",
        "engine": {"kind": "vllm_ascend", "version": "0.23.0"},
        "connector": {"name": "MooncakeConnectorV1"},
        "mooncake": {"version": "0.3.11.post1"},
        "model": {"path": "/data/models/model", "served_name": "moe", "features": ["moe"]},
        "hardware": {"generation": "A3"},
        "hosts": {name: {"address": address, "interface": "bond0"} for name, address in SERVERS.items()},
        "prefill": [{"name": name, "host": name, "tp": 8, "dp": 2} for name in ("p1", "p2")],
        "decode": [{"name": "d1", "hosts": ["d1", "d2"], "tp": 1, "dp": 32}],
        "router": {"host": "p1"},
    }


def cluster(raw: dict[str, Any] | None = None) -> Cluster:
    """The plan of the topology, and facts of each of its hosts."""
    plan = plan_of(raw or topology(), "", "/srv/inventories/npu/topology.yml")
    plans = {name: plan.hostvars(name)["pd_host"] for name in plan.topology.hosts}
    facts = {
        name: {"host": _host(planned), "ports": ports(), "npu": npu(number), "hccn": hccn(number)}
        for number, (name, planned) in enumerate(plans.items())
    }
    return Cluster(plan.cluster(), plans, facts, {})


def _host(planned: dict[str, Any]) -> dict[str, Any]:
    return host(
        planned["address"],
        settings=copy.deepcopy(SETTINGS),
        paths=[
            path("/data/models/model/config.json", "model", type="file"),
            path("/usr/local/python3.12.13/bin/vllm", "engine", type="file"),
            path("/var/log/mooncake-pd", "logs"),
        ],
    )
