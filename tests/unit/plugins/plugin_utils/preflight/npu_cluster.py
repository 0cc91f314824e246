# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A planned service on NPUs with everything in order; tests break one thing in it."""

from __future__ import annotations

from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import build_plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.catalogue import RULES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.judge import judge
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.verdict import Finding
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import read_topology

from .healthy_npu import hccn, hccn_a2, npu, npu_a2, pings, pings_a2

Facts = dict[str, Any]
# unknown.py reports what is unknown of all families
FAMILY = {name: rule for name, rule in RULES.items() if rule.family == "npu" and not name.endswith("-unknown")}
HOSTS = ("p1", "d1", "d2")
PEERS = {"p1": "d1", "d1": "p1", "d2": "p1"}


def topology(generation: str) -> Facts:
    each = 16 if generation == "A3" else 8
    return {
        "plugin": "mooncake.pd.topology",
        "name": "npu",
        "engine": {"kind": "vllm_ascend", "version": "0.23.0"},
        "connector": {"name": "MooncakeConnectorV1"},
        "mooncake": {"version": "0.3.11.post1"},
        "model": {"path": "/srv/moe", "served_name": "moe", "features": ["moe"]},
        "hardware": {"generation": generation},
        "hosts": {name: {"address": f"192.0.2.{10 + number}"} for number, name in enumerate((*HOSTS, "control"))},
        "prefill": [{"name": "p1", "host": "p1", "tp": each // 2, "dp": 2}],
        "decode": [{"name": "d1", "hosts": ["d1", "d2"], "tp": 1, "dp": 2 * each}],
        "router": {"host": "control"},
    }


class Service:
    """Change `npu`, `hccn`, `host`, the plan or the environment of a host, then look what is `found`."""

    def __init__(self, generation: str = "A3", raw: Facts | None = None) -> None:
        self.raw = raw or topology(generation)
        plan = build_plan(read_topology(self.raw))
        self.cluster: Facts = plan.cluster()
        self.plans = {name: plan.hostvars(name)["pd_host"] for name in plan.topology.hosts}
        self.facts: dict[str, Facts] = {"control": {}}
        for number, name in enumerate(HOSTS, 1):
            peer = HOSTS.index(PEERS[name]) + 1
            if generation == "A3":
                seen = {"npu": npu(number), "hccn": hccn(number, pings=pings(PEERS[name], peer))}
            else:
                seen = {"npu": npu_a2(number), "hccn": hccn_a2(number, pings=pings_a2(PEERS[name], peer))}
            host = {"limits": {"user": "mooncake"}, "settings": {"instance_groups": ["HwHiAiUser"]}}
            self.facts[name] = {**seen, "host": host}

    def npu(self, host: str = "p1") -> Facts:
        return self.facts[host]["npu"]  # type: ignore[no-any-return]

    def hccn(self, host: str = "p1") -> Facts:
        return self.facts[host]["hccn"]  # type: ignore[no-any-return]

    def chips(self, *numbers: int, host: str = "p1", **changes: Any) -> Service:
        """Change NPUs as npu-smi tells them."""
        for number in numbers:
            self.npu(host)["chips"][number].update(changes)
        return self

    def ports(self, *numbers: int, host: str = "p1", **changes: Any) -> Service:
        """Change NPUs as hccn_tool tells them."""
        for number in numbers:
            self.hccn(host)["chips"][number].update(changes)
        return self

    def pings(self, *numbers: int, host: str = "p1", **changes: Any) -> Service:
        for number in numbers:
            self.hccn(host)["pings"][number].update(changes)
        return self

    def without_pings(self) -> Service:
        for name in HOSTS:
            self.hccn(name)["pings"] = []
        return self

    def environment(self, **variables: str) -> Service:
        for plan in self.plans.values():
            for process in plan["processes"]:
                process["unit"].setdefault("environment", {}).update(variables)
        return self

    def use(self, host: str, count: int) -> Service:
        """Plan only the first NPUs of a host."""
        for process in self.plans[host]["processes"]:
            process["devices"] = [number for number in process.get("devices") or () if number < count]
        return self

    def findings(self) -> list[Finding]:
        verdict = judge(self.cluster, self.plans, self.facts, families=("npu",))
        return [finding for finding in verdict.findings if finding.rule in FAMILY]

    def found(self) -> list[tuple[str, str, str | None]]:
        """Rule, severity, host."""
        return [(finding.rule, finding.severity, finding.host) for finding in self.findings()]

    def only(self) -> Finding:
        (finding,) = self.findings()
        return finding
