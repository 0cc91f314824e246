# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every role is a typed function: what is documented is what is there, with the same default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ROLES = sorted(p.name for p in (ROOT / "roles").iterdir() if p.is_dir())


def load(path: Path) -> dict:
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def specs(role: str) -> dict:
    return load(ROOT / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]


def options(role: str) -> dict:
    return {name: option for entry in specs(role).values() for name, option in entry.get("options", {}).items()}


def defaults(role: str) -> dict:
    return load(ROOT / "roles" / role / "defaults" / "main.yml") or {}


@pytest.mark.parametrize("role", ROLES)
def test_documented_options_and_defaults_are_the_same(role):
    optional = {name for name, option in options(role).items() if not option.get("required")}
    documented = {name for name in optional if "default" in options(role)[name]}
    assert set(defaults(role)) <= optional
    assert documented == set(defaults(role))


@pytest.mark.parametrize("role", ROLES)
def test_default_values_are_the_same(role):
    computed = {name for name, value in defaults(role).items() if isinstance(value, str) and "{{" in value}
    values = {name: value for name, value in defaults(role).items() if name not in computed}
    assert values == {name: options(role)[name]["default"] for name in values}


@pytest.mark.parametrize("role", ROLES)
def test_every_entry_point_is_documented_and_has_tasks(role):
    for entry, spec in specs(role).items():
        assert spec["short_description"]
        assert spec["description"]
        assert (ROOT / "roles" / role / "tasks" / f"{entry}.yml").exists()


@pytest.mark.parametrize("role", ROLES)
def test_variables_bear_the_roles_name(role):
    names = set(options(role)) | set(load(ROOT / "roles" / role / "vars" / "main.yml"))
    assert [n for n in names if not re.match(rf"(__)?{role}_", n)] == []


@pytest.mark.parametrize("role", ROLES)
def test_readme_names_every_option(role):
    text = (ROOT / "roles" / role / "README.md").read_text()
    assert [name for name in options(role) if f"`{name}`" not in text] == []
