# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keep an authority and the certificates of etcd's members on the controller."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.plugin_utils.pki import folder
from ansible_collections.mooncake.pd.plugins.plugin_utils.pki.certificates import PkiError

ARGUMENTS: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "cluster": {"type": "str", "required": True},
    "members": {"type": "dict", "required": True},
    "days": {"type": "int", "default": 365},
    "renew_days": {"type": "int", "default": 60},
    "used_authority": {"type": "str", "default": ""},
}


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENTS)
        home = Path(options["path"])
        if not home.is_absolute():
            raise AnsibleActionFail(f"path: {home} is not absolute, so it is another one in every folder.")
        if options["days"] <= options["renew_days"]:
            raise AnsibleActionFail("days: has to be more than renew_days, or every run would make new certificates.")
        try:
            wanted = folder.Folder(
                lambda name: self._read(home / name),
                options["cluster"],
                datetime.datetime.now(datetime.timezone.utc),
                options["days"],
                options["renew_days"],
                options["used_authority"],
            )
            wanted.want({str(name): str(address) for name, address in options["members"].items()})
            if not self._task.check_mode:
                folder.write(home, wanted.files)
        except PkiError as error:
            raise AnsibleActionFail(f"{home}: {error}") from None
        except OSError as error:
            raise AnsibleActionFail(f"{home} cannot be used: {error}. Mend: choose another etcd_secrets_dir.") from None
        said = "".join(f"{line}\n" for line in wanted.said)
        return {
            **result,
            "changed": bool(wanted.files),
            "files": sorted(wanted.files),
            "ends": wanted.ends,
            "diff": {"before": "", "after": said, "after_header": str(home)},
        }

    def _read(self, path: Path) -> str | None:
        """Vault is Ansible's matter: what it decrypts lies in a file of its own for a moment."""
        if not path.exists():
            return None
        try:
            real = self._loader.get_real_file(str(path))
        except AnsibleError as error:
            raise PkiError(f"{path.name} cannot be decrypted: {error}") from None
        try:
            return Path(real).read_text(encoding="utf-8")
        finally:
            self._loader.cleanup_tmp_file(real)
