# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenarios with NPU twins ask their hosts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import testinfra
import yaml

ROOT = Path(__file__).parents[2]
STATE = "/etc/mooncake-pd-twin/state.json"


@dataclass
class Play:
    rc: int
    seconds: float
    output: str

    @property
    def text(self) -> str:
        """The output in one line, for YAML breaks messages where it likes, and colours begin anew on every line."""
        return re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m", "", self.output))


class Scenario:
    def __init__(self, name: str) -> None:
        self.lab = f"molecule-{name.replace('_', '-')}"
        self.inventory = ROOT / "molecule" / name / "inventory"
        topology = yaml.safe_load((self.inventory / "topology.yml").read_text())
        self.hosts = {host: testinfra.get_host(f"podman://mooncake-pd-{self.lab}-{host}") for host in topology["hosts"]}

    def play(self, playbook: str, *options: str, inventory: Path | None = None) -> Play:
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_NOCOLOR": "1",
            # molecule sets it for its own plays where it sees a terminal, or takes something for one
            "ANSIBLE_FORCE_COLOR": "0",
        }
        started = time.monotonic()
        done = subprocess.run(
            ["ansible-playbook", f"mooncake.pd.{playbook}", "-i", inventory or self.inventory, *options],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Play(done.returncode, time.monotonic() - started, done.stdout + done.stderr)

    def fault(self, host: str, text: str) -> None:
        """What the headless engine of a host does from its next start on; an empty text takes it away."""
        self.state(host, engine_faults={"headless": text} if text else {})

    def state(self, host: str, **changes: Any) -> None:
        """Another state of the twin of a host."""
        told = json.loads(self.hosts[host].check_output(f"cat {STATE}")) | changes
        self.hosts[host].check_output(f"echo '{json.dumps(told)}' > {STATE} && mooncake-pd-twin-book")

    def stop(self, *units: str) -> None:
        """As an operator does it; a unit that failed counts as never tried again."""
        for host in self.hosts.values():
            for unit in units:
                host.run(f"systemctl stop '{unit}'")
                host.run(f"systemctl reset-failed '{unit}'")

    def listening(self, host: str, unit: str) -> dict[str, set[int]]:
        """address -> ports on which the processes of a unit listen, as ss tells."""
        pids = set(
            self.hosts[host]
            .check_output(f"systemd-cgls --no-pager -u {unit} | grep -o '[0-9]* /[^ ]*' || true")
            .split()[::2]
        )
        found: dict[str, set[int]] = {}
        for line in self.hosts[host].check_output("ss -H -ltnp").splitlines():
            address, _colon, port = line.split()[3].rpartition(":")
            if pids & set(re.findall(r"pid=(\d+)", line)):
                found.setdefault(address, set()).add(int(port))
        return found

    def started(self, host: str, unit: str) -> float:
        """When its main process was started: seconds since boot of the machine, so that hosts can be compared."""
        return (
            int(self.hosts[host].check_output(f"systemctl show --value -p ExecMainStartTimestampMonotonic {unit}"))
            / 1e6
        )
