# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection as users install it: only meta, plugins, roles and playbooks, no ansible.cfg of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import INVENTORY, ROOT, Lab


def plain() -> dict[str, str]:
    """The environment without anything that leads to this checkout."""
    return {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_") and k != "PYTHONPATH"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Build and install the collection, cut it down to what it may need; returns an environment that finds it."""
    work = tmp_path_factory.mktemp("installed")
    target = work / "collections"
    env = {**plain(), "ANSIBLE_COLLECTIONS_PATH": str(target), "ANSIBLE_PIPELINING": "1", "HOME": str(work)}
    for words in (["build", ROOT], ["install", "--offline", "-p", target, "mooncake-pd-0.1.0.tar.gz"]):
        subprocess.run(["ansible-galaxy", "collection", *words], cwd=work, env=env, check=True)
    home = target / "ansible_collections/mooncake/pd"
    for path in home.iterdir():
        if path.name not in ("meta", "plugins", "roles", "playbooks", "MANIFEST.json", "FILES.json"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return env


def run(env: dict[str, str], cwd: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def test_site_by_name_from_anywhere(service: Lab, installed: dict[str, str], tmp_path: Path) -> None:
    done = run(installed, tmp_path, "ansible-playbook", "mooncake.pd.site", "-i", str(INVENTORY), "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=0" in done.stdout


def test_unplanned_topology_stops_the_run(installed: dict[str, str], tmp_path: Path) -> None:
    """Without our ansible.cfg a broken inventory is only a warning to Ansible; the play has to stop by itself."""
    (tmp_path / "topology.yml").write_text("plugin: mooncake.pd.topology\nname: x\n")
    done = run(installed, tmp_path, "ansible-playbook", "mooncake.pd.site", "-i", "topology.yml")
    assert done.returncode != 0
    assert "The inventory gives no host in group pd" in done.stdout
    assert "hosts" in done.stderr + done.stdout


def test_plain_clone_in_a_folder_of_any_name(service: Lab, tmp_path: Path) -> None:
    clone = tmp_path / "some other name"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    done = run(plain(), clone, "ansible-playbook", "site.yml", "-i", str(INVENTORY), "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=0" in done.stdout
