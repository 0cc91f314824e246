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

from ansible_collections.mooncake.pd.plugins.action import roll_plan
from ansible_collections.mooncake.pd.plugins.modules import roll_plan as manual
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.rolling.run_variables import variables
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.rolling.test_passport import passport, wide
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import plan

NAMES = ("p1", "p2", "d1", "d2")


class Task:
    action = "mooncake.pd.roll_plan"
    check_mode = diff = False

    def __init__(self, args: dict[str, Any]) -> None:
        self.args = args


class Shown(list[str]):
    def display(self, text: str, color: str | None = None) -> None:
        self.append(text)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shown:
    told = Shown()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(roll_plan, "display", told)
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    return told


def running(*names: str, outdated: bool = True) -> dict[str, Any]:
    return {
        name: [{"name": name, "instance": name, "active": True, "outdated": outdated, "installed": True}]
        for name in names
    }


def run(
    runs: dict[str, Any], play: tuple[str, ...] = ("localhost",), seen: dict[str, Any] | None = None, **args: Any
) -> Any:
    action = roll_plan.ActionModule.__new__(roll_plan.ActionModule)
    health = [{"name": name, "healthy": True} for name in NAMES]
    action._task = Task({"health": health, **args})
    action._load_name = "mooncake.pd.roll_plan"
    told = variables(plan(wide()), runs, play)
    told["hostvars"].raw_get("control").update(seen or {})
    return action.run(task_vars=told)


def proven(home: Path) -> None:
    home.mkdir(parents=True)
    before = passport({**wide(), "drain_timeout": 5})
    (home / "0001_2030-01-01T000000Z.json").write_text(json.dumps(before))


def test_waves(shown: Shown) -> None:
    proven(Path("passport/lab"))
    result = run(running(*NAMES), batch=1, min_healthy={"prefill": 1})
    assert [wave["instances"] for wave in result["waves"]] == [["p1"], ["d1"], ["p2", "d2"]]
    assert [wave["number"] for wave in result["waves"]] == [1, 2, 3]
    assert result["changed"] is False
    assert result["coherence"]["verdict"] == "free"
    assert result["coherence"]["against"] == str(Path("passport/lab/0001_2030-01-01T000000Z.json").absolute())
    assert result["ratio"]["text"] == "P:D is 2 prefill to 2 decode, 1:1 (workers 2 to 2)."
    assert shown[0] == "3 waves for 4 of 4 instances, 4 restarted: p1; d1; p2, d2."


def test_another_folder_of_passports(shown: Shown, tmp_path: Path) -> None:
    proven(tmp_path / "elsewhere")
    assert len(run(running(*NAMES))["waves"]) == 2
    assert len(run(running(*NAMES), passports=str(tmp_path / "elsewhere"))["waves"]) == 3


def test_nothing_to_do(shown: Shown) -> None:
    result = run(running(*NAMES, outdated=False))
    assert (result["waves"], result["notes"]) == ([], [])
    assert result["summary"] == shown[0]


def test_reasons_not_to_roll(shown: Shown) -> None:
    result = run(running("p1", "p2", "d1"), only=["p3", "decode"])
    assert result["failed"]
    assert [(item["rule"], item["where"]) for item in result["refusals"]] == [
        ("only-unknown", "only"),
        ("state-unknown", "d2"),
        ("coherence-partial", "p1, p2, d2"),
        *(("coherence-halves", kind) for kind in ("prefill", "decode")),
    ]
    assert "waves" not in result
    assert result["msg"].startswith("Nothing was changed, 5 reasons not to roll:\n  only: [only-unknown]")
    assert shown == []


def test_limit_is_seen_in_a_play_of_engine_hosts(shown: Shown) -> None:
    some = running("p1", "p2", "d1")
    args = {"mix": True}
    assert run(some, **args)["refusals"][0]["rule"] == "state-unknown"
    result = run(some, ("p1", "p2", "d1", "control"), **args)
    assert [wave["name"] for wave in result["waves"]] == ["p1", "d1", "p2"]
    assert result["notes"] == ["d2 is left out by --limit."]
    assert run(some, left_out=["d2"], **args)["notes"] == result["notes"]
    assert run(some, ("p1", "p2", "d1"), left_out=[], **args)["failed"]


