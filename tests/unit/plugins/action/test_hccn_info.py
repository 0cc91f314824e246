# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.action import hccn_info

Facts = dict[str, Any]


class HostVars(dict[str, Facts]):
    """Only raw_get: to ask a value itself would be a template over all hosts."""

    def raw_get(self, name: str) -> Facts:
        return dict.__getitem__(self, name)

    def __getitem__(self, name: str) -> Facts:
        raise AssertionError(f"{name} was made a template of")


class Task:
    def __init__(self, args: Facts) -> None:
        self.args = args


def told(number: int, chips: int = 2, vnic: bool = True, **changes: Any) -> Facts:
    ports = [
        {"id": i, "address": f"198.18.{number}.{10 + i}", "vnic": f"198.18.{number}.{110 + i}" if vnic else ""}
        for i in range(chips)
    ]
    return {"__preflight_hccn": {"hccn": {"chips": ports, **changes}}}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})

    def call(hosts: Facts, **args: Any) -> tuple[Facts, Facts]:
        action = hccn_info.ActionModule.__new__(hccn_info.ActionModule)
        action._task = Task(args)
        asked: Facts = {}

        def execute(module_name: str, module_args: Facts, task_vars: Facts) -> Facts:
            assert module_name == "mooncake.pd.hccn_info"
            asked.update(module_args)
            pings = [{**ping, "ok": True} for ping in module_args.get("ping", ())]
            return {"changed": False, "hccn": {"chips": [], "pings": pings, "unknown": []}}

        monkeypatch.setattr(action, "_execute_module", execute)
        variables = {"inventory_hostname": "p1", "hostvars": HostVars(hosts)}
        return action.run(task_vars=variables), asked

    return call


def pairs(asked: Facts) -> list[tuple[int, str, str]]:
    return [(ping["chip"], ping["address"], ping["plane"]) for ping in asked["ping"]]


def reasons(result: Facts) -> list[str]:
    assert all(entry["what"] == "pings" for entry in result["hccn"]["unknown"])
    return [entry["why"] for entry in result["hccn"]["unknown"]]


def test_without_peers_it_is_the_module(run: Any) -> None:
    result, asked = run({}, chips=16, register="x", matrix="full", plane="roce")
    assert asked == {"chips": 16}
    assert reasons(result) == []


def test_rail_on_the_network_of_the_superpod(run: Any) -> None:
    result, asked = run({"p1": told(1), "d1": told(2), "d2": told(3)}, queries=[], ping_peers=["d1", "d2", "d1"])
    assert asked["queries"] == []
    assert pairs(asked) == [
        (0, "198.18.2.110", "hccs"),
        (1, "198.18.2.111", "hccs"),
        (0, "198.18.3.110", "hccs"),
        (1, "198.18.3.111", "hccs"),
    ]
    assert [ping["peer"] for ping in asked["ping"]] == ["d1", "d1", "d2", "d2"]
    assert reasons(result) == []
    assert "ping_peers" not in asked


def test_roce_where_there_are_no_virtual_addresses_or_it_is_told(run: Any) -> None:
    hosts = {"p1": told(1, vnic=False), "d1": told(2, vnic=False)}
    assert pairs(run(hosts, ping_peers=["d1"])[1]) == [(0, "198.18.2.10", "roce"), (1, "198.18.2.11", "roce")]
    assert pairs(run({"p1": told(1), "d1": told(2)}, ping_peers=["d1"], plane="roce")[1])[0][2] == "roce"


def test_full_matrix(run: Any) -> None:
    _result, asked = run({"p1": told(1), "d1": told(2)}, ping_peers=["d1"], matrix="full", plane="roce")
    assert [(chip, address[-2:]) for chip, address, _plane in pairs(asked)] == [
        (0, "10"),
        (0, "11"),
        (1, "10"),
        (1, "11"),
    ]


def test_other_pings_stay(run: Any) -> None:
    own = {"chip": 7, "address": "198.18.9.9", "plane": "roce", "peer": "x"}
    _result, asked = run({"p1": told(1), "d1": told(2)}, ping_peers=["d1"], ping=[own])
    assert asked["ping"][0] == own
    assert len(asked["ping"]) == 3


