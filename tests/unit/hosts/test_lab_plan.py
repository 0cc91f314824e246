# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pure parts of tests/hosts/lab: what a lab is to be, and how the machine is put back."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.tests.hosts.lablib import plan
from ansible_collections.mooncake.pd.tests.hosts.lablib.machine import LabError
from ansible_collections.mooncake.pd.tests.hosts.lablib.plan import Host, Lab

HOSTS = (Host("control", "10.90.79.10"), Host("p1", "10.90.79.11"))
LAB = Lab("try", HOSTS, "localhost/image:1", "/cache", limits=("nofile=20000:20000",))
SUBNET = ipaddress.IPv4Network("10.90.79.0/24")


# -- hosts from an inventory
def listing(**groups: Any) -> dict[str, Any]:
    return {
        "_meta": {
            "hostvars": {
                "p1": {"pd_host": {"address": "10.90.79.11"}, "ansible_host": "jump"},
                "d1": {"ansible_host": "10.90.79.21"},
                "bare": {},
                "localhost": {"ansible_connection": "local"},
            }
        },
        **groups,
    }


def test_hosts_come_from_the_group_and_its_children_once() -> None:
    text = listing(
        all={"children": ["ungrouped", "pd"]},
        ungrouped={"hosts": ["bare"]},
        pd={"children": ["prefill", "decode", "engine"]},
        prefill={"hosts": ["p1"]},
        decode={"hosts": ["d1"]},
        engine={"children": ["prefill", "decode"]},
    )
    assert plan.inventory_hosts(text) == (Host("p1", "10.90.79.11"), Host("d1", "10.90.79.21"))


def test_without_the_group_all_hosts_are_taken_but_the_machine_itself() -> None:
    text = listing(
        all={"children": ["ungrouped", "lab"]}, lab={"hosts": ["d1"]}, ungrouped={"hosts": ["localhost", "p1"]}
    )
    assert [host.name for host in plan.inventory_hosts(text)] == ["p1", "d1"]


def test_a_host_without_an_address_is_named() -> None:
    with pytest.raises(LabError, match="no address for bare"):
        plan.inventory_hosts(listing(pd={"hosts": ["p1", "bare"]}))


def test_a_group_that_contains_itself_ends() -> None:
    text = listing(pd={"hosts": ["p1"], "children": ["inner"]}, inner={"children": ["pd"]})
    assert plan.inventory_hosts(text) == (Host("p1", "10.90.79.11"),)


def test_hosts_on_the_command_line() -> None:
    assert plan.given_hosts(["a=10.0.0.2"]) == (Host("a", "10.0.0.2"),)
    with pytest.raises(LabError, match="--host a: has no address"):
        plan.given_hosts(["a"])


# -- the subnet
def test_subnet_is_the_24_of_the_addresses() -> None:
    assert plan.subnet_of(HOSTS) == SUBNET


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ([Host("a", "10.0.0.1")], "a has 10.0.0.1: .0, .1"),
        ([Host("a", "10.0.0.255")], "cannot be a host's"),
        ([Host("a", "10.0.0.5"), Host("b", "10.0.1.5")], "several /24 networks: 10.0.0.0/24 (a), 10.0.1.0/24 (b)"),
        ([Host("a", "10.0.0.5"), Host("b", "10.0.0.5")], "b and a both have 10.0.0.5"),
        ([Host("a", "10.0.0.5"), Host("a", "10.0.0.6")], "a is named twice"),
        ([Host("a", "node-a")], "no IPv4 address"),
        ([Host("a", "8.8.8.8")], "no private address"),
        ([Host("-a", "10.0.0.5")], "no host name"),
        ([], "there are no hosts"),
    ],
)
def test_addresses_that_cannot_be(hosts: list[Host], said: str) -> None:
    with pytest.raises(LabError) as error:
        plan.subnet_of(hosts)
    assert said in str(error.value)


def test_all_problems_of_the_addresses_at_once() -> None:
    with pytest.raises(LabError) as error:
        plan.subnet_of([Host("a", "10.0.0.1"), Host("b", "x"), Host("c", "10.0.1.9")])
    assert all(said in str(error.value) for said in ("a has 10.0.0.1", "b has 'x'", "several /24"))


@given(st.lists(st.integers(2, 254), min_size=1, unique=True), st.integers(0, 255), st.integers(0, 255))
def test_any_hosts_of_one_24_are_taken(last: list[int], second: int, third: int) -> None:
    hosts = [Host(f"h{n}", f"10.{second}.{third}.{n}") for n in last]
    assert plan.subnet_of(hosts) == ipaddress.IPv4Network(f"10.{second}.{third}.0/24")


