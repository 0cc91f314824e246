# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.action import transfer_proof, transport_report
from ansible_collections.mooncake.pd.plugins.modules import transport_report as manual
from ansible_collections.mooncake.pd.tests.unit.plugins.action.stubs import Hostvars, Task


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    told: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(transport_report.display, "display", lambda text, color=None: told.append(text))
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    return told


RESULT = {"peer": "d1", "protocol": "tcp", "rule": "", "problem": "", "host": "", "segment": "x", "installed": "tcp"}
RESULT = {**RESULT, "registered": 5, "bytes": 1000, "read": 0.5, "write": 0.25, "written": "abc"}
PROVEN = {"proof": {"results": [RESULT]}}
WITNESS = {"witness": {"tcp": {"received": {"p1": "abc"}, "ended": ""}}}


def run(
    proven: Any = PROVEN, witness: Any = WITNESS, check: bool = False, lost: Any = (), **args: Any
) -> dict[str, Any]:
    action = transport_report.ActionModule.__new__(transport_report.ActionModule)
    action._task = Task("transport_report", {"cluster": "my lab", "protocols": ["tcp"], **args}, check)
    action._load_name = "mooncake.pd.transport_report"
    hostvars = Hostvars(
        {
            "p1": {"__transport_peers": ["d1"], "__transport_proven": proven},
            "d1": {"__transport_peers": [], "__transport_witness": witness},
            "other": {},
            **{name: {} for name in lost},
        }
    )
    return action.run(task_vars={"hostvars": hostvars, "ansible_play_hosts_all": ["p1", "d1", *lost]})


def test_proven(shown: list[str], tmp_path: Path) -> None:
    told = run()
    assert (told["changed"], "failed" in told) == (False, False)
    written = tmp_path / "transport/my-lab/transport.json"
    assert json.loads(written.read_text())["proven"] is True
    assert told["files"] == [{"path": str(written), "changed": True}]
    assert shown[0] == "transport of my lab: tcp 1 of 1 pairs proven"
    assert any(line.startswith("p1-d1  tcp") and line.endswith("proven") for line in shown)


def test_host_that_was_lost_before_its_first_task(shown: list[str], tmp_path: Path) -> None:
    told = run(lost=["p2"])
    assert told["failed"]
    assert [row["pair"] for row in told["rows"] if row["rule"]] == ["p2-?"]
    assert "p2: nothing was proven from here" in told["msg"]


def test_not_proven(shown: list[str], tmp_path: Path) -> None:
    told = run(witness={"failed": True, "msg": "cannot be\nstopped"})
    assert told["failed"]
    assert told["msg"] == (
        "transport of my lab: tcp 0 of 1 pairs proven: [unknown] d1: did not tell what has arrived there."
    )
    assert any(line.startswith("  Mend: ") for line in shown)
    assert json.loads((tmp_path / "transport/my-lab/transport.json").read_text())["proven"] is False
    told = run(proven={"unreachable": True, "msg": "no\nroute"}, dest=str(tmp_path / "x"))
    assert "[lost] p1: nothing was proven from here: no route" in told["msg"]
    assert (tmp_path / "x/transport.json").exists()


def test_check_mode(shown: list[str], tmp_path: Path) -> None:
    assert run(check=True)["skipped"]
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_used(shown: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AnsibleActionFail, match="dest"):
        run(dest=str(tmp_path / "file"))


def test_arguments_are_those_of_the_manual() -> None:
    assert set(yaml.safe_load(manual.DOCUMENTATION)["options"]) == set(transport_report.ARGUMENTS)


def test_offers_of_the_peers_and_the_own_one_go_to_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    monkeypatch.setattr(
        ActionBase, "_execute_module", lambda self, module_name, module_args, task_vars: given.update(module_args) or {}
    )
    action = transfer_proof.ActionModule.__new__(transfer_proof.ActionModule)
    action._task = Task("transfer_proof", {"name": "p1", "peers": ["d1", "d2", "gone"]}, False)
    tcp = {"rule": "", "slots": {"p1": 1, "p2": 2}}
    offers = {
        "p1": {"address": "a"},
        "d1": {"protocols": {"tcp": tcp, "rdma": {"rule": "ports"}}},
        "d3": {},
    }
    hostvars = Hostvars({name: {"__transport_offered": {"offer": offer}} for name, offer in offers.items()})
    dict.__setitem__(hostvars, "d2", {"__transport_offered": {"failed": True}})
    action.run(task_vars={"hostvars": hostvars})
    assert given["offers"] == {
        "d1": {"protocols": {"tcp": {"rule": "", "slots": {"p1": 1}}, "rdma": {"rule": "ports"}}},
        "p1": {"address": "a", "protocols": {}},
    }
