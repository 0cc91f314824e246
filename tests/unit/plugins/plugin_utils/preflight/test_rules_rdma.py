# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.catalogue import RULES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Fleet, Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import SEVERITIES

from .healthy_rdma import V1, V2, chosen, device, gid, mapped, port, rdma

Facts = dict[str, Any]
FAMILY = {name: rule for name, rule in RULES.items() if rule.family == "rdma" and name != "rdma-unknown"}
LOCAL = "fe80:0000:0000:0000:0a00:5eff:fe00:0001"
GLOBAL = "2001:0db8:0000:0000:0000:0000:0000:0011"
ADDRESSES = {"p1": "192.0.2.11", "p2": "192.0.2.12", "d1": "192.0.2.21"}
NUMA = [{"node": node, "cpus": 64, "memory_total": 1 << 38, "memory_free": 1 << 37} for node in range(2)]


def host(name: str = "p1", facts: Facts | None = None, protocol: str = "rdma", **plan: Any) -> Host:
    """plan: environment, argv of its process; shared environment of all engines; kind; mooncake."""
    kind = plan.get("kind", "decode" if name.startswith("d") else "prefill")
    unit = {"environment": plan.get("environment", {}), "argv": plan.get("argv", ["vllm", "serve"])}
    cluster = {"connector": {"protocol": protocol}, "mooncake": {"version": plan.get("mooncake", "0.3.13.post1")}}
    cluster |= {"engine": {"kind": "vllm"}, "environment": plan.get("shared", {})}
    seen = rdma(ADDRESSES[name]) if facts is None else facts
    planned = {"address": ADDRESSES[name], "processes": [{"name": name, "kind": kind, "unit": unit}]}
    return Host(name, planned, cluster, {"rdma": seen, "host": {"numa": NUMA[: plan.get("numa", 2)]}})


def one(**changes: Any) -> Facts:
    """Facts with one device, changed."""
    return rdma(devices=[device(**changes)])


def of_port(**changes: Any) -> Facts:
    return one(ports=[port(**changes)])


def findings(*hosts: Host) -> dict[str, list[tuple[str | None, str, str]]]:
    """Rule -> (host, severity, what and evidence)."""
    fleet = Fleet({}, {host.name: host for host in hosts})
    found: dict[str, list[tuple[str | None, str, str]]] = {}
    for name, rule in FAMILY.items():
        for subject in [fleet] if rule.over is Fleet else list(fleet):
            for item in rule.check(subject):
                severity = item.severity or rule.severity
                assert severity in SEVERITIES
                assert item.fix.endswith(".")
                place = item.host or getattr(subject, "name", None)
                found.setdefault(name, []).append((place, severity, f"{item.what} [{item.evidence}]"))
    return found


def only(*hosts: Host) -> tuple[str, str, str]:
    """(rule, severity, text) of the one finding."""
    found = [(name, severity, text) for name, items in findings(*hosts).items() for _host, severity, text in items]
    assert len(found) == 1, found
    return found[0]


def test_healthy_hosts() -> None:
    assert len(FAMILY) >= 12
    assert findings(*(host(name) for name in ADDRESSES)) == {}


BROKEN = rdma(devices=[], modules=[])


@pytest.mark.parametrize("facts", [BROKEN, of_port(state="DOWN"), of_port(active_mtu=256), one(max_mr_size=1)])
def test_nothing_is_judged_where_the_plan_uses_no_rdma(facts: Facts) -> None:
    for protocol in ("tcp", "ascend"):
        assert findings(host(facts=facts, protocol=protocol)) == {}
    assert findings(host(facts=facts, kind="router")) == {}


def test_nothing_is_judged_that_is_unknown() -> None:
    doubts = [{"what": f"devices.mlx5_0.ports.1.{key}", "why": "", "raw": ""} for key in ("chosen", "gids")]
    blank = dict.fromkeys(("state", "phys_state", "link_layer", "rate", "active_mtu", "max_mtu", "chosen"))
    facts = one(numa_node=None, pci=None, max_mr_size=None, ports=[port(**blank, gids=[])])
    assert findings(host(facts={**facts, "unknown": doubts})) == {}
    half = of_port(chosen=None, gids=[], active_mtu=None, max_mtu=None, netdev_mtu=None, rate=None)
    assert findings(host(facts={**half, "unknown": doubts}, environment={"MC_GID_INDEX": "3"})) == {}
    unread = [{"what": "devices", "why": "/sys/class/infiniband cannot be read.", "raw": ""}]
    assert findings(host(facts=rdma(devices=[], unknown=unread))) == {}
    assert findings(Host("p1", host().plan, host().cluster, {})) == {}


def test_no_device() -> None:
    assert only(host(facts=BROKEN))[:2] == ("rdma-no-device", "error")