# -- collisions with the machine
def address(ifname: str, local: str, length: int) -> dict[str, Any]:
    return {"ifname": ifname, "addr_info": [{"family": "inet", "local": local, "prefixlen": length}]}


def test_what_is_not_ours_collides() -> None:
    found = plan.collisions(
        SUBNET,
        [
            {"dst": "default", "dev": "eth0"},
            {"dst": "10.0.0.0/8", "dev": "tun0"},
            {"dst": "10.90.79.7", "gateway": "192.0.2.1"},
        ],
        [address("eth1", "10.90.79.200", 28), address("lo", "127.0.0.1", 8)],
        ["podman1"],
    )
    assert found == ["address 10.90.79.200/28 on eth1", "route 10.0.0.0/8 via tun0", "route 10.90.79.7 via 192.0.2.1"]


def test_our_bridge_and_routes_that_lead_nowhere_do_not_collide() -> None:
    routes: list[dict[str, Any]] = [
        {"type": "blackhole", "dst": "10.90.79.0/24", "metric": plan.METRIC},
        {"type": "blackhole", "dst": "10.90.0.0/16", "metric": 4096},
        {"dst": "10.90.79.0/24", "dev": "podman1"},
        {"dst": "10.90.78.0/24", "dev": "eth0"},
    ]
    assert plan.collisions(SUBNET, routes, [address("podman1", "10.90.79.1", 24)], ["podman1"]) == []
    assert plan.own_blackhole(routes, SUBNET)


def test_another_blackhole_is_not_taken_for_ours() -> None:
    assert not plan.own_blackhole([{"type": "blackhole", "dst": "10.90.79.0/24", "metric": 1}], SUBNET)
    assert not plan.own_blackhole([{"type": "blackhole", "dst": "10.90.0.0/16", "metric": plan.METRIC}], SUBNET)
    assert not plan.own_blackhole([{"dst": "10.90.79.0/24", "metric": plan.METRIC, "dev": "eth0"}], SUBNET)


# -- command lines
def test_network_has_no_way_out_and_a_gateway() -> None:
    args = plan.network_args(LAB)
    assert args[:2] == ["network", "create"]
    assert args[-1] == "mooncake-pd-try"
    assert {"--internal", "--disable-dns"} <= set(args)
    assert args[args.index("--subnet") + 1] == "10.90.79.0/24"
    assert args[args.index("--gateway") + 1] == "10.90.79.1"


def test_host_is_not_privileged_and_mounts_are_read_only() -> None:
    lab = Lab("try", HOSTS, "image", "/cache", mounts=("/opt/engine",), limits=("nofile=1:1", "nproc=2:2"))
    args = plan.host_args(lab, HOSTS[1])
    assert "--privileged" not in args
    assert not any(word.startswith("--memory") for word in args)
    assert args[args.index("--ip") + 1] == "10.90.79.11"
    assert args[args.index("--mac-address") + 1] == "02:4c:0a:5a:4f:0b"
    assert args[args.index("--volume") + 1] == "/opt/engine:/opt/engine:ro"
    assert [args[n + 1] for n, word in enumerate(args) if word == "--ulimit"] == ["nofile=1:1", "nproc=2:2"]
    assert args[-1] == "image"


def test_digest_changes_with_what_makes_a_host_and_with_nothing_else() -> None:
    def digest(lab: Lab, host: Host = HOSTS[1]) -> str:
        return str(plan.label_of(plan.host_args(lab, host), plan.LABEL_DIGEST))

    others = [
        Lab("try", HOSTS, "localhost/image:2", "/cache", limits=LAB.limits),
        Lab("try", HOSTS, LAB.image, "/cache", mounts=("/opt",), limits=LAB.limits),
        Lab("try", HOSTS, LAB.image, "/cache", shm="2g", limits=LAB.limits),
        Lab("try", HOSTS, LAB.image, "/cache", limits=("nofile=1:1",)),
    ]
    digests = {digest(LAB), *(digest(lab) for lab in others), digest(LAB, Host("p1", "10.90.79.12"))}
    assert len(digests) == 6
    more = Lab("try", (*HOSTS, Host("d1", "10.90.79.21")), LAB.image, "/cache", limits=LAB.limits)
    assert digest(more) == digest(LAB)


