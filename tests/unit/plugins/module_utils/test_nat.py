# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import nat, nat_iptables, nat_nft

LOCAL = {"192.0.2.11", "127.0.0.1", "2001:db8::11"}


def told(found: list[nat.Redirection]) -> list[tuple[str, str | None, int, int, str]]:
    return [(item.chain, item.address, item.first, item.last, item.to) for item in found]


def saved(*rules: str, table: str = "nat") -> str:
    chains = sorted({rule.split()[1] for rule in rules} | {"PREROUTING"})
    lines = [f"*{table}", *(f":{chain} - [0:0]" for chain in chains), *rules, "COMMIT", ""]
    return "\n".join(["# Generated", *lines])


def iptables(*rules: str) -> list[nat.Redirection]:
    return nat_iptables.redirections(saved(*rules), LOCAL)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("-p tcp -m tcp --dport 8100 -j REDIRECT --to-ports 9", [(None, 8100, 8100, "port 9 of this host")]),
        ("-p tcp -m tcp --dport 8100 -j REDIRECT", [(None, 8100, 8100, "this host")]),
        ("-p tcp -m tcp --dport 8100:8110 -j DNAT --to-destination 10.1.1.1", [(None, 8100, 8110, "10.1.1.1")]),
        (
            "-p tcp -m multiport --dports 80,8100:8101 -j DNAT --to-destination 10.1.1.1:1",
            [(None, 80, 80, "10.1.1.1:1"), (None, 8100, 8101, "10.1.1.1:1")],
        ),
        (
            "-p tcp -m tcp ! --dport 22 -j DNAT --to-destination 10.1.1.1",
            [(None, 1, 21, "10.1.1.1"), (None, 23, 65535, "10.1.1.1")],
        ),
        ("-d 192.0.2.11/32 -p tcp -j DNAT --to-destination 10.1.1.1", [("192.0.2.11", 1, 65535, "10.1.1.1")]),
        (
            "-d 192.0.2.0/24 -p tcp -m tcp --dport 1 -j DNAT --to-destination 10.1.1.1:1",
            [("192.0.2.0/24", 1, 1, "10.1.1.1:1")],
        ),
        ("-d 10.96.0.7/32 -p tcp -m tcp --dport 8100 -j DNAT --to-destination 10.1.1.1", []),
        ("-p udp -m udp --dport 8100 -j DNAT --to-destination 10.1.1.1", []),
        ("-i lo -p tcp -m tcp --dport 8100 -j REDIRECT --to-ports 9", []),
        ("-p tcp -m tcp --dport 8100 -j RETURN", []),
        ("-s 10.0.0.0/8 -j MASQUERADE", []),
    ],
)
def test_rules_of_iptables(rule: str, expected: list[tuple[Any, ...]]) -> None:
    assert told(iptables(f"-A PREROUTING {rule}")) == [("PREROUTING", *item) for item in expected]


def test_conditions_hold_on_the_way_through_chains() -> None:
    (found,) = iptables(
        '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
        '-A KUBE-SERVICES -d 10.96.0.9/32 -p tcp -m comment --comment "a/b:c IP" -m tcp --dport 53 -j KUBE-SVC-A',
        "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS",
        '-A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -j KUBE-EXT-A',
        "-A KUBE-EXT-A -j KUBE-MARK-MASQ",
        "-A KUBE-EXT-A -j KUBE-SVC-A",
        "-A KUBE-SVC-A -m statistic --mode random --probability 0.5 -j KUBE-SEP-1",
        "-A KUBE-SVC-A -j KUBE-SEP-2",
        "-A KUBE-SEP-1 -p tcp -m tcp -j DNAT --to-destination 10.244.1.5:8080",
        "-A KUBE-SEP-2 -p tcp -m tcp -j DNAT --to-destination 10.244.1.6:8080",
        "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
    )
    assert (found.chain, found.first, found.last, found.kubernetes) == ("KUBE-NODEPORTS", 30080, 30080, True)
    assert found.to.startswith("10.244.1.")


