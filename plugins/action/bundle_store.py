# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the files of a bundle to a host: what it lacks, by sftp as large files and as archives of small ones."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

MODULE = "mooncake.pd.bundle_store"
# A transfer costs a third of a second; packing costs room on the controller, for every host at the same time.
LARGE = 16 << 20
# what lies twice on the host for a moment
BATCH = 256 << 20


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False  # it makes a place of its own when something is to be transferred

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        home = Path(str(self._task.args.get("bundle", "")))
        found = self._step("look", task_vars)
        if found.get("failed"):
            return {**result, **found}
        missing, strange = found["missing"], found["strange"]
        result.update(changed=not found["ready"], missing=missing, strange=strange, ready=found["ready"])
        if self._task.diff:
            result["diff"] = {"before": _lines(strange), "after": _lines(missing)}
        if found["ready"] or self._task.check_mode:
            return result
        sizes = {name: (home / name).stat().st_size for name in missing}
        needed = sum(sizes.values())
        if needed > found["free"]:
            raise AnsibleActionFail(
                f"{self._task.args['path']} has {found['free'] / 1e9:.1f} GB left, the bundle needs {needed / 1e9:.1f}."
                " Mend: make room, or name another folder in bundle_store."
            )
        parts = list(batches(sizes)) or [[]]
        for number, names in enumerate(parts, 1):
            answer = self._bring(home, names, sizes, number == len(parts), task_vars)
            if answer.get("failed"):
                return {**result, **answer}
        return {**result, "ready": True}

    def _step(self, state: str, task_vars: dict[str, Any], **more: Any) -> dict[str, Any]:
        arguments = {**self._task.args, "state": state, **more}
        answer: dict[str, Any] = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
        return answer

    def _bring(
        self, home: Path, names: list[str], sizes: Mapping[str, int], last: bool, task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        remote = self._make_tmp_path()
        arrived: dict[str, str] = {}
        small = [name for name in names if sizes[name] < LARGE]
        try:
            for number, name in enumerate(names):
                if sizes[name] >= LARGE:
                    arrived[name] = self._connection._shell.join_path(remote, str(number))
                    self._transfer_file(str(home / name), arrived[name])
            if small:
                arrived[""] = self._connection._shell.join_path(remote, "small")
                with tempfile.TemporaryDirectory() as folder:
                    packed = os.path.join(folder, "small")
                    with tarfile.open(packed, "w") as archive:
                        for name in small:
                            archive.add(home / name, name)
                    self._transfer_file(packed, arrived[""])
            checksums = {name: self._task.args["files"][name] for name in small}
            return self._step("take", task_vars, arrived=arrived, packed=checksums, complete=last)
        finally:
            self._remove_tmp_path(remote, force=True)


def batches(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Names in the order they have, up to BATCH bytes at once."""
    batch: list[str] = []
    total = 0
    for name, size in sizes.items():
        if batch and total + size > BATCH:
            yield batch
            batch, total = [], 0
        batch.append(name)
        total += size
    if batch:
        yield batch


def _lines(names: list[str]) -> str:
    return "".join(f"{name}\n" for name in names)
