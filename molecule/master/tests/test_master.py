# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Masters change settings, lose the one that leads, and lose etcd, while a client of the store lives. In this order."""

from __future__ import annotations

import json
import shutil
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

UNIT, CLIENT = "mooncake-pd-master", "lab-client"
ADDRESSES = {"mo-a": "10.90.91.11", "mo-b": "10.90.91.12"}
PYTHON = "/var/cache/mooncake-pd/engine/bin/python"
# puts a key twice a second, and says for each what came of it
STORE = """
import sys, time
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
print("setup", store.setup(sys.argv[1], "P2PHANDSHAKE", 64 << 20, 16 << 20, "tcp", "", sys.argv[2]), flush=True)
while True:
    print("put", store.put(str(time.monotonic()), b"x" * 4096), flush=True)
    time.sleep(0.5)
"""


def ask(host: str, path: str = "health", port: int = 9003) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{ADDRESSES[host]}:{port}/{path}", timeout=3) as answer:
        return answer.read().decode()


def role(host: str) -> tuple[str, bool] | None:
    try:
        told = json.loads(ask(host))
    except OSError:
        return None
    return told["role"], told["service_ready"]


def until(what, seconds: float = 30):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, what
        time.sleep(0.2)
    return found


def leader() -> str:
    return until(lambda: next((host for host in ADDRESSES if role(host) == ("leader", True)), None))


def other(host: str) -> str:
    return next(name for name in ADDRESSES if name != host)


def keys(host: str) -> int:
    return next(
        int(line.split()[1]) for line in ask(host, "metrics").splitlines() if line.startswith("master_key_count ")
    )


def play(scenario, name: str, *options: str, rc: int = 0, inventory: Path | None = None):
    run = scenario.play(name, *options, inventory=inventory)
    assert run.rc == rc, run.output
    return run.text


def started(scenario) -> dict[str, float]:
    return {name: scenario.started(name, UNIT) for name in ADDRESSES}


@pytest.fixture(scope="module")
def client(scenario):
    """A client of the store on the first host, which the plan says how to find the master."""
    host = scenario.hosts["mo-a"]
    told = ["--setenv=MC_STORE_CLUSTER_ID=lab", f"{PYTHON} -u -c '{STORE}' 10.90.91.11 etcd://10.90.91.11:2379"]
    host.check_output(f"systemd-run --unit {CLIENT} --collect {' '.join(told)}")
    until(lambda: keys(leader()) > 2, 60)
    yield host
    host.run(f"systemctl stop {CLIENT}")


def puts(host) -> list[str]:
    """What came of the last puts."""
    lines = host.check_output(f"journalctl -u {CLIENT} -o cat -n 4").splitlines()
    return [line.split()[1] for line in lines if line.startswith("put ")]


def inventory(scenario, folder: Path, **master) -> Path:
    """That of the scenario with other settings of the masters."""
    path = shutil.copytree(scenario.inventory, folder / "inventory") / "topology.yml"
    topology = yaml.safe_load(path.read_text())
    topology["master"].update(master)
    path.write_text(yaml.safe_dump(topology))
    return path.parent


@pytest.fixture
def changed(scenario, tmp_path):
    return inventory(scenario, tmp_path, client_ttl=30)


def test_one_leads_and_the_other_stands_by(scenario):
    first = leader()
    assert role(other(first)) == ("standby", False)
    assert scenario.listening(first, UNIT) == {ADDRESSES[first]: {9003, 17051}}
    # nobody is to take a standby for a master
    assert scenario.listening(other(first), UNIT) == {ADDRESSES[other(first)]: {9003}}
    text = play(scenario, "master")
    assert "It leads." in text
    assert f"It stands by, and {ADDRESSES[first]}:17051 leads." in text
    # localhost has looked that there is a plan
    assert text.count("changed=0") == len(ADDRESSES) + 1


def test_check_mode_is_content_with_them(scenario):
    text = play(scenario, "master", "--check")
    assert f"It stands by, and {ADDRESSES[leader()]}:17051 leads." in text
    assert text.count("changed=0") == len(ADDRESSES)


def test_a_client_finds_the_leader_through_etcd(client):
    until(lambda: puts(client) == ["0"] * 4)