def test_what_the_plays_before_found_out_is_taken_by_default(shown: Shown) -> None:
    found = {
        "roll_engines": {"instances": [{"name": name, "healthy": name != "d1"} for name in NAMES]},
        "roll_routers": {"out": ["p2"]},
    }
    result = run(running(*NAMES), seen=found, health=None, mix=True)
    assert [wave["name"] for wave in result["waves"]] == ["p2", "d1", "p1, d2"]
    nothing = run(running(*NAMES), health=None, mix=True)["refusals"]
    assert [item["where"] for item in nothing if item["rule"] == "health-unknown"] == list(NAMES)


def test_what_the_routers_left_out_comes_first(shown: Shown) -> None:
    result = run(running(*NAMES), out=["d2", "gone"], mix=True)
    assert result["waves"][0]["instances"] == ["d2"]
    assert result["notes"] == ["The routers leave out gone, of which the plan knows nothing."]


def test_a_passport_that_cannot_be_read(shown: Shown, tmp_path: Path) -> None:
    (tmp_path / "passport/lab").mkdir(parents=True)
    (tmp_path / "passport/lab/0001_2030-01-01T000000Z.json").write_text("{")
    with pytest.raises(AnsibleActionFail, match=r"0001_.*cannot be read.*Mend: restore it, or move it away"):
        run(running(*NAMES))


@pytest.mark.parametrize("group", ["pd", "router"])
def test_without_a_plan_or_a_router(shown: Shown, group: str) -> None:
    action = roll_plan.ActionModule.__new__(roll_plan.ActionModule)
    action._task = Task({"health": []})
    action._load_name = "mooncake.pd.roll_plan"
    told = variables(plan(wide()))
    told["groups"][group] = []
    with pytest.raises(AnsibleActionFail, match="group pd" if group == "pd" else "has no router"):
        action.run(task_vars=told)


def test_options_are_documented() -> None:
    documented = yaml.safe_load(manual.DOCUMENTATION)["options"]
    assert set(documented) == set(roll_plan.ARGUMENTS)
    for name, option in roll_plan.ARGUMENTS.items():
        for key in ("type", "elements", "default", "required"):
            assert documented[name].get(key) == option.get(key), (name, key)


def test_what_is_returned_is_documented(shown: Shown) -> None:
    documented = yaml.safe_load(manual.RETURN)
    result = run(running(*NAMES))
    failure = run({}, only="none")
    for name, value in {**result, **failure}.items():
        assert name in (*documented, "changed", "failed", "msg"), name
        if isinstance(value, dict):
            assert set(documented[name]["contains"]) == set(value), name
    for name in ("waves", "refusals"):
        (told, *_more) = {**result, **failure}[name]
        assert set(documented[name]["contains"]) == set(told), name
    (change,) = with_passport()["coherence"]["changes"]
    assert set(documented["coherence"]["contains"]["changes"]["contains"]) == set(change)


def with_passport() -> Any:
    proven(Path("passport/lab"))
    return run(running(*NAMES))


def starts(*ids: str) -> dict[str, Any]:
    told = running(*NAMES, outdated=False)
    for name, start in zip(NAMES, ids, strict=True):
        told[name][0]["invocation_id"] = start
    return told


def test_restart_is_noted(shown: Shown) -> None:
    """What was restarted before the interruption is not due again, and check mode notes nothing."""
    note = Path("passport/lab/restart.json")
    first = run(starts("a", "b", "c", "d"), restart=True)
    assert len(first["waves"]) == 2
    assert first["note"] == str(note.absolute())
    assert run(starts("a", "b", "c", "d"))["note"] is None
    assert json.loads(note.read_text())["ran"]["p2"] == {"p2": "b"}
    again = run(starts("x", "b", "y", "d"), restart=True)
    assert [wave["name"] for wave in again["waves"]] == ["p2, d2"]
    assert json.loads(note.read_text())["ran"]["p1"] == {"p1": "a"}
    assert len(run(starts("x", "w", "y", "z"), restart=True)["waves"]) == 2


def test_damaged_note_of_a_restart(shown: Shown) -> None:
    note = Path("passport/lab/restart.json")
    note.parent.mkdir(parents=True)
    note.write_text("{")
    assert run(running(*NAMES, outdated=False))["waves"] == []
    with pytest.raises(AnsibleActionFail, match=r"restart\.json cannot be read.*Mend: remove it"):
        run(running(*NAMES), restart=True)


def test_check_mode_notes_no_restart(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Task, "check_mode", True)
    assert len(run(starts("a", "b", "c", "d"), restart=True)["waves"]) == 2
    assert not Path("passport").exists()
