# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site without a network: a bundle is collected, and a host that has no way out gets everything from it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import CACHE, Lab, Play, Runner

SITE = Path(__file__).parent / "bundle"
HOST = "bd-1"
# what must not change: the host's own settings of its package managers
SETTINGS = "find /etc/apt /etc/pip.conf /root/.config/pip -type f -exec sha256sum {} + 2>/dev/null | sort"


@pytest.fixture(scope="module")
def closed() -> Iterator[Lab]:
    """A host with a model and nothing else: no engine, no packages to install, no route."""
    lab = Lab("bundle")
    lab.tool("down", lab.name)
    lab.tool("up", lab.name, "--inventory", str(SITE), "--mount", str(CACHE / "model"))
    lab.shell(HOST, "rm -r /var/lib/lab-packages")
    assert "default" not in lab.exec(HOST, "ip", "route")
    yield lab
    lab.tool("down", lab.name)


@pytest.fixture(scope="module")
def run(play: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Run a playbook with the bundle, which is in `.home` and too large to be left behind."""
    home = tmp_path_factory.mktemp("bundle") / "files"

    def started(playbook: str, **settings: Any) -> Play:
        written = {f"{kind}_dest": str(home.parent / kind) for kind in ("preflight", "passport")}
        return play(playbook, inventory=SITE, extravars={"bundle_path": str(home), **written, **settings})

    started.home = home  # type: ignore[attr-defined]
    yield started
    shutil.rmtree(home, ignore_errors=True)


def test_a_host_that_does_not_answer_is_told(run: Any) -> None:
    """Ansible ignores it, so that all are told at once; that must not end in a success that has collected nothing."""
    done = run("playbooks/bundle.yml", ansible_host="127.0.0.1", ansible_port=1)
    assert done.rc != 0
    assert f"{HOST}: it did not answer" in done.message
    assert "bundle_target" in done.message
    assert not run.home.exists()


def test_the_whole_service_out_of_a_folder(closed: Lab, run: Any) -> None:
    settings = closed.shell(HOST, SETTINGS)
    # ---- collected once
    first = run("playbooks/bundle.yml")
    assert first.rc == 0, first.stdout
    assert first.changes() == [f"{HOST}: Collect"]
    kinds = {path.name.split("-debian")[0] for path in run.home.glob("*/*")}
    assert {"engine", "mooncake", "router", "controller"} < kinds

    # ---- what is damaged and what is lacking is one error, before anything is changed
    harmed = next(run.home.glob("wheels/controller-*/ansible_core-*"))
    harmed.write_bytes(harmed.read_bytes()[:-1] + b"x")
    refused = run("playbooks/prepare.yml", router_version="0.0.1")
    assert refused.rc != 0
    assert f"{harmed.name} is damaged" in refused.message
    assert f"it lacks, for {HOST}: wheels router-debian-12-x86_64-py3.11: vllm-router==0.0.1" in refused.message
    assert "playbooks/bundle.yml" in refused.message
    assert refused.changes() == []

    # ---- mended, and nothing else is asked for
    mended = run("playbooks/bundle.yml").result("mooncake.pd.bundle_collect")
    assert mended["mended"] == [f"{harmed.relative_to(run.home)} is damaged"]
    # the collection itself is another one when its files were edited meanwhile
    assert [what for what in mended["collected"] + mended["removed"] if not what.startswith("collection")] == []

    # ---- used: its last step is the proof that KV moved
    site = run("site.yml")
    assert site.rc == 0, site.stdout
    assert "0 recomputed" in site.stdout
    assert run("site.yml").changes() == []
    assert closed.shell(HOST, SETTINGS) == settings
    assert closed.shell(HOST, "ls /home/ansible/.ansible/tmp") == ""
