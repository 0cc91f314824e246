# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports that the plan chooses: where they lie, why, and that they stay."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils import choices as choices_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.choices import dp_rpc_port, kv_port
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.faults import internal
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import ascend, plan, ports, processes

SIZES = [(1, 1), (2, 1), (1, 4), (4, 2), (2, 4)]  # tp, dp
RELEASES = [("0.12.0rc1", "0.3.7.post2"), ("0.13.0", "0.3.7.post2"), ("0.18.0", "0.3.9"), ("0.23.0", "0.3.11.post1")]
DRAWN = {"0.3.7.post2": (20000, 36000), "0.3.9": (20000, 21600), "0.3.11.post1": (20000, 21600)}


def choices(raw):
    return {choice.where: choice for choice in plan(raw).choices}


def test_what_is_chosen_and_why():
    found = choices(ascend())
    assert {where: choice.value for where, choice in found.items()} == {
        "prefill[0].api_port": 8100,
        "prefill[0].kv_port": 22000,
        "prefill[0].dp_rpc_port": 29550,
        "decode[0].api_port": 8200,
        "decode[0].kv_port": 22000,
        "decode[0].dp_rpc_port": 29550,
    }
    assert found["prefill[0].kv_port"].why == (
        "22000 + 256 x lowest device 0: clear of what Mooncake and HCCL draw from, of NodePorts and of the kernel's "
        "ephemeral range; instances of one host share no device, so no window."
    )
    assert found["decode[0].api_port"].why == "8200 for decode + lowest device 0 of the process."
    assert found["prefill[0].dp_rpc_port"].why == (
        "29550 + lowest device 0: clear of what Mooncake and HCCL draw from, of NodePorts and of the kernel's "
        "ephemeral range."
    )


def test_what_is_given_is_not_chosen():
    raw = ascend()
    raw["prefill"][0] |= {"api_port": 7100, "kv_port": 28002, "dp_rpc_port": 12321}
    assert not [where for where in choices(raw) if where.startswith("prefill")]
    raw["decode"][0] |= {"dp": 1, "tp": 4}
    assert "decode[0].dp_rpc_port" not in choices(raw)


def test_instances_of_a_host_are_told_apart_by_their_lowest_device():
    raw = ascend()
    raw["prefill"] = [
        {"name": "p1", "host": "npu1", "tp": 4, "dp": 2, "devices": [8, 9, 10, 11, 12, 13, 14, 15]},
        {"name": "p2", "host": "npu1", "tp": 4, "dp": 2},
    ]
    found = processes(raw, "npu1")
    assert [ports(found[name])["kv"] for name in ("p1-0", "p1-1", "p2-0", "p2-1")] == [
        [(24048, 24051)],
        [(24052, 24055)],
        [(22000, 22003)],
        [(22004, 22007)],
    ]
    assert [ports(found[name])["api"][0][0] for name in ("p1-0", "p1-1", "p2-0", "p2-1")] == [8108, 8112, 8100, 8104]
    assert [ports(found[name])["dp-rpc"][0][0] for name in ("p1-0", "p2-0")] == [29558, 29550]


@pytest.mark.parametrize(
    ("engine", "mooncake", "kv", "dp_rpc"),
    [
        ("0.13.0", "0.3.7.post2", 61000, 17500),
        ("0.18.0", "0.3.8", 22000, 29550),
    ],
)
def test_old_transfers_draw_from_where_ports_would_lie(engine, mooncake, kv, dp_rpc):
    raw = internal()
    raw["engine"]["version"], raw["mooncake"]["version"] = engine, mooncake
    found = choices(raw)
    assert (found["decode[0].kv_port"].value, found["decode[0].dp_rpc_port"].value) == (kv, dp_rpc)


@pytest.mark.parametrize("variables", [{"ASCEND_BASE_PORT": "22500"}, {"HCCL_IF_BASE_PORT": "24000"}])
def test_ranges_that_the_operator_moved_are_avoided(variables):
    raw = ascend()
    raw["engine_environment"] = variables
    assert choices(raw)["prefill[0].kv_port"].value == 61000


@pytest.mark.parametrize(
    ("drawn", "kv"),
    [
        ((20000, 21999), 22000),
        ((20000, 22000), 61000),
        ((26095, 29000), 61000),
        ((26096, 29000), 22000),
        ((23000, 23000), 61000),
    ],
)
def test_what_is_drawn_may_touch_the_windows_and_no_more(drawn, kv):
    instance = plan(ascend()).topology.prefill[0]
    assert kv_port(instance, [drawn]).value == kv
    assert kv_port(instance, [(15000, 17000), drawn]).value == kv


@pytest.mark.parametrize(
    ("drawn", "dp_rpc"),
    [((28000, 29549), 29550), ((28000, 29550), 17500), ((29565, 29900), 17500), ((29566, 29900), 29550)],
)
def test_what_is_drawn_may_touch_the_ports_for_ranks_and_no_more(drawn, dp_rpc):
    assert dp_rpc_port(plan(ascend()).topology.prefill[0], [drawn]).value == dp_rpc


