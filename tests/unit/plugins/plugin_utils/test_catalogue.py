# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue names every rule, and every rule is seen to fail."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.rules.catalogue import RULES
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils import test_schema
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.faults import FAULTS

PLANNER = Path(__file__).parents[4] / "plugins" / "plugin_utils"


def _text(node):
    return node.value if isinstance(node, ast.Constant) else None


def _texts(node):
    """A text, or both of `one if ... else other`."""
    return [_text(node.body), _text(node.orelse)] if isinstance(node, ast.IfExp) else [_text(node)]


def reported():
    """(rule, severity) of every call that reports, where both are written out."""
    found = set()
    for path in PLANNER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name == "Finding" or (name in ("error", "warning") and len(node.args) == 4):
                severity = name if name != "Finding" else _text(node.args[1])
                found |= {(rule, severity) for rule in _texts(node.args[0])}
    return found


def test_every_rule_that_is_reported_is_in_the_catalogue_as_it_is_reported():
    for rule, severity in reported():
        if rule is not None:
            assert rule in RULES
            assert RULES[rule].varies or severity in (RULES[rule].severity, None), rule


def test_every_rule_is_seen_to_fail():
    of_the_schema = {case.args[0][2] if hasattr(case, "args") else case[2] for case in test_schema.CASES}
    seen = {expected[0] for _make, _change, expected in FAULTS.values()} | of_the_schema
    assert set(RULES) - seen == {"yaml-duplicate-key"}  # test_lines.py and the inventory's tests


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_says_what_has_to_hold(rule):
    about = RULES[rule].about
    assert about[0].islower()
    assert not about.endswith(".")
