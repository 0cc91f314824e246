# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.action import plan_report
from ansible_collections.mooncake.pd.plugins.modules import plan_report as manual
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils import topologies


class Task:
    action = "mooncake.pd.plan_report"

    def __init__(self, args: dict[str, Any], check: bool, diff: bool) -> None:
        self.args, self.check_mode, self.diff = args, check, diff


class Shown(list[str]):
    """What was shown, and in which colours."""

    def __init__(self) -> None:
        super().__init__()
        self.colours: set[str | None] = set()

    def display(self, text: str, color: str | None = None) -> None:
        # as Display does
        self.append(text if text.endswith("\n") else f"{text}\n")
        self.colours.add(color)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shown:
    told = Shown()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan_report, "display", told)
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    return told


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    folder = tmp_path / "inventories" / "lab"
    folder.mkdir(parents=True)
    path = folder / "topology.yml"
    path.write_text(yaml.safe_dump(topologies.cpu(), sort_keys=False))
    return path


def run(
    task_vars: dict[str, Any] | None = None, check: bool = False, diff: bool = False, **args: Any
) -> dict[str, Any]:
    action = plan_report.ActionModule.__new__(plan_report.ActionModule)
    action._task = Task({key: str(value) for key, value in args.items()}, check, diff)
    action._loader = DataLoader()
    action._load_name = "mooncake.pd.plan_report"
    return action.run(task_vars=task_vars or {})


def test_shows_and_writes_the_plan(shown: Shown, topology: Path, tmp_path: Path) -> None:
    result = run(topology=topology, dest="out/here")
    folder = tmp_path / "out" / "here"
    assert result["changed"] is True
    assert result["files"] == [{"path": str(folder / name), "changed": True} for name in ("plan.json", "plan.html")]
    assert json.loads((folder / "plan.json").read_text())["cluster"]["source"] == str(topology)
    assert (folder / "plan.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in folder.iterdir()) == ["plan.html", "plan.json"]
    assert result["summary"]["hosts"] == 3
    assert "".join(shown) == result["table"] + "out/here/plan.json  written\nout/here/plan.html  written\n"
    assert len(shown.colours) > 2


def test_second_run_changes_nothing_and_a_changed_topology_does(shown: Shown, topology: Path, tmp_path: Path) -> None:
    run(topology=topology)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "plan" / "lab").iterdir()}
    assert len(before) == 2
    result = run(topology=topology)
    assert result["changed"] is False
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert shown[-1] == "plan/lab/plan.html  unchanged\n"
    topology.write_text(topology.read_text().replace("192.0.2.21", "192.0.2.22"))
    assert run(topology=topology)["changed"] is True
    assert "192.0.2.22" in (tmp_path / "plan/lab/plan.html").read_text()


def test_check_mode_writes_nothing_and_tells_what_it_would(shown: Shown, topology: Path, tmp_path: Path) -> None:
    result = run(topology=topology, check=True)
    assert result["changed"] is True
    assert not (tmp_path / "plan").exists()
    assert shown[-1] == "plan/lab/plan.html  would be written\n"
    run(topology=topology)
    assert run(topology=topology, check=True)["changed"] is False


def test_diff_is_of_the_table_where_that_differs(shown: Shown, topology: Path, tmp_path: Path) -> None:
    result = run(topology=topology, diff=True)
    path = tmp_path / "plan" / "lab" / "plan.json"
    assert result["diff"] == [
        {
            **{"before": "", "after": result["table"]},
            **{"before_header": str(path), "after_header": str(path)},
        }
    ]
    written = path.read_text()
    (same,) = run(topology=topology, diff=True, check=True)["diff"]
    assert same["before"] == same["after"] == written
    path.write_text(written.replace('"--dtype=float32"', '"--dtype=float16"').replace("lab prefill", "x prefill") + " ")
    (hidden,) = run(topology=topology, diff=True, check=True)["diff"]
    assert (hidden["before"], hidden["after"]) == (path.read_text(), written)  # the table does not show it
    path.write_text("{}")
    assert run(topology=topology, diff=True, check=True)["diff"][0]["before"] == ""
    assert "diff" not in run(topology=topology)


def test_topology_of_the_inventory_is_found_through_one_host(shown: Shown, topology: Path) -> None:
    class Hostvars(dict[str, Any]):
        asked: tuple[str, ...] = ()

        def __getitem__(self, host: str) -> Any:
            self.asked += (host,)
            return {"pd_cluster": {"source": str(topology)}}

    hostvars = Hostvars()
    assert run({"groups": {"pd": ["control", "p1"]}, "hostvars": hostvars})["summary"]["hosts"] == 3
    assert hostvars.asked == ("control",)


def test_a_second_topology_in_the_inventory_is_refused(shown: Shown, topology: Path, tmp_path: Path) -> None:
    # as Ansible has it: the last topology's pd_cluster is every host's
    hosts = ("q1", "q2", "q3", "q4", "control", "p1", "d1")
    task_vars = {
        "groups": {"pd": list(hosts)},
        "hostvars": {host: {"pd_cluster": {"source": str(topology)}} for host in hosts},
        "ansible_inventory_sources": ("/inv/a", str(topology.parent)),
    }
    said = (
        rf"\(/inv/a, {topology.parent}\) is made of more than one topology: {topology} does not name q1, q2, q3 and 1"
    )
    with pytest.raises(
        AnsibleActionFail, match=rf"{said} more of group pd, .* also another one .* one inventory a run"
    ):
        run(task_vars)
    assert not (tmp_path / "plan").exists()
    # a host that tells its own file
    task_vars["hostvars"]["q2"] = {"pd_cluster": {"source": "/inv/a/topology.yml"}}
    with pytest.raises(AnsibleActionFail, match=r"so there is also /inv/a/topology\.yml\. Mend"):
        run(task_vars)
    # the file that was asked for is shown, whatever the inventory is
    assert run(task_vars, topology=topology)["summary"]["hosts"] == 3