@pytest.mark.parametrize(
    ("drawn", "kv"), [([(22500, 22500), (65096, 65535)], 61000), ([(22500, 22500), (65095, 65535)], 22000)]
)
def test_when_no_base_is_free_the_first_is_taken(drawn, kv):
    """And the rules about ports tell what it meets."""
    assert kv_port(plan(ascend()).topology.prefill[0], drawn).value == kv


@pytest.mark.parametrize(
    ("base", "free"), [(25904, True), (25905, False), (32000, False), (60999, False), (61000, True), (50000, False)]
)
def test_windows_keep_out_of_ranges_that_others_take_from(monkeypatch, base, free):
    """Were they moved there."""
    monkeypatch.setattr(choices_of, "KV_BASES", (base, 22000))
    assert kv_port(plan(ascend()).topology.prefill[0], []).value == (base if free else 22000)


@st.composite
def clusters(draw):
    """Topologies without a port, instances with disjoint devices on hosts of 16, every documented release."""
    raw = internal()
    raw["engine"]["version"], raw["mooncake"]["version"] = draw(st.sampled_from(RELEASES))
    raw["engine"]["data_parallel"] = draw(st.sampled_from(["internal", "external"]))
    raw["connector"]["name"] = draw(st.sampled_from(["MooncakeConnectorV1", "MooncakeLayerwiseConnector"]))
    free = {host: draw(st.permutations(range(16))) for host in raw["hosts"]}
    (tp, dp), slim = draw(st.sampled_from(SIZES)), draw(st.booleans())
    raw["prefill"] = _side(draw, "prefill", (tp, dp), free)
    raw["decode"] = _side(draw, "decode", (1 if slim else tp, dp), free)
    return raw


def _side(draw, kind, sizes, free):
    tp, dp = sizes
    side = []
    for index in range(draw(st.integers(1, 6))):
        many = dp % 2 == 0 and draw(st.booleans())
        needed = tp * dp // (2 if many else 1)
        # several hosts give the same devices
        pairs = [["npu1", "npu2"], ["npu3", "npu4"], ["npu4", "npu2"]] if many else [[host] for host in free]
        fits = [
            (hosts, common[:needed])
            for hosts in pairs
            if len(common := [one for one in free[hosts[0]] if all(one in free[host] for host in hosts)]) >= needed
        ]
        if not fits:
            continue
        hosts, devices = draw(st.sampled_from(fits))
        for host in hosts:
            free[host] = [one for one in free[host] if one not in devices]
        side.append({"name": f"{kind[0]}{index}", "hosts": hosts, "tp": tp, "dp": dp, "devices": devices})
    return side


def complete(raw):
    return bool(raw["prefill"] and raw["decode"])


def claims(raw):
    """Every claim with its process, by host."""
    built = plan(raw)
    return {
        host: [
            (process.name, claim.purpose, claim.kind, claim.first, claim.last)
            for process in built.processes.get(host, ())
            for claim in process.claims
        ]
        for host in raw["hosts"]
    }


@settings(max_examples=150)
@given(clusters().filter(complete))
def test_every_process_has_its_ports_and_nobody_elses(raw):
    binds = "prefill" if raw["connector"]["name"] == "MooncakeConnectorV1" else "decode"
    low, high = DRAWN[raw["mooncake"]["version"]]
    for found in claims(raw).values():
        taken = [port for _name, _why, kind, first, last in found if kind == "exact" for port in range(first, last + 1)]
        assert len(taken) == len(set(taken))
        assert not [port for port in taken if low <= port <= high or 15000 <= port <= 17000 or 30000 <= port <= 60999]
    for instance in (*raw["prefill"], *raw["decode"]):
        kv = sorted(
            (host, port)
            for host, found in claims(raw).items()
            for name, why, _kind, first, last in found
            if why == "kv" and name.partition("-")[0] == instance["name"]
            for port in range(first, last + 1)
        )
        bound = instance in raw[binds]
        assert len(kv) == (instance["tp"] * instance["dp"] if bound else 0)
        if bound:
            numbers = sorted(port for _host, port in kv)
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


@settings(max_examples=100)
@given(clusters().filter(complete), st.data())
def test_a_port_stays_whatever_happens_to_other_instances(raw, data):
    before = claims(raw)
    other = copy.deepcopy(raw)
    kind = data.draw(st.sampled_from(["prefill", "decode"]))
    gone = other[kind].pop(data.draw(st.integers(0, len(other[kind]) - 1))) if len(other[kind]) > 1 else {}
    other[kind] = data.draw(st.permutations(other[kind]))

    def kept(found):
        return {
            host: sorted(
                claim
                for claim in own
                if claim[0].partition("-")[0] != gone.get("name") and not claim[0].startswith("router")
            )
            for host, own in found.items()
        }

    assert kept(before) == kept(claims(other))


@settings(max_examples=50)
@given(clusters().filter(complete))
def test_a_plan_is_the_same_every_time(raw):
    one, other = plan(copy.deepcopy(raw)), plan(copy.deepcopy(raw))
    assert [one.hostvars(host) for host in raw["hosts"]] == [other.hostvars(host) for host in raw["hosts"]]
    assert (one.cluster(), one.groups()) == (other.cluster(), other.groups())
    assert one.instances() == other.instances()
