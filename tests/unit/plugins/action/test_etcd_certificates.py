# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.constants import DEFAULT_VAULT_IDENTITY
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultLib, VaultSecret
from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.action import etcd_certificates
from ansible_collections.mooncake.pd.plugins.modules import etcd_certificates as manual

MEMBERS = {"a": "192.0.2.11", "b": "192.0.2.12"}
SECRETS = [(DEFAULT_VAULT_IDENTITY, VaultSecret(b"word"))]


class Task:
    action = "mooncake.pd.etcd_certificates"

    def __init__(self, args: dict[str, Any], check: bool) -> None:
        self.args, self.check_mode, self.diff = args, check, False


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})


def run(path: Path, *, check: bool = False, secrets: list[Any] | None = None, **args: Any) -> dict[str, Any]:
    action = etcd_certificates.ActionModule.__new__(etcd_certificates.ActionModule)
    action._task = Task({"path": str(path), "cluster": "lab", "members": MEMBERS, **args}, check)
    action._load_name = Task.action
    action._loader = DataLoader()
    action._loader.set_vault_secrets(secrets or [])
    result: dict[str, Any] = action.run(task_vars={})
    return result


def test_the_manual_has_the_options() -> None:
    options = yaml.safe_load(manual.DOCUMENTATION)["options"]
    assert set(options) == set(etcd_certificates.ARGUMENTS)
    for name, spec in etcd_certificates.ARGUMENTS.items():
        assert {key: options[name][key] for key in spec} == spec


def test_made_once_and_only_told_in_check_mode(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "etcd"
    told = run(home, check=True)
    assert (told["changed"], home.exists()) == (True, False)
    made = run(home)
    assert made["files"] == told["files"] == ["a.crt", "a.key", "b.crt", "b.key", "ca.crt", "ca.key"]
    assert "PRIVATE" not in str(made)
    assert made["diff"]["after"] == "ca.crt: it is missing\na.crt: it is missing\nb.crt: it is missing\n"
    again = run(home)
    assert (again["changed"], again["ends"]) == (False, made["ends"])


def test_keys_may_be_encrypted(tmp_path: Path) -> None:
    run(tmp_path)
    for name in ("ca.key", "a.key"):
        path = tmp_path / name
        path.write_bytes(VaultLib(SECRETS).encrypt(path.read_text(), SECRETS[0][1]))
    encrypted = (tmp_path / "a.key").read_text()
    renewed = run(tmp_path, secrets=SECRETS, days=800, renew_days=700)
    assert renewed["files"] == ["a.crt", "b.crt"]
    assert (tmp_path / "a.key").read_text() == encrypted
    with pytest.raises(AnsibleActionFail, match=r"a\.key cannot be decrypted"):
        run(tmp_path)


def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(AnsibleActionFail, match="not absolute"):
        run(Path("here"))
    with pytest.raises(AnsibleActionFail, match="more than renew_days"):
        run(tmp_path, days=60)
    run(tmp_path)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(AnsibleActionFail, match=r"ca\.key is missing beside ca\.crt"):
        run(tmp_path, members={"c": "192.0.2.13"})
    (tmp_path / "file").write_text("")
    with pytest.raises(AnsibleActionFail, match="cannot be used"):
        run(tmp_path / "file" / "below")
