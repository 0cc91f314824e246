# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.action import preflight_report
from ansible_collections.mooncake.pd.plugins.modules import preflight_report as manual
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight import healthy

RESULTS = {
    "told": ["checked"],
    "host": ["look"],
    "ports": ["court"],
    "npu": ["npus"],
    "hccn": ["hccn", "pings"],
}


class Task:
    action = "mooncake.pd.preflight_report"
    diff = False

    def __init__(self, args: dict[str, Any], check: bool) -> None:
        self.args, self.check_mode = args, check


class Shown(list[str]):
    def display(self, text: str, color: str | None = None) -> None:
        self.append(text)


class HostVars(dict[str, Any]):
    def raw_get(self, name: str) -> Any:
        return self[name]

    def __getitem__(self, name: str) -> Any:
        assert name in self, name
        return super().__getitem__(name)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shown:
    told = Shown()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preflight_report, "display", told)
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    return told


@pytest.fixture
def hosts() -> HostVars:
    made = healthy.cluster()
    return HostVars(
        (
            name,
            {
                "pd_host": plan,
                "pd_cluster": made.cluster,
                "look": {"changed": False, "host": made.facts[name]["host"]},
                "court": {"changed": False, "ports": made.facts[name]["ports"]},
                "npus": {"changed": False, "npu": made.facts[name]["npu"]},
                "hccn": {"changed": False, "hccn": made.facts[name]["hccn"]},
            },
        )
        for name, plan in made.plans.items()
    )


def run(
    hosts: HostVars,
    check: bool = False,
    limit: list[str] | None = None,
    tags: Any = ("all",),
    skip: Any = (),
    **args: Any,
) -> Any:
    action = preflight_report.ActionModule.__new__(preflight_report.ActionModule)
    action._task = Task({"results": copy.deepcopy(RESULTS), **args}, check)
    action._loader = DataLoader()
    action._load_name = "mooncake.pd.preflight_report"
    return action.run(
        task_vars={
            "groups": {"pd": list(hosts)},
            "hostvars": hosts,
            "ansible_play_hosts_all": limit or list(hosts),
            "ansible_run_tags": tags,
            "ansible_skip_tags": skip,
        }
    )


def forget(hosts: HostVars, name: str) -> None:
    for registered in ("look", "court", "npus", "hccn"):
        del hosts[name][registered]


def findings(tmp_path: Path) -> set[tuple[str, str, str]]:
    content = json.loads((tmp_path / "preflight/npu/preflight.json").read_text())
    return {
        (group["rule"], group["severity"], item["host"]) for group in content["groups"] for item in group["findings"]
    }


def test_a_healthy_fleet_is_reported_and_does_not_fail(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    result = run(hosts)
    assert not result.get("failed")
    assert result["changed"] is False
    folder = tmp_path / "preflight" / "npu"
    assert sorted(path.name for path in folder.iterdir()) == [
        "facts.json",
        "junit.xml",
        "preflight.html",
        "preflight.json",
    ]
    assert {file["path"] for file in result["files"]} == {str(path) for path in folder.iterdir()}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o640}
    assert ElementTree.parse(folder / "junit.xml").getroot().get("failures") == "0"
    assert any("4 hosts" in line for line in shown)
    assert findings(tmp_path) == set()


