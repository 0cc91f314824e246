# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of etcd and of the masters are changed while clients ask. In this order."""

from __future__ import annotations

import time

from parts import MASTERS, MEMBERS, UNIT, keys, leader, only_late, other, role, segments, told, until

from ansible_collections.mooncake.pd.tests.load.judge import OK

ETCD = "mooncake-pd-etcd"


def started(scenario, hosts, unit) -> dict[str, float]:
    return {host: scenario.started(host, unit) for host in hosts}


def test_etcd_is_changed_and_nobody_notices(scenario, play, inventory, clients, pool_client):
    inventory.variables(etcd_quota=1 << 30)
    before, had = started(scenario, MEMBERS, ETCD), keys()
    first, began = leader(), time.time()
    clients.mark("etcd")
    play("etcd")
    clients.mark("after")
    clients.wait("answers", lambda report: report.phase("after").counts[OK] >= 20, 60)
    after = started(scenario, MEMBERS, ETCD)
    assert all(after[host] > before[host] for host in MEMBERS)
    assert clients.report.phase("etcd").counts[OK] >= 20, clients.report
    assert clients.report.faults == [], clients.report
    turns = pool_client.turns(began)
    told(clients, "etcd", turns, had)
    assert [turn for turn in turns if not turn.good] == []
    assert leader() == first
    assert had <= keys()


def test_site_does_not_empty_the_pool_unasked(scenario, play, inventory, pool_client):
    inventory.topology(lambda topology: topology["master"].update(client_ttl=30))
    before, had = started(scenario, MASTERS, UNIT), keys()
    text = play("site", rc=2)
    assert "say -e master_confirm=true. Nothing was changed." in text
    assert started(scenario, MASTERS, UNIT) == before
    assert had <= keys()


def test_masters_are_changed_and_the_one_that_leads_comes_last(scenario, play, clients, pool_client):
    before, first, began, had = started(scenario, MASTERS, UNIT), leader(), time.time(), keys()
    clients.mark("masters")
    play("master", "-e", "master_confirm=true")
    clients.mark("after")
    clients.wait("answers", lambda report: report.phase("after").counts[OK] >= 60, 240)
    after = started(scenario, MASTERS, UNIT)
    assert before[first] < after[other(first)] < after[first]
    assert leader() == other(first)
    assert role(first) == ("standby", False)
    until(lambda: segments() == {"mo-a", "mo-p1", "mo-d1"})
    told(clients, "masters", pool_client.turns(began), had)
    only_late(clients)
    assert play("site").count("changed=0") == 5
    assert started(scenario, MASTERS, UNIT) == after
