# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What brings the values back at boot: a file for systemd-sysctl, and one for systemd-tmpfiles for those of /sys."""

from __future__ import annotations

import re
from typing import Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.tuning import spans, sysctls
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.values import AT_LEAST, UNION, Step, same
from ansible_collections.mooncake.pd.plugins.module_utils.unit_file import HEADER

TMPFILES = "/etc/tmpfiles.d/mooncake-pd-host.conf"
_SYSCTL = "/proc/sys/"
_POLICY = re.compile(r"policy\d+")  # one line for hundreds of CPUs


def sysctl_values(steps: Sequence[Step]) -> dict[str, str]:
    return {step.wish.name: step.boot for step in steps if step.boot is not None and step.wish.path.startswith(_SYSCTL)}


def sysctl_text(steps: Sequence[Step]) -> Optional[str]:
    rows = [f"{name} = {value}" for name, value in sysctl_values(steps).items()]
    return "\n".join([HEADER, *rows]) + "\n" if rows else None


def tmpfiles_text(steps: Sequence[Step]) -> Optional[str]:
    pairs = [
        (_POLICY.sub("policy*", step.wish.path), step.boot)
        for step in steps
        if step.boot is not None and not step.wish.path.startswith(_SYSCTL)
    ]
    rows = [f"w {path} - - - - {value}" for path, value in dict.fromkeys(pairs)]
    return "\n".join([HEADER, *rows]) + "\n" if rows else None


def problems(tree: Tree, steps: Sequence[Step]) -> list[str]:
    """Keys that a file read after ours sets to something that is not wanted."""
    rows = sysctls.with_ours(sysctls.assignments(tree, leave_out=[sysctls.FILE]), sysctl_values(steps))
    found = []
    for step in steps:
        wish = step.wish
        if not wish.path.startswith(_SYSCTL):
            continue
        last = sysctls.effective(rows, sysctls.key_path(wish.name))
        if last and last.value is not None and not _enough(step, last.value):
            wanted = step.boot or step.target
            found.append(
                f"{wish.name}: {last.where} sets it to {last.value} after {sysctls.FILE} at boot, and {wanted} is"
                f" wanted: change that line to `{wish.name} = {wanted}`, or take it away"
            )
    return found


def _enough(step: Step, value: str) -> bool:
    if step.wish.rule == AT_LEAST:
        return value.isdigit() and int(value) >= int(step.wish.value)
    if step.wish.rule == UNION:
        return not spans.without(spans.read(step.wish.value), spans.read(value))
    return same(value, step.wish.value)