def test_check_mode_tells_what_a_change_costs(scenario, client, changed):
    before = started(scenario)
    text = play(scenario, "master", "--check", inventory=changed)
    assert "It stands by and holds nothing, so that costs nothing." in text
    assert "; clients: 1), and loses all of it" in text
    assert started(scenario) == before


def test_what_empties_the_pool_is_confirmed(scenario, client, changed):
    before, had = started(scenario), keys(leader())
    text = play(scenario, "master", rc=2, inventory=changed)
    assert "say -e master_confirm=true. Nothing was changed." in text
    assert started(scenario) == before
    assert keys(leader()) >= had
    for host in scenario.hosts.values():
        assert "client_ttl" not in host.check_output(f"cat /etc/systemd/system/{UNIT}.service")


def test_the_one_that_leads_restarts_last(scenario, client, changed):
    before, first = started(scenario), leader()
    play(scenario, "master", "-e", "master_confirm=true", inventory=changed)
    after = started(scenario)
    assert before[first] < after[other(first)] < after[first]
    assert leader() == other(first)
    assert role(first) == ("standby", False)
    until(lambda: puts(client) == ["0"] * 4)
    assert "changed=0" in play(scenario, "master", inventory=changed)
    assert started(scenario) == after


def test_a_leader_that_is_killed_is_followed(scenario, client):
    first = leader()
    scenario.hosts[first].check_output(f"systemctl kill -s KILL {UNIT}")
    until(lambda: role(first) != ("leader", True))
    began = time.monotonic()
    # systemd starts the killed one again before its lease has run out, so each of them may be elected
    following = leader()
    assert time.monotonic() - began < 20
    until(lambda: role(other(following)) == ("standby", False))
    until(lambda: puts(client) == ["0"] * 4)


def test_a_leader_that_left_the_plan_is_named(scenario, client, tmp_path):
    first = leader()
    alone = inventory(scenario, tmp_path, client_ttl=30, hosts=[other(first)])
    began = time.monotonic()
    text = play(scenario, "master", rc=2, inventory=alone)
    assert f"stands by for {ADDRESSES[first]}:17051, which is none of the planned masters" in text
    assert time.monotonic() - began < 30
    # the way out
    scenario.hosts[first].check_output(f"systemctl disable --now {UNIT}")
    until(lambda: role(other(first)) == ("leader", True))
    play(scenario, "master", inventory=alone)
    scenario.hosts[first].check_output(f"systemctl enable --now {UNIT}")
    until(lambda: role(first) == ("standby", False))
    until(lambda: puts(client) == ["0"] * 4)


def test_masters_that_move_end_together(scenario, client, tmp_path):
    """One by one, the first would wait for a leader at the new port."""
    before, had = started(scenario), keys(leader())
    moved = inventory(scenario, tmp_path, client_ttl=30, rpc_port=17061, metrics_port=9013)
    text = play(scenario, "master", "-e", "master_confirm=true", rc=2, inventory=moved)
    assert "is to move (rpc_port 17051 -> 17061, metrics_port 9003 -> 9013)" in text
    assert (started(scenario), keys(leader()) >= had) == (before, True)
    # the way out
    for host in scenario.hosts.values():
        host.check_output(f"systemctl stop {UNIT}")
    play(scenario, "master", inventory=moved)
    assert {scenario.listening(host, UNIT)[ADDRESSES[host]] == {9013, 17061} for host in ADDRESSES} == {True, False}
    until(lambda: puts(client) == ["0"] * 4, 60)
    for host in scenario.hosts.values():
        host.check_output(f"systemctl stop {UNIT}")
    play(scenario, "master", inventory=inventory(scenario, tmp_path / "back", client_ttl=30))
    until(lambda: puts(client) == ["0"] * 4, 60)


def test_without_etcd_nobody_leads_and_it_is_told(scenario, client):
    """Last, for the settings go back to those of the scenario: what restarts stands by for nobody."""
    scenario.hosts["mo-a"].check_output("systemctl stop mooncake-pd-etcd")
    until(lambda: all((role(host) or ("", True))[1] is False for host in ADDRESSES))
    text = play(scenario, "master", "-e", "master_ready_timeout=8", rc=2)
    assert "bring etcd back" in text or "The master does not reach etcd" in text
    scenario.hosts["mo-a"].check_output("systemctl start mooncake-pd-etcd")
    play(scenario, "master", "-e", "master_confirm=true")
    leader()