def test_other_name_of_a_cluster_cannot_lead_out_of_the_folder(shown: Shown, topology: Path, tmp_path: Path) -> None:
    for name, folder in (("../../etc", "etc"), ("a b/c", "a-b-c"), ("..", "cluster"), ("集群", "集群")):
        topology.write_text(yaml.safe_dump({**topologies.cpu(), "name": name}))
        assert Path(run(topology=topology)["files"][0]["path"]).parent == tmp_path / "plan" / folder


def test_a_folder_inside_of_an_inventory_is_refused(shown: Shown, topology: Path, tmp_path: Path) -> None:
    inventory = topology.parent
    for dest in (inventory, inventory / "plan", tmp_path / "other" / ".." / "inventories" / "lab"):
        with pytest.raises(AnsibleActionFail, match=r"lies in the inventory .* Mend: choose a folder outside"):
            run({"ansible_inventory_sources": (str(inventory),)}, topology=topology, dest=dest)
    assert [path.name for path in inventory.iterdir()] == ["topology.yml"]
    # the default is no exception
    with pytest.raises(AnsibleActionFail, match="lies in the inventory"):
        run({"ansible_inventory_sources": (str(tmp_path),)}, topology=topology)


def test_the_folder_of_an_inventory_file_and_its_variables_are_refused(
    shown: Shown, topology: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = topology.parent
    sources = {"ansible_inventory_sources": (str(topology), "host1,")}
    (tmp_path / "link").symlink_to(inventory)
    for dest in (inventory, tmp_path / "link", inventory / "group_vars", inventory / "host_vars" / "p1"):
        with pytest.raises(AnsibleActionFail, match=rf"lies in the inventory {inventory}, .* Mend: choose a folder"):
            run(sources, topology=topology, dest=dest)
    assert [path.name for path in inventory.iterdir()] == ["topology.yml"]
    # a list of hosts is no folder; what lies deeper beside a file is not read
    run(sources, topology=topology, dest=tmp_path)
    run(sources, topology=topology, dest=inventory / "deeper")
    for folder in (tmp_path, inventory):
        monkeypatch.chdir(folder)
        run(sources, topology=topology)
        assert (folder / "plan" / "lab" / "plan.json").is_file()


def test_links_are_replaced_and_not_followed(shown: Shown, topology: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    victims = [tmp_path / name for name in ("json", "html", "new")]
    for victim, name in zip(victims, ("plan.json", "plan.html", ".plan.html.new"), strict=True):
        victim.write_text("mine")
        victim.chmod(0o600)
        (folder / name).symlink_to(victim)
    run(topology=topology, dest=folder)
    assert [(victim.read_text(), victim.stat().st_mode & 0o777) for victim in victims] == [("mine", 0o600)] * 3
    assert not any((folder / name).is_symlink() for name in ("plan.json", "plan.html"))


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_mode_does_not_depend_on_the_umask(umask: int, shown: Shown, topology: Path, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        run(topology=topology, dest="out")
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "out").iterdir()}
    assert modes == {"plan.json": "0o640", "plan.html": "0o640"}


def test_nothing_is_left_of_a_file_that_cannot_be_written(
    shown: Shown, topology: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: str, dest: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(AnsibleActionFail, match=r"out/plan\.json cannot be written: No space left on device\. Mend"):
        run(topology=topology, dest="out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_topology_that_cannot_be_planned_is_the_whole_report(shown: Shown, topology: Path) -> None:
    topology.write_text(topology.read_text().replace("MooncakeConnector", "MooncakeConector"))
    with pytest.raises(AnsibleActionFail, match=r"topology\.yml:\d+ connector\.name: \[connector-unknown\]"):
        run(topology=topology)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({}, "The inventory gives no host in group pd"),
        ({"topology": "missing.yml"}, r"topology: there is no file /.*/missing\.yml\. Mend"),
        ({"topology": "inventories/lab/topology.yml", "dset": "x"}, "dset"),
        ({"topology": "inventories/lab/topology.yml", "dest": "/proc/nowhere"}, r"/proc/nowhere/plan\.json cannot be"),
    ],
)
def test_failures_name_the_place(args: dict[str, str], message: str, shown: Shown, topology: Path) -> None:
    with pytest.raises(AnsibleActionFail, match=message):
        run(**args)


def test_manual_tells_the_options_and_results_there_are(shown: Shown, topology: Path) -> None:
    options = yaml.safe_load(manual.DOCUMENTATION)["options"]
    told = {
        name: {key: option[key] for key in ("type", "default") if key in option} for name, option in options.items()
    }
    assert told == plan_report.ARGUMENTS
    returned = yaml.safe_load(manual.RETURN)
    result = run(topology=topology)
    assert set(result) == {*returned, "changed"}
    assert list(result["summary"]) == list(returned["summary"]["contains"])
    assert set(result["files"][0]) == set(returned["files"]["contains"])


def test_manual_names_every_key_of_the_json(shown: Shown, topology: Path, tmp_path: Path) -> None:
    run(topology=topology)
    notes = " ".join(yaml.safe_load(manual.DOCUMENTATION)["notes"])
    content = json.loads((tmp_path / "plan" / "lab" / "plan.json").read_text())
    assert set(content) <= set(re.findall(r"C\((\w+)\)", notes))
    for item in (content["start_order"][0], content["start_order"][0]["members"][0]):
        assert f"C({{{', '.join(item)}}})" in notes
