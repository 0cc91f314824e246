# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NPUs, driver, CANN and /etc/hccn.conf of one host."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import npu as view
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import SEVERITIES

from .healthy_npu import MIB
from .npu_cluster import FAMILY, HOSTS, Service

GIB = 1 << 30
GENERATIONS = ("A2", "A3")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_nothing_is_found_where_all_is_well(generation: str) -> None:
    assert Service(generation).findings() == []


def test_every_rule_says_what_it_is_about() -> None:
    assert len(FAMILY) >= 30
    for rule in FAMILY.values():
        assert rule.severity in SEVERITIES
        assert rule.about
        assert rule.why.endswith((".", "'", ")")), rule.id
        assert rule.source
        assert all(case.startswith("C-") and len(case) == 5 for case in rule.cases)


@pytest.mark.parametrize("missing", ["npu", "hccn", "host"])
def test_facts_that_are_not_there_yield_nothing(missing: str) -> None:
    service = Service()
    for name in HOSTS:
        del service.facts[name][missing]
    assert service.findings() == []


@pytest.mark.parametrize("generation", GENERATIONS)
def test_unknown_values_yield_nothing(generation: str) -> None:
    service = Service(generation)
    for name in HOSTS:
        npu, hccn = service.npu(name), service.hccn(name)
        for chip in npu["chips"]:
            chip.update({key: None for key in chip if key not in ("id", "card", "chip")})
        for port in hccn["chips"]:
            port.update({key: None for key in port if key != "id"})
        for entry in npu["superpod"]:
            entry.update(superpod=None, sdid=None, size=None, server_index=None)
        hccn["pings"] = [{**ping, "ok": None, "loss": None, "time": None} for ping in hccn["pings"]]
        npu.update(driver=None, firmware=None, generation=None)
        npu["tool"]["version"] = None
        npu["hccn_conf"] = {**npu["hccn_conf"], "type": None, "addresses": {}, "netmasks": {}, "tls": {}}
        npu["cann"] = []
        npu["unknown"] = [{"what": what, "why": "x", "raw": ""} for what in ("chips", "cann", "hccn_conf")]
    assert service.findings() == []


def test_hosts_without_engines_are_not_asked_for_npus() -> None:
    service = Service()
    service.facts["control"] = {
        "npu": {**service.npu(), "tool": None, "chips": []},
        "hccn": {**service.hccn(), "tool": None, "chips": []},
    }
    assert service.findings() == []


def refused(what: str, why: str, raw: str = "") -> list[dict[str, str]]:
    return [{"what": what, "why": why, "raw": raw}]


def test_no_npu_smi() -> None:
    service = Service()
    service.npu().update(tool=None, chips=[], processes=[], superpod=[], unknown=refused("tool", "not in PATH"))
    assert service.only().rule == "npu-smi-missing"
    assert service.only().evidence == "not in PATH"


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        ("dcmi model initialized failed, because the device is used. ret is -8020", "npu-used-elsewhere"),
        ("DrvMngGetConsoleLogLevel failed.\ndcmi module initialize failed. ret is -8005", "npu-driver-absent"),
        ("npu=0 chip=0", "npu-smi-fails"),
        ("", "npu-smi-fails"),
    ],
)
def test_npu_smi_without_a_list(raw: str, rule: str) -> None:
    service = Service()
    service.npu().update(chips=[], processes=[], superpod=[], unknown=refused("chips", "npu-smi failed", raw))
    finding = service.only()
    assert (finding.rule, finding.severity) == (rule, "error")
    assert finding.evidence == (raw or "npu-smi failed")


def test_a_planned_chip_is_missing() -> None:
    service = Service()
    del service.npu()["chips"][5:7]
    service.npu()["devices"]["davinci"] = [n for n in range(16) if n not in (5, 6)]
    found = {finding.rule: finding for finding in service.findings()}
    assert set(found) == {"npu-chip-missing", "npu-nodes-missing"}
    assert found["npu-chip-missing"].what == "chips 5-6 of the plan are not there"
    assert "chips 0-4, 7-15" in found["npu-chip-missing"].evidence
    assert found["npu-nodes-missing"].what == "/dev/davinci5, /dev/davinci6 are missing"


def test_fewer_chips_than_planned_ones_that_are_all_there() -> None:
    service = Service().use("p1", 8)
    del service.npu()["chips"][8:]
    service.npu()["devices"]["davinci"] = list(range(8))
    assert service.found() == [("npu-chips-few", "warning", "p1")]


