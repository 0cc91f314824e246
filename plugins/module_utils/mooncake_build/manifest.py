# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an archive holds: its description, which lies in it and beside what was installed from it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.source_tree import file_hash

PATH = "share/mooncake-pd/mooncake.json"
MODES = ("0755", "0644")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class ManifestError(Exception):
    pass


def files_of(tree: str) -> list[dict[str, Any]]:
    """Every file and link below the folder, by path."""
    found: list[dict[str, Any]] = []
    for folder, folders, files in os.walk(tree):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*files, *links):
            full = os.path.join(folder, name)
            path = os.path.relpath(full, tree)
            if os.path.islink(full):
                found.append({"path": path, "target": os.readlink(full)})
                continue
            status = os.stat(full)
            mode = f"{status.st_mode & 0o777:04o}"
            found.append({"path": path, "sha256": file_hash(full), "mode": mode, "size": status.st_size})
    return sorted(found, key=lambda entry: str(entry["path"]))


def text(manifest: Mapping[str, Any]) -> str:
    return json.dumps(manifest, indent=1, sort_keys=True) + "\n"


def parse(content: str, where: str) -> dict[str, Any]:
    """A manifest whose paths lead nowhere outside."""
    try:
        manifest = json.loads(content)
        files = manifest["files"]
        wrong = [entry for entry in files if not _is_entry(entry)]
    except (ValueError, KeyError, TypeError) as error:
        raise ManifestError(f"{where} is no manifest of mooncake.pd") from error
    if wrong:
        paths = ", ".join(str(entry.get("path")) for entry in wrong[:5])
        raise ManifestError(f"{where} lists what it must not: {paths}")
    return dict(manifest)


def _is_entry(entry: Mapping[str, Any]) -> bool:
    if not inside(entry["path"]):
        return False
    if "target" in entry:
        return inside(os.path.join(os.path.dirname(entry["path"]), entry["target"]))
    return entry["mode"] in MODES and bool(_SHA256.match(entry["sha256"]))


def inside(path: str) -> bool:
    normal = os.path.normpath(path)
    return bool(path) and not os.path.isabs(path) and normal not in ("..", ".") and not normal.startswith("../")


def summary(files: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """One line for each file."""
    return {
        str(entry["path"]): f"-> {entry['target']}" if "target" in entry else f"{entry['mode']} {entry['sha256'][:12]}"
        for entry in files
    }
