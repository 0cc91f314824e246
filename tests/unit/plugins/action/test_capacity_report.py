# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.action import capacity_report
from ansible_collections.mooncake.pd.plugins.modules import capacity_report as manual
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils import topologies
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.capacity import configs


class Task:
    action = "mooncake.pd.capacity_report"

    def __init__(self, args: dict[str, Any], check: bool, diff: bool) -> None:
        self.args, self.check_mode, self.diff = args, check, diff


class Shown(list[str]):
    def display(self, text: str, color: str | None = None) -> None:
        self.append(text)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shown:
    told = Shown()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(capacity_report, "display", told)
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/topology.yml").write_text(yaml.safe_dump(topologies.cpu()))
    (tmp_path / "config.json").write_text(json.dumps(configs.dense()))
    return told


def run(check: bool = False, diff: bool = False, **args: Any) -> dict[str, Any]:
    action = capacity_report.ActionModule.__new__(capacity_report.ActionModule)
    action._task = Task(args, check, diff)
    action._loader = DataLoader()
    action._load_name = "mooncake.pd.capacity_report"
    told = {"pd_cluster": {"source": "inventory/topology.yml"}, "ansible_inventory_sources": ["inventory"]}
    result: dict[str, Any] = action.run(task_vars=told)
    return result


def test_shows_and_writes_nothing(shown: Shown, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    # the command line gives text
    result = run(config="config.json", length="32768", pool_bytes="5TB", requests_per_second="0.5")
    assert (result["changed"], result["files"]) == (False, [])
    assert result["capacity"]["pool"]["sequences"]["value"] == 460
    assert result["capacity"]["source"] == "config.json"
    assert result["table"].splitlines() == shown
    assert "  sequence 32,768 tokens: 10 GiB" in shown
    assert sorted(tmp_path.rglob("*")) == before


def test_content_of_slurp(shown: Shown) -> None:
    content = base64.b64encode(json.dumps(configs.latent()).encode()).decode()
    result = run(content=content, origin="p1:/srv/tiny/config.json")
    assert result["capacity"]["token"]["value"] == 70272
    assert shown[0] == "KV capacity of lab, p1:/srv/tiny/config.json"
    assert run(content=content, config="config.json")["capacity"]["token"]["value"] == 327680


def test_writes_on_demand(shown: Shown, tmp_path: Path) -> None:
    path = tmp_path / "out/capacity.json"
    predicted = run(check=True, diff=True, config="config.json", dest="out")
    assert (predicted["changed"], path.exists()) == (True, False)
    assert predicted["files"] == [{"path": str(path), "changed": True}]
    assert predicted["diff"][0]["before"] == ""
    result = run(config="config.json", dest="out")
    assert result["changed"]
    assert json.loads(path.read_text()) == result["capacity"]
    assert predicted["diff"][0]["after"] == path.read_text()
    assert run(config="config.json", dest="out")["changed"] is False
    assert shown[-1] == "out/capacity.json  unchanged"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({}, "config.json cannot be read: neither config nor content is given. Mend: name a copy"),
        (
            {"problem": "file not found", "origin": "p1:/srv/tiny/config.json"},
            "p1:/srv/tiny/config.json cannot be read: file not found. Mend: name a copy",
        ),
        ({"config": "none.json"}, "config: none.json cannot be read: No such file or directory. Mend: name a copy"),
        ({"config": "inventory/topology.yml"}, "inventory/topology.yml is no JSON: "),
        ({"config": "config.json", "dest": "inventory/new"}, "lies in the inventory"),
        ({"config": "config.json", "topology": "none.yml"}, "topology: there is no file "),
        ({"config": "config.json", "pool_bytes": "much"}, "options pool_bytes: [size] is 'much'"),
        (
            {"config": "config.json", "contributors": "p1,p9"},
            "names p9, which is no instance of lab. Mend: choose from",
        ),
    ],
)
def test_errors(shown: Shown, tmp_path: Path, args: dict[str, Any], message: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(AnsibleActionFail) as raised:
        run(**args)
    assert message in str(raised.value)
    assert (shown, sorted(tmp_path.rglob("*"))) == ([], before)


def test_without_a_plan(shown: Shown, tmp_path: Path) -> None:
    (tmp_path / "inventory/topology.yml").write_text("plugin: mooncake.pd.topology\n")
    with pytest.raises(AnsibleActionFail, match="cannot be planned"):
        run(config="config.json")


def test_options_are_documented_and_reach_the_playbook() -> None:
    documented = yaml.safe_load(manual.DOCUMENTATION)["options"]
    assert documented.keys() == capacity_report.ARGUMENTS.keys()
    for name, option in capacity_report.ARGUMENTS.items():
        for key in ("type", "elements"):
            assert documented[name].get(key) == option.get(key), name
    playbook = yaml.safe_load((Path(__file__).parents[4] / "playbooks/capacity.yml").read_text())
    wired = playbook[1]["tasks"][1]["mooncake.pd.capacity_report"]
    assert wired.keys() == capacity_report.ARGUMENTS.keys() - {"topology"}
    for name in (*capacity_report.ASKED, "config", "dest"):
        assert wired[name] == f"{{{{ capacity_{name} | default(omit) }}}}"
