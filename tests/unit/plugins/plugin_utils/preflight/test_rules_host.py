# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule about hosts and their network finds its fault, that one only, and nothing on a healthy fleet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import catalogue
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.catalogue import RULES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.rules import unknown
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight import healthy
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight.healthy_host import (
    GIB,
    interface,
    path,
    unit,
)

Host = dict[str, Any]
UNIT = "mooncake-pd-p1-0.service"
HUGEPAGES = {"MC_STORE_USE_HUGEPAGE": "1"}


def pages(total: int = 0, free: int = 0, reserved: int = 0, size: int = 2 << 20, nodes: tuple[int, ...] = ()) -> Host:
    return {
        "size": size,
        "total": total,
        "free": free,
        "reserved": reserved,
        "surplus": 0,
        "nodes": [{"node": node, "total": number, "free": number} for node, number in enumerate(nodes)],
    }


def of_host(change: Callable[[Host], Any]) -> Callable[[healthy.Cluster], Any]:
    return lambda made: change(made.facts["p1"]["host"])


def put(place: str, value: Any) -> Callable[[healthy.Cluster], Any]:
    """Another value for a fact of p1."""

    def change(made: healthy.Cluster) -> None:
        *folders, last = place.split("/")
        facts = made.facts["p1"]["host"]
        for folder in folders:
            facts = facts[folder]
        assert last in facts or "sysctl" in place or "units" in place, place
        facts[last] = value

    return change


def both(*changes: Callable[[healthy.Cluster], Any]) -> Callable[[healthy.Cluster], Any]:
    return lambda made: [change(made) for change in changes]


def planned(**environment: str) -> Callable[[healthy.Cluster], Any]:
    return lambda made: made.cluster["environment"].update(environment)


def paths(*entries: Host) -> Callable[[healthy.Cluster], Any]:
    return of_host(lambda host: host["paths"].extend(entries))


def protocol(name: str) -> Callable[[healthy.Cluster], Any]:
    return lambda made: made.cluster["connector"].update(protocol=name)


def bond(**changes: Any) -> Callable[[healthy.Cluster], Any]:
    return of_host(lambda host: next(i for i in host["interfaces"] if i["name"] == "bond0").update(changes))


def card(**changes: Any) -> Callable[[healthy.Cluster], Any]:
    entry = interface("eth9", **changes)
    return of_host(lambda host: host["interfaces"].append(entry))


def peers(state: str, ports: slice = slice(None), **changes: Any) -> Callable[[healthy.Cluster], Any]:
    def change(host: Host) -> None:
        for peer in host["peers"]:
            peer.update(changes)
            for port in peer["ports"][ports]:
                port.update(state=state, error=state)

    return of_host(change)


def v4(address: str) -> Host:
    return {"address": address, "prefix": 24, "family": 4, "scope": "global"}


def clock(seconds: float, *hosts: str) -> Callable[[healthy.Cluster], Any]:
    def change(made: healthy.Cluster) -> None:
        for host in hosts:
            made.facts[host]["host"]["clock"]["epoch"] += seconds

    return change


def everywhere(change: Callable[[Host], Any]) -> Callable[[healthy.Cluster], Any]:
    return lambda made: [change(facts["host"]) for facts in made.facts.values()]


def share(memory: int = GIB, quota: int = 0, path: str = "/data/kv", **environment: str) -> Callable[..., Any]:
    """p1-0 brings memory into the pool, and has a disk when there is a quota."""

    def change(made: healthy.Cluster) -> None:
        process = made.plans["p1"]["processes"][0]
        process["pool"] = {"memory": memory, "disk": {"path": path, "quota": quota} if quota else None}
        process["unit"]["environment"] |= environment

    return change


def disk(**changes: Any) -> Callable[[healthy.Cluster], Any]:
    """One that has room for 5000 GiB."""
    return paths(path("/data/kv", "ssd", **changes))