def test_rules_that_no_hook_leads_to_and_loops_do_not_count() -> None:
    assert iptables("-A DOCKER -p tcp -m tcp --dport 80 -j DNAT --to-destination 172.17.0.2:80") == []
    assert iptables("-A PREROUTING -j A", "-A A -j B", "-A B -j A") == []
    text = saved("-A PREROUTING -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 9", table="mangle")
    assert nat_iptables.redirections(text, LOCAL) == []


@pytest.mark.parametrize(
    ("rules", "runtime", "container"),
    [
        (
            [
                "-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER",
                "-A DOCKER ! -i docker0 -p tcp -m tcp --dport 8100 -j DNAT --to-destination 172.17.0.2:80",
            ],
            "docker",
            None,
        ),
        (
            [
                "-A PREROUTING -m addrtype --dst-type LOCAL -j NETAVARK-HOSTPORT-DNAT",
                '-A NETAVARK-HOSTPORT-DNAT -p tcp -m tcp --dport 8100 -m comment --comment "dnat name: podman id: '
                'aabbccddeeff00112233" -j NETAVARK-DN-77',
                "-A NETAVARK-DN-77 -s 10.88.0.0/16 -p tcp -m tcp --dport 8100 -j NETAVARK-HOSTPORT-SETMARK",
                "-A NETAVARK-DN-77 -p tcp -m tcp --dport 8100 -j DNAT --to-destination 10.88.0.7:80",
            ],
            "podman",
            "aabbccddeeff",
        ),
        (
            [
                "-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
                '-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"bridge\\" id: '
                '\\"default-aabbccddeeff00112233\\"" -m multiport --dports 8100,8101 -j CNI-DN-77',
                "-A CNI-DN-77 -p tcp -m tcp --dport 8100 -j DNAT --to-destination 10.4.0.7:80",
            ],
            "cni",
            "aabbccddeeff",
        ),
    ],
)
def test_chains_of_container_runtimes(rules: list[str], runtime: str, container: str | None) -> None:
    (found,) = iptables(*rules)
    assert (found.first, found.last, found.runtime, found.container) == (8100, 8100, runtime, container)


def test_nodeport_chain_is_known_without_rules() -> None:
    assert "KUBE-NODEPORTS" in nat_iptables.chains("*nat\n:KUBE-NODEPORTS - [0:0]\nCOMMIT\n")


# ---- nftables --------------------------------------------------------------------------------------------------------


def match(protocol: str, name: str, right: Any, op: str = "==") -> dict[str, Any]:
    return {"match": {"op": op, "left": {"payload": {"protocol": protocol, "field": name}}, "right": right}}


def ruleset(table: str, rules: dict[str, list[list[Any]]], family: str = "inet", **maps: Any) -> str:
    chains: list[dict[str, Any]] = [{"name": "pre", "type": "nat", "hook": "prerouting", "prio": -100}]
    chains += [{"name": name} for name in rules if name != "pre"]
    place = {"family": family, "table": table}
    items: list[dict[str, Any]] = [
        {"metainfo": {"json_schema_version": 1}},
        {"table": {"family": family, "name": table}},
    ]
    items += [{"map": {**place, "name": name, "map": "verdict", "elem": elements}} for name, elements in maps.items()]
    items += [{"chain": {**place, **chain}} for chain in chains]
    items += [{"rule": {**place, "chain": name, "expr": expr}} for name, made in rules.items() for expr in made]
    return json.dumps({"nftables": items})


DNAT = {"dnat": {"family": "ip", "addr": "10.88.0.7", "port": 80}}


