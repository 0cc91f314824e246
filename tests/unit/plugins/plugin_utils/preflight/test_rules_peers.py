# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports of peers: what was tried, and what was not."""

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight import healthy


@pytest.mark.parametrize(
    ("states", "rule", "what"),
    [
        ((None, None), None, ""),  # nothing is known, which the unknown entries say
        ((None, "closed"), None, ""),
        ((None, "filtered"), "peer-silent", "cannot be reached on any planned port"),
        (("closed", "filtered"), "peer-filtered", "bootstrap 8998 of"),
    ],
)
def test_ports_that_were_not_tried_prove_nothing(states, rule, what):
    made = healthy.cluster()
    for peer in made.facts["p1"]["host"]["peers"]:
        for port, state in zip(peer["ports"], states, strict=True):
            port.update(state=state, error=state)
    found = [finding for finding in made.verdict().findings if finding.rule.startswith("peer-")]
    assert [finding.rule for finding in found] == ([rule] if rule else [])
    assert all(what in finding.what and "None" not in finding.evidence for finding in found)


def test_the_last_port_of_a_purpose_is_told():
    made = healthy.cluster()
    for peer in made.facts["p1"]["host"]["peers"]:
        peer["ports"] = [
            {"port": 22000, "purpose": "kv", "state": "closed", "error": "connection refused"},
            {"port": 22015, "purpose": "kv", "state": "filtered", "error": "rejected by a firewall (icmp 3/3)"},
        ]
    (found,) = [finding for finding in made.verdict().findings if finding.rule == "peer-filtered"]
    assert found.what.startswith("kv 22015 of ")
    assert found.evidence == "rejected by a firewall (icmp 3/3)"


def test_no_proxy_has_to_name_every_peer():
    made = healthy.cluster()
    made.facts["p1"]["host"]["proxies"] = [
        {"where": "unit", "name": "http_proxy", "value": "http://10.0.0.1:3128"},
        {"where": "unit", "name": "no_proxy", "value": "192.0.2.11,192.0.2.12,192.0.2.22"},
    ]
    (found,) = made.verdict().findings
    assert found.what == "units get http_proxy, and no_proxy does not name 192.0.2.21"
