# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import time
from types import SimpleNamespace
from typing import Any

import pytest
from ansible import constants as C
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from ansible_collections.mooncake.pd.plugins.action import host_info
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import cpu, plan

ANSWER: dict[str, Any] = {"changed": False, "host": {"clock": None, "unknown": []}}


def run(
    answer: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, Any] | None = None,
    **arguments: Any,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the action returns, and what it has the module do."""
    action = host_info.ActionModule.__new__(host_info.ActionModule)
    action._task = SimpleNamespace(args={"user": "mooncake", **arguments})
    asked: list[dict[str, Any]] = []
    now = iter([100.0, 103.5])
    monkeypatch.setattr(time, "time", lambda: next(now))
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})

    def execute(**asked_for: Any) -> dict[str, Any]:
        asked.append(asked_for)
        return copy.deepcopy(answer)

    monkeypatch.setattr(action, "_execute_module", execute)
    return action.run(task_vars=variables or {"x": 1}), asked


@pytest.fixture
def hostvars(monkeypatch: pytest.MonkeyPatch) -> HostVars:
    """Those of Ansible, in a run that is limited to p1."""
    monkeypatch.setattr(C, "INVENTORY_ENABLED", ["host_list"])
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=["p1,d1,control,stranger,"])
    for name in ("p1", "d1", "control"):
        inventory.get_host(name).set_variable("pd_host", plan(cpu()).hostvars(name)["pd_host"])
    inventory.subset("p1")
    return HostVars(inventory, VariableManager(loader=loader, inventory=inventory), loader)


def test_addresses_and_ports_of_planned_peers_are_those_of_their_plans(
    hostvars: HostVars, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"name": "x", "address": "192.0.2.99", "ports": {}}
    names = ["d1", "control", "d1"]
    result, (asked,) = run(ANSWER, monkeypatch, {"hostvars": hostvars}, peers=[own], planned_peers=names)
    assert result["host"]["unknown"] == []
    assert asked["module_args"] == {
        "user": "mooncake",
        "peers": [
            own,
            {"name": "d1", "address": "192.0.2.21", "ports": {"api": 8200, "transfer-rpc": [15000, 17000]}},
            {"name": "control", "address": "192.0.2.10", "ports": {"master-rpc": 17051, "master-metrics": 9003}},
        ],
    }


def test_nothing_of_other_hosts_is_made_a_template(hostvars: HostVars, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: Any) -> Any:
        raise AssertionError("that costs each host as much as all of them")

    monkeypatch.setattr(HostVars, "__getitem__", refuse)
    _result, (asked,) = run(ANSWER, monkeypatch, {"hostvars": hostvars}, planned_peers=["d1"])
    assert [peer["name"] for peer in asked["module_args"]["peers"]] == ["d1"]


@pytest.mark.parametrize("name", ["stranger", "gone"])
def test_a_peer_without_a_plan_is_unknown(name: str, hostvars: HostVars, monkeypatch: pytest.MonkeyPatch) -> None:
    result, (asked,) = run(ANSWER, monkeypatch, {"hostvars": hostvars}, planned_peers=[name, "d1"])
    assert [peer["name"] for peer in asked["module_args"]["peers"]] == ["d1"]
    (entry,) = result["host"]["unknown"]
    assert entry == {
        "what": "peers",
        "why": f"{name} was not tried: the inventory has no plan (pd_host) of it",
        "raw": "",
    }


def test_peers_that_are_no_list_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = run(ANSWER, monkeypatch, planned_peers="d1")
    assert (result["failed"], result["msg"]) == (True, "planned_peers: 'd1' is no list of hosts")
    assert asked == []


def test_clock_of_the_controller_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = run({"changed": False, "host": {"clock": {"epoch": 102.0, "controller": None}}}, monkeypatch)
    assert result == {
        "changed": False,
        "host": {"clock": {"epoch": 102.0, "controller": {"sent": 100.0, "received": 103.5}}},
    }
    assert asked == [
        {"module_name": "mooncake.pd.host_info", "module_args": {"user": "mooncake"}, "task_vars": {"x": 1}}
    ]


@pytest.mark.parametrize(
    "answer",
    [{"failed": True, "msg": "no python"}, {"unreachable": True, "host": None}, {"host": {"clock": None}}],
)
def test_an_answer_without_a_clock_is_handed_on(answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(dict(answer), monkeypatch)[0] == answer
