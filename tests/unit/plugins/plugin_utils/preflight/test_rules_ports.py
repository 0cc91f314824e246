# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import port_spans
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.catalogue import RULES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found

from .healthy_ports import ports

ADDRESS = "192.0.2.11"
UNIT = "mooncake-pd-p1.service"
NGINX = {
    "pid": 4242,
    "command": "nginx: master",
    "user": "root",
    "unit": "nginx.service",
    "container": None,
    "login": False,
}


def claim(purpose: str, first: int, last: int | None = None, address: str = ADDRESS) -> dict[str, Any]:
    return {
        "purpose": purpose,
        "address": address,
        "first": first,
        "last": last or first,
        "where": f"prefill[0].{purpose}",
    }


def host(
    facts: dict[str, Any],
    claims: list[dict[str, Any]] | None = None,
    pools: list[dict[str, Any]] | None = None,
    kind: str = "vllm_ascend",
    **others: Any,
) -> Host:
    claimed = [claim("api", 8100), claim("kv", 36000, 36007), claim("router", 18001, None, "0.0.0.0")]
    claimed = claimed if claims is None else claims
    process = {
        "name": "p1",
        "kind": "prefill",
        "unit": {"name": UNIT},
        "claims": {"name": "p1", "unit": UNIT, "ports": claimed},
        "ready": {"ports": claimed},
    }
    drawn = [
        {"purpose": "transfer-rpc", "first": 15000, "last": 17000},
        {"purpose": "transfer-adxl", "first": 20000, "last": 36000},
        {"purpose": "hccl", "first": 60000, "last": 60015},
    ]
    plan = {"name": "p1", "address": ADDRESS, "processes": [process], "pools": drawn if pools is None else pools}
    return Host("p1", plan, {"engine": {"kind": kind}}, {"ports": facts, **others})


def found(rule: str, looked: Host) -> list[Found]:
    return list(RULES[rule].check(looked))


def one(rule: str, looked: Host) -> Found:
    (only,) = found(rule, looked)
    return only


def entry(port: int, verdict: str = "taken", cause: str | None = "listener", **changes: Any) -> dict[str, Any]:
    said = f"api port {ADDRESS}:{port} (prefill[0].api) is taken by pid 4242 (nginx: master), user root."
    return {
        "process": "p1",
        "unit": UNIT,
        "purpose": "api",
        "address": ADDRESS,
        "port": port,
        "where": "prefill[0].api",
        "verdict": verdict,
        "cause": cause,
        "states": ["LISTEN"],
        "owners": [NGINX],
        "remote": None,
        "published_by": None,
        "text": said,
        "fix": "Stop it (systemctl stop nginx.service) or plan another port.",
        **changes,
    }


def redirected(first: int, last: int | None = None, **changes: Any) -> dict[str, Any]:
    rule = {"by": "iptables", "chain": "PREROUTING", "address": None, "first": first, "last": last or first}
    return {**rule, "to": "10.1.1.1:80", "kubernetes": False, **changes}


def published(port: int, address: str = "0.0.0.0") -> dict[str, Any]:
    return {"runtime": "docker", "container": "web", "address": address, "port": port, "to": "80"}


def pool(purpose: str, first: int, last: int, listeners: int = 1, foreign: bool = True) -> dict[str, Any]:
    named = [{"port": first, "address": "0.0.0.0", "owner": "pid 7 (nc), user root"}] if foreign else []
    return {"purpose": purpose, "first": first, "last": last, "listeners": listeners, "foreign": named}


