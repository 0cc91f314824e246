# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for our own YAML that no linter knows."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
START = yaml.safe_load((ROOT / "playbooks/start.yml").read_text())
TASK_FILES = sorted((ROOT / "roles").glob("*/tasks/*.yml")) + sorted((ROOT / "roles").glob("*/handlers/*.yml"))


def plays(path: Path) -> list[dict]:
    return [play for play in yaml.safe_load(path.read_text()) if "hosts" in play]


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda p: p.name)
def test_a_failed_host_stops_the_play(path):
    """Half a cluster must never be started, and a roll must stop at its first failure."""
    for play in plays(path):
        if play["hosts"] != "localhost" and not only_looks(play):
            assert play.get("any_errors_fatal") is True or "max_fail_percentage" in play, play["name"]


def only_looks(play: dict) -> bool:
    """The preflight plays let every host tell what it knows; the last task then ends the run for all."""
    looks = [task.get("ansible.builtin.import_role", {}).get("tasks_from") for task in play.get("tasks", [])]
    if looks == ["check.yml"] and play["ignore_unreachable"]:
        return True
    if [role["role"] for role in play.get("roles", [])] != ["mooncake.pd.preflight"]:
        return False
    (judge,) = yaml.safe_load((ROOT / "roles/preflight/tasks/judge.yml").read_text())
    return judge["run_once"] is True  # Ansible takes its failure for one of all hosts


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda p: p.name)
def test_nothing_runs_without_a_plan(path):
    """Without hosts Ansible does nothing and calls it a success."""
    first = yaml.safe_load(path.read_text())[0]
    assert path.name == "guard.yml" or first["ansible.builtin.import_playbook"] in ("guard.yml", "preflight.yml")


@pytest.mark.parametrize("role", ["master", "store"])
def test_what_loses_its_memory_restarts_alone_and_when_it_was_confirmed(role):
    """Neither masters nor nodes of the pool may restart together, or without a question."""
    tasks = {path.stem: yaml.safe_load(path.read_text()) for path in TASK_FILES if path.parts[-3] == role}
    starts = {
        name: each["mooncake.pd.units"].get("on_change", "restart")
        for name, listed in tasks.items()
        for each in listed
        if "mooncake.pd.units" in each
    }
    assert starts == {"look": "keep", "run": "keep", "restart": "restart"}
    assert any("ansible.builtin.assert" in each for each in tasks["look"])
    for play in plays(ROOT / "playbooks" / f"{role}.yml"):
        restarts = [
            task for task in play["tasks"] if task["ansible.builtin.import_role"]["tasks_from"] == "restart.yml"
        ]
        assert (play.get("serial") == 1) == bool(restarts), play["name"]
    started = [item["ansible.builtin.import_playbook"] for item in START if "ansible.builtin.import_playbook" in item]
    assert f"{role}.yml" in started
    assert not [play for play in plays(ROOT / "playbooks/start.yml") if play["hosts"] == role]


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda p: p.name)
def test_facts_are_gathered_on_purpose(path):
    assert [play["name"] for play in plays(path) if "gather_facts" not in play] == []


@pytest.mark.parametrize("path", TASK_FILES + PLAYBOOKS, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_loops_over_hostvars_or_ignores_errors(path):
    text = path.read_text()
    assert "hostvars" not in text
    assert "ignore_errors" not in text


@pytest.mark.parametrize("path", TASK_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_command_is_explained(path):
    """The comment stands right above the task, and the task says when it changes something."""
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.strip() in ("ansible.builtin.command:", "ansible.builtin.shell:"):
            first = max(n for n in range(number) if lines[n].lstrip().startswith("- name:"))
            rest = range(first + 1, len(lines))
            last = next((n for n in rest if lines[n].lstrip().startswith("- name:")), len(lines))
            task = "\n".join(lines[first:last])
            above = lines[first - 1].strip()
            assert above.startswith("#"), f"{path.name}:{first + 1} does not say why a command is needed"
            assert "changed_when" in task or "creates" in task, f"{path.name}:{first + 1} has no changed_when"


def test_whose_mooncake_it_is_is_decided_in_one_place():
    """Written twice, what prepare.yml installs and what the masters and nodes of the pool run part one day."""
    decided = {
        path.name
        for path in (ROOT / "playbooks").rglob("*.yml")
        for line in path.read_text().splitlines()
        if "group_names" in line and "engine_mode | default" in line
    }
    assert decided == {"mooncake.yml"}


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda p: p.name)
def test_plays_that_ask_whose_mooncake_it_is_have_the_answer(path):
    asking = ("vars/master.yml", "vars/store.yml", "mooncake_of_its_own", "tasks/bundle.yml", "tasks/bundle_needs.yml")
    for play in plays(path):
        if any(one in str(play) for one in asking):
            assert "vars/mooncake.yml" in play["vars_files"], play["name"]