@pytest.mark.parametrize(("used", "severity"), [(16, "error"), (8, "warning")])
def test_a_chip_that_npu_smi_does_not_list(used: int, severity: str) -> None:
    service = Service().use("p1", used)
    del service.npu()["chips"][9]
    assert ("npu-chip-unlisted", severity, "p1") in service.found()
    service.npu()["unknown"] = refused("chips", "a line is not understood")
    assert service.findings() == []


def test_other_generation_than_planned() -> None:
    service = Service()
    service.cluster["hardware"]["generation"] = service.plans["p1"]["generation"] = "A5"
    finding = next(finding for finding in service.findings() if finding.host == "p1")
    assert finding.rule == "npu-generation"
    assert finding.what == "the NPUs are A3, the plan is made for A5"


def test_health() -> None:
    service = Service().use("p1", 8).chips(3, 4, 12, health="Alarm").chips(4, health="Warning")
    told = [(finding.rule, finding.severity, finding.what, finding.evidence) for finding in service.findings()]
    assert told == [
        ("npu-health", "warning", "chip 12 is not OK, which the plan does not use", "chip 12: Alarm"),
        ("npu-health", "error", "chips 3-4 are not OK", "chip 3: Alarm, chip 4: Warning"),
    ]


@pytest.mark.parametrize("name", ["manager", "devmm_svm", "hisi_hdc"])
def test_a_node_is_missing(name: str) -> None:
    service = Service()
    node = service.npu()["devices"][name]
    node.update(exists=False, mode=None, owner=None, group=None)
    assert service.only().rule == "npu-nodes-missing"
    assert service.only().what == f"{node['path']} is missing"


def nodes(service: Service, **changes: Any) -> Service:
    for name in ("manager", "devmm_svm", "hisi_hdc"):
        service.npu()["devices"][name].update(changes)
    return service


@pytest.mark.parametrize(
    ("changes", "groups", "user", "closed"),
    [
        ({}, ["HwHiAiUser"], "mooncake", False),
        ({}, [], "mooncake", True),
        ({}, [], "pd", False),  # a member of the group
        ({}, [], "root", False),
        ({}, [], "HwHiAiUser", False),
        ({"mode": "0666"}, [], "mooncake", False),
        ({"mode": "0600"}, ["HwHiAiUser"], "mooncake", True),
        ({"mode": "0640"}, ["HwHiAiUser"], "mooncake", True),
        ({"group": "root"}, ["HwHiAiUser"], "mooncake", True),
        ({}, [], None, False),
        ({"mode": "0600"}, [], None, True),
    ],
)
def test_nodes_that_the_service_cannot_open(
    changes: dict[str, str], groups: list[str], user: str | None, closed: bool
) -> None:
    service = nodes(Service(), **changes)
    service.facts["p1"]["host"] = {"limits": {"user": user}, "settings": {"instance_groups": groups}}
    assert service.found() == ([("npu-nodes-closed", "error", "p1")] if closed else [])


def process(chip: int, pid: int = 4711, memory: int | None = 29 * GIB, **changes: Any) -> dict[str, Any]:
    return {
        "chip": chip,
        "pid": pid,
        "name": "VLLMWorker_TP",
        "memory": memory,
        "container_pid": None,
        "command": "VLLM::Worker_TP0",
        "user": "root",
        "unit": "session-3.scope",
        "container": None,
        **changes,
    }


def test_own_units_may_use_the_chips() -> None:
    service = Service()
    unit = service.plans["p1"]["processes"][0]["unit"]["name"]
    service.npu()["processes"] = [process(chip, unit=unit) for chip in range(8)]
    service.chips(*range(8), hbm_used=60 * GIB, aicore=80)
    assert service.findings() == []
    # the same name in a container is not ours
    service.npu()["processes"] = [process(0, unit=unit, container="0123456789ab")]
    assert ("npu-foreign-process", "error", "p1") in service.found()