# what could not be found out is told in one way for all families
FAMILY = [name for name, rule in RULES.items() if rule.family == "ports" and name != "ports-unknown"]
SOCKETS = ports()["sockets"]
# rule -> facts that are broken in one way
BROKEN: dict[str, dict[str, Any]] = {
    "port-taken": {"court": [entry(8100)]},
    "port-held-for-container": {"court": [entry(8100, published_by="the docker container web")]},
    "port-source-of-client": {"court": [entry(8100, cause="client")]},
    "port-time-wait": {"court": [entry(8100, cause="time-wait")]},
    "port-bound": {"court": [entry(8100, cause="bound")]},
    "port-owner-hidden": {"court": [entry(8100, cause="hidden")]},
    "port-address": {"court": [entry(8100, "no-address", None)]},
    "port-permission": {"court": [entry(80, "no-permission", None)]},
    "port-invalid": {"court": [entry(65536, "invalid", None)]},
    "port-own-in-part": {"court": [entry(8100, "own")]},
    "port-namespace": {"namespace": {"same_as_init": False}},
    "port-unreserved": {"reserved": [[60000, 60015], [32768, 36000]], "reserved_raw": "32768-36000,60000-60015"},
    "pool-unreserved": {"reserved": [[36000, 36007], [60000, 60015]]},
    "ephemeral-widened": {"ephemeral": [1024, 60999], "reserved": [[8100, 8100], [18001, 18001], [20000, 60015]]},
    "hccl-unreserved": {"reserved": [[20000, 37023]]},
    "hccl-busy": {"pools": [pool("hccl", 60000, 60015)]},
    "pool-crowded": {"pools": [pool("transfer-rpc", 15000, 15009, 5, foreign=False)]},
    "pool-foreign": {"pools": [pool("transfer-rpc", 15000, 17000)]},
    "ephemeral-scarce": {"ephemeral": [60000, 60999]},
    "time-wait-exhaustion": {"sockets": {**SOCKETS, "time_wait_ephemeral": 14000}},
    "port-published": {"published": [published(8100)]},
    "port-redirected": {"redirections": [redirected(8100)]},
    "port-is-nodeport": {"redirections": [redirected(8100, kubernetes=True)]},
    "port-among-nodeports": {"nodeports": True},
    "pool-redirected": {"redirections": [redirected(16000)]},
}


def test_every_rule_has_a_broken_host_here() -> None:
    assert set(BROKEN) == set(FAMILY)


@pytest.mark.parametrize("rule", FAMILY)
def test_rule_fires_on_a_broken_host_only(rule: str) -> None:
    assert found(rule, host(ports())) == []
    assert found(rule, host(ports(**BROKEN[rule])))


@pytest.mark.parametrize("rule", FAMILY)
def test_rule_fires_alone(rule: str) -> None:
    """One fault is told once."""
    assert {name for name in FAMILY if found(name, host(ports(**BROKEN[rule])))} == {rule}


@pytest.mark.parametrize("rule", FAMILY)
def test_rule_is_silent_where_nothing_is_known(rule: str) -> None:
    assert found(rule, host({})) == []
    assert found(rule, host(dict.fromkeys(ports()))) == []


@pytest.mark.parametrize("rule", FAMILY)
def test_what_is_said_names_no_host_and_ends_as_it_should(rule: str) -> None:
    for item in found(rule, host(ports(**BROKEN[rule]))):
        assert not item.what.endswith(".")
        assert item.fix.endswith(".")
        assert item.fix[0].islower()


def test_ports_that_only_differ_in_their_number_are_told_together() -> None:
    court = [entry(8100), entry(8101), entry(8103), entry(8104, purpose="kv")]
    whats = [item.what for item in found("port-taken", host(ports(court=court)))]
    assert whats[0].startswith(f"p1: api port {ADDRESS}:8100-8101, 8103 (prefill[0].api) is taken by pid 4242")
    assert len(whats) == 2


def test_evidence_names_states_and_processes() -> None:
    item = one(
        "port-source-of-client",
        host(ports(court=[entry(36001, cause="client", states=["ESTABLISHED"], remote="192.0.2.9:2379")])),
    )
    assert item.evidence == "ESTABLISHED; to 192.0.2.9:2379; pid 4242: nginx: master"
    assert item.fix.startswith("stop the client, which chose this port by itself")  # the port is reserved


def test_client_on_a_port_that_the_kernel_hands_out() -> None:
    facts = ports(court=[entry(36001, cause="client")], reserved=[[50051, 50051]])
    fix = one("port-source-of-client", host(facts)).fix
    assert "net.ipv4.ip_local_reserved_ports = 32768-36007,50051,60000-60015`" in fix
    assert fix.endswith("Then restart that program.")


def test_address_of_another_host_is_told_once() -> None:
    court = [entry(port, "no-address", None) for port in range(36000, 36008)]
    assert one("port-address", host(ports(court=court))).what.startswith(f"{ADDRESS}, on which p1 would listen")


def test_unit_that_holds_a_part() -> None:
    court = [entry(port, "own") for port in (8100, 36000, 36001, 36003)]
    what = one("port-own-in-part", host(ports(court=court))).what
    assert f"{UNIT} runs and holds only 4 of its 10 ports; 18001, 36002, 36004-36007 of p1 are missing" in what
    whole = [entry(port, "own") for port in (8100, 18001, *range(36000, 36008))]
    assert found("port-own-in-part", host(ports(court=whole))) == []


