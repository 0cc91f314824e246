# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Masters, members of etcd and a host are lost while clients ask. In this order."""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager

from parts import (
    MASTERS,
    MEMBERS,
    UNIT,
    etcd_leader,
    etcd_status,
    keys,
    leader,
    only_late,
    other,
    role,
    segments,
    told,
    until,
)
from twin_hosts import ROOT

from ansible_collections.mooncake.pd.tests.load.judge import OK

ETCD = "mooncake-pd-etcd"
MEMORY = {"mo-a", "mo-p1", "mo-d1"}


def test_a_member_of_etcd_is_killed_and_nobody_notices(scenario, clients, pool_client):
    first, began, had = leader(), time.time(), keys()
    member = until(etcd_leader)
    clients.mark("member")
    scenario.hosts[member].check_output(f"systemctl kill -s KILL {ETCD}")
    until(lambda: etcd_leader() not in (None, member))
    print(f"etcd has another leader after {time.time() - began:.1f} s")
    until(lambda: all(map(etcd_status, MEMBERS)))
    clients.wait("answers", lambda report: report.phase("member").counts[OK] >= 40, 60)
    told(clients, "member", pool_client.turns(began), had)
    assert clients.report.faults == [], clients.report
    assert [turn for turn in pool_client.turns(began) if not turn.good] == []
    assert leader() == first
    assert had <= keys()


def test_a_master_that_leads_is_killed_and_the_other_one_takes_over(scenario, clients, pool_client):
    first, began, had = leader(), time.time(), keys()
    clients.mark("master")
    scenario.hosts[first].check_output(f"systemctl kill -s KILL {UNIT}")
    until(lambda: role(other(first)) == ("leader", True))
    print(f"{other(first)} leads after {time.time() - began:.1f} s")
    print(f"objects are put and fetched after {pool_client.works(time.time()) + time.time() - began:.1f} s")
    until(lambda: role(first) == ("standby", False))
    until(lambda: segments() == MEMORY)
    clients.mark("after")
    clients.wait("answers", lambda report: report.phase("after").counts[OK] >= 60, 120)
    told(clients, "master", pool_client.turns(began), had)
    only_late(clients)


@contextmanager
def lost(scenario, host):
    """The host goes on, and nobody reaches it."""
    lab = ROOT / "tests/hosts/lab"
    subprocess.run([lab, "cut", scenario.lab, host], check=True)
    try:
        yield
    finally:
        subprocess.run([lab, "join", scenario.lab, host], check=True)


def test_a_host_with_the_master_that_leads_is_lost(scenario, play, clients, pool_client):
    """With it goes a member of etcd, and a node of the pool."""
    if leader() != "mo-a":
        scenario.hosts["mo-b"].check_output(f"systemctl restart {UNIT}")
        until(lambda: role("mo-a") == ("leader", True))
        until(lambda: segments() == MEMORY)
    began, had = time.time(), keys()
    clients.mark("host")
    with lost(scenario, "mo-a"):
        until(lambda: role("mo-b") == ("leader", True))
        print(f"mo-b leads after {time.time() - began:.1f} s")
        clients.wait("answers", lambda report: report.phase("host").counts[OK] >= 60, 240)
        assert segments() == {"mo-p1", "mo-d1"}
        told(clients, "host", pool_client.turns(began), had)
        only_late(clients)
    until(lambda: role("mo-a") == ("standby", False), 60)
    until(lambda: segments() == MEMORY, 60)
    until(lambda: all(map(etcd_status, MEMBERS)))
    assert play("site").count("changed=0") == 5


def test_without_etcd_nobody_leads_and_engines_answer_all_the_same(scenario, play, clients, pool_client):
    """Last, for what restarts without etcd stands by for nobody."""
    began = time.time()
    clients.mark("etcd")
    for host in ("mo-a", "mo-b"):
        scenario.hosts[host].check_output(f"systemctl stop {ETCD}")
    until(lambda: all((role(host) or ("", True))[1] is False for host in MASTERS))
    clients.mark("nobody")
    clients.wait("answers", lambda report: report.phase("nobody").counts[OK] >= 6, 240)
    text = play("master", "-e", "master_ready_timeout=8", rc=2)
    assert "bring etcd back" in text or "The master does not reach etcd" in text
    play("start")
    leader()
    until(lambda: segments() == MEMORY)
    clients.mark("after")
    clients.wait("answers", lambda report: report.phase("after").counts[OK] >= 40, 120)
    told(clients, "nobody", pool_client.turns(began), set())
    only_late(clients)
    assert play("site").count("changed=0") == 5
