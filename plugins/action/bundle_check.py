# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look whether a bundle is whole and has what the hosts of the play need; once, on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle import needs
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.jobs import Job
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.manifest import Manifest, ManifestError

ARGUMENTS: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "command": {"type": "str", "default": "ansible-playbook playbooks/bundle.yml -i INVENTORY"},
}
# what the controller's tasks take from the controller; the rest is copied to the hosts
_STAYS = ("source", "image")


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENTS)
        home = Path(options["path"]).absolute()
        hosts = [host for host in task_vars["ansible_play_hosts"] if host]
        jobs, platforms, problems = needs.of_hosts(hosts, task_vars["hostvars"])
        try:
            manifest = Manifest.read(home)
        except ManifestError as error:
            raise AnsibleActionFail(str(error)) from None
        damaged = manifest.problems(home)
        problems += [f"{home}/{name} {problem}" for name, problem in damaged.items()]
        lacking = [
            f"it lacks, for {', '.join(asking)}: {job.what}"
            for key, (job, asking) in needs.together(jobs).items()
            if key not in manifest.jobs
        ]
        if damaged:
            problems.append("Mend: carry these files over again, or mend the bundle where it was made, as below.")
        if problems or lacking:
            command = f"{options['command']} -e bundle_path=FOLDER"
            mend = f"Mend: on the connected machine: {command}, then carry the folder over again."
            lines = [f"The bundle {home} cannot serve these hosts; nothing was changed.", *problems, *lacking, mend]
            raise AnsibleActionFail("\n".join(lines))
        told = {host: _of_host(home, manifest, own, platforms[host]) for host, own in jobs.items()}
        return {**result, "changed": False, "hosts": told}


def _of_host(home: Path, manifest: Manifest, jobs: list[Job], platform: dict[str, Any]) -> dict[str, Any]:
    copied = [job for job in jobs if job.kind not in _STAYS]
    files = {name: file["sha256"] for name, file in manifest.files(job.key for job in copied).items()}
    stay = {job.label if job.kind == "source" else "image": job for job in jobs if job.kind in _STAYS}
    return {
        "files": files,
        "wheels": [job.folder for job in copied if job.kind == "wheels"],
        "packages": next((job.folder for job in copied if job.kind == "packages"), ""),
        "family": platform["family"],
        "controller_files": {
            name: str(home / job.folder / next(iter(manifest.jobs[job.key]["files"]))) for name, job in stay.items()
        },
    }