@pytest.mark.parametrize(
    ("reserved", "line"),
    [
        ([], "32768-36007,60000-60015"),
        ([[50051, 50051], [40000, 40009]], "32768-36007,40000-40009,50051,60000-60015"),
        ([[36008, 36100]], "32768-36100,60000-60015"),
        ([[36000, 36003]], "32768-36007,60000-60015"),
    ],
)
def test_line_is_the_whole_new_value(reserved: list[list[int]], line: str) -> None:
    """All rules that want something reserved say the same line, so one of them is enough."""
    looked = host(ports(reserved=reserved))
    fixes = {
        item.fix for rule in ("port-unreserved", "pool-unreserved", "hccl-unreserved") for item in found(rule, looked)
    }
    (fix,) = fixes
    assert f"`net.ipv4.ip_local_reserved_ports = {line}`" in fix
    followed = [[int(end) for end in (span.split("-") * 2)[:2]] for span in line.split(",")]
    assert not any(found(rule, host(ports(reserved=followed))) for rule in FAMILY)


def test_what_prepare_reserves_is_a_notice() -> None:
    looked = host(ports(reserved=[]), [claim("api", 40000)])
    assert one("port-unreserved", looked).severity is None
    looked.facts.setdefault("host", {})["settings"] = {"reserves_ports": True}
    for rule in ("port-unreserved", "hccl-unreserved"):
        item = one(rule, looked)
        assert item.severity == "notice"
        assert "prepare.yml reserves it" in item.fix


def test_unreserved_ports_are_told_in_one_sentence() -> None:
    claims = [claim("api", 40000), claim("kv", 36000, 36007), claim("api", 40001), claim("api", 8100)]
    what = one("port-unreserved", host(ports(reserved=[[36000, 36003]]), claims)).what
    assert what.startswith("the kernel takes source ports from 32768-60999, and planned ports of it are not reserved")
    assert what.endswith(": api 40000-40001, kv 36004-36007")


def test_exact_ports_outside_the_ephemeral_range_need_no_reservation() -> None:
    assert found("port-unreserved", host(ports(reserved=[]), [claim("api", 8100), claim("kv", 61000, 61007)])) == []


def test_widened_range_names_both_ways_out() -> None:
    item = one("ephemeral-widened", host(ports(**BROKEN["ephemeral-widened"])))
    assert "2001 of the 2001 ports" in item.what
    assert "reaches beyond the usual 32768-60999" in item.what
    assert item.fix.startswith("set `net.ipv4.ip_local_port_range = 32768 60999`, or reserve it: write")


def test_hccl_matters_on_npu_hosts_only() -> None:
    for rule in ("hccl-busy", "hccl-unreserved"):
        assert found(rule, host(ports(**BROKEN[rule]), kind="vllm_cpu")) == []


def test_hccl_ports_of_the_plan_itself_are_no_crowd() -> None:
    facts = ports(pools=[pool("hccl", 60000, 60015, 16, foreign=False)])
    assert not any(found(rule, host(facts)) for rule in ("hccl-busy", "pool-crowded", "pool-foreign"))


@pytest.mark.parametrize(
    ("rule", "facts", "severity"),
    [
        ("time-wait-exhaustion", {"sockets": {**SOCKETS, "time_wait_ephemeral": 23900}}, "error"),
        ("pool-crowded", {"pools": [pool("transfer-rpc", 15000, 15009, 10)]}, "error"),
        ("pool-crowded", {"pools": [pool("transfer-rpc", 15000, 15009, 9)]}, None),
    ],
)
def test_worse_is_worse(rule: str, facts: dict[str, Any], severity: str | None) -> None:
    assert one(rule, host(ports(**facts))).severity == severity


def test_time_wait_counts_against_what_is_left() -> None:
    facts = {"sockets": {**SOCKETS, "time_wait_ephemeral": 600}, "ephemeral": [32768, 38000]}
    assert one("time-wait-exhaustion", host(ports(**facts))).what.startswith("600 of 977 source ports")


@pytest.mark.parametrize(
    ("rule", "item", "fires"),
    [
        ("port-published", published(8100, ADDRESS), True),
        ("port-published", published(8100, "127.0.0.1"), False),
        ("port-published", published(8100, "::"), False),
        ("port-published", published(18001, "127.0.0.1"), True),
        ("port-published", published(8101), False),
        ("port-redirected", redirected(1, 65535), True),
        ("port-redirected", redirected(8100, address="192.0.2.0/24"), True),
        ("port-redirected", redirected(8100, address="198.51.100.0/24"), False),
        ("port-redirected", redirected(8100, address="::"), False),
        ("port-redirected", redirected(36005, 36100), True),
        ("port-redirected", redirected(36008, 36100), False),
    ],
)
def test_addresses_and_ports_have_to_meet(rule: str, item: dict[str, Any], fires: bool) -> None:
    key = "published" if rule == "port-published" else "redirections"
    assert bool(found(rule, host(ports(**{key: [item]})))) is fires