def test_an_error_fails_and_names_the_rule_and_the_report(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    hosts["p2"]["look"]["host"]["systemd"]["version"] = 219
    result = run(hosts, dest="out")
    assert result["failed"] is True
    assert result["msg"] == (
        "Preflight found 1 error (systemd-old); nothing was changed. "
        f"The report is above, and in {tmp_path}/out/preflight.html."
    )
    assert any("systemd is 219" in line for line in shown)


def test_warnings_do_not_fail(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    hosts["p2"]["look"]["host"]["security"]["selinux"] = "enforcing"
    assert not run(hosts).get("failed")
    assert findings(tmp_path) == {("selinux-enforcing", "warning", "p2")}


def test_hosts_that_cannot_be_reached_are_errors_with_the_words_of_ssh(
    shown: Shown, hosts: HostVars, tmp_path: Path
) -> None:
    hosts["p2"]["look"] = {"unreachable": True, "msg": "Connection\n timed out"}
    hosts["d1"]["hccn"] = {"unreachable": True, "msg": "lost later"}
    hosts["d2"]["look"] = {"unreachable": True, "msg": "lost"}
    result = run(hosts)
    assert result["failed"] is True
    assert findings(tmp_path) == {("host-absent", "error", name) for name in ("p2", "d1", "d2")}
    assert any("cannot be reached: Connection timed out" in line for line in shown)


def test_a_host_that_was_lost_before_the_look_is_no_healthy_one(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    forget(hosts, "p2")
    assert run(hosts)["failed"] is True
    assert findings(tmp_path) == {("host-absent", "error", "p2")}


def test_hosts_beyond_the_limit_are_told_and_are_no_error(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    for name in ("d1", "d2"):
        forget(hosts, name)
    assert not run(hosts, limit=["p1", "p2"]).get("failed")
    assert findings(tmp_path) == {("host-absent", "notice", "d1"), ("host-absent", "notice", "d2")}


def test_a_module_that_broke_is_unknown_and_never_good(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    hosts["p1"]["look"] = {"failed": True, "msg": "MODULE FAILURE", "module_stderr": "Traceback: boom"}
    assert run(hosts)["failed"] is True
    assert findings(tmp_path) == {("host-unknown", "error", "p1")}
    assert any("host_info failed: MODULE FAILURE" in line for line in shown)


def test_of_several_results_the_later_one_counts_and_what_was_skipped_does_not(hosts: HostVars, shown: Shown) -> None:
    hosts["p1"]["pings"] = {"hccn": {"tool": "second", "unknown": []}}
    hosts["p2"]["pings"] = {"skipped": True}
    hosts["d1"]["hccn"] = {"skipped": True}
    run(hosts)
    facts = json.loads(Path("preflight/npu/facts.json").read_text())["hosts"]
    assert facts["p1"]["hccn"]["tool"] == "second"
    assert facts["p2"]["hccn"]["tool"].endswith("hccn_tool")
    assert "hccn" not in facts["d1"]


def test_settings_that_a_role_refused_are_findings(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    hosts["p1"]["checked"] = {"evaluated_to": False, "msg": "router_tls: no file. Mend: name one.\nrouter_x: bad."}
    hosts["p2"]["checked"] = {"changed": False, "msg": "All assertions passed"}
    assert run(hosts)["failed"] is True
    assert findings(tmp_path) == {("setting-refused", "error", "p1")}


def test_facts_are_judged_again_without_hosts(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    hosts["p2"]["look"]["host"]["systemd"]["version"] = 219
    run(hosts, dest="first")
    bare = HostVars((name, {"pd_host": own["pd_host"], "pd_cluster": own["pd_cluster"]}) for name, own in hosts.items())
    assert run(bare, facts="first/facts.json", dest="second")["failed"] is True
    # what was seen stays what the run saw
    assert sorted(path.name for path in (tmp_path / "second").iterdir()) == [
        "junit.xml",
        "preflight.html",
        "preflight.json",
    ]
    for name in ("preflight.json", "junit.xml", "preflight.html"):
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()


def test_a_host_that_recorded_facts_do_not_have_is_absent(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    run(hosts, dest="first")
    recorded = json.loads((tmp_path / "first/facts.json").read_text())
    del recorded["hosts"]["d2"]
    (tmp_path / "some.json").write_text(json.dumps(recorded))
    assert run(hosts, facts="some.json")["failed"] is True
    assert findings(tmp_path) == {("host-absent", "error", "d2")}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": 2, "hosts": {}}', '{"hosts": {}}', '{"schema": 1, "hosts": {}}']
)
def test_a_file_that_holds_no_facts_is_refused(shown: Shown, hosts: HostVars, tmp_path: Path, text: str) -> None:
    (tmp_path / "some.json").write_text(text)
    with pytest.raises(AnsibleActionFail, match=r"some\.json holds no facts of preflight"):
        run(hosts, facts="some.json")
    with pytest.raises(AnsibleActionFail, match=r"none\.json cannot be read: No such file"):
        run(hosts, facts="none.json")


def test_tags_choose_families(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    hosts["p2"]["look"]["host"]["systemd"]["version"] = 219
    assert not run(hosts, tags=("network",)).get("failed")
    assert json.loads((tmp_path / "preflight/npu/preflight.json").read_text())["summary"]["families"] == ["network"]
    assert run(hosts, tags=("host", "network"))["failed"] is True


def test_tags_that_are_skipped_take_their_family_out(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    for name in hosts:
        hosts[name]["npus"] = hosts[name]["hccn"] = {"skipped": True}
    assert run(hosts)["failed"] is True
    assert not run(hosts, skip=("npu",)).get("failed")
    content = json.loads((tmp_path / "preflight/npu/preflight.json").read_text())
    assert content["summary"]["families"] == ["host", "network", "ports"]
    # and what was recorded then is not judged as if all had been looked at
    assert not run(hosts, facts="preflight/npu/facts.json", dest="second").get("failed")
    content = json.loads((tmp_path / "second/preflight.json").read_text())
    assert content["summary"]["families"] == ["host", "network", "ports"]


def test_check_mode_judges_and_writes_nothing(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    hosts["p2"]["look"]["host"]["systemd"]["version"] = 219
    assert run(hosts, check=True)["failed"] is True
    assert list(tmp_path.iterdir()) == []
    assert "preflight/npu/facts.json  would be written" in shown


def test_the_inventory_is_no_place_for_a_report(shown: Shown, hosts: HostVars, tmp_path: Path) -> None:
    (tmp_path / "inv").mkdir()
    action_vars = {"ansible_inventory_sources": [str(tmp_path / "inv")]}
    action = preflight_report.ActionModule.__new__(preflight_report.ActionModule)
    action._task = Task({"results": copy.deepcopy(RESULTS), "dest": "inv/out"}, False)
    action._loader = DataLoader()
    action._load_name = "mooncake.pd.preflight_report"
    with pytest.raises(AnsibleActionFail, match="lies in the inventory"):
        action.run(
            task_vars={
                "groups": {"pd": list(hosts)},
                "hostvars": hosts,
                "ansible_play_hosts_all": list(hosts),
                **action_vars,
            }
        )


def test_the_manual_has_the_options() -> None:
    options = yaml.safe_load(manual.DOCUMENTATION)["options"]
    assert set(options) == set(preflight_report.ARGUMENTS)
    assert options["families"]["choices"] == preflight_report.ARGUMENTS["families"]["choices"]
    assert set(options["results"]["suboptions"]) == set(preflight_report.ARGUMENTS["results"]["options"])


@pytest.mark.parametrize(("tags", "args"), [(("port",), {}), (("all",), {"families": ["rdma"]})])
def test_nothing_judged_is_not_good(shown: Shown, hosts: HostVars, tags: Any, args: Any) -> None:
    result = run(hosts, tags=tags, **args)
    assert result["failed"] is True
    assert result["msg"].startswith("Nothing was judged: of ")
    assert "--tags takes host, network, ports, npu, rdma" in result["msg"]
