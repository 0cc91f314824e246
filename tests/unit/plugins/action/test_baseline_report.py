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

from ansible_collections.mooncake.pd.plugins.action import baseline_report, transfer_bench
from ansible_collections.mooncake.pd.plugins.modules import baseline_report as manual
from ansible_collections.mooncake.pd.tests.unit.plugins.action.stubs import Hostvars, Task


class Shown(list[str]):
    def display(self, text: str, color: str | None = None) -> None:
        self.append(text)

    def warning(self, text: str) -> None:
        self.append(f"WARNING {text}")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shown:
    told = Shown()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(baseline_report, "display", told)
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    return told


def measured(bandwidth: float | None = 1e9, **more: Any) -> dict[str, Any]:
    blank = {"plane": "tcp", "tool": "transfer_engine_bench", "latency": 5e-5, "settings": {}, "problem": ""}
    return {"bench": {"peer": "d1", "results": [{**blank, "optional": False, "bandwidth": bandwidth, **more}]}}


def run(answer: dict[str, Any] | None, check: bool = False, more: dict[str, Any] | None = None, **args: Any) -> Any:
    action = baseline_report.ActionModule.__new__(baseline_report.ActionModule)
    action._task = Task("baseline_report", {"cluster": "my lab", **args}, check)
    action._load_name = "mooncake.pd.baseline_report"
    own = {"__baseline_peer": "d1", **({"__baseline_measured": answer} if answer else {}), **(more or {})}
    hostvars = Hostvars({"p1": own, "d1": {"__baseline_peer": ""}, "other": {}})
    return action.run(task_vars={"hostvars": hostvars, "ansible_play_hosts_all": ["p1", "d1"]})


def test_first_and_second_run(shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(measured())
    assert (first["changed"], first["first"], "failed" in first) == (False, True, False)
    kept = tmp_path / "baseline/my-lab/last-good.json"
    assert json.loads(kept.read_text())["pairs"]["p1-d1"]["results"][0]["bandwidth"] == 1e9
    (archived,) = (tmp_path / "baseline/my-lab").glob("*Z/p1-d1.json")
    assert json.loads(archived.read_text())["run"] == archived.parent.name
    assert any("nothing: it is the first" in line for line in shown)

    monkeypatch.setattr(baseline_report.time, "strftime", lambda *_: "2030-01-01T000000Z")
    second = run(measured(5e8))
    assert [row["state"] for row in second["rows"]] == ["worse"]
    assert "failed" not in second
    assert any(line.startswith("WARNING p1-d1 tcp (transfer_engine_bench): bandwidth lower by 50%") for line in shown)
    assert json.loads(kept.read_text())["pairs"]["p1-d1"]["results"][0]["bandwidth"] == 1e9
    assert (tmp_path / "baseline/my-lab/2030-01-01T000000Z/p1-d1.json").exists()

    strict = run(measured(5e8), strict=True)
    assert strict["failed"]
    assert "baseline_accept=true" in strict["msg"]
    assert "failed" not in run(measured(5e8), strict=True, bandwidth_drop=60)
    assert json.loads(kept.read_text())["pairs"]["p1-d1"]["results"][0]["bandwidth"] == 5e8


def test_accepted(shown: Shown, tmp_path: Path) -> None:
    run(measured())
    run(measured(1e8), accept=True, dest=str(tmp_path / "baseline/my-lab"))
    kept = json.loads((tmp_path / "baseline/my-lab/last-good.json").read_text())
    assert kept["pairs"]["p1-d1"]["results"][0]["bandwidth"] == 1e8


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (measured(None, latency=None, problem="refused"), "refused"),
        ({"unreachable": True, "msg": "Failed to connect\nto the host"}, "Failed to connect to the host"),
        ({"failed": True}, "the run ended before"),
        (None, "the run ended before"),
        ({"skipped": True}, "the run ended before"),
    ],
)
def test_pair_that_was_not_measured(shown: Shown, tmp_path: Path, answer: dict[str, Any] | None, why: str) -> None:
    result = run(answer)
    assert result["failed"]
    assert why in result["msg"]
    assert not (tmp_path / "baseline/my-lab/last-good.json").exists()
    assert list((tmp_path / "baseline/my-lab").glob("*Z/p1-d1.json"))  # also that is worth keeping


def test_host_that_was_lost_before_it_measured(shown: Shown) -> None:
    assert "no route" in run(None, more={"__baseline_target": {"unreachable": True, "msg": "no route"}})["msg"]


def test_pings_of_npus(shown: Shown) -> None:
    pings = [{"chip": 0, "ok": True, "time": 0.2}]
    result = run({"skipped": True}, more={"__baseline_pinged": {"hccn": {"pings": pings, "unknown": []}}})
    assert [(row["plane"], row["state"]) for row in result["rows"]] == [("npu", "new")]
    failed = run(measured(), more={"__baseline_pinged": {"failed": True, "msg": "no hccn_tool"}})
    assert "no hccn_tool" in failed["msg"]


def test_check_mode(shown: Shown, tmp_path: Path) -> None:
    assert run(measured(), check=True)["skipped"]
    assert list(tmp_path.iterdir()) == []


def test_last_good_that_cannot_be_used(shown: Shown, tmp_path: Path) -> None:
    kept = tmp_path / "baseline/my-lab/last-good.json"
    kept.parent.mkdir(parents=True)
    for text, why in (("{", "cannot be read"), ("[]", "was not written by this version"), ('{"schema": 9}', "anew")):
        kept.write_text(text)
        with pytest.raises(AnsibleActionFail, match=why):
            run(measured())
        assert kept.read_text() == text


def test_options_are_documented() -> None:
    documented = yaml.safe_load(manual.DOCUMENTATION)["options"]
    assert documented.keys() == baseline_report.ARGUMENTS.keys()
    for name, option in baseline_report.ARGUMENTS.items():
        for key in ("type", "default", "required"):
            assert documented[name].get(key) == option.get(key), name


def test_target_of_the_peer() -> None:
    target = {"address": "192.0.2.21", "planes": {}}
    hostvars = Hostvars({"d1": {"mine": {"target": target}}, "d2": {"mine": {"failed": True}}, "d3": {}})
    assert transfer_bench._started(hostvars, "d1", "mine") == target
    for peer in ("d2", "d3", "nobody"):
        assert transfer_bench._started(hostvars, peer, "mine") == {}
