# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network of the NPUs of one host."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.rules import npu_fleet

from .npu_cluster import HOSTS, PEERS, Service


def intra_roce(service: Service) -> Service:
    return service.environment(HCCL_INTRA_ROCE_ENABLE="1")


def told(service: Service) -> list[tuple[str, str, str]]:
    return [(finding.rule, finding.severity, finding.what) for finding in service.findings()]


def test_no_hccn_tool() -> None:
    service = Service()
    service.hccn().update(
        tool=None, chips=[], pings=[], unknown=[{"what": "tool", "why": "hccn_tool is not in PATH", "raw": ""}]
    )
    assert service.found() == [("hccn-tool-missing", "error", "p1")]
    assert service.only().evidence == "hccn_tool is not in PATH"


@pytest.mark.parametrize(("used", "severity"), [(16, "error"), (8, "warning")])
def test_some_chips_do_not_answer(used: int, severity: str) -> None:
    service = Service().use("p1", used)
    silent = {key: None for key in service.hccn()["chips"][9] if key != "id"}
    service.ports(9, 10, **silent)
    assert told(service) == [
        ("npu-chip-silent", severity, "hccn_tool has no answer for chips 9-10, though it has for the others")
    ]


def test_link_on_a2_is_what_kv_needs() -> None:
    service = Service("A2").use("p1", 6).ports(3, 7, link="DOWN", lldp={})
    assert told(service) == [
        ("npu-link-down", "error", "the link of chip 3 is DOWN"),
        ("npu-link-down", "warning", "the link of chip 7 is DOWN, which the plan does not use"),
    ]
    evidence = service.findings()[0].evidence
    assert "chip 2 at 200GE2/0/2:1 of leaf-3" in evidence
    assert "chip 3 at" not in evidence
    assert "split" in service.findings()[0].fix


@pytest.mark.parametrize(
    ("roce", "pinged", "severity"),
    [(False, "ok", "notice"), (False, "none", "warning"), (False, "unknown", "warning"), (True, "ok", "error")],
)
def test_link_on_a3_is_decided_by_the_pings(roce: bool, pinged: str, severity: str) -> None:
    service = Service("A3").ports(*range(16), link="DOWN", lldp={}, speed=0, net_health="Fault")
    if pinged == "none":
        service.without_pings()
    elif pinged == "unknown":
        service.pings(3, ok=None)
    if roce:
        intra_roce(service)
    assert told(service) == [("npu-link-down", severity, "the link of chips 0-15 is DOWN")]


def test_link_on_a3_with_a_ping_that_failed() -> None:
    service = Service("A3").ports(3, link="DOWN", lldp={}).pings(3, ok=False)
    assert [(rule, severity) for rule, severity, _what in told(service)] == [
        ("npu-link-down", "warning"),
        ("npu-ping-failed", "error"),
    ]


@pytest.mark.parametrize(
    ("generation", "health", "netdetect", "pinged", "severity"),
    [
        ("A2", "Fault", "198.18.0.1", True, "warning"),
        ("A2", "Fault", "198.18.0.1", False, "error"),
        ("A2", "Receive timeout", "198.18.0.1", False, "error"),
        ("A2", "Init", "198.18.0.1", False, "warning"),
        ("A2", "Init", "", False, "notice"),
        ("A3", "Fault", "198.18.0.1", True, "notice"),
        ("A3", "Fault", "198.18.0.1", False, "warning"),
        ("A3", "Init", "", False, "notice"),
    ],
)
def test_net_health(generation: str, health: str, netdetect: str, pinged: bool, severity: str) -> None:
    service = Service(generation).ports(2, 3, net_health=health, netdetect=netdetect)
    if not pinged:
        service.without_pings()
    finding = next(finding for finding in service.findings() if finding.rule == "npu-net-health")
    assert (finding.severity, finding.what) == (severity, f"net_health of chips 2-3 is {health}")
    assert (netdetect or "none") in finding.evidence


