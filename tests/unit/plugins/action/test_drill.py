# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.action import drill_plan, drill_report
from ansible_collections.mooncake.pd.plugins.modules import drill_plan as plan_manual
from ansible_collections.mooncake.pd.plugins.modules import drill_report as report_manual
from ansible_collections.mooncake.pd.tests.unit.plugins.action.stubs import Hostvars, Task
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.drill.clusters import ETCD, MASTERS, known

ROOT = Path(__file__).parents[4]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    told: list[str] = []
    monkeypatch.chdir(tmp_path)
    for action in (drill_plan, drill_report):
        monkeypatch.setattr(action.display, "display", lambda text, color=None: told.append(text))
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    return told


def run(module: Any, hostvars: Hostvars, check: bool = False, inventories: Any = (), **args: Any) -> dict[str, Any]:
    name = module.__name__.rpartition(".")[2]
    action = module.ActionModule.__new__(module.ActionModule)
    action._task, action._load_name = Task(name, args, check), f"mooncake.pd.{name}"
    given = {"hostvars": hostvars, "groups": {"pd": list(hostvars)}, "ansible_inventory_sources": inventories}
    told: dict[str, Any] = action.run(task_vars=given)
    return told


def cluster(masters: Any = MASTERS, **changes: Any) -> Hostvars:
    well = known()
    hosts: dict[str, Any] = {}
    for host, planned in well.hosts.items():
        own = {"pd_cluster": well.cluster, "pd_host": planned, "__drill_tool": {"stat": {"exists": host == "p"}}}
        hosts[host] = {**own, "__drill_master": masters.get(host, {"skipped": True})}
    hosts["a"]["__etcd_asked"] = ETCD
    return Hostvars({**hosts, **changes})


@pytest.mark.parametrize(("confirm", "check", "go"), [(True, False, True), (False, False, False), (True, True, False)])
def test_only_what_is_confirmed_is_done(shown: list[str], confirm: bool, check: bool, go: bool) -> None:
    told = run(drill_plan, cluster(), check, drill="master", confirm=confirm)
    assert (told["go"], told["changed"], told["drill"]["hosts"]) == (go, False, ["b", "p"])
    assert ("Nothing was changed" in shown[-1]) is not go
    json.dumps(told)  # what the hosts are told


def test_what_speaks_against_it_ends_the_run(shown: list[str]) -> None:
    told = run(drill_plan, cluster(masters={}), drill="master", confirm=True)
    assert told["failed"]
    assert told["msg"].startswith("drill master of lab: refused, nothing was changed.\n[drill-no-leader]")
    assert [refusal["rule"] for refusal in told["refusals"]] == ["drill-no-leader"]
    assert "go" not in told


def test_a_host_that_told_nothing_was_not_reached(shown: list[str]) -> None:
    hosts = cluster()
    dict.__getitem__(hosts, "a").pop("__drill_tool")
    told = run(drill_plan, hosts, drill="master", confirm=True)
    assert [refusal["rule"] for refusal in told["refusals"]] == ["drill-unseen"]


CALM = {"asked": 9, "failed": 0, "since": 1.0, "before": True, "recovered": True, "outage": 0.0}
CALM = {**CALM, "answers": [], "reasons": []}
STRIKE = {"unit": "u", "at": 5.0, "how": "kill", "lost": True, "by": "itself", "runs": True, "seconds": 2.0}


def tried(shown: list[str], ready: Any, inventories: Any = (), **changes: Any) -> dict[str, Any]:
    plan = run(drill_plan, cluster(), drill="master", confirm=True)["drill"]
    names = [probe["name"] for probe in plan["probes"]] + ["pool"]
    pool = {"kept": 4, "kept_at": 2.0, "there": 0, "removed": 4, "stuck": 0, "error": ""}
    watched = [{**CALM, "name": name, **changes.get(name, {})} for name in names]
    hosts = {"p": {"__drill_seen": {"watched": watched, "pool": pool}}}
    hosts["b"] = {"__drill_seen": {"strike": STRIKE, "watched": []}, "__drill_ready": ready}
    return run(drill_report, Hostvars(hosts), inventories=inventories, cluster="my lab", drill=plan)


def test_a_report_of_what_was_survived(shown: list[str], tmp_path: Path) -> None:
    told = tried(shown, {"processes": []})
    assert (told.get("failed"), told["good"], told["changed"]) == (None, True, False), told
    path = tmp_path / "drill" / "my-lab" / "master.json"
    assert json.loads(path.read_text())["good"] is True
    assert "drill master of my lab: survived, within all limits (8 of 8)" in shown


@pytest.mark.parametrize("ready", [{}, {"failed": True, "msg": "dead"}, {"skipped": True}])
def test_what_is_not_proven_ready_is_no_success(shown: list[str], ready: Any) -> None:
    told = tried(shown, ready)
    assert told["failed"]
    assert "put back: BROKEN" in told["msg"]


def test_a_limit_that_is_broken_ends_the_run(shown: list[str]) -> None:
    told = tried(shown, {"processes": []}, leader={"outage": 31.0, "failed": 3})
    assert told["failed"]
    assert "a master serves again: BROKEN" in told["msg"]


def test_nothing_is_written_into_an_inventory(shown: list[str], tmp_path: Path) -> None:
    with pytest.raises(AnsibleActionFail, match="lies in the inventory"):
        tried(shown, {"processes": []}, inventories=[str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_check_mode_reports_nothing(shown: list[str]) -> None:
    plan = {"name": "master", "hosts": []}
    assert run(drill_report, Hostvars(), True, cluster="lab", drill=plan)["skipped"]


@pytest.mark.parametrize(
    ("manual", "arguments"), [(plan_manual, drill_plan.ARGUMENTS), (report_manual, drill_report.ARGUMENTS)]
)
def test_the_manual_has_the_options_that_there_are(manual: Any, arguments: dict[str, Any]) -> None:
    documented = yaml.safe_load(manual.DOCUMENTATION)["options"]
    assert set(documented) == set(arguments)
    for name, option in arguments.items():
        assert documented[name].get("default") == option.get("default"), name


def test_the_role_hands_on_every_limit() -> None:
    (task,) = [
        task
        for task in yaml.safe_load((ROOT / "roles/drill/tasks/look.yml").read_text())
        if "mooncake.pd.drill_plan" in task
    ]
    handed = task["mooncake.pd.drill_plan"]["limits"]
    assert handed == {name: f"{{{{ drill_limit_{name} }}}}" for name in drill_plan.LIMITS}
    defaults = yaml.safe_load((ROOT / "roles/drill/defaults/main.yml").read_text())
    assert {name: defaults[f"drill_limit_{name}"] for name in handed} == {
        name: option["default"] for name, option in drill_plan.LIMITS.items()
    }