PORTS_MAP = {"key": {"payload": {"protocol": "tcp", "field": "dport"}}, "data": {"set": [[9, "10.2.2.2"]]}}
ELSEWHERE = {"dnat": {"addr": "10.1.1.1"}}
SOME = match("tcp", "dport", {"set": [80, {"range": [90, 91]}]})


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ([match("tcp", "dport", 8100), DNAT], [(None, 8100, 8100, "10.88.0.7:80")]),
        (
            [match("tcp", "dport", {"range": [8100, 8110]}), {"redirect": {"port": 9}}],
            [(None, 8100, 8110, "port 9 of this host")],
        ),
        ([SOME, {"redirect": None}], [(None, 80, 80, "this host"), (None, 90, 91, "this host")]),
        (
            [match("tcp", "dport", 22, "!="), ELSEWHERE],
            [(None, 1, 21, "10.1.1.1"), (None, 23, 65535, "10.1.1.1")],
        ),
        (
            [match("ip", "daddr", "192.0.2.11"), match("tcp", "dport", 80), DNAT],
            [("192.0.2.11", 80, 80, "10.88.0.7:80")],
        ),
        ([match("ip", "daddr", {"prefix": {"addr": "10.96.0.0", "len": 12}}), DNAT], []),
        ([match("udp", "dport", 8100), DNAT], []),
        ([match("ip", "protocol", "udp"), DNAT], []),
        ([match("tcp", "dport", "@ports"), DNAT], [(None, 7, 7, "10.88.0.7:80")]),
        ([{"dnat": {"addr": {"map": PORTS_MAP}}}], [(None, 9, 9, "10.2.2.2")]),
        ([match("tcp", "dport", 8100), {"xt": {"type": "target", "name": "REDIRECT"}}], []),
    ],
)
def test_rules_of_nftables(expr: list[Any], expected: list[tuple[Any, ...]]) -> None:
    text = ruleset("mine", {"pre": [expr]}, ports=[{"elem": {"val": 7, "comment": "x"}}])
    assert told(nat_nft.redirections(text, LOCAL)) == [("pre", *item) for item in expected]


def test_kube_proxy_by_verdict_maps() -> None:
    key = [{"meta": {"key": "l4proto"}}, {"payload": {"protocol": "th", "field": "dport"}}]
    text = ruleset(
        "kube-proxy",
        {
            "pre": [[{"jump": {"target": "services"}}]],
            "services": [[match("ip", "daddr", "@node-ips"), {"vmap": {"key": {"concat": key}, "data": "@nodeports"}}]],
            "external": [[{"goto": {"target": "service"}}]],
            "service": [
                [{"vmap": {"key": {"numgen": {"mod": 1}}, "data": {"set": [[0, {"goto": {"target": "end"}}]]}}}]
            ],
            "end": [[DNAT]],
        },
        nodeports=[
            [{"concat": ["tcp", 30111]}, {"goto": {"target": "external"}}],
            [{"concat": ["udp", 30112]}, {"goto": {"target": "external"}}],
        ],
        **{"node-ips": ["192.0.2.11", "192.0.2.99"]},
    )
    (found,) = nat_nft.redirections(text, LOCAL)
    assert (found.address, found.first, found.to, found.kubernetes) == ("192.0.2.11", 30111, "10.88.0.7:80", True)
    assert nat_nft.is_kube_proxy(text)


def test_netavark_in_nftables_and_rules_for_ipv6() -> None:
    (found,) = nat_nft.redirections(ruleset("netavark", {"pre": [[match("tcp", "dport", 80), DNAT]]}), LOCAL)
    assert (found.runtime, found.address) == ("podman", None)
    (found,) = nat_nft.redirections(ruleset("mine", {"pre": [[match("tcp", "dport", 80), DNAT]]}, "ip6"), LOCAL)
    assert found.address == "::"


def test_what_iptables_wrote_is_told_and_nonsense_is_refused() -> None:
    text = ruleset("nat", {"pre": [[{"xt": {"type": "target", "name": "DNAT"}}]]})
    assert nat_nft.foreign_targets(text) == {"DNAT"}
    for nonsense in ("{}", "[]", "no json"):
        with pytest.raises(ValueError, match=r"nftables|Expecting|indices"):
            nat_nft.tables(nonsense)