@pytest.mark.parametrize(
    ("changes", "severity", "way"),
    [
        ({}, "error", "kill <pid>"),
        ({"memory": 129 * MIB}, "warning", "kill <pid>"),
        ({"memory": None}, "error", "kill <pid>"),
        ({"unit": "mooncake-pd-old.service"}, "error", "earlier plan"),
        ({"unit": "other.service"}, "error", "systemctl stop"),
        ({"container": "0123456789ab"}, "error", "stop the container"),
        ({"container_pid": 118}, "error", "stop the container"),
        ({"command": None, "unit": None, "user": None}, "error", "stop the container"),
    ],
)
def test_foreign_processes(changes: dict[str, Any], severity: str, way: str) -> None:
    service = Service()
    service.npu()["processes"] = [process(3, **changes), process(4, **changes)]
    finding = service.only()
    assert (finding.rule, finding.severity) == ("npu-foreign-process", severity)
    assert finding.what == "chips 3-4 are used by 1 process that the plan does not know"
    assert "pid 4711" in finding.evidence
    assert way in finding.fix


def test_a_process_on_a_chip_that_the_plan_does_not_use() -> None:
    service = Service().use("p1", 8)
    service.npu()["processes"] = [process(9)]
    assert service.findings() == []


def test_memory_without_a_process() -> None:
    service = Service().chips(2, hbm_used=6 * GIB).chips(3, hbm_used=41 * GIB)
    told = [(finding.rule, finding.severity, finding.evidence) for finding in service.findings()]
    assert told == [
        ("npu-memory-used", "warning", "chip 2: 6 GiB"),
        ("npu-memory-used", "error", "chip 3: 41 GiB"),
    ]
    service.npu()["unknown"] = refused("processes", "no table")
    assert service.findings() == []


@pytest.mark.parametrize("words", [["--gpu-memory-utilization", "0.3"], ["--gpu-memory-utilization=0.3"]])
def test_memory_that_the_plan_can_do_without(words: list[str]) -> None:
    service = Service().chips(3, hbm_used=41 * GIB)
    for planned in service.plans["p1"]["processes"]:
        planned["unit"]["argv"] += words
    assert service.found() == [("npu-memory-used", "warning", "p1")]


def test_aicore_that_works_for_nobody() -> None:
    service = Service().chips(3, aicore=40).chips(4, aicore=2)
    assert (service.only().rule, service.only().what) == (
        "npu-aicore-busy",
        "chip 3 is at work, and no process is seen there",
    )


POOL = ["--kv-transfer-config", '{"kv_connector":"MultiConnector","x":[{"kv_connector":"AscendStoreConnector"}]}']


@pytest.mark.parametrize(
    ("generation", "driver", "pool", "found"),
    [
        ("A2", "25.3.rc1", True, True),
        ("A2", "25.5.0", True, False),
        ("A2", "25.5.rc1", True, True),
        ("A2", "25.3.rc1", False, False),
        ("A3", "25.3.rc1", True, False),
    ],
)
def test_pool_on_an_old_driver(generation: str, driver: str, pool: bool, found: bool) -> None:
    service = Service(generation)
    for name in HOSTS:
        service.npu(name)["driver"]["version"] = driver
        if pool:
            service.plans[name]["processes"][0]["unit"]["argv"] += POOL
    expected = [("npu-driver-old-pool", "warning", name) for name in sorted(HOSTS)]
    assert service.found() == (expected if found else [])


@pytest.mark.parametrize(
    ("driver", "cann", "mooncake", "lacking"),
    [
        ("25.5.0", "9.1.0", "0.3.11.post1", ""),
        ("25.5.0", "9.1.0", "0.3.9", "driver 25.5.0 is older than 26.0"),
        ("26.0.0", "9.1.0", "0.3.9", ""),
        ("25.2.0", "9.1.0", "0.3.11.post1", "driver 25.2.0 is older than 25.5.0"),
        ("26.0.0", "8.5.1", "0.3.11.post1", "CANN 8.5.1 is older than 9.0.0"),
    ],
)
def test_fabric_memory(driver: str, cann: str, mooncake: str, lacking: str) -> None:
    service = Service().environment(ASCEND_ENABLE_USE_FABRIC_MEM="1")
    service.cluster["mooncake"]["version"] = mooncake
    for name in HOSTS:
        service.npu(name)["driver"]["version"] = driver
        service.npu(name)["cann"][0]["version"] = cann
    told = [finding.what for finding in service.findings() if finding.rule == "npu-fabric-memory"]
    assert told == ([f"ASCEND_ENABLE_USE_FABRIC_MEM is set, and {lacking}"] * 3 if lacking else [])


def test_no_cann() -> None:
    service = Service()
    del service.npu()["cann"][0]
    assert service.only().rule == "npu-cann-missing"
    assert "nnal" in service.only().evidence
    service.npu()["unknown"] = refused("cann", "no file names its version")
    assert service.findings() == []


