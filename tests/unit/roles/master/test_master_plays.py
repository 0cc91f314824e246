# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real plays with masters, run by Ansible; the modules are stand-ins that answer what a test gives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.faults import standby
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import plan

ROOT = Path(__file__).parents[4]
# told its answers by a file beside it, by the address of the host where it asks one; the last is given again
STAND_IN = """#!/usr/bin/python
# WANT_JSON
import json, os, sys
name = os.environ["STAND_INS"] + "/" + {name!r}
with open(sys.argv[1]) as source:
    asked = json.load(source)
with open(name + ".asked", "a") as log:
    log.write(json.dumps(asked) + "\\n")
with open(name) as source:
    answers = json.load(source)
key = next((key for key in answers if key in asked.get("url", "") + "*"), "*")
given = name + "." + key.replace("*", "all")
count = os.path.getsize(given) if os.path.exists(given) else 0
with open(given, "a") as log:
    log.write(".")
print(json.dumps({{"changed": False, **answers[key][min(count, len(answers[key]) - 1)]}}))
"""
HOSTS = {"control": "192.0.2.10", "p1": "192.0.2.11", "d1": "192.0.2.21"}
LEADER = "192.0.2.10:17051"
# what the real module makes of it is tried with the module
QUIET = {
    "running": True,
    "error": "",
    "in_use": False,
    "release": "0.3.13.post1",
    "cost": "stands by and holds nothing, so that costs nothing.",
    "refusal": "",
    "misled": "",
    "leader_error": "",
    "settled": True,
    "leader": LEADER,
}
LEADS = {**QUIET, "role": "leader", "state": "serving", "in_use": True, "cost": "holds 14 keys, and loses all of it."}
STANDS_BY = {**QUIET, "role": "standby", "state": "standby"}
AS_PLANNED = {"units": [{"outdated": False}]}
OUTDATED = {"units": [{"outdated": True}]}

Play = Callable[..., subprocess.CompletedProcess[str]]


class Plays:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers: dict[str, dict[str, list[dict[str, Any]]]] = {
            "units": {"*": [AS_PLANNED]},
            "master_info": {HOSTS["control"]: [LEADS], "*": [STANDS_BY]},
            "wait_ready": {"*": [{}]},
            "leftovers": {"*": [{}]},
            "port_group": {"*": [{}]},
        }
        self.collection = folder / "ansible_collections" / "mooncake" / "pd"
        modules = self.collection / "plugins" / "modules"
        modules.mkdir(parents=True)
        (folder / "ansible.cfg").write_text("[defaults]\ninject_facts_as_vars = False\n")
        for name in self.answers:
            (modules / f"{name}.py").write_text(STAND_IN.format(name=name))
        for name in ("roles", "playbooks"):
            (self.collection / name).symlink_to(ROOT / name)

    def inventory(self) -> Path:
        built = plan(standby())
        hosts = {
            name: {**built.hostvars(name), "ansible_host": "localhost", "ansible_connection": "local"}
            for name in built.topology.hosts
        }
        groups = {name: {"hosts": dict.fromkeys(members)} for name, members in built.groups().items() if name != "pd"}
        shared = {
            "pd_cluster": built.cluster(),
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
        }
        path = self.folder / "hosts.yml"
        path.write_text(yaml.safe_dump({"pd": {"hosts": hosts, "vars": shared}, **groups}, default_flow_style=False))
        return path

    def run(self, playbook: Path, *options: str) -> subprocess.CompletedProcess[str]:
        for name, answers in self.answers.items():
            (self.folder / name).write_text(json.dumps(answers))
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "STAND_INS": str(self.folder),
            # else the folder of Python's own, where the real collection may be
            "PYTHONPATH": "",
        }
        command = [sys.executable, "-m", "ansible", "playbook", "-i", str(self.inventory()), str(playbook), *options]
        return subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False, timeout=300
        )

    def master(self, *options: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.collection / "playbooks" / "master.yml", *options)

    def asked(self, name: str) -> list[dict[str, Any]]:
        log = self.folder / f"{name}.asked"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def changed(self) -> list[dict[str, Any]]:
        return [asked for asked in self.asked("units") if not asked["_ansible_check_mode"]]


@pytest.fixture
def plays(tmp_path: Path) -> Plays:
    return Plays(tmp_path)


def words(run: subprocess.CompletedProcess[str]) -> str:
    return " ".join((run.stdout + run.stderr).replace("\\n", " ").split())