FAULTS: dict[str, tuple[Callable[[healthy.Cluster], Any], set[str | None]]] = {
    "limits-memlock": (put("limits/memlock", {"soft": 65536, "hard": 65536}), {"p1"}),
    "limits-nofile": (put("limits/nofile", {"soft": 1024, "hard": 2048}), {"p1"}),
    "unit-limits-capped": (
        put(
            f"units/{UNIT}",
            unit(nofile={"soft": 1024, "hard": 1024}, process=None, drop_ins=["/etc/systemd/system/x.d/low.conf"]),
        ),
        {"p1"},
    ),
    "limits-nofile-kernel": (put("sysctl/fs.nr_open", "65536"), {"p1"}),
    "limits-processes": (put("limits/nproc", {"soft": 1024, "hard": 1024}), {"p1"}),
    "pid-max": (put("sysctl/kernel.pid_max", "32768"), {"p1"}),
    "unit-masked": (put(f"units/{UNIT}", unit(load_state="masked", active_state="inactive")), {"p1"}),
    "unit-drop-in": (put(f"units/{UNIT}", unit(drop_ins=["/etc/systemd/system/service.d/x.conf"])), {"p1"}),
    "unit-reload": (put(f"units/{UNIT}", unit(needs_reload=True)), {"p1"}),
    "unit-limits-old": (
        put(f"units/{UNIT}", unit(process={"memlock": {"soft": 8192, "hard": 8192}, "nofile": None})),
        {"p1"},
    ),
    "unit-oom": (put(f"units/{UNIT}", unit(oom_kills=2)), {"p1"}),
    "hugepages-given": (
        both(
            put("hugepages/asked", [{"size": 2 << 20, "pages": 100, "where": "/etc/sysctl.d/90-huge.conf"}]),
            put("hugepages/sizes", [pages(total=40, free=40)]),
        ),
        {"p1"},
    ),
    "hugepages-pool": (
        both(
            planned(**HUGEPAGES),
            everywhere(lambda host: host["hugepages"].update(sizes=[pages(10, 10, 5)])),
            put("hugepages/sizes", [pages(total=10, free=5, reserved=5)]),
        ),
        {"p1"},
    ),
    "hugepages-uneven": (
        both(
            planned(**HUGEPAGES),
            everywhere(lambda host: host["hugepages"].update(sizes=[pages(10, 10, nodes=(5, 5))])),
            put("hugepages/sizes", [pages(10, 10, nodes=(10, 0))]),
        ),
        {"p1"},
    ),
    "hugepages-greedy": (put("hugepages/sizes", [pages(total=900000, free=900000)]), {"p1"}),
    "hugepages-64k": (
        both(
            planned(**HUGEPAGES),
            everywhere(lambda host: host["hugepages"].update(sizes=[pages(10, 10)])),
            put("hugepages/default_size", 512 << 20),
        ),
        {"p1"},
    ),
    "memory-low": (put("memory/available", 100 * GIB), {"p1"}),
    "memory-cgroup": (put("cgroup/memory_max", 64 * GIB), {"p1"}),
    "swap-used": (both(put("memory/swap_total", 64 * GIB), put("memory/swap_free", 10 * GIB)), {"p1"}),
    "shm-small": (both(put("shm/total", 64 << 20), put("shm/free", 64 << 20)), {"p1"}),
    "shm-full": (put("shm/free", 1 * GIB), {"p1"}),
    "shm-leftovers": (
        put("shm/segments_total", {"count": 9, "size": 2 * GIB, "unused_count": 9, "unused_size": 2 * GIB}),
        {"p1"},
    ),
    "shm-inodes": (put("shm/inodes_free", 10), {"p1"}),
    "map-count": (both(protocol("rdma"), put("sysctl/vm.max_map_count", "65530")), {"p1"}),
    "numa-balancing": (put("sysctl/kernel.numa_balancing", "1"), {"p1"}),
    "swappiness": (
        both(
            put("sysctl/vm.swappiness", "60"),
            put("memory/swap_total", 64 * GIB),
            put("memory/swap_free", 64 * GIB),
        ),
        {"p1"},
    ),
    "governor": (put("governor", {"powersave": 300, "performance": 20}), {"p1"}),
    "model-missing": (of_host(lambda host: host["paths"][0].update(type="missing", nearest="/data")), {"p1"}),
    "engine-missing": (of_host(lambda host: host["paths"][1].update(type="missing", nearest="/usr/local")), {"p1"}),
    "file-unreadable": (of_host(lambda host: host["paths"][0].update(readable=False, mode="0600")), {"p1"}),
    "preload-missing": (paths(path("/usr/lib64/libjemalloc.so.2", "preload", type="missing")), {"p1"}),
    "library-folder-missing": (paths(path("/opt/lost", "library", type="missing")), {"p1"}),
    "pool-file-missing": (paths(path("/etc/mooncake.json", "pool-config", type="directory")), {"p1"}),
    "store-memory-short": (share(2000 * GIB), {"p1"}),
    "store-hugepages-short": (
        both(
            share(2 * GIB, **HUGEPAGES),
            everywhere(lambda host: host["hugepages"].update(sizes=[pages(1023, 1023)])),
        ),
        {"p1"},
    ),
    "store-disk-small": (both(share(quota=6000 * GIB), disk(type="missing", nearest="/data")), {"p1"}),
    "store-disk-memory": (both(share(quota=GIB), disk(filesystem="tmpfs")), {"p1"}),
    "store-disk-folder": (both(share(quota=GIB), disk(type="file")), {"p1"}),
    "disk-full": (of_host(lambda host: host["paths"][2].update(free=1 << 20)), {"p1"}),
    "disk-inodes": (of_host(lambda host: host["paths"][2].update(inodes_free=12)), {"p1"}),
    "disk-read-only": (of_host(lambda host: host["paths"][2].update(read_only=True)), {"p1"}),
    "tmp-full": (put("tmp/free", 10 << 20), {"p1"}),
    "setting-planned": (put("settings/instance_environment", ["VLLM_HOST_IP"]), {"p1"}),
    "setting-refused": (
        lambda made: made.facts["p1"].update(told=["router_allowed_paths: is empty. Mend: name paths."]),
        {"p1"},
    ),
    "systemd-missing": (put("systemd/pid1", "sleep"), {"p1"}),
    "systemd-old": (put("systemd/version", 219), {"p1"}),
    "systemd-state": (put("systemd/state", "stopping"), {"p1"}),
    "glibc-old": (put("settings/mooncake_mode", "wheel"), {"p1"}),  # openEuler 22.03 has 2.34
    "libstdcxx-old": (put("settings/mooncake_mode", "wheel"), {"p1"}),
    "selinux-enforcing": (put("security/selinux", "enforcing"), {"p1"}),
    "engine-beside": (
        put(
            "engines",
            [
                {
                    "pid": 4711,
                    "command": "VLLM::EngineCore",
                    "user": "root",
                    "unit": None,
                    "container": None,
                    "age": 9000,
                    "title": "VLLM::EngineCore",
                }
            ],
        ),
        {"p1"},
    ),
    "clock-wrong": (clock(30, "p1", "p2", "d1", "d2"), {"p1", "p2", "d1", "d2"}),
    "clocks-differ": (both(clock(-2, "p1", "p2"), clock(2, "d1", "d2")), {None}),
    "clock-free": (put("clock/synchronized", False), {"p1"}),
    "machine-differs": (put("kernel/machine", "x86_64"), {"p1"}),
    "os-differs": (put("os/pretty", "Ubuntu 22.04.5 LTS"), {"p1"}),
    "kernel-differs": (put("kernel/release", "5.10.0-60"), {"p1"}),
    "cpus-differ": (put("cpus", 316), {"p1"}),
    "memory-differs": (
        both(put("memory/total", 1920 * GIB), put("memory/available", 1900 * GIB)),
        {"p1"},
    ),
    "page-size-differs": (put("kernel/page_size", 65536), {"p1"}),
    "glibc-differs": (put("libc/version", "2.38"), {"p1"}),
    "timezone-differs": (put("clock/timezone", "Asia/Shanghai"), {"p1"}),
    "host-unknown": (put("unknown", [{"what": "governor", "why": "it could not be read", "raw": ""}]), {"p1"}),
    "host-absent": (
        lambda made: (made.facts.pop("p2"), made.absent.update(p2="it cannot be reached: timeout")),
        {"p2"},
    ),
    # ---- network
    "address-absent": (bond(addresses=[v4("192.0.2.99")]), {"p1"}),
    "interface-absent": (lambda made: made.plans["p1"].update(interface="enp1s0"), {"p1"}),
    "interface-other": (lambda made: made.plans["p1"].update(interface="enp125s0f0"), {"p1"}),
    "interface-down": (bond(carrier=False), {"p1"}),
    "interface-virtual": (bond(kind="bridge", members=[]), {"p1"}),
    "bond-degraded": (of_host(lambda host: host["interfaces"][1].update(carrier=False)), {"p1"}),
    "subnet-shared": (card(addresses=[v4("192.0.2.201")]), {"p1"}),
    "address-twice": (card(addresses=[{**v4("192.0.2.21"), "prefix": 32}]), {"p1"}),
    "mtu-differs": (bond(mtu=9000), {"p1"}),
    "speed-differs": (bond(speed=25000), {"p1"}),
    "interface-differs": (
        both(
            lambda made: [plan.update(interface=None) for plan in made.plans.values()],
            bond(name="bond1"),
        ),
        {"p1"},
    ),
    "host-twice": (put("kernel/boot_id", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e121"), {None}),
    "peer-route": (peers("unreachable", source=None), {"p1"}),
    "peer-source": (peers("closed", source="198.51.100.7", interface="eth0"), {"p1"}),
    "peer-silent": (peers("filtered"), {"p1"}),
    "peer-filtered": (peers("filtered", slice(0, 1)), {"p1"}),
    "peer-gateway": (peers("closed", gateway="192.0.2.254"), {"p1"}),
    "firewall-active": (put("security/firewall", ["firewalld"]), {"p1"}),
    "name-loopback": (put("names/own", ["127.0.1.1"]), {"p1"}),
    "name-unresolved": (put("names/own", []), {"p1"}),
    "name-twice": (put("names/hostname", "p2"), {None}),
    "proxy": (put("proxies", [{"where": "unit", "name": "http_proxy", "value": "http://10.0.0.1:3128"}]), {"p1"}),
    "somaxconn": (put("sysctl/net.core.somaxconn", "128"), {"p1"}),
    "neighbours": (put("sysctl/net.ipv4.neigh.default.gc_thresh3", "4"), {"p1"}),
    "reverse-path": (
        both(put("sysctl/net.ipv4.conf.all.rp_filter", "1"), peers("closed", source="198.51.100.7")),
        {"p1"},
    ),
}
# What the same fault also breaks, and rightly so.
ALONG = {
    "map-count": {"rdma-unknown"},  # a fleet without RDMA devices, planned with them
    "reverse-path": {"peer-source"},
    "unit-limits-capped": {"unit-drop-in"},
    "glibc-old": {"libstdcxx-old"},
    "libstdcxx-old": {"glibc-old"},
    "hugepages-pool": set(),
    "interface-virtual": set(),
    "address-absent": {"mtu-differs", "speed-differs"},
}


def test_a_healthy_fleet_gives_nothing():
    assert healthy.cluster().found() == set()


@pytest.mark.parametrize("rule", FAULTS)
def test_the_rule_finds_its_fault_and_no_other_does(rule):
    change, hosts = FAULTS[rule]
    made = healthy.cluster()
    change(made)
    found = made.found()
    assert {host for name, host in found if name == rule} == hosts
    assert {name for name, _host in found} <= {rule, *ALONG.get(rule, ())}


def test_every_rule_about_hosts_has_its_fault():
    assert {rule.id for rule in RULES.values() if rule.family in ("host", "network")} == set(FAULTS)


@pytest.mark.parametrize("rule", FAULTS)
def test_findings_say_what_and_what_to_do(rule):
    made = healthy.cluster()
    FAULTS[rule][0](made)
    for finding in made.verdict().findings:
        assert finding.what
        assert finding.fix.endswith((".", ")"))
        assert finding.host not in finding.what.split()
        assert finding.source
        assert finding.about
        assert finding.why.endswith(".")


# ---- what is close to a fault and is none
@pytest.mark.parametrize(
    "change",
    [
        both(planned(**HUGEPAGES), everywhere(lambda host: host["hugepages"].update(sizes=[pages(10, 10, 2)]))),
        put("shm/free", 600 * GIB),
        share(1960 * GIB),
        both(share(3000 * GIB), put(f"units/{UNIT}", unit())),  # it has taken its memory already
        both(
            share(2 * GIB, **HUGEPAGES),
            everywhere(lambda host: host["hugepages"].update(sizes=[pages(1024, 1024)])),
        ),
        both(
            share(2 * GIB, **HUGEPAGES, MC_STORE_HUGEPAGE_SIZE="1GB"),
            everywhere(lambda host: host["hugepages"].update(sizes=[pages(2, 2, size=GIB)])),
        ),
        both(share(quota=5000 * GIB), disk(type="missing", nearest="/data")),
        both(share(quota=6000 * GIB), put(f"units/{UNIT}", unit()), disk()),  # what is used is its own
        put("memory/available", 300 * GIB),
        put("limits/nofile", {"soft": 1024, "hard": 1048576}),  # the transport raises the soft one itself
        put(
            "proxies",
            [
                {"where": "unit", "name": "http_proxy", "value": "http://10.0.0.1:3128"},
                {"where": "unit", "name": "no_proxy", "value": "192.0.2.11,192.0.2.12,192.0.2.21, 192.0.2.22"},
            ],
        ),
        put("proxies", [{"where": "/etc/environment", "name": "http_proxy", "value": "http://10.0.0.1:3128"}]),
        put("names/own", ["192.0.2.11", "127.0.1.1"]),
        peers("open"),
        clock(1, "p1"),
        both(
            card(addresses=[v4("192.0.2.201")]),
            put("sysctl/net.ipv4.conf.all.arp_ignore", "1"),
            put("sysctl/net.ipv4.conf.all.arp_announce", "2"),
        ),
        put(f"units/{UNIT}", unit()),
        put("memory/total", 2047 * GIB),
    ],
)
def test_no_alarm(change):
    made = healthy.cluster()
    change(made)
    assert made.found() == set()


@pytest.mark.parametrize("value", ["10.0.0.0/8", "192.0.2.0/24", ".local"])
def test_ranges_in_no_proxy_exempt_nobody(value):
    made = healthy.cluster()
    made.facts["p1"]["host"]["proxies"] = [
        {"where": "unit", "name": "HTTP_PROXY", "value": "http://10.0.0.1:3128"},
        {"where": "unit", "name": "NO_PROXY", "value": value},
    ]
    assert made.found() == {("proxy", "p1")}


# ---- what is not known
def _nothing(value: Any) -> Any:
    return {key: _nothing(item) if isinstance(item, dict) else None for key, item in value.items()}


@pytest.mark.parametrize("key", sorted(set(healthy.cluster().facts["p1"]["host"]) - {"settings"}))
def test_rules_pass_over_what_is_unknown_and_the_judge_tells_it(key):
    made = healthy.cluster()
    facts = made.facts["p1"]["host"]
    for worse in (None, _nothing(facts[key]) if isinstance(facts[key], dict) else None):
        facts[key] = worse
        facts["unknown"] = [{"what": key, "why": "the source cannot be read", "raw": "EIO"}]
        assert made.found() == {("host-unknown", "p1")}


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [leaf for key, item in inner for leaf in _leaves(item, (*path, key))]


@given(st.data())
@settings(max_examples=300)
def test_nothing_that_is_lost_passes_for_good_and_no_rule_breaks_the_report(data):
    """Facts that are not there at all, as no module would tell them."""
    made = healthy.cluster()
    facts = made.facts["p1"]
    path = data.draw(st.sampled_from(_leaves(facts)))
    place: Any = facts
    for key in path[:-1]:
        place = place[key]
    if data.draw(st.booleans()) and isinstance(place, dict):
        del place[path[-1]]
    else:
        place[path[-1]] = None
    found = {(finding.rule, finding.host) for finding in made.verdict(breaks=True).findings}
    whole = path in {(probe,) for probe in facts} or path[-1] == "unknown"
    decisive = ".".join(map(str, path[1:])) in unknown._DECISIVE[path[0]]
    if whole or decisive:
        assert (f"{path[0]}-unknown", "p1") in found


@pytest.mark.parametrize("probe", ["host", "ports", "npu", "hccn"])
def test_a_probe_that_is_missing_is_an_error(probe):
    made = healthy.cluster()
    for worse in (None, {}, [], {"unknown": None}):
        made.facts["p1"][probe] = worse
        found = {(item.rule, item.host, item.severity) for item in made.verdict(breaks=True).findings}
        assert (f"{probe}-unknown", "p1", "error") in found
    del made.facts["p1"][probe]
    assert (f"{probe}-unknown", "p1") in made.found()


def test_a_plan_without_npus_needs_none_of_their_facts():
    made = healthy.cluster()
    made.cluster["engine"] = {"kind": "vllm_cpu", "version": "0.32.0"}
    for facts in made.facts.values():
        del facts["npu"], facts["hccn"]
    verdict = made.verdict()
    assert not {finding.rule for finding in verdict.findings} & {"npu-unknown", "hccn-unknown"}
    assert "npu" not in verdict.families


def test_decisive_facts_that_are_unknown_are_errors_and_others_warnings():
    made = healthy.cluster()
    made.facts["p1"]["host"]["unknown"] = [
        {"what": "limits", "why": "systemd-run failed", "raw": "Failed to connect to bus"},
        {"what": "governor", "why": "it could not be read", "raw": ""},
        {"what": "", "why": "host_info failed: boom", "raw": ""},
    ]
    found = {finding.what.split()[0]: finding.severity for finding in made.verdict().findings}
    assert found == {"limits": "error", "governor": "notice", "everything": "error"}


# ---- waivers and families
def test_a_waiver_takes_a_finding_out_of_what_has_to_be_mended():
    raw = healthy.topology()
    raw["waive"] = [{"rule": "selinux-enforcing", "host": "p2", "reason": "tried for a year"}]
    made = healthy.cluster(raw)
    for host in ("p1", "p2"):
        made.facts[host]["host"]["security"]["selinux"] = "enforcing"
    verdict = made.verdict()
    assert [(finding.rule, finding.host) for finding in verdict.findings] == [("selinux-enforcing", "p1")]
    assert [(item.finding.host, item.reason) for item in verdict.waived] == [("p2", "tried for a year")]


def test_a_dead_peer_is_told_once():
    made = healthy.cluster()
    del made.facts["p2"]
    made.absent["p2"] = "it cannot be reached: timeout"
    for facts in made.facts.values():
        for peer in facts["host"]["peers"]:
            if peer["name"] == "p2":
                for port in peer["ports"]:
                    port.update(state="unreachable", error="no route to host")
    assert made.found() == {("host-absent", "p2")}


def test_a_waiver_of_one_unknown_fact_covers_that_one_only():
    raw = healthy.topology()
    raw["waive"] = [{"rule": "host-unknown", "where": "tools.git", "reason": "git is not needed"}]
    made = healthy.cluster(raw)
    made.facts["p1"]["host"]["unknown"] = [
        {"what": name, "why": "no answer", "raw": ""} for name in ("tools.git.version", "tools.gitx", "limits")
    ]
    verdict = made.verdict()
    assert [item.finding.where for item in verdict.waived] == ["tools.git.version"]
    assert {item.where for item in verdict.findings} == {"tools.gitx", "limits"}


@pytest.mark.parametrize(
    ("asked", "got", "fires"),
    [
        ("64G:128G", 65536, True),
        ("64K:64G", 65536, False),
        ("infinity", 65536, True),
        ("65536", 65536, False),
    ],
)
def test_limits_are_understood_as_systemd_writes_them(asked, got, fires):
    made = healthy.cluster()
    made.facts["p1"]["host"]["settings"]["instance_memlock"] = asked
    made.facts["p1"]["host"]["limits"]["memlock"] = {"soft": got, "hard": -1}
    assert made.found() == ({("limits-memlock", "p1")} if fires else set())


def test_a_service_that_runs_has_the_hugepages_itself():
    made = healthy.cluster()
    planned(**HUGEPAGES)(made)
    for name, facts in made.facts.items():
        facts["host"]["hugepages"]["sizes"] = [pages(10, 0)]
        facts["host"]["memory"]["available"] = GIB
        facts["host"]["units"] = {made.plans[name]["processes"][0]["unit"]["name"]: unit()}
    assert made.found() == set()


def test_only_asked_families_are_judged():
    made = healthy.cluster()
    made.facts["p1"]["host"]["security"]["selinux"] = "enforcing"
    FAULTS["address-absent"][0](made)
    verdict = made.verdict(families=["network"])
    assert {finding.family for finding in verdict.findings} == {"network"}
    assert {family for _rule, family, _about in verdict.rules} == {"network"}
    assert set(verdict.hosts["p1"]) == {"network"}


def test_a_host_that_the_run_leaves_out_is_no_error():
    made = healthy.cluster()
    del made.facts["p2"]
    made.absent["p2"] = "the run left it out (--limit)"
    (finding,) = made.verdict().findings
    assert (finding.rule, finding.host, finding.severity) == ("host-absent", "p2", "notice")


def test_every_module_of_rules_is_in_the_catalogue():
    folder = Path(catalogue.__file__).parent / "rules"
    assert {path.stem for path in folder.glob("*.py")} == {
        name for name in vars(catalogue) if not name.startswith("_") and name not in ("RULES", "annotations")
    }


def test_a_rule_that_breaks_is_told_and_takes_nothing_else_away():
    made = healthy.cluster()
    made.facts["p1"]["host"]["shm"]["total"] = "much"
    made.facts["p1"]["host"]["security"]["selinux"] = "enforcing"
    found = {finding.rule: finding for finding in made.verdict(breaks=True).findings}
    assert set(found) == {"selinux-enforcing", "shm-small", "shm-full"}
    broken = found["shm-small"]
    assert (broken.host, broken.severity) == ("p1", "error")
    assert broken.what == "this could not be judged, for the facts are not as the rule expects them"
    assert broken.evidence.startswith("TypeError: ")
    assert "memory.py:" in broken.evidence


def test_a_disk_that_was_used_before_may_hold_what_the_pool_wrote():
    made = healthy.cluster()
    both(share(quota=6000 * GIB), disk())(made)
    (finding,) = made.verdict().findings
    assert (finding.rule, finding.severity) == ("store-disk-small", "warning")
    made = healthy.cluster()
    both(share(quota=8000 * GIB), disk())(made)
    (finding,) = made.verdict().findings
    assert (finding.rule, finding.severity) == ("store-disk-small", "error")


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ({"type": "missing", "nearest": "/data"}, None),
        ({"type": "missing", "nearest": "/", "mount": "/"}, "/data is not there, in which /data/kv would be made"),
        (
            {"mount": "/data/kv"},
            "/data/kv is where a disk is mounted: a boot without it would fill the file system below",
        ),
    ],
)
def test_a_folder_of_the_pool_lies_on_a_disk_that_is_mounted(there, told):
    made = healthy.cluster()
    both(share(quota=GIB), disk(**there))(made)
    found = [(finding.rule, finding.what) for finding in made.verdict().findings]
    assert found == ([("store-disk-folder", told)] if told else [])


