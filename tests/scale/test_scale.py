# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the cost of a plan grows with its hosts, and that the plan has everything it must have.

Seconds are measured by plan.py; here only what does not depend on the machine decides.
"""

from __future__ import annotations

from functools import cache

import pytest

from ansible_collections.mooncake.pd.tests.scale import plan
from ansible_collections.mooncake.pd.tests.scale.topologies import RATIOS, STYLES, counts, faulty, topology

SETTLED = [f"n{number}" for number in range(1, 100)]  # both topologies begin with them; names are as long there

# for four times as many hosts; the square would be 16. Beside other tests caches are cold, see plan.py for the limit
CPU_GROWTH = 6.5

styles = pytest.mark.parametrize("style", STYLES)


@cache
def measured(style: str, hosts: int, faults: bool = False) -> plan.Measured:
    return plan.measured_apart(style, hosts, faults=faults)


@styles
@pytest.mark.parametrize("hosts", [plan.FEW, plan.MANY])
def test_the_plan_has_every_process_and_port(style, hosts):
    one = measured(style, hosts)
    assert one.problems == 0
    assert {key: one.counts[key] for key in counts(topology(hosts, STYLES[style]))} == counts(
        topology(hosts, STYLES[style])
    )


@styles
def test_the_topology_is_mixed(style):
    """Each ratio; instances on one host and on two, beside others of the same host."""
    raw = topology(plan.MANY, STYLES[style])
    assert len(raw["hosts"]) == plan.MANY
    prefill, decode = ({len(one.get("hosts", [0])) for one in raw[side]} for side in ("prefill", "decode"))
    assert prefill == decode == {1, 2}
    hosts = [one["host"] for one in raw["prefill"] if "host" in one]
    assert {hosts.count(host) for host in hosts} == {1, 2}
    assert max(RATIOS) == 18
    assert len(raw["prefill"]) > len(raw["decode"])


@styles
def test_nothing_grows_with_the_square_of_the_hosts(style):
    few, many = measured(style, plan.FEW), measured(style, plan.MANY)
    assert many.cpu / few.cpu < CPU_GROWTH
    assert many.cluster_bytes / few.cluster_bytes < plan.GROWTH
    # what a host is told beside its peers does not depend on how many others there are; the first has the router
    first = next(iter(few.host_bytes))
    assert {host: many.host_bytes[host] for host in SETTLED} == {host: few.host_bytes[host] for host in SETTLED}
    assert many.host_bytes[first] / few.host_bytes[first] < plan.GROWTH


@styles
def test_a_host_tries_one_peer_more_when_the_hosts_quadruple(style):
    few, many = measured(style, plan.FEW), measured(style, plan.MANY)
    assert plan.MANY == 2 * 2 * plan.FEW
    assert {host: many.peers[host] for host in SETTLED} == {host: few.peers[host] + 1 for host in SETTLED}


@styles
def test_memory(style):
    assert measured(style, plan.MANY).megabytes < plan.PLAN_MEGABYTES
    assert measured(style, plan.MANY, True).megabytes < plan.PLAN_MEGABYTES


@styles
def test_a_report_on_every_instance_grows_with_the_hosts(style):
    few, many = measured(style, plan.FEW, True), measured(style, plan.MANY, True)
    assert few.problems >= len(faulty(plan.FEW, STYLES[style])[STYLES[style].binds])
    assert many.cpu / few.cpu < CPU_GROWTH


def test_what_ansible_shows_grows_with_the_hosts():
    """Ansible shows the variables of a group at each of its hosts."""
    (_few_seconds, few), (_many_seconds, many) = plan.inventory(50), plan.inventory(200)
    assert many / few < plan.GROWTH