def test_limits_never_above_the_machines() -> None:
    assert plan.limit_args(1024, 500, 65536, 4194304) == ("nofile=1024:1024", "nproc=500:500", "memlock=65536:65536")
    assert plan.limit_args(-1, -1, -1, 4194304) == ("nofile=20000:20000", "nproc=30000:30000", "memlock=-1:-1")
    assert plan.limit_args(1048576, 96365, 8388608, 16384)[1] == "nproc=16384:16384"


@pytest.mark.parametrize("name", ["", "Try", "a_b", "-a", "a-", "a" * 33, "a/b"])
def test_lab_names_that_cannot_be(name: str) -> None:
    with pytest.raises(LabError, match="lab name"):
        plan.check_name(name)


# -- files
def test_hosts_file_keeps_what_others_wrote() -> None:
    first = plan.hosts_file("", HOSTS)
    assert first.splitlines()[0] == "127.0.0.1 localhost"
    assert plan.hosts_file(first, HOSTS) == first
    changed = plan.hosts_file(first + "10.1.1.1 registry\n", HOSTS[:1])
    assert "10.1.1.1 registry" in changed
    assert "p1" not in changed
    assert changed.count(plan.BEGIN) == 1


def test_known_hosts_know_name_and_address() -> None:
    keys = {"control": "ssh-ed25519 AAA control", "p1": "ssh-ed25519 BBB p1"}
    assert plan.known_hosts(keys, HOSTS).splitlines()[1] == "p1,10.90.79.11 ssh-ed25519 BBB"


def test_connection_checks_host_keys() -> None:
    values = plan.connection_vars("/cache/labs/try", "/cache/labs/key")
    assert "StrictHostKeyChecking=yes" in values["ansible_ssh_common_args"]
    assert "/cache/labs/try/known_hosts" in values["ansible_ssh_common_args"]
    assert values["ansible_control_path_dir"] == "/cache/labs/try/cp"


def test_a_path_too_long_for_a_socket_is_not_used() -> None:
    assert "ansible_control_path" not in plan.connection_vars("/" + "x" * 80, "/key")


# -- the machine put back
SAVED = """\
# Generated by iptables-save
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:NETAVARK_FORWARD - [0:0]
:MINE - [0:0]
-A FORWARD -m comment --comment "netavark firewall plugin rules" -j NETAVARK_FORWARD
-A FORWARD -j MINE
-A NETAVARK_FORWARD -d 10.90.79.0/24 -j ACCEPT
COMMIT
*nat
:POSTROUTING ACCEPT [0:0]
:NETAVARK-1 - [0:0]
-A POSTROUTING -s 10.90.79.0/24 -j NETAVARK-1
COMMIT
"""


def test_chains_by_table() -> None:
    assert plan.chain_names(SAVED) == {
        "filter": ["INPUT", "FORWARD", "NETAVARK_FORWARD", "MINE"],
        "nat": ["POSTROUTING", "NETAVARK-1"],
    }
    assert plan.chain_names("") == {}


def test_only_netavarks_new_chains_go() -> None:
    before = {"filter": ["INPUT", "FORWARD", "MINE"]}
    assert plan.firewall_undo(before, SAVED) == [
        [
            "-t",
            "filter",
            "-D",
            "FORWARD",
            "-m",
            "comment",
            "--comment",
            "netavark firewall plugin rules",
            "-j",
            "NETAVARK_FORWARD",
        ],
        ["-t", "filter", "-F", "NETAVARK_FORWARD"],
        ["-t", "filter", "-X", "NETAVARK_FORWARD"],
        ["-t", "nat", "-D", "POSTROUTING", "-s", "10.90.79.0/24", "-j", "NETAVARK-1"],
        ["-t", "nat", "-F", "NETAVARK-1"],
        ["-t", "nat", "-X", "NETAVARK-1"],
    ]


def test_chains_that_were_there_before_stay() -> None:
    assert plan.firewall_undo(plan.chain_names(SAVED), SAVED) == []


def test_forwarding_goes_back_first_and_with_all_the_kernel_changed_with_it() -> None:
    before = {
        "net/ipv4/conf/all/accept_redirects": "0",
        "net/ipv4/conf/eth0/forwarding": "0",
        "net/ipv4/ip_forward": "0",
        "gone": "1",
    }
    now = {"net/ipv4/conf/all/accept_redirects": "0", "net/ipv4/conf/eth0/forwarding": "1", "net/ipv4/ip_forward": "1"}
    assert plan.sysctl_undo(before, now) == [
        ("net/ipv4/ip_forward", "0"),
        ("net/ipv4/conf/all/accept_redirects", "0"),
        ("net/ipv4/conf/eth0/forwarding", "0"),
    ]
    assert plan.sysctl_undo(before, before) == []