@pytest.mark.parametrize(
    ("taken", "told"),
    [
        (500 * GIB, "500 GiB"),  # half of it is to come
        (1000 * GIB, None),
        (2000 * GIB, None),
        (None, None),  # it runs, and what it has cannot be told
    ],
)
@pytest.mark.parametrize("node", [True, False])
def test_what_runs_has_taken_its_memory_and_takes_more_with_a_larger_segment(taken, told, node):
    made = healthy.cluster()
    process = made.plans["p1"]["processes"][0]
    process["pool"] = {"memory": 1000 * GIB, "disk": None}
    config = {"global_segment_size": 900 * GIB, "local_buffer_size": 100 * GIB}
    if node:
        process["unit"]["argv"] = [*process["unit"]["argv"], f"--global_segment_size={1000 * GIB}"]
    else:
        process["unit"]["files"] = [{"path": "/etc/x.json", "content": json.dumps(config)}]
    facts = made.facts["p1"]["host"]
    facts["units"][process["unit"]["name"]] = unit(pool_bytes=taken)
    facts["memory"]["available"] = GIB
    found = [finding.what for finding in made.verdict().findings if finding.rule == "store-memory-short"]
    assert found == ([f"segments and buffers of the pool need {told}, and 1 GiB is available"] if told else [])


def test_memory_of_all_ranks_of_a_host_counts_together():
    made = healthy.cluster()
    for process in made.plans["p1"]["processes"][:2]:
        process["pool"] = {"memory": 1000 * GIB, "disk": None}
    (finding,) = made.verdict().findings
    assert finding.what == "segments and buffers of the pool need 2000 GiB, and 1960 GiB is available"
    assert finding.evidence == "p1-0 1000 GiB, p1-1 1000 GiB"
