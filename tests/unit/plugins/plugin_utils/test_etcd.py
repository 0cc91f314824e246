# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of etcd in the plan: their commands and ports, and what others are told. See faults.py for the rules."""

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.peers import to_try
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.document import document
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.faults import metadata, outside
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import plan, processes, rules


def planned(raw, host):
    return plan(raw).hostvars(host)["pd_host"]


def test_a_member_binds_and_tells_the_address_of_its_host():
    process = processes(metadata(), "p1")["etcd"]
    assert process["unit"]["argv"] == [
        *("etcd", "--name=p1"),
        *("--listen-client-urls=http://192.0.2.11:2379", "--advertise-client-urls=http://192.0.2.11:2379"),
        *("--listen-peer-urls=https://192.0.2.11:2380", "--listen-metrics-urls=http://192.0.2.11:2381"),
    ]
    assert [(claim["purpose"], claim["address"], claim["first"]) for claim in process["claims"]["ports"]] == [
        ("etcd-client", "192.0.2.11", 2379),
        ("etcd-peer", "192.0.2.11", 2380),
        ("etcd-metrics", "192.0.2.11", 2381),
    ]
    assert process["ready"]["health"] == {
        "url": "http://192.0.2.11:2381/health?exclude=NOSPACE",
        "json": {"health": "true"},
    }


def test_a_member_that_comes_restarts_none_that_stays():
    few, more = metadata(), metadata()
    few["etcd"]["hosts"] = ["control"]
    assert processes(few, "control")["etcd"] == processes(more, "control")["etcd"]


@pytest.mark.parametrize(("tls", "client", "peer"), [("none", "http", "http"), ("all", "https", "https")])
def test_certificates_for_all_or_for_none(tls, client, peer):
    raw = metadata()
    raw["etcd"]["tls"] = tls
    etcd = plan(raw).cluster()["etcd"]
    assert etcd["members"][1] == {
        "name": "p1",
        "address": "192.0.2.11",
        "client_url": f"{client}://192.0.2.11:2379",
        "peer_url": f"{peer}://192.0.2.11:2380",
    }
    assert (etcd["client_tls"], etcd["peer_tls"]) == (client == "https", peer == "https")


def test_what_others_are_told():
    etcd = plan(metadata()).cluster()["etcd"]
    assert etcd["managed"]
    assert etcd["endpoints"] == ["http://192.0.2.10:2379", "http://192.0.2.11:2379", "http://192.0.2.21:2379"]
    assert etcd["connection"] == "192.0.2.10:2379;192.0.2.11:2379;192.0.2.21:2379"
    assert (etcd["client_tls"], etcd["peer_tls"]) == (False, True)
    assert plan(metadata()).groups()["etcd"] == ["control", "p1", "d1"]


def test_an_etcd_that_is_there_already_is_told_and_nothing_of_it_runs():
    built = plan(outside())
    assert built.cluster()["etcd"] == {
        "managed": False,
        "members": [],
        "endpoints": ["http://192.0.2.77:2379", "http://192.0.2.78:2379"],
        "connection": "192.0.2.77:2379;192.0.2.78:2379",
        "peer_tls": False,
        "client_tls": False,
    }
    assert built.groups()["etcd"] == []
    assert not [one for own in built.processes.values() for one in own if one.kind == "etcd"]


def test_one_member_is_enough_and_one_on_loopback_is_for_a_single_host():
    raw = metadata()
    raw["etcd"]["hosts"] = ["control"]
    assert rules(raw) == set()
    alone = metadata()
    alone["hosts"] = {"control": {"address": "127.0.0.1"}}
    alone["etcd"] = {"endpoints": ["localhost:2379"]}
    for place in (*alone["prefill"], *alone["decode"]):
        place["host"] = "control"
    assert rules(alone) == set()


def test_schemes_are_not_mixed():
    raw = outside()
    raw["etcd"]["endpoints"] = ["192.0.2.77:2379", "https://192.0.2.78:2379"]
    assert ("etcd-endpoint", "etcd.endpoints") in rules(raw)


def test_members_try_each_other_and_others_do_not_try_them():
    raw = metadata()
    raw["hosts"]["e1"] = {"address": "192.0.2.41"}
    raw["etcd"]["hosts"] = ["control", "p1", "e1"]
    assert planned(raw, "e1")["peers"] == ["control", "p1"]
    member, other = planned(raw, "e1"), planned(raw, "d1")
    assert to_try(planned(raw, "p1"), member)["ports"].keys() >= {"etcd-client", "etcd-peer"}
    assert not {"etcd-client", "etcd-peer"} & to_try(planned(raw, "p1"), other)["ports"].keys()


def test_it_starts_before_everything_else():
    first = document(plan(metadata()))["start_order"][0]
    assert (first["name"], first["members"][0]["hosts"]) == ("etcd", ["control", "p1", "d1"])