@pytest.mark.parametrize(
    ("plan", "named"),
    [
        ({"environment": {"MC_TE_FILTERS": "mlx5_0, mlx5_7"}}, "MC_TE_FILTERS names mlx5_7"),
        ({"environment": {"MOONCAKE_DEVICE": "mlx5_7"}}, "MOONCAKE_DEVICE names mlx5_7"),
        ({"argv": ["mooncake_client", "--device_name=mlx5_0,mlx5_7"]}, "--device_name names mlx5_7"),
        ({"argv": ["mooncake_client", "--device_names", "mlx5_7,mlx5_0"]}, "--device_names names mlx5_7"),
        (
            {"argv": ["vllm", "--kv-transfer-config", json.dumps({"connectors": [{"device_name": "mlx5_0,mlx5_7"}]})]},
            "device_name in --kv-transfer-config names mlx5_7",
        ),
    ],
)
def test_device_that_the_plan_names(plan: Facts, named: str) -> None:
    name, severity, text = only(host(**plan))
    assert (name, severity) == ("rdma-device-missing", "error")
    assert named in text


def test_names_of_devices_that_say_nothing() -> None:
    for plan in (
        {"environment": {"MC_TE_FILTERS": "", "MOONCAKE_DEVICE": "auto-discovery"}},
        {"environment": {"MC_TE_FILTERS": "mlx5_7"}, "mooncake": "0.3.11"},  # which does not read it
        {"argv": ["vllm", "--kv-transfer-config", "{broken"]},
        {"environment": {"MC_TE_FILTERS": "mlx5_0"}},
    ):
        assert findings(host(**plan)) == {}, plan


def test_only_devices_that_mooncake_uses_are_judged() -> None:
    facts = rdma(devices=[device(), device("mlx5_7", ports=[port("198.51.100.7", state="DOWN")])])
    assert only(host(facts=facts))[:2] == ("rdma-port-down", "warning")
    assert findings(host(facts=facts, environment={"MC_TE_FILTERS": "mlx5_0"})) == {}
    assert only(host(facts=facts, environment={"MC_TE_FILTERS": "mlx5_7"}))[:2] == ("rdma-port-down", "error")


def test_port_that_is_not_active() -> None:
    name, severity, text = only(host(facts=of_port(state="INIT", phys_state="Polling", gids=[], chosen=None)))
    assert (name, severity) == ("rdma-port-down", "error")
    assert "INIT, Polling" in text


def test_port_of_another_number() -> None:
    two = one(ports=[port(state="DOWN"), port(number=2)])
    assert findings(host(facts=two, environment={"MC_IB_PORT": "2"})) == {}
    assert "no port 2: mlx5_0" in only(host(environment={"MC_IB_PORT": "2"}))[2]


def test_no_gid() -> None:
    gids = [gid(0, V1, "192.0.2.11"), gid(1, V1, LOCAL)]
    name, severity, text = only(host(facts=of_port(gids=gids, chosen=None)))
    assert (name, severity) == ("rdma-gid-none", "error")
    assert "0 192.0.2.11 IB/RoCE v1, 1 fe80" in text
    other = device("mlx5_1", ports=[port(gids=[], chosen=None)])
    assert only(host(facts=rdma(devices=[device(), other]), numa=1))[:2] == ("rdma-gid-none", "warning")


def taking(*gids: Facts, index: int) -> Facts:
    return of_port(gids=list(gids), chosen=chosen(gids[index]))


def test_version_1_and_link_local() -> None:
    assert findings(host(facts=taking(gid(0, V1, "192.0.2.11"), index=0))).keys() == {"rdma-gid-version-1"}
    found = findings(host(facts=taking(gid(0, V1, LOCAL), gid(1, V2, LOCAL), index=1)))
    assert found.keys() == {"rdma-gid-link-local", "rdma-gid-address"}
    late = [gid(0, V2, LOCAL), gid(5, V2, "192.0.2.11")]
    facts = of_port(gids=late, chosen=chosen(late[0]))
    (fault,) = FAMILY["rdma-gid-link-local"].check(host(facts=facts))
    assert "MC_GID_INDEX=5" in fault.fix


def test_infiniband_is_not_judged_by_rules_of_roce() -> None:
    entry = gid(0, V1, LOCAL, None)
    facts = of_port(link_layer="InfiniBand", gids=[entry], chosen=chosen(entry), netdev=None, netdev_mtu=None)
    assert findings(host(facts=facts)) == {}
    assert findings(host(facts=facts, environment={"MC_GID_INDEX": "0"})) == {}


def test_address_of_the_gid() -> None:
    elsewhere = rdma("198.51.100.11")
    assert only(host(facts=elsewhere))[:2] == ("rdma-gid-address", "notice")
    gids = [gid(0, V2, "203.0.113.11"), gid(1, V2, "192.0.2.11")]
    name, severity, text = only(host(facts=of_port(gids=gids, chosen=chosen(gids[0]))))
    assert (name, severity) == ("rdma-gid-address", "warning")
    assert "another GID" in text


