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
TASK_FILES = sorted((ROOT / "roles").glob("*/tasks/*.yml")) + sorted((ROOT / "roles").glob("*/handlers/*.yml"))


def plays(path: Path) -> list[dict]:
    return [play for play in yaml.safe_load(path.read_text()) if "hosts" in play]


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda p: p.name)
def test_a_failed_host_stops_the_play(path):
    """Half a cluster must never be started, and a roll must stop at its first failure."""
    for play in plays(path):
        if play["hosts"] != "localhost":
            assert play.get("any_errors_fatal") is True or "max_fail_percentage" in play, play["name"]


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
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.strip() in ("ansible.builtin.command:", "ansible.builtin.shell:"):
            block = "\n".join(lines[max(0, number - 3) : number + 14])
            assert "#" in block, f"{path.name}:{number + 1} does not say why a command is needed"
            assert "changed_when" in block, f"{path.name}:{number + 1} has no changed_when"
