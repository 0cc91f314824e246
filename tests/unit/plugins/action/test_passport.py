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

from ansible_collections.mooncake.pd.plugins.action import passport
from ansible_collections.mooncake.pd.plugins.module_utils.pd_instances import INSTANCE_OPTIONS
from ansible_collections.mooncake.pd.plugins.modules import passport as manual
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.rolling.run_variables import variables
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.rolling.test_passport import wide
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import cpu, plan


class Task:
    action = "mooncake.pd.passport"

    def __init__(self, args: dict[str, Any], check: bool, diff: bool) -> None:
        self.args, self.check_mode, self.diff = args, check, diff


class Shown(list[str]):
    def display(self, text: str, color: str | None = None) -> None:
        self.append(text)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shown:
    told = Shown()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(passport, "display", told)
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    return told


def run(
    state: str,
    raw: dict[str, Any] | None = None,
    *,
    check: bool = False,
    diff: bool = False,
    source: str = "",
    running: dict[str, Any] | None = None,
    smoke: dict[str, Any] | None = None,
    **args: Any,
) -> Any:
    action = passport.ActionModule.__new__(passport.ActionModule)
    action._task = Task({"state": state, **args}, check, diff)
    action._load_name = "mooncake.pd.passport"
    raw = raw or wide()
    file = Path("topology.yml")
    file.write_text(yaml.safe_dump(raw))
    told = variables(plan(raw), running)
    if smoke:
        told["hostvars"].raw_get("control")["smoke_result"] = smoke
    for name in told["groups"]["pd"]:
        told["hostvars"].raw_get(name)["pd_cluster"]["source"] = source or str(file)
    told["ansible_inventory_sources"] = ["/srv/inventory"]
    return action.run(task_vars=told)


def files() -> list[str]:
    home = Path("passport/lab")
    return sorted(path.name for path in home.iterdir()) if home.exists() else []


def test_first_second_and_changed(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passport.time, "strftime", lambda *_: "2030-01-01T00:00:00Z")
    first = run("proven", proof={"text": "hello", "seconds": 1})
    assert (first["changed"], first["removed"]) == (True, [])
    assert files() == ["0001_2030-01-01T000000Z.json"]
    written = json.loads(Path(first["file"]).read_text())
    assert written == first["passport"]
    assert (written["written"], written["proof"]["text"]) == ("2030-01-01T00:00:00Z", "hello")
    assert "name: lab" in written["topology"]["text"]
    assert shown[-1].endswith("0001_2030-01-01T000000Z.json  written")

    second = run("proven", proof={"text": "hello", "seconds": 2})
    assert (second["changed"], second["file"], second["passport"]) == (False, first["file"], written)
    assert shown[-1].endswith("unchanged")

    third = run("proven", {**wide(), "drain_timeout": 7}, diff=True)
    assert files() == ["0001_2030-01-01T000000Z.json", "0002_2030-01-01T000000Z.json"]
    (diff,) = third["diff"]
    assert "p1 args.--shutdown-timeout: 20" in diff["before"]
    assert "p1 args.--shutdown-timeout: 7" in diff["after"]
    assert (diff["before_header"], diff["after_header"]) == (first["file"], third["file"])


def test_check_mode_writes_and_removes_nothing(shown: Shown) -> None:
    assert run("proven", check=True)["changed"]
    assert files() == []
    assert shown[-1].endswith("would be written")
    run("proven")
    run("proven", {**wide(), "drain_timeout": 7})
    before = files()
    told = run("proven", {**wide(), "drain_timeout": 8}, check=True, keep=1)
    assert [Path(path).name for path in told["removed"]] == before
    assert files() == before


def test_the_last_ones_are_kept(shown: Shown) -> None:
    for timeout in range(1, 5):
        run("proven", {**wide(), "drain_timeout": timeout}, keep=3)
    assert [name[:4] for name in files()] == ["0002", "0003", "0004"]
    again = run("proven", {**wide(), "drain_timeout": 4}, keep=1)
    assert again["changed"]
    assert [name[:4] for name in files()] == ["0004"]
    with pytest.raises(AnsibleActionFail, match="keep: 0 would keep no passport"):
        run("proven", keep=0)


