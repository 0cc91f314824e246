# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that were put into real hosts are found, exactly those; and looking changes nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from host_faults import HOST, NPU, Fault, Found

ROOT = Path(__file__).parents[3]
# Files, settings and processes; not what every login writes, nor what the kernel counts.
CENSUS = r"""
find / -xdev \( -path /proc -o -path /sys -o -path '/var/log/journal*' -o -path '/run/log*' \
  -o -path '/var/log/[wbl]tmp' -o -path /var/log/lastlog \
  -o -path '/home/ansible/.ansible*' -o -path '/run/user*' -o -path '/run/systemd*' \
  -o -path '/run/sudo*' -o -path /run/utmp -o -path '/run/dbus*' -o -path '/tmp*' -o -path '/var/lib/sudo*' \) -prune \
  -o -printf '%p %y %m %u %s %T@\n' | grep -v '^/run d' | sort
find /dev/shm /tmp /etc/systemd /run/systemd/transient /run/systemd/system | grep -v session- | sort
sysctl -a 2>/dev/null | grep -v -E 'random|dentry|inode|file-nr|pty.nr|ns_last_pid|conntrack' | sort
ps -eo user,args --no-headers | grep -v -E 'sshd|systemd --user|\(sd-pam\)|ps -eo|sort$|grep -v|sh -c|podman|\[' | sort
ss -Hltn | sort; ip addr; ip route; mount
systemctl list-units --all --plain --no-legend --type=service,mount,socket | grep -v -E 'session|user|ssh' | sort
"""


@pytest.fixture
def look(scenario, tmp_path):
    """One run of preflight: what it returned, what it said and what it found."""

    def run(*options: str, inventory: Path | None = None) -> tuple[int, str, Found, dict[str, str]]:
        play = scenario.play("preflight", "-e", f"preflight_dest={tmp_path}", *options, inventory=inventory)
        content = json.loads((tmp_path / "preflight.json").read_text())
        found = {
            (group["rule"], item["host"]): group["severity"]
            for group in content["groups"]
            for item in group["findings"]
        }
        return play.rc, play.text, set(found), found

    return run


@contextmanager
def put(scenario, faults: dict[str, Fault]) -> Iterator[Found]:
    """Put faults into the hosts, and take them away whatever happens; gives what has to be found."""
    try:
        for host in scenario.hosts:
            twin = [fault.twin for fault in faults.values() if fault.host == host and fault.twin]
            if twin:
                scenario.state(host, faults={kind: value for one in twin for kind, value in one.items()})
        for fault in faults.values():
            if fault.put:
                scenario.hosts[fault.host].check_output(fault.put)
        yield {found for fault in faults.values() for found in fault.found}
    finally:
        for fault in faults.values():
            if fault.take:
                scenario.hosts[fault.host].run(fault.take)
        for host in scenario.hosts:
            scenario.state(host, faults={})


def test_there_are_enough_faults():
    assert len(HOST) + len(NPU) >= 25


def test_healthy_hosts_give_nothing_and_looking_changes_nothing(scenario, look):
    before = {host: scenario.hosts[host].check_output(CENSUS).splitlines() for host in scenario.hosts}
    rc, text, found, _severities = look()
    after = {host: scenario.hosts[host].check_output(CENSUS).splitlines() for host in scenario.hosts}
    assert found == set()
    assert rc == 0
    assert "Clean: no errors and no warnings." in text
    for host in scenario.hosts:
        assert set(before[host]) ^ set(after[host]) == set()
        assert len(before[host]) > 5000


# the hosts' faults last: a connection in TIME-WAIT goes away by itself only, after a minute
@pytest.mark.parametrize("faults", [NPU, HOST], ids=["npu", "host"])
def test_exactly_the_faults_are_found(scenario, look, faults):
    with put(scenario, faults) as expected:
        rc, _text, found, _severities = look()
    assert found == expected
    assert rc == 2


def test_a_tool_that_hangs_costs_its_time_once_and_is_unknown(scenario, look):
    hangs = Fault("npu1", {("hccn-unknown", "npu1")}, twin={"hccn_tool": "hang"})
    with put(scenario, {"hccn_tool hangs": hangs}):
        rc, text, found, severities = look("-e", "preflight_tool_timeout=3", "--tags", "npu")
    assert rc == 2
    assert ("hccn-unknown", "npu1") in found
    assert severities["hccn-unknown", "npu1"] in ("error", "warning")
    (seconds,) = re.findall(r"([\d.]+) s mooncake.pd.preflight : Look at the network of the NPUs", text)
    # 80 questions, 3 s for all of them together
    assert float(seconds) < 30


def test_a_plan_that_does_not_fit_the_hosts(scenario, look, tmp_path):
    """The wrong interface and a model that is not there, in the topology."""
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    (inventory / "group_vars").symlink_to(scenario.inventory / "group_vars")
    topology = yaml.safe_load((scenario.inventory / "topology.yml").read_text())
    topology["hosts"]["npu1"]["interface"] = "lo"
    topology["hosts"]["npu2"]["interface"] = "enp9s0"
    topology["model"]["path"] = "/srv/nothing"
    topology["waive"] = [{"rule": "model-missing", "host": "npu3", "reason": "it is copied later"}]
    (inventory / "topology.yml").write_text(yaml.safe_dump(topology))
    rc, text, found, _severities = look("--tags", "host,network", inventory=inventory)
    assert rc == 2
    assert found == {
        ("interface-other", "npu1"),
        ("interface-absent", "npu2"),
        ("model-missing", "npu1"),
        ("model-missing", "npu2"),
    }
    assert "it is copied later" in text or "1 waived" in text


def test_a_dead_host_is_told_with_what_the_others_found(scenario, look):
    lab = [ROOT / "tests/hosts/lab"]
    environment = {**os.environ, "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}"}
    fault = {"few": HOST["few connections may wait"]}
    subprocess.run([*lab, "kill", scenario.lab, "npu3"], check=True, env=environment)
    try:
        with put_where_alive(scenario, fault):
            rc, text, found, _severities = look("-e", "ansible_ssh_timeout=3")
    finally:
        subprocess.run([*lab, "start", scenario.lab, "npu3"], check=True, env=environment)
    assert rc == 2
    assert found >= {("host-absent", "npu3"), ("somaxconn", "npu1")}
    assert "cannot be reached" in text


@contextmanager
def put_where_alive(scenario, faults: dict[str, Fault]) -> Iterator[None]:
    for fault in faults.values():
        scenario.hosts[fault.host].check_output(fault.put)
    try:
        yield
    finally:
        for fault in faults.values():
            scenario.hosts[fault.host].check_output(fault.take)