@pytest.mark.parametrize(
    "variables",
    [
        None,
        {},
        {"__preflight_hccn": {"unreachable": True}},
        {"__preflight_hccn": {"hccn": {"chips": []}}},
        {"__preflight_hccn": {"hccn": None}},
        {"other": told(2)["__preflight_hccn"]},
    ],
)
def test_a_peer_that_told_nothing(run: Any, variables: Facts | None) -> None:
    hosts = {"p1": told(1), "d2": told(3), **({} if variables is None else {"d1": variables})}
    result, asked = run(hosts, ping_peers=["d1", "d2"])
    assert reasons(result) == ["d1 is not pinged: it has not told the addresses of its NPUs"]
    assert {ping["peer"] for ping in asked["ping"]} == {"d2"}


def test_other_variable(run: Any) -> None:
    hosts = {name: {"look": told(number)["__preflight_hccn"]} for number, name in enumerate(("p1", "d1"), 1)}
    assert len(run(hosts, ping_peers=["d1"], register="look")[1]["ping"]) == 2


def test_npus_without_an_address_or_a_partner(run: Any) -> None:
    peer = told(2)
    peer["__preflight_hccn"]["hccn"]["chips"][1]["vnic"] = None
    result, asked = run({"p1": told(1, chips=3), "d1": peer}, ping_peers=["d1"])
    assert pairs(asked) == [(0, "198.18.2.110", "hccs")]
    assert reasons(result) == [
        "NPU 2 pings none of d1, which has no NPU of that number",
        "NPU 1 of d1 is not pinged: its virtual address (vnic) is not known",
    ]


def test_own_npus_that_are_not_known_are_those_of_the_peer(run: Any) -> None:
    assert [pair[0] for pair in pairs(run({"p1": {}, "d1": told(2)}, ping_peers=["d1"])[1])] == [0, 1]


def test_time_grows_with_the_pings(run: Any) -> None:
    hosts = {"p1": told(1, chips=16), "d1": told(2, chips=16)}
    assert run(hosts, ping_peers=["d1"])[1]["timeout"] == 10
    assert run(hosts, ping_peers=["d1"], matrix="full")[1]["timeout"] == 6 * 8
    assert run(hosts, ping_peers=["d1"], matrix="full", concurrency=64)[1]["timeout"] == 6 * 4
    assert run(hosts, ping_peers=["d1"], matrix="full", timeout=3)[1]["timeout"] == 6 * 8
    assert run(hosts, ping_peers=["d1"], timeout=30)[1]["timeout"] == 30


def test_what_was_told_before_is_handed_on_when_nothing_is_asked_anew(run: Any) -> None:
    entry = {"what": "chips.0.tls", "why": "x", "raw": ""}
    hosts = {"p1": told(1, unknown=[entry]), "d1": {}}
    hccn = run(hosts, ping_peers=["d1"], queries=[])[0]["hccn"]
    assert [chip["id"] for chip in hccn["chips"]] == [0, 1]
    assert [item["what"] for item in hccn["unknown"]] == ["chips.0.tls", "pings"]
    assert run(hosts, ping_peers=["d1"])[0]["hccn"]["chips"] == []


@pytest.mark.parametrize(
    ("args", "text"), [({"ping_peers": "d1"}, "ping_peers"), ({"matrix": "x"}, "matrix"), ({"plane": "x"}, "plane")]
)
def test_refusals(run: Any, args: Facts, text: str) -> None:
    result, asked = run({}, **args)
    assert result["failed"]
    assert result["msg"].startswith(f"{text}: ")
    assert asked == {}


def test_a_module_that_failed(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    action = hccn_info.ActionModule.__new__(hccn_info.ActionModule)
    action._task = Task({"ping_peers": ["d1"]})
    monkeypatch.setattr(action, "_execute_module", lambda **more: {"failed": True, "msg": "broken"})
    assert action.run(task_vars={"hostvars": HostVars()}) == {"failed": True, "msg": "broken"}
