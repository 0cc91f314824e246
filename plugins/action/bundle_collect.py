# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect what the hosts of the inventory need into one folder, on the controller."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.release import __version__ as ansible_version
from ansible.utils.display import Display

from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle import needs
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.collect import Bundle, Settings, collection_job
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.jobs import Job, NeedError, jobs_of, platform_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.manifest import ManifestError
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.packages import own_release
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.run import CollectError

ARGUMENTS: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "controller": {"type": "dict", "default": {}},
    "pip_args": {"type": "list", "elements": "str", "default": []},
    "package_sources": {"type": "path", "default": ""},
    "refresh": {"type": "bool", "default": False},
}

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENTS)
        own, _platforms, problems = needs.of_hosts(options["hosts"], task_vars["hostvars"])
        jobs = [job for job, _hosts in needs.together(own).values()]
        try:
            jobs += _controller(options["controller"])
            if problems:
                raise AnsibleActionFail("\n".join(problems))
            settings = Settings(tuple(options["pip_args"]), options["package_sources"], options["refresh"])
            bundle = Bundle(Path(options["path"]).absolute(), [*jobs, collection_job()], settings)
            outcome = bundle.outcome_to_come() if self._task.check_mode else bundle.fill(display.display)
        except (NeedError, ManifestError, CollectError, OSError) as error:
            raise AnsibleActionFail(str(error)) from None
        for line in outcome.errors:
            display.warning(line)
        files = bundle.manifest.files()
        result.update(
            changed=outcome.changed,
            path=str(bundle.home),
            collected=outcome.collected,
            mended=outcome.mended,
            removed=outcome.removed,
            count=len(files),
            size=sum(file["size"] for file in files.values()),
        )
        if outcome.errors:
            mend = "What came is kept: mend the above and run again."
            result.update(failed=True, msg="\n".join([*outcome.errors, mend]))
        return result


def _controller(described: dict[str, Any]) -> list[Job]:
    """Ansible itself, for a controller at the closed site: like this one unless it is described."""
    distribution, _dash, release = own_release().partition("-")
    target = described or {
        "distribution": distribution,
        "release": release,
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "glibc": platform.libc_ver()[1],
        # its packages are nobody's concern
        "family": "Debian",
    }
    need = {
        "kind": "wheels",
        "name": "controller",
        "python": sys.executable,
        "requirements": [f"ansible-core=={ansible_version}"],
    }
    return jobs_of([need], platform_of(target, "bundle_controller_target"), "the controller")
