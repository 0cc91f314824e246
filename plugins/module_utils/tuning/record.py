# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stood before we changed it, so that it can be put back. Only root may have written it: it is obeyed later."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from typing import Any

from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree

FILE = "/var/lib/mooncake-pd-host/tuning.json"


class RecordError(ValueError):
    """A record that must not be believed."""


Entries = dict[str, dict[str, Any]]


def load(tree: Tree) -> Entries:
    full = tree.at(FILE)
    for path in (os.path.dirname(full), full):
        if os.path.lexists(path):
            state = os.lstat(path)
            if stat.S_ISLNK(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
                raise RecordError(f"{path} is a link or may be written by others than root: remove it after a look")
    try:
        content = json.loads(tree.read(FILE) or "{}")
    except ValueError as error:
        raise RecordError(f"{full} cannot be read ({error}): move it away; what it knew stays as it is") from error
    entries = content.get("values", {}) if isinstance(content, dict) else None
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise RecordError(f"{full} is none of ours: move it away; what it knew stays as it is")
    return entries


def save(tree: Tree, entries: Entries) -> None:
    if entries:
        os.makedirs(os.path.dirname(tree.at(FILE)), mode=0o755, exist_ok=True)
        tree.put(FILE, json.dumps({"values": entries}, indent=1, sort_keys=True) + "\n", 0o600)
        return
    tree.put(FILE, None)
    with contextlib.suppress(OSError):  # not there, or somebody else's things lie in it
        os.rmdir(os.path.dirname(tree.at(FILE)))