@pytest.mark.parametrize(("index", "text"), [("0", "IB/RoCE v1"), ("1", "link-local"), ("7", "empty"), ("x", "is 0,")])
def test_index_that_is_set(index: str, text: str) -> None:
    name, severity, said = only(host(environment={"MC_GID_INDEX": index}))
    assert (name, severity) == ("rdma-gid-index-wrong", "error")
    assert text in said
    assert "3 is right there" in said


def test_index_that_is_right_or_ignored() -> None:
    for environment in (
        {"MC_GID_INDEX": "3"},
        {"NCCL_IB_GID_INDEX": "3"},
        {"MC_GID_INDEX": "-1"},
        {"MC_GID_INDEX": "300"},
        {"MC_GID_INDEX": "3", "NCCL_IB_GID_INDEX": "0"},  # which is not asked then
    ):
        assert findings(host(environment=environment)) == {}, environment


def test_what_all_engines_get_counts_unless_an_instance_says_otherwise() -> None:
    assert "MC_GID_INDEX is 0" in only(host(shared={"MC_GID_INDEX": "0"}))[2]
    assert findings(host(shared={"MC_GID_INDEX": "0"}, environment={"MC_GID_INDEX": "3"})) == {}
    assert "no port 2: mlx5_0" in only(host(shared={"MC_IB_PORT": "2"}))[2]
    assert "MC_TE_FILTERS names mlx5_7" in only(host(shared={"MC_TE_FILTERS": "mlx5_0,mlx5_7"}))[2]
    # MC_GID_INDEX goes before that of NCCL, wherever each is set
    assert findings(host(shared={"MC_GID_INDEX": "3"}, environment={"NCCL_IB_GID_INDEX": "0"})) == {}


def test_index_of_nccl_counts() -> None:
    assert "NCCL_IB_GID_INDEX is 0" in only(host(environment={"NCCL_IB_GID_INDEX": "0"}))[2]


def at(index: int, address: str = ADDRESSES["d1"]) -> Facts:
    entries = [gid(0, V2, LOCAL), gid(index, V2, address)]
    return one(address=address, ports=[port(address, gids=entries, chosen=chosen(entries[1]))])


def test_index_differs_between_hosts() -> None:
    hosts = [host("p1"), host("d1", at(5))]
    assert only(*hosts)[:2] == ("rdma-gid-index-differs", "notice")
    everywhere = [host(h.name, dict(h.facts["rdma"]), environment={"MC_GID_INDEX": "3"}) for h in hosts]
    found = findings(*everywhere)
    assert [place for place, _severity, _text in found.pop("rdma-gid-index-wrong")] == ["d1"]
    assert found == {}
    two = rdma(devices=[device(), device("mlx5_1", ports=at(5, "192.0.2.111")["devices"][0]["ports"])])
    assert only(host("p1", two, numa=1))[0] == "rdma-gid-index-differs"


def test_ipv4_and_ipv6_gids() -> None:
    entry = gid(3, V2, GLOBAL)
    six = one(ports=[port(gids=[entry], chosen=chosen(entry))])
    found = findings(host("p1"), host("p2"), host("d1", six))
    assert found.keys() == {"rdma-gid-kind-differs", "rdma-gid-address"}
    assert found["rdma-gid-kind-differs"][0][:2] == ("d1", "error")
    assert [place for place, _severity, _text in findings(host("p1"), host("d1", six))["rdma-gid-kind-differs"]] == [
        None
    ]


def test_mtu() -> None:
    slow = of_port(active_mtu=1024)
    name, severity, text = only(host(facts=slow))
    assert (name, severity) == ("rdma-mtu-low", "warning")
    assert "active_mtu 1024, max_mtu 4096, MTU of ens10np0 9000" in text
    small = of_port(active_mtu=1024, netdev_mtu=1500)
    assert only(host(facts=small))[:2] == ("rdma-netdev-mtu", "notice")
    assert findings(host(facts=of_port(active_mtu=4096, netdev_mtu=4200))) == {}
    assert "rdma-netdev-mtu" in findings(host(facts=of_port(active_mtu=2048, netdev_mtu=4191)))