def test_every_value_of_net_health_is_told() -> None:
    service = Service("A2").without_pings().ports(1, net_health="Unreachable").ports(2, 5, net_health="Socket fail")
    assert [what for _rule, _severity, what in told(service)] == [
        "net_health of chip 1 is Unreachable",
        "net_health of chips 2, 5 is Socket fail",
    ]


@pytest.mark.parametrize(("fact", "rule"), [("netdetect", "npu-netdetect-missing"), ("gateway", "npu-gateway-missing")])
def test_netdetect_and_gateway(fact: str, rule: str) -> None:
    assert told(Service("A2").ports(2, **{fact: ""}))[0][:2] == (rule, "notice")
    assert told(Service("A3").ports(2, **{fact: ""})) == []
    assert told(intra_roce(Service("A3")).ports(2, **{fact: ""}))[0][:2] == (rule, "notice")


def test_lldp_of_some_and_of_none() -> None:
    service = Service("A2").ports(1, 2, lldp={})
    assert told(service) == [("npu-lldp-empty", "warning", "chips 1-2 see no switch")]
    assert "chip 0 at 200GE2/0/1:1 of leaf-1" in service.only().evidence
    service.ports(*range(8), lldp={})
    assert told(service)[0][:2] == ("npu-lldp-empty", "notice")


@pytest.mark.parametrize(
    ("fact", "value", "rule"), [("speed", 100000, "npu-speed-unequal"), ("mtu", 1500, "npu-mtu-unequal")]
)
def test_unequal_ports(fact: str, value: int, rule: str) -> None:
    service = Service().ports(3, 4, **{fact: value})
    assert (service.only().rule, service.only().severity) == (rule, "warning")
    assert service.only().what.startswith("chips 3-4 have another")
    assert str(value) in service.only().evidence


def test_a_port_without_a_speed_is_not_unequal() -> None:
    assert Service().ports(3, speed=0).ports(4, speed=None).findings() == []


@pytest.mark.parametrize("generation", ["A2", "A3"])
def test_no_address(generation: str) -> None:
    service = Service(generation).ports(3, address="", netmask="")
    assert told(service) == [("npu-address-missing", "error", "chip 3 has no address")]
    service.use("p1", 2)
    assert service.findings() == []


def test_no_virtual_address() -> None:
    assert told(Service().ports(3, vnic="")) == [("npu-vnic-missing", "error", "chip 3 has no virtual address (vnic)")]
    assert told(intra_roce(Service()).ports(3, vnic=""))[0][:2] == ("npu-vnic-missing", "warning")


@pytest.mark.parametrize(("generation", "plane"), [("A2", "RoCE"), ("A3", "HCCS")])
def test_pings_that_failed(generation: str, plane: str) -> None:
    service = Service(generation).pings(2, 3, ok=False, loss=100.0, time=None).pings(3, loss=33.33)
    finding = service.only()
    assert (finding.rule, finding.severity) == ("npu-ping-failed", "error")
    assert finding.what == f"chips 2-3 do not reach {PEERS['p1']} by {plane}"
    assert "no answer" in finding.evidence
    assert "33.33 % lost" in finding.evidence


def test_a_peer_that_nobody_reaches() -> None:
    service = Service().pings(*range(16), ok=False)
    assert service.only().what == "chips 0-15 do not reach d1 by HCCS, as none does"


def test_slow_pings() -> None:
    service = Service("A2").pings(5, time=4.2)
    assert (service.only().rule, service.only().severity) == ("npu-ping-slow", "warning")
    assert service.only().what == "pings of chip 5 take much longer than the others"
    assert "usual: 0.08 ms" in service.only().evidence
    service.hccn()["pings"] = service.hccn()["pings"][4:7]
    assert service.findings() == []


def test_fleet_without_pings() -> None:
    assert Service().without_pings().findings() == []


# --- all hosts together


