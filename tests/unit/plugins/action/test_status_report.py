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

from ansible_collections.mooncake.pd.plugins.action import status_report
from ansible_collections.mooncake.pd.plugins.modules import status_report as manual
from ansible_collections.mooncake.pd.tests.unit.plugins.action.stubs import Hostvars
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.status.clusters import NOW, Cluster


class Task:
    action = "mooncake.pd.status_report"

    def __init__(self, args: dict[str, Any], check: bool) -> None:
        self.args, self.check_mode = args, check


class Shown(list[str]):
    def display(self, text: str, color: str | None = None) -> None:
        self.append(text)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shown:
    told = Shown()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(status_report, "display", told)
    monkeypatch.setattr(status_report.time, "time", lambda: NOW)
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    return told


def variables(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """What the tasks of status.yml leave on each host."""
    seen = cluster.seen()
    found: dict[str, dict[str, Any]] = {}
    for host, plan in cluster.plans.items():
        found[host] = {
            "pd_cluster": {**seen.cluster, "name": "my lab"},
            "pd_host": plan,
            "__status_units": cluster.units[host],
            "__status_engines": {"skipped": True},
            "__status_routers": {"skipped": True},
        }
        if host in cluster.running:
            found[host]["instance_running"] = cluster.running[host]
    found["control"]["pd_instances"] = cluster.instances  # the router's host alone has it
    found["control"]["__status_engines"] = {"instances": cluster.engines}
    found["control"]["__status_routers"] = cluster.routers
    answers = [{"item": {"name": name}, "status": 200} for name in ("router", "master")]
    found["control"]["__status_asked"] = {"results": answers}
    return found


def run(own: dict[str, dict[str, Any]], check: bool = False, played: list[str] | None = None, **args: Any) -> Any:
    action = status_report.ActionModule.__new__(status_report.ActionModule)
    action._task = Task(args, check)
    action._load_name = "mooncake.pd.status_report"
    played = list(own) if played is None else played
    return action.run(
        task_vars={"hostvars": Hostvars(own), "groups": {"pd": list(own)}, "ansible_play_hosts_all": played}
    )


def rules(tmp_path: Path) -> list[str]:
    content = json.loads((tmp_path / "status/my-lab/status.json").read_text())
    return [each["rule"] for each in content["problems"]]


def test_good_status(shown: Shown, tmp_path: Path) -> None:
    result = run(variables(Cluster(2, 2)))
    assert (result["changed"], "failed" in result, result["summary"]["as_planned"]) == (False, False, 4)
    assert shown[0].startswith("STATUS my lab: 4 instances as planned and healthy; seen ")
    assert shown == [line.rstrip("\n") for line in shown]
    path = tmp_path / "status/my-lab/status.json"
    assert json.loads(path.read_text())["ok"] is True
    assert result["files"] == [{"path": str(path), "changed": True}]
    assert "status" not in result


def test_bad_status_fails_with_its_rules(shown: Shown, tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.end("npu2")
    result = run(variables(cluster))
    assert result["failed"]
    assert result["msg"].startswith("Status of my lab: 1 of 2 instances as planned and healthy, 1 problem (failed).")
    assert any("mooncake-pd-d1.service on npu2 failed" in line for line in shown)
    assert rules(tmp_path) == ["failed"]


def test_json_is_the_result_and_no_table_is_shown(shown: Shown, tmp_path: Path) -> None:
    result = run(variables(Cluster()), format="json")
    assert (list(shown), result["_ansible_verbose_always"]) == ([], True)
    assert result["status"] == json.loads((tmp_path / "status/my-lab/status.json").read_text())
    cluster = Cluster()
    cluster.end("npu2")
    assert run(variables(cluster), format="json")["status"]["ok"] is False


def test_check_mode_writes_nothing(shown: Shown, tmp_path: Path) -> None:
    assert "failed" not in run(variables(Cluster()), check=True)
    assert shown
    assert not (tmp_path / "status").exists()


def test_host_that_cannot_be_reached(shown: Shown, tmp_path: Path) -> None:
    own = variables(Cluster())
    own["npu2"] = {key: own["npu2"][key] for key in ("pd_cluster", "pd_host")}
    own["npu2"]["__status_units"] = {"unreachable": True, "msg": "Failed to connect:\n no route"}
    assert run(own)["failed"]
    assert rules(tmp_path) == ["not-seen"]
    assert any(
        "npu2 could not be looked at: it cannot be reached: Failed to connect: no route" in line for line in shown
    )


def test_host_that_got_lost_on_the_way(shown: Shown, tmp_path: Path) -> None:
    own = variables(Cluster())
    own["npu2"].pop("__status_units")
    run(own)
    assert rules(tmp_path) == ["not-seen"]


def test_host_whose_units_could_not_be_read(shown: Shown, tmp_path: Path) -> None:
    own = variables(Cluster())
    own["npu2"]["__status_units"] = {"failed": False, "msg": "This module needs a host that was booted with systemd."}
    run(own)
    assert any("npu2 could not be looked at: This module needs" in line for line in shown)


def test_limit(shown: Shown, tmp_path: Path) -> None:
    own = variables(Cluster())
    own["npu1"]["__status_asked"] = {"results": [{"item": {"name": "p1"}, "status": 200}]}
    for host in ("npu2", "control"):
        own[host] = {key: own[host][key] for key in ("pd_cluster", "pd_instances", "pd_host") if key in own[host]}
    result = run(own, played=["npu1"])
    assert "failed" not in result
    assert any("not looked at (--limit): control,npu2" in line for line in shown)


def test_topology_without_a_router(shown: Shown, tmp_path: Path) -> None:
    own = variables(Cluster())
    own.pop("control")
    for host, name in (("npu1", "p1"), ("npu2", "d1")):
        own[host]["pd_cluster"]["router"] = None
        own[host]["__status_asked"] = {"results": [{"item": {"name": name}, "status": 200}]}
    assert run(own)["summary"]["as_planned"] == 2


def test_modules_that_failed_say_why(shown: Shown, tmp_path: Path) -> None:
    own = variables(Cluster())
    own["control"]["__status_engines"] = {"msg": "engines: no"}
    own["control"]["__status_routers"] = {"msg": "routers:\nno"}
    own["control"]["__status_asked"]["results"][0] = {"item": {"name": "router"}, "status": -1, "msg": "refused"}
    own["npu1"].pop("instance_running")
    own["npu1"]["__status_uncompared"] = "no such image"
    run(own)
    assert sorted(rules(tmp_path)) == ["not-asked", "not-asked", "not-compared", "not-healthy"]
    told = " ".join(" ".join(shown).split())
    for why in ("engines: no", "routers: no", "refused", "no such image"):
        assert why in told


def test_routers_that_could_not_be_listed_whole_still_tell(shown: Shown, tmp_path: Path) -> None:
    own = variables(Cluster())
    own["control"]["__status_routers"] |= {"msg": "router-b does not answer"}
    own["control"]["__status_routers"]["routers"][1].update(ready=False, workers=[])
    run(own)
    assert rules(tmp_path) == ["not-healthy"]


def test_report_does_not_lie_in_the_inventory(shown: Shown, tmp_path: Path) -> None:
    own = variables(Cluster())
    action = status_report.ActionModule.__new__(status_report.ActionModule)
    action._task = Task({"dest": str(tmp_path / "inventory" / "status")}, False)
    action._load_name = "mooncake.pd.status_report"
    (tmp_path / "inventory").mkdir()
    task_vars = {
        "hostvars": Hostvars(own),
        "groups": {"pd": list(own)},
        "ansible_play_hosts_all": list(own),
        "ansible_inventory_sources": [str(tmp_path / "inventory")],
    }
    with pytest.raises(AnsibleActionFail, match="lies in the inventory"):
        action.run(task_vars=task_vars)


def test_inventory_without_a_plan(shown: Shown) -> None:
    with pytest.raises(AnsibleActionFail, match="no host in group pd"):
        run({})


def test_manual_has_the_options_and_their_defaults() -> None:
    documented = yaml.safe_load(manual.DOCUMENTATION)["options"]
    assert {name: option.get("default") for name, option in documented.items()} == {
        name: option.get("default") for name, option in status_report.ARGUMENTS.items()
    }