@pytest.mark.parametrize(
    ("cann", "found"), [("9.1.0", False), ("9.1.1", False), ("9.0.1", True), ("8.3.RC2", True), ("?", False)]
)
def test_cann_of_another_time(cann: str, found: bool) -> None:
    service = Service()
    for name in HOSTS:
        service.npu(name)["cann"][0]["version"] = cann
    rules = {finding.rule for finding in service.findings()} - {"npu-cann-missing"}
    assert rules == ({"npu-cann-old"} if found else set())


def test_a_release_that_nobody_knows_needs_no_cann() -> None:
    service = Service()
    service.cluster["engine"]["version"] = "9.9.9"
    assert service.findings() == []


def test_several_releases_of_cann_and_no_nnal() -> None:
    service = Service()
    first = service.npu()["cann"][0]
    service.npu()["cann"].append({**first, "version": "8.5.0", "path": "/usr/local/Ascend/ascend-toolkit/8.5.0"})
    assert service.found() == [("npu-cann-several", "notice", "p1")]
    service.npu()["cann"] = [first]
    assert service.found() == [("npu-nnal-missing", "warning", "p1")]


def conf(service: Service, **changes: Any) -> Service:
    service.npu()["hccn_conf"].update(changes)
    return service


NO_CONF: dict[str, Any] = {"addresses": {}, "netmasks": {}, "gateways": {}, "netdetect": {}, "tls": {}}


@pytest.mark.parametrize(
    ("changes", "rule", "severity"),
    [
        ({"type": "missing", **NO_CONF}, "hccn-conf-missing", "error"),
        ({"type": "directory", **NO_CONF}, "hccn-conf-directory", "error"),
        ({**NO_CONF}, "hccn-conf-empty", "error"),
        ({"crlf": True}, "hccn-conf-crlf", "error"),
        ({"repeated": ["netmask_0"]}, "hccn-conf-repeated", "warning"),
        ({"empty": ["gateway_0"]}, "hccn-conf-empty-value", "warning"),
        ({"empty": ["address_0"]}, "hccn-conf-empty-value", "error"),
        ({"bad_lines": [{"line": 3, "text": "x"}]}, "hccn-conf-bad-line", "warning"),
    ],
)
def test_faults_of_the_file(changes: dict[str, Any], rule: str, severity: str) -> None:
    assert conf(Service(), **changes).found() == [(rule, severity, "p1")]


def test_half_of_the_chips_in_the_file() -> None:
    service = Service()
    addresses = service.npu()["hccn_conf"]["addresses"]
    conf(service, addresses={key: value for key, value in addresses.items() if int(key) < 8})
    assert (service.only().rule, service.only().what) == (
        "hccn-conf-partial",
        "/etc/hccn.conf has no address of chips 8-15",
    )
    service.use("p1", 8)
    assert service.findings() == []


@pytest.mark.parametrize(("key", "name"), [("addresses", "address"), ("netmasks", "netmask")])
def test_the_file_tells_other_addresses_than_the_tool(key: str, name: str) -> None:
    service = Service()
    service.npu()["hccn_conf"][key]["3"] = "203.0.113.9"
    finding = service.only()
    assert finding.rule == "hccn-conf-differs"
    assert finding.what == f"{name} of chip 3 in /etc/hccn.conf is not the one in use"
    assert "203.0.113.9 in the file" in finding.evidence


def test_the_file_tells_another_tls_switch() -> None:
    service = Service()
    service.npu()["hccn_conf"]["tls"]["3"] = "1"
    assert service.found() == [("hccn-conf-tls-differs", "warning", "p1")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("8.3.RC2", "8.3.0"),
        ("8.3.RC1", "8.3.RC2"),
        ("25.0.rc1.2", "25.0.0"),
        ("24.1.rc3", "25.0.rc1"),
        ("8.5.0", "8.5.1"),
    ],
)
def test_order_of_versions(one: str, other: str) -> None:
    assert view.older(one, other)
    assert not view.older(other, one)


def test_what_is_no_version_is_not_older() -> None:
    assert not view.older("?", "9.0")
    assert not view.older(None, "9.0")
    assert view.order("25.5") == view.order("25.5.0")


@pytest.mark.parametrize(("numbers", "text"), [([3], "chip 3"), ([7, 3, 5, 6], "chips 3, 5-7"), ([1, 1], "chip 1")])
def test_numbers_are_told_in_short(numbers: list[int], text: str) -> None:
    assert view.told(numbers) == text