def test_what_was_left_as_it_was(shown: Shown) -> None:
    run("proven")
    told = run("proven", {**wide(), "drain_timeout": 7}, stale=["p2"])
    timeouts = {item["name"]: item["facts"]["args.--shutdown-timeout"] for item in told["passport"]["instances"]}
    assert timeouts == {"p1": "7", "p2": "20", "d1": "7", "d2": "7"}


def test_what_does_not_run_as_planned_is_not_claimed(shown: Shown) -> None:
    run("proven")
    states = {
        "p1": [{"name": "p1", "instance": "p1", "active": True, "outdated": False}],
        "p2": [{"name": "p2", "instance": "p2", "active": True, "outdated": True}],
        "d1": [{"name": "d1", "instance": "d1", "active": False, "outdated": False}],
    }
    told = run("proven", {**wide(), "drain_timeout": 7}, running=states)
    timeouts = {item["name"]: item["facts"]["args.--shutdown-timeout"] for item in told["passport"]["instances"]}
    assert timeouts == {"p1": "7", "p2": "20", "d1": "20", "d2": "20"}


def test_the_proof_of_this_run_is_taken_by_default(shown: Shown) -> None:
    found = {"answer": "hello", "prompt_tokens": 9, "invocation": {"url": "x"}}
    assert run("proven", smoke=found)["passport"]["proof"] == {"answer": "hello", "prompt_tokens": 9}


def test_latest(shown: Shown) -> None:
    assert run("latest") == {"changed": False, "file": None, "passport": None}
    kept = run("proven")
    assert run("latest") == {"changed": False, "file": kept["file"], "passport": kept["passport"]}


def test_compare(shown: Shown) -> None:
    assert run("compare")["comparison"] is None
    run("proven")
    found = run("compare", cpu())
    assert found["changed"] is False
    assert [item["name"] for item in found["comparison"]["removed"]] == ["p2", "d2"]
    assert found["comparison"]["ratio"]["now"]["prefill"] == 1


def test_what_leaves_as_the_routers_take_it(shown: Shown) -> None:
    run("proven")
    (one, other) = run("compare", cpu())["comparison"]["leaving"]
    assert (one["name"], one["hosts"], one["bootstrap_urls"]) == ("p2", ["p2"], ["http://192.0.2.12:8998"])
    assert set(other) == set(INSTANCE_OPTIONS["options"])


def test_where_it_may_not_lie(shown: Shown, tmp_path: Path) -> None:
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    action_sources = {"dest": str(inventory / "kept")}
    assert run("proven", **action_sources)["changed"]
    assert (inventory / "kept").is_dir()
    with pytest.raises(AnsibleActionFail, match=r"topology\.gone cannot be read"):
        run("proven", {**wide(), "drain_timeout": 3}, source="topology.gone")


def test_a_folder_of_the_inventory_is_refused(shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(passport, "refuse_inventory", lambda dest, sources: seen.append((dest, list(sources))))
    run("proven")
    run("latest")
    assert seen == [(tmp_path / "passport/lab", ["/srv/inventory"])]


def test_options_are_documented() -> None:
    documented = yaml.safe_load(manual.DOCUMENTATION)["options"]
    assert set(documented) == set(passport.ARGUMENTS)
    for name, option in passport.ARGUMENTS.items():
        for key in ("type", "elements", "default", "required", "choices"):
            assert documented[name].get(key) == option.get(key), (name, key)


def test_what_is_returned_is_documented(shown: Shown) -> None:
    documented = yaml.safe_load(manual.RETURN)
    told = run("proven")
    assert set(documented["passport"]["contains"]) == set(told["passport"])
    assert set(documented["passport"]["contains"]["instances"]["contains"]) == set(told["passport"]["instances"][0])
    found = run("compare")
    assert set(documented["comparison"]["contains"]) == set(found["comparison"])
    assert set(documented) | {"changed"} == set(told) | set(found)
