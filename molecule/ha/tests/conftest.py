# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients that ask and a client of the pool, beside whatever a test does."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import testinfra
import yaml

# the load that judges its answers is a part of the collection's tests, and found by the collection's name
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3] / ".collections")]

from parts import ADDRESSES, ROUTER, PoolClient

from ansible_collections.mooncake.pd.tests.load.judge import OK
from ansible_collections.mooncake.pd.tests.load.witness import Witness

# Only whole blocks of 128 tokens go into the pool, so prompts have one at least; the cache of p1 has room for a part.
LOAD = {"clients": 2, "pause": 0.2, "cancelled": 0.0, "words": (90, 200), "patience": 120.0}


@pytest.fixture(scope="session")
def pool_client():
    host = testinfra.get_host("podman://mooncake-pd-molecule-ha-mo-b")
    client = PoolClient(host, ADDRESSES["mo-b"])
    yield client
    client.stop()


@pytest.fixture
def clients():
    """They ask during a test."""
    with Witness(ROUTER, **LOAD) as found:
        found.wait("answers", lambda report: report.counts[OK] >= 40, 120)
        yield found
    print(found.report)


class Inventory:
    """A copy of the scenario's, as an operator has it, who changes it now and then."""

    def __init__(self, source: Path, path: Path) -> None:
        self.path = path
        shutil.copytree(source, path)

    def topology(self, edit) -> Inventory:
        self._change("topology.yml", edit)
        return self

    def variables(self, **changes) -> Inventory:
        self._change("group_vars/all.yml", lambda found: found.update(changes))
        return self

    def _change(self, name: str, edit) -> None:
        content = yaml.safe_load((self.path / name).read_text())
        edit(content)
        (self.path / name).write_text(yaml.safe_dump(content))


SCENARIO = Path(__file__).parents[1] / "inventory"


@pytest.fixture(scope="session")
def inventory(tmp_path_factory):
    """What is changed here stays."""
    return Inventory(SCENARIO, tmp_path_factory.mktemp("operator") / "inventory")


@pytest.fixture
def other_inventory(tmp_path):
    return Inventory(SCENARIO, tmp_path / "inventory")


@pytest.fixture
def play(scenario, inventory):
    """A playbook that ends as it has to."""

    def run(name: str, *options: str, rc: int = 0, other: Inventory | None = None) -> str:
        done = scenario.play(name, *options, inventory=(other or inventory).path)
        assert done.rc == rc, done.output
        print(f"{name}: {done.seconds:.0f} s")
        return done.text

    return run
