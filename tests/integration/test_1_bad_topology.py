# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input: one clear message with the place, no traceback, nothing changed on the hosts. Runs on fresh hosts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import INVENTORY, Lab, Runner

Topology = Callable[[str, str], Path]


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    """A copy of the inventory in which one text is replaced by another."""

    def change(old: str, new: str) -> Path:
        shutil.copytree(INVENTORY, tmp_path / "inventory")
        path = tmp_path / "inventory" / "topology.yml"
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
        return path.parent

    return change


def untouched(hosts: Lab) -> bool:
    """None of the things that the collection makes is there."""
    made = "/etc/mooncake-pd /var/log/mooncake-pd /opt/mooncake-pd /etc/systemd/system/mooncake-pd* /usr/sbin/haproxy"
    script = f"id mooncake 2>/dev/null; ls -d {made} 2>/dev/null; true"
    return all(hosts.shell(host, script) == "" for host in ("it-control", "it-p1", "it-d1"))


@dataclass
class Fault:
    old: str
    new: str
    said: list[str]


FAULTS = {
    "unknown-connector": Fault(
        "name: MooncakeConnector,",
        "name: MooncakeConector,",
        ["connector.name", "MooncakeConector", "MooncakeConnector"],
    ),
    "missing-host": Fault("{name: p1, host: it-p1,", "{name: p1,", ["prefill[0]", "host"]),
    "overlapping-ports": Fault(
        "  - {name: d1, host: it-d1, api_port: 8210}",
        "  - {name: d1, host: it-d1, api_port: 8210}\n  - {name: d2, host: it-d1, api_port: 8210}",
        ["[port-overlap]", "decode[1].api_port", "8210", "d1", "d2"],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_topology_that_cannot_be_planned(hosts: Lab, play: Runner, topology: Topology, name: str) -> None:
    fault = FAULTS[name]
    done = play("site.yml", inventory=topology(fault.old, fault.new))
    assert done.rc != 0
    for word in [*fault.said, "topology.yml"]:
        assert word in done.stdout
    assert "Traceback" not in done.stdout
    assert not done.tasks()
    assert untouched(hosts)


def test_several_problems_are_told_at_once(play: Runner, topology: Topology) -> None:
    inventory = topology("name: MooncakeConnector,", "name: Nonsense,")
    path = inventory / "topology.yml"
    path.write_text(path.read_text().replace("host: it-d1,", "host: it-d9,").replace("port: 8080", "port: 80800"))
    done = play("site.yml", inventory=inventory)
    for word in ("Nonsense", "it-d9", "80800"):
        assert word in done.stdout


def test_wrong_model_path_and_overridden_plan_are_told_together(hosts: Lab, play: Runner, topology: Topology) -> None:
    overridden = {"instance_environment": {"VLLM_HOST_IP": "192.0.2.1", "HARMLESS": "1"}}
    done = play("site.yml", inventory=topology("/model/tiny,", "/model/missing,"), extravars=overridden)
    assert done.rc != 0
    assert "[setting-planned] it-p1,it-d1 (2 hosts): instance_environment sets VLLM_HOST_IP, which" in done.stdout
    assert "[model-missing] it-p1,it-d1 (2 hosts)" in done.stdout
    assert "model.path: /var/cache/mooncake-pd/model/missing/config.json is not there" in done.stdout
    assert "Preflight found 4 errors (model-missing, setting-planned); nothing was changed" in done.message
    assert "topology.yml model.path" in done.stdout
    assert "Traceback" not in done.stdout
    assert untouched(hosts)


def test_dead_host_is_told_together_with_what_the_others_found(hosts: Lab, play: Runner, topology: Topology) -> None:
    hosts.tool("kill", "integration", "it-d1")
    try:
        done = play("playbooks/preflight.yml", inventory=topology("/model/tiny,", "/model/missing,"))
    finally:
        hosts.tool("start", "integration", "it-d1")
    assert done.rc != 0
    assert "[host-absent] it-d1: nothing is known: it cannot be reached" in done.stdout
    assert "[model-missing] it-p1" in done.stdout
    assert untouched(hosts)


def test_empty_inventory_stops(play: Runner, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("")
    done = play("site.yml", inventory=tmp_path)
    assert done.rc != 0


def test_check_mode_on_fresh_hosts_changes_nothing(hosts: Lab, play: Runner) -> None:
    done = play("site.yml", cmdline="--check --diff")
    assert done.rc == 0, done.stdout
    assert done.changes()
    assert "mooncake-pd-p1.service" in done.stdout
    assert untouched(hosts)
    assert hosts.shell("it-p1", "ls /etc/systemd/system | grep mooncake", check=False) == ""


def test_taken_port_is_named_before_anything_starts(hosts: Lab, play: Runner) -> None:
    hosts.shell(
        "it-p1",
        "systemd-run --unit=dashboard --quiet python3 -m http.server 8990 --bind 10.90.75.11 && sleep 1",
    )
    pid = hosts.property("it-p1", "dashboard.service", "MainPID")
    try:
        done = play("site.yml")
        assert done.rc != 0
        for word in ("8990", f"pid {pid}", "http.server", "dashboard.service", "prefill[0].bootstrap_port"):
            assert word in done.stdout
        assert "Preflight found 1 error (port-taken); nothing was changed" in done.message
        assert untouched(hosts)
        assert hosts.property("it-p1", "dashboard.service", "MainPID") == pid
    finally:
        hosts.exec("it-p1", "systemctl", "stop", "dashboard.service")