@pytest.mark.parametrize(
    ("generation", "change", "rule", "severity"),
    [
        ("A3", {"driver": {"version": "25.3.rc1", "path": "x"}}, "npu-driver-differs", "warning"),
        ("A3", {"firmware": {"version": "7.7.0", "path": "x"}}, "npu-firmware-differs", "warning"),
        ("A3", {"tool": {"version": "25.3.rc1", "path": "x"}}, "npu-smi-differs", "notice"),
        ("A3", {"generation": "A2"}, "npu-generation-differs", "error"),
    ],
)
def test_versions_that_differ(generation: str, change: dict[str, Any], rule: str, severity: str) -> None:
    service = Service(generation)
    service.npu("d2").update(change)
    assert (rule, severity, "d2") in service.found()


def test_cann_and_memory_that_differ() -> None:
    service = Service()
    service.npu("d2")["cann"][0]["version"] = "9.1.1"
    assert service.found() == [("npu-cann-differs", "warning", "d2")]
    assert service.only().what == "version of CANN is 9.1.1; 2 other(s) have 9.1.0"
    service = Service("A2").chips(*range(8), host="d2", hbm_total=32 << 30)
    assert ("npu-memory-differs", "notice", "d2") in service.found()


def test_superpods_that_differ() -> None:
    service = Service()
    for entry in service.npu("d1")["superpod"]:
        entry["superpod"] = 8
    assert service.found() == [("npu-superpod-differs", "error", "d1")]
    assert intra_roce(service).findings() == []


def test_mtu_and_mask_of_a_host_that_differ() -> None:
    service = Service("A2").ports(*range(8), host="d2", mtu=1500)
    assert service.found() == [("npu-mtu-differs", "warning", "d2")]
    service = Service("A2").ports(*range(8), host="d2", netmask="255.255.255.0")
    service.npu("d2")["hccn_conf"]["netmasks"] = {}
    assert ("npu-netmask-differs", "error", "d2") in service.found()
    assert Service("A3").ports(*range(16), host="d2", mtu=1500).findings() == []


def no_conf(service: Service) -> Service:
    """Only hccn_tool speaks."""
    for name in HOSTS:
        service.npu(name)["hccn_conf"].update(netmasks={}, tls={})
        known = {str(port["id"]): port["address"] for port in service.hccn(name)["chips"]}
        service.npu(name)["hccn_conf"]["addresses"] = known
    return service


def test_tls_switch_of_a_host() -> None:
    service = no_conf(Service().ports(*range(16), host="d2", tls=1))
    finding = service.only()
    assert (finding.rule, finding.severity, finding.host) == ("npu-tls-differs", "error", "d2")
    assert finding.what == "the TLS switch of every chip is 1, of most NPUs of the service it is 0"
    assert finding.evidence == "16 NPUs with 1, 32 with 0"
    assert "-tls -s enable 0" in finding.fix


def test_tls_switch_of_one_chip_and_of_halves() -> None:
    service = no_conf(Service().ports(3, host="p1", tls=1))
    assert service.only().what == "the TLS switch of chip 3 is 1, of most NPUs of the service it is 0"
    del service.facts["d2"]
    service.ports(*range(16), tls=1)
    assert service.only().host == "p1"  # of two halves that without TLS is usual
    assert no_conf(Service()).findings() == []


def test_tls_that_is_on_everywhere() -> None:
    service = Service()
    for name in HOSTS:
        service.ports(*range(16), host=name, tls=1)
    assert no_conf(service).findings() == []


def test_addresses_twice() -> None:
    service = Service().ports(3, host="d1", address="198.18.1.15")
    found = [finding for finding in no_conf(service).findings() if finding.rule == "npu-address-twice"]
    assert [(finding.host, finding.severity, finding.what) for finding in found] == [
        ("d1", "error", "the address of chip 3 is there twice in the service"),
        ("p1", "error", "the address of chip 5 is there twice in the service"),
    ]
    assert found[1].evidence == "chip 5: 198.18.1.15, as chip 3 of d1"