def test_mtu_differs_between_hosts() -> None:
    small = one(address=ADDRESSES["d1"], ports=[port(ADDRESSES["d1"], active_mtu=1024, netdev_mtu=1500)])
    hosts = [host("p1"), host("p2"), host("d1", small)]
    found = findings(*hosts)
    assert found["rdma-mtu-differs"] == [
        ("d1", "error", "RDMA ports send with different MTUs (1024, 4096) [4096: p1, p2; 1024: d1]")
    ]
    capped = [host(h.name, dict(h.facts["rdma"]), environment={"MC_MTU": "1024"}) for h in hosts]
    assert "rdma-mtu-differs" not in findings(*capped)
    ignored = [host(h.name, dict(h.facts["rdma"]), environment={"MC_MTU": "1000"}) for h in hosts]
    assert "rdma-mtu-differs" in findings(*ignored)
    assert [place for place, *_rest in findings(host("p1"), host("d1", small))["rdma-mtu-differs"]] == [None]


def test_pci_link() -> None:
    link = {"address": "0000:5e:00.0", "speed": 16.0, "width": 8, "max_speed": 16.0, "max_width": 16}
    name, severity, text = only(host(facts=one(pci=link)))
    assert (name, severity) == ("rdma-pcie-slow", "warning")
    assert "x8 at 16 GT/s, which is less than its 200 Gb/s [0000:5e:00.0: capable of x16 at 16 GT/s]" in text
    older_slot = {**link, "width": 16, "max_speed": 32.0}
    assert only(host(facts=one(pci=older_slot)))[:2] == ("rdma-pcie-slow", "notice")
    assert findings(host(facts=one(pci={**link, "speed": None}))) == {}


def test_numa() -> None:
    assert only(host(facts=one(numa_node=-1)))[:2] == ("rdma-numa-unknown", "notice")
    assert findings(host(facts=one(numa_node=-1), numa=1)) == {}
    both = rdma(devices=[device(), device("mlx5_1")])
    assert only(host(facts=both))[:2] == ("rdma-numa-uneven", "notice")
    assert findings(host(facts=both, numa=1)) == {}
    assert findings(host(facts=rdma(devices=[device(), device("mlx5_1", numa_node=1)]))) == {}


def test_memory_regions() -> None:
    name, severity, text = only(host(facts=one(max_mr_size=2 << 30)))
    assert (name, severity) == ("rdma-mr-size", "warning")
    assert "mlx5_0: memory regions end at 2 GiB" in text
    assert findings(host(facts=one(max_mr_size=64 << 30))) == {}


@pytest.mark.parametrize(
    ("modules", "severity", "text"),
    [
        (["ib_core", "rdma_cm"], "error", "ib_uverbs is not loaded"),
        (["ib_core", "ib_uverbs"], "notice", "rdma_cm is not loaded"),
        (["ib_uverbs", "rdma_cm", "nvidia"], "warning", "nvidia_peermem is not loaded"),
    ],
)
def test_modules(modules: list[str], severity: str, text: str) -> None:
    name, seen, said = only(host(facts=rdma(modules=modules)))
    assert (name, seen) == ("rdma-module-missing", severity)
    assert text in said


def test_modules_that_are_there() -> None:
    assert findings(host(facts=rdma(modules=["ib_uverbs", "rdma_cm", "nvidia", "nv_peer_mem"]))) == {}
    gpus = rdma(modules=["ib_uverbs", "rdma_cm", "nvidia"])
    assert findings(host(facts=gpus, environment={"WITH_NVIDIA_PEERMEM": "OFF"})) == {}
    assert findings(host(facts=gpus, environment={"WITH_NVIDIA_PEERMEM": "1"})) != {}


def test_ethernet_and_infiniband() -> None:
    infiniband = one(ports=[port(ADDRESSES["d1"], link_layer="InfiniBand")])
    name, severity, text = only(host("p1"), host("d1", infiniband))
    assert (name, severity) == ("rdma-link-layer-mixed", "error")
    assert "Ethernet: p1 mlx5_0; InfiniBand: d1 mlx5_0" in text


def test_rates_counts_and_firmware() -> None:
    slow = one(ports=[port(ADDRESSES["d1"], rate=100.0)])
    assert findings(host("p1"), host("p2"), host("d1", slow))["rdma-rate-differs"] == [
        ("d1", "warning", "RDMA ports have different rates (100, 200 Gb/s) [200 Gb/s: p1, p2; 100 Gb/s: d1]")
    ]
    more = rdma(ADDRESSES["p2"])
    more["devices"].append(device("mlx5_1", numa_node=1, ports=[port("198.51.100.12")]))
    assert only(host("p1"), host("p2", more))[:2] == ("rdma-count-differs", "warning")
    assert findings(host("p2", more), host("d1")) == {}  # prefill and decode may be of different makes
    other = rdma(devices=[device(address=ADDRESSES["d1"], firmware="28.39.1002")])
    assert only(host("p1"), host("d1", other))[:2] == ("rdma-firmware-differs", "notice")


def test_mapped_addresses_of_the_fixtures() -> None:
    assert mapped("192.0.2.11") == "0000:0000:0000:0000:0000:ffff:c000:020b"