def test_one_rule_that_catches_all_ports_is_told_once() -> None:
    item = one("port-redirected", host(ports(redirections=[redirected(1, 65535)])))
    assert "api 8100 of p1 (prefill[0].api), kv 36000-36007 of p1" in item.what
    assert item.evidence == "iptables chain PREROUTING: port 1-65535 to 10.1.1.1:80"


def test_published_port_that_could_not_be_bound_is_told_by_the_other_rule() -> None:
    facts = ports(published=[published(8100)], court=[entry(8100, published_by="the docker container web")])
    assert found("port-published", host(facts)) == []
    assert found("port-held-for-container", host(facts))


def test_ports_that_a_container_publishes_are_told_together() -> None:
    facts = ports(published=[published(port) for port in (36000, 36001, 36002, 36004)])
    assert "connections to kv 36000-36002, 36004 of p1" in one("port-published", host(facts)).what


def test_node_by_its_kube_proxy() -> None:
    looked = host(ports(), [claim("kv", 30100)], [], host={"kubernetes": {"kubelet": True, "kube_proxy": True}})
    assert one("port-among-nodeports", looked).what.startswith("kv 30100 of p1 (prefill[0].kv) lies in 30000-32767")
    assert found("port-among-nodeports", host(ports(), [claim("kv", 30100)], [])) == []


@pytest.mark.parametrize(
    ("address", "planned", "expected"),
    [
        (None, ADDRESS, True),
        ("0.0.0.0", ADDRESS, True),
        ("0.0.0.0", "2001:db8::1", False),
        ("::", "2001:db8::1", True),
        ("::", "0.0.0.0", False),
        ("0.0.0.0", "::", True),
        (ADDRESS, "0.0.0.0", True),
        ("2001:db8::/32", "2001:db8::1", True),
        ("web", ADDRESS, False),
    ],
)
def test_what_gets_connections_to_an_address(address: str | None, planned: str, expected: bool) -> None:
    assert port_spans.catches(address, planned) is expected


def test_spans() -> None:
    assert port_spans.merged([(5, 6), (1, 2), (3, 3), (10, 12), (11, 11)]) == [(1, 3), (5, 6), (10, 12)]
    assert port_spans.without((1, 10), [(0, 1), (4, 5), (10, 20)]) == [(2, 3), (6, 9)]
    assert port_spans.without((1, 3), [(1, 3)]) == []
    assert port_spans.without((1, 3), [(7, 9)]) == [(1, 3)]


SPANS = st.tuples(st.integers(1, 400), st.integers(0, 150)).map(lambda given: (given[0], given[0] + given[1]))
ADDRESSES = st.sampled_from([None, "192.0.2.11", "192.0.2.0/24", "::"])


@given(st.lists(SPANS, max_size=4), st.lists(st.tuples(SPANS, ADDRESSES, st.booleans()), max_size=12))
def test_meeting_is_that_of_each_with_each(
    planned: list[port_spans.Span], given_entries: list[tuple[port_spans.Span, str | None, bool]]
) -> None:
    plans = [port_spans.Planned("api", "192.0.2.11", span, f"p{number}") for number, span in enumerate(planned)]
    entries = [
        {"address": address, "port": first} if single else {"address": address, "first": first, "last": last}
        for (first, last), address, single in given_entries
    ]
    expected = [
        (plan, inside, index)
        for plan in plans
        for index, ((first, last), address, single) in enumerate(given_entries)
        if (inside := port_spans.common(plan.span, (first, first if single else last)))
        and port_spans.catches(address, plan.address)
    ]
    assert list(port_spans.meeting(plans, entries)) == expected


def test_entries_that_are_far_away_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [port_spans.Planned("kv", "192.0.2.11", (port, port)) for port in range(20000, 20400)]
    entries = [{"address": None, "port": 30000 + number % 2700} for number in range(4000)]
    looked: list[Any] = []
    common = port_spans.common
    monkeypatch.setattr(port_spans, "common", lambda *spans: looked.append(spans) or common(*spans))
    assert list(port_spans.meeting(plans, entries)) == []
    assert len(looked) < len(plans)