def test_check_mode_of_masters_that_are_well(plays: Plays) -> None:
    """It asks the one that leads, as it does else."""
    run = plays.master("--check")
    assert run.returncode == 0, run.stdout
    assert plays.changed() == []
    assert f"It stands by, and {LEADER} leads." in words(run)
    (waited, *_others) = [asked for asked in plays.asked("master_info") if asked.get("wait")]
    assert waited["leaders"][LEADER] == "http://192.0.2.10:9003"


def test_nobody_that_serves_is_followed(plays: Plays) -> None:
    lost = {**STANDS_BY, "settled": False, "leader_error": "connection refused"}
    plays.answers["master_info"]["*"] = [STANDS_BY, lost]
    run = plays.master()
    assert run.returncode == 2
    assert f"stands by, but {LEADER}, which it follows, does not serve (connection refused)" in words(run)


def test_masters_that_move_are_refused_before_anything_is_changed(plays: Plays) -> None:
    plays.answers["units"]["*"] = [OUTDATED]
    moving = {"refusal": "is to move. Mend: stop.yml."}
    plays.answers["master_info"] = {HOSTS["control"]: [{**LEADS, **moving}], "*": [{**STANDS_BY, **moving}]}
    run = plays.master("-e", "master_confirm=true")
    assert run.returncode == 2
    assert "The master on p1 is to move. Mend: stop.yml. Nothing was changed." in words(run)
    assert plays.changed() == []


def test_a_leader_that_left_the_plan_is_told(plays: Plays) -> None:
    """Nothing restarts, and waiting would not help."""
    plays.answers["master_info"]["*"] = [{**STANDS_BY, "misled": "stands by for 192.0.2.99:17051."}]
    run = plays.master()
    assert run.returncode == 2
    assert "The master on d1 stands by for 192.0.2.99:17051. Nothing was changed." in words(run)
    assert (plays.changed(), plays.asked("wait_ready")) == ([], [])


def test_leadership_that_moves_meanwhile_is_not_taken_unasked(plays: Plays) -> None:
    """All stood by when they were looked at; now the first that restarts leads."""
    plays.answers["units"]["*"] = [OUTDATED]
    plays.answers["master_info"] = {HOSTS["control"]: [STANDS_BY, LEADS], "*": [STANDS_BY]}
    run = plays.master()
    assert run.returncode == 2
    assert "The master on control has come into use since it was looked at. It holds 14 keys" in words(run)
    assert plays.changed() == []
    assert [asked["url"] for asked in plays.asked("master_info")][-1] == "http://192.0.2.10:9003"


def test_confirmed_all_restart(plays: Plays) -> None:
    plays.answers["units"]["*"] = [OUTDATED]
    run = plays.master("-e", "master_confirm=true")
    assert run.returncode == 0, run.stdout
    assert len(plays.changed()) == len(HOSTS)


def play_of_masters(name: str) -> dict[str, Any]:
    (play,) = [
        each
        for each in yaml.safe_load((ROOT / "playbooks" / f"{name}.yml").read_text())
        if each.get("hosts") == "master"
    ]
    return dict(play)


def test_engines_are_not_restarted_beside_a_master_of_another_release(plays: Plays) -> None:
    play = play_of_masters("roll")
    assert play_of_masters("upgrade") == play
    play["vars_files"] = [str(ROOT / "playbooks" / each) for each in play["vars_files"]]
    (task,) = play["tasks"]
    assert task.pop("when") == "pd_cluster.master.clients"  # none in this plan
    task["ansible.builtin.import_tasks"] = str(ROOT / "playbooks" / task["ansible.builtin.import_tasks"])
    (only := plays.folder / "only.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    runs = {"control": "0.3.13.post1", "p1": "0.3.12", "d1": None}
    plays.answers["master_info"] = {HOSTS[name]: [{**LEADS, "release": release}] for name, release in runs.items()}
    run = plays.run(only)
    assert run.returncode == 2
    said = words(run)
    assert "The master on p1 runs Mooncake 0.3.12, and 0.3.13.post1 is planned" in said
    assert "The master on d1 runs Mooncake of a release that it does not tell, and" in said
    assert "The master on control" not in said
    assert "Mend: stop.yml, then site.yml" in said


@pytest.mark.parametrize(("name", "before"), [("upgrade", "prepare.yml"), ("roll", "smoke.yml")])
def test_that_is_looked_at_before_anything_is_changed(name: str, before: str) -> None:
    content = yaml.safe_load((ROOT / "playbooks" / f"{name}.yml").read_text())
    order = [each.get("hosts") or each["ansible.builtin.import_playbook"] for each in content]
    assert order.index("master") < order.index(before)
    assert order.index("master") < (order.index("engine") if "engine" in order else len(order))
