# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure preflight on the recorded facts of 200 and 1,000 hosts, healthy ones and ones with faults.

    .venv/bin/python tests/scale/preflight.py

The whole command counts, ansible-playbook with all processes that it starts, in CPU seconds; the judge alone stands
beside it. Ends with 1 when a limit or the growth is exceeded.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan, build_plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.judge import judge
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import FAMILIES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import document, junit, page, text
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import read_topology
from ansible_collections.mooncake.pd.tests.scale.plan import (
    ansible_environment,
    children_seconds,
    timed,
    to_yaml,
)
from ansible_collections.mooncake.pd.tests.scale.topologies import STYLES, Raw, topology
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight import (
    healthy,
    healthy_host,
    healthy_npu,
    healthy_ports,
)

FEW, MANY = 200, 1000
# what is promised: CPU seconds on the controller for 200 hosts, and five times the hosts cost at most 6.5 times as much
SECONDS, GROWTH = 30.0, 6.5
STYLE = "external-pull"

Facts = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Fleet:
    raw: Raw
    plan: Plan
    plans: dict[str, dict[str, Any]]
    facts: Facts


def fleet(hosts: int, faults: bool = False) -> Fleet:
    """What preflight would have seen of a fleet; with faults, one in every host."""
    raw = topology(hosts, STYLES[STYLE])
    plan = build_plan(read_topology(raw))
    made = Fleet(raw, plan, {name: plan.hostvars(name)["pd_host"] for name in plan.topology.hosts}, {})
    for number, (name, planned) in enumerate(made.plans.items()):
        own = facts(number, planned, made.plans)
        if faults:
            break_one(number, own)
        made.facts[name] = own
    return made


def facts(number: int, planned: dict[str, Any], plans: Facts) -> dict[str, Any]:
    address = planned["address"]
    host = healthy_host.host(
        address,
        settings=dict(healthy.SETTINGS),
        peers=[healthy_host.peer(peer, plans[peer]["address"], source=address) for peer in planned["peers"]],
        paths=[healthy_host.path(entry["path"], entry["purpose"], type="file") for entry in planned["files"]],
    )
    for interface in host["interfaces"]:
        if interface["name"] == "bond0" and planned["interface"]:
            interface["name"] = planned["interface"]
    host["names"].update(hostname=planned["name"], resolved=[])
    host["kernel"]["boot_id"] = f"boot-{number}"
    found = {"host": host, "ports": healthy_ports.ports()}
    if any(process["devices"] for process in planned["processes"]):
        found |= {"npu": healthy_npu.npu(number + 1), "hccn": healthy_npu.hccn(number + 1)}
    return found


def break_one(number: int, own: dict[str, Any]) -> None:
    host = own["host"]
    if number % 4 == 0:
        host["limits"]["memlock"] = {"soft": 65536, "hard": 65536}
    elif number % 4 == 1:
        host["paths"][0].update(type="missing", nearest="/data")
    elif number % 4 == 2:
        host["shm"]["free"] = number << 20
    else:
        host["unknown"].append({"what": "limits", "why": "systemd-run did not answer", "raw": f"try {number}"})


def judged(made: Fleet) -> dict[str, Any]:
    """All of what happens after the hosts have answered."""
    content = document.document(judge(made.plan.cluster(), made.plans, made.facts))
    written = [document.to_json(content), junit.junit(content), page.page(content)]
    return {"document": content, "lines": text.lines(content), "bytes": sum(map(len, written))}


def playbook(made: Fleet) -> tuple[float, str]:
    """CPU seconds of ansible-playbook and all its children, and what it printed."""
    with tempfile.TemporaryDirectory(prefix="mooncake-pd-scale-") as folder:
        place = Path(folder, "topology.yml")
        place.write_text(to_yaml(made.raw), encoding="utf-8")
        recorded = {"schema": 1, "cluster": "scale", "absent": {}, "families": FAMILIES, "hosts": made.facts}
        Path(folder, "facts.json").write_text(json.dumps(recorded), encoding="utf-8")
        before = children_seconds()
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("ansible-playbook")),
                str(ROOT / "playbooks/judge.yml"),
                *("-i", str(place), "-e", f"preflight_facts={folder}/facts.json"),
            ],
            check=False,
            cwd=folder,
            env=ansible_environment(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode not in (0, 2):
            raise SystemExit(f"ansible-playbook ended with {done.returncode}:\n{done.stdout[-4000:]}")
        return children_seconds() - before, done.stdout


def main() -> int:
    over = []
    row = "{:<16}{:>6}{:>12}{:>11}{:>9}{:>9}{:>11}"
    print(row.format("", "hosts", "playbook s", "judge s", "growth", "lines", "report KB"))
    for faults in (False, True):
        spent = {}
        for hosts in (FEW, MANY):
            made = fleet(hosts, faults)
            seconds, result = timed(lambda made=made: judged(made), 2)
            spent[hosts], _printed = playbook(made)
            growth = spent[hosts] / spent[FEW]
            told = f"{growth:.1f}x" if hosts == MANY else ""
            what = "faulty" if faults else "healthy"
            numbers = (f"{spent[hosts]:.1f}", f"{seconds:.2f}", told, len(result["lines"]), result["bytes"] // 1000)
            print(row.format(what, hosts, *numbers))
        if spent[FEW] >= SECONDS:
            over.append(f"{what}: {FEW} hosts take {spent[FEW]:.1f} s, the limit is {SECONDS:g} s")
        if growth >= GROWTH:
            over.append(f"{what}: growth {growth:.1f}x, the limit is {GROWTH:g}x")
    print("\n" + ("\n".join(["over the limit:", *(f"  {line}" for line in over)]) if over else "within all limits"))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