def test_the_same_file_on_two_hosts() -> None:
    service = Service()
    for own, other in zip(service.hccn("d1")["chips"], service.hccn("p1")["chips"], strict=True):
        own["address"] = other["address"]
    found = no_conf(service).found()
    assert found == [("npu-address-twice", "error", "d1"), ("npu-address-twice", "error", "p1")]


def test_virtual_addresses_twice_in_a_superpod_only() -> None:
    service = Service().ports(3, host="d1", vnic="198.18.1.115")
    assert service.found() == [("npu-vnic-twice", "error", "d1"), ("npu-vnic-twice", "error", "p1")]
    for entry in service.npu("d1")["superpod"]:
        entry["superpod"] = 8
    assert {rule for rule, _severity, _host in service.found()} == {"npu-superpod-differs"}


def test_sdid_twice() -> None:
    service = Service()
    service.npu("d1")["superpod"][3]["sdid"] = service.npu("p1")["superpod"][5]["sdid"]
    assert service.found() == [("npu-sdid-twice", "error", "d1"), ("npu-sdid-twice", "error", "p1")]
    service.npu("d1")["superpod"][3]["sdid"] = None
    assert service.findings() == []


@pytest.mark.parametrize(
    ("gateway", "severity", "text"),
    [("198.19.2.1", "notice", "other hosts"), ("", "error", "have no gateway"), (None, "notice", "other hosts")],
)
def test_another_network(gateway: str | None, severity: str, text: str) -> None:
    service = Service("A2")
    for port in service.hccn("d2")["chips"]:
        port.update(address=port["address"].replace("198.18", "198.19"), gateway=gateway)
    found = [finding for finding in no_conf(service).findings() if finding.rule == "npu-subnet-differs"]
    assert [(finding.host, finding.severity) for finding in found] == [("d2", severity)]
    assert found[0].what.startswith("chips 0-7 are in another network")
    assert found[0].what.endswith(text)


def test_networks_of_rails_may_differ_from_each_other() -> None:
    service = Service("A2")
    for name in HOSTS:
        for port in service.hccn(name)["chips"]:
            port.update(address=f"198.18.{port['id']}.{10 + HOSTS.index(name)}", netmask="255.255.255.0")
    assert no_conf(service).findings() == []


def test_a_file_that_was_copied_to_all_hosts_is_told_at_once() -> None:
    places = [("192.0.2.9", (f"n{number}", 3)) for number in range(10000)]
    begun = time.monotonic()
    found = list(npu_fleet._tell_twice(npu_fleet._twice(places), "the address", "mend it."))
    assert time.monotonic() - begun < 5
    assert [finding.host for finding in found] == [f"n{number}" for number in range(10000)]
    assert [found[number].evidence for number in (0, 1, 2, 9999)] == [
        "chip 3: 192.0.2.9, as chip 3 of n1, chip 3 of n2 and 9997 more",
        "chip 3: 192.0.2.9, as chip 3 of n0, chip 3 of n2 and 9997 more",
        "chip 3: 192.0.2.9, as chip 3 of n0, chip 3 of n1 and 9997 more",
        "chip 3: 192.0.2.9, as chip 3 of n0, chip 3 of n1 and 9997 more",
    ]


@pytest.mark.parametrize(("hosts", "shown"), [(2, "chip 3 of n1"), (3, "chip 3 of n1, chip 3 of n2")])
def test_a_few_are_named_all(hosts: int, shown: str) -> None:
    places = [(("pod", "192.0.2.9"), (f"n{number}", 3)) for number in range(hosts)]
    first = next(iter(npu_fleet._tell_twice(npu_fleet._twice(places), "the address", "mend it.")))
    assert first.evidence == f"chip 3: 192.0.2.9, as {shown}"
