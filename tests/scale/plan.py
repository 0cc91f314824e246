# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the planner on 250 and 1,000 hosts.

    .venv/bin/python tests/scale/plan.py [--best-of N]

Every style is planned in a process of its own, so that its memory is its own; times are CPU seconds, which neighbours
on the machine disturb least, the best of N. Then Ansible reads the largest file: ansible-inventory --list and the plan
playbook, with all processes that they start. Ends with 1 when a limit or the growth is exceeded.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan, build_plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import read_topology
from ansible_collections.mooncake.pd.tests.scale.topologies import STYLES, Raw, faulty, topology

FEW, MANY = 250, 1000
# what is promised for 1,000 hosts; four times the hosts may cost no more than five times as much
PLAN_SECONDS, PLAN_MEGABYTES, INVENTORY_SECONDS, GROWTH = 5.0, 500, 20.0, 5.0
LARGEST = "external-pull"


@dataclass(frozen=True)
class Measured:
    """seconds: until there is a plan, or a report. variables: until Ansible has what it is told of every host."""

    seconds: float
    variables: float
    megabytes: int
    problems: int
    counts: dict[str, int]
    host_bytes: dict[str, int]  # the variables of each host without its peers, as JSON
    peers: dict[str, int]  # hosts that each host tries
    cluster_bytes: int

    @property
    def cpu(self) -> float:
        return self.seconds + self.variables


def plan(raw: Raw) -> tuple[Plan | None, int]:
    """The plan, and the number of problems."""
    try:
        found = build_plan(read_topology(raw))
    except PlanError as error:
        return None, len(error.problems)
    return found, len(found.warnings)


def tell(found: Plan | None) -> tuple[dict[str, Any], dict[str, Any]]:
    if found is None:
        return {}, {}
    return {host: found.hostvars(host) for host in found.topology.hosts}, {**found.cluster(), **found.groups()}


def count(found: Plan | None) -> dict[str, int]:
    """Processes and claims, and single ports by purpose."""
    if found is None:
        return {}
    processes = [process for own in found.processes.values() for process in own]
    ports: Counter[str] = Counter()
    for process in processes:
        for claim in process.claims:
            ports[claim.purpose] += claim.last - claim.first + 1
    return {
        "hosts": len(found.topology.hosts),
        "instances": len(found.topology.instances),
        "processes": len(processes),
        "claims": sum(len(process.claims) for process in processes),
        **{purpose: ports[purpose] for purpose in ("api", "kv", "dp-rpc")},
    }


def timed(work: Callable[[], Any], best_of: int) -> tuple[float, Any]:
    """The least CPU time of several runs, each of which starts without the garbage of the last."""
    times = []
    for _run in range(best_of):
        result = None
        gc.collect()
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return min(times), result


def measure(raw: Raw, best_of: int) -> Measured:
    seconds, (found, problems) = timed(lambda: plan(raw), best_of)
    variables, (hosts, cluster) = timed(lambda: tell(found), best_of)
    megabytes = _peak_megabytes()
    peers = {name: len(own["pd_host"].pop("peers")) for name, own in hosts.items()}
    return Measured(
        seconds,
        variables,
        megabytes,
        problems,
        count(found),
        {name: len(json.dumps(own)) for name, own in hosts.items()},
        peers,
        len(json.dumps(cluster)),
    )


def _peak_megabytes() -> int:
    """Of this process alone: ru_maxrss may still be that of the one that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak) // 1024


def measured_apart(style: str, hosts: int, *, faults: bool = False, best_of: int = 3) -> Measured:
    """measure() in a fresh process."""
    command = [sys.executable, __file__, "--style", style, "--hosts", str(hosts), "--best-of", str(best_of)]
    done = subprocess.run([*command, *["--faults"] * faults], check=True, stdout=subprocess.PIPE, text=True)
    return Measured(**json.loads(done.stdout))


def ansible(command: list[str], raw: Raw) -> tuple[float, int]:
    """CPU seconds of an ansible command and all its children on an inventory of this topology, and bytes it printed."""
    with tempfile.TemporaryDirectory(prefix="mooncake-pd-scale-") as folder:
        path = Path(folder, "topology.yml")
        path.write_text(to_yaml(raw), encoding="utf-8")
        program = str(Path(sys.executable).with_name(command[0]))
        before, printed = children_seconds(), Path(folder, "printed")
        with printed.open("w", encoding="utf-8") as file:
            done = subprocess.run(
                [program, "-i", str(path), *command[1:]],
                check=False,
                cwd=folder,
                env=ansible_environment(folder),
                stdout=file,
                stderr=subprocess.PIPE,
                text=True,
            )
        if done.returncode:
            raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{done.stderr}")
        return children_seconds() - before, printed.stat().st_size


def ansible_environment(folder: str) -> dict[str, str]:
    """PYTHONPATH and the like of whoever runs this would change what is measured."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))}
    return environment | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_HOME": folder}


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def to_yaml(raw: Raw) -> str:
    """Block by block as people write it, one instance or host a line; JSON is YAML."""
    lines = []
    for name, value in raw.items():
        if name == "hosts":
            lines += ["hosts:", *(f"  {host}: {_flow(entry)}" for host, entry in value.items())]
        elif name in ("prefill", "decode"):
            lines += [f"{name}:", *(f"  - {_flow(entry)}" for entry in value)]
        else:
            lines.append(f"{name}: {json.dumps(value)}")
    return "\n".join([*lines, ""])


def _flow(entry: Any) -> str:
    return json.dumps(entry)


def inventory(hosts: int) -> tuple[float, int]:
    return ansible(["ansible-inventory", "--list"], topology(hosts, STYLES[LARGEST]))


def playbook(hosts: int) -> tuple[float, int]:
    return ansible(["ansible-playbook", str(ROOT / "playbooks/plan.yml")], topology(hosts, STYLES[LARGEST]))


def _report(best_of: int) -> list[str]:
    """Print the table; returns what is over a limit."""
    over: list[str] = []

    def limit(what: str, value: float, most: float, unit: str) -> None:
        if value >= most:
            over.append(f"{what}: {value:.2f}{unit}, the limit is {most:g}{unit}")

    row = "{:<24}{:>6}{:>10}{:>10}{:>8}{:>9}{:>9}{:>9}{:>8}"
    print(row.format("", "hosts", "instances", "processes", "claims", "plan s", "vars s", "growth", "MB"))
    for style in STYLES:
        for faults in (False, True):
            what = f"{style}{', faulty' if faults else ''}"
            few, many = (measured_apart(style, hosts, faults=faults, best_of=best_of) for hosts in (FEW, MANY))
            for hosts, one in ((FEW, few), (MANY, many)):
                print(
                    row.format(
                        what,
                        hosts,
                        one.counts.get("instances", ""),
                        one.counts.get("processes", ""),
                        one.counts.get("claims", f"{one.problems} problems"),
                        f"{one.seconds:.2f}",
                        f"{one.variables:.2f}",
                        f"{many.cpu / few.cpu:.1f}x" if one is many else "",
                        one.megabytes,
                    )
                )
            limit(f"{what}: growth", many.cpu / few.cpu, GROWTH, "x")
            limit(f"{what}: plan", many.cpu, PLAN_SECONDS, " s")
            limit(f"{what}: memory", many.megabytes, PLAN_MEGABYTES, " MB")
    row = "{:<32}{:>6}{:>10}{:>9}{:>8}"
    print("\n" + row.format(f"{LARGEST}, all processes", "hosts", "CPU s", "growth", "MB out"))
    for name, run, most in (
        ("ansible-inventory --list", inventory, INVENTORY_SECONDS),
        ("ansible-playbook plan.yml", playbook, None),
    ):
        few_cpu, few_bytes = run(FEW)
        print(row.format(name, FEW, f"{few_cpu:.1f}", "", few_bytes // 10**6))
        if most and few_cpu >= most:
            limit(f"{name}: {FEW} hosts", few_cpu, most, " s")
            continue  # what grows so fast would not end today
        many_cpu, many_bytes = run(MANY)
        growth = many_cpu / few_cpu
        print(row.format(name, MANY, f"{many_cpu:.1f}", f"{growth:.1f}x", many_bytes // 10**6))
        limit(f"{name}: growth", growth, GROWTH, "x")
        if most:
            limit(name, many_cpu, most, " s")
    return over


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the planner on 250 and 1,000 hosts.")
    parser.add_argument("--best-of", type=int, default=3, help="runs of which the fastest counts (default: 3)")
    # what measured_apart() asks the process that it starts
    parser.add_argument("--style", choices=STYLES, help=argparse.SUPPRESS)
    parser.add_argument("--hosts", type=int, default=MANY, help=argparse.SUPPRESS)
    parser.add_argument("--faults", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.style:
        make = faulty if options.faults else topology
        print(json.dumps(asdict(measure(make(options.hosts, STYLES[options.style]), options.best_of))))
        return 0
    over = _report(options.best_of)
    print("\n" + ("\n".join(["over the limit:", *(f"  {line}" for line in over)]) if over else "within all limits"))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
