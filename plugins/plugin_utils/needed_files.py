# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and folders on a host that its processes rest on, as far as the topology names them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Process

# variable -> what a path in it is for
_NAMED = {"LD_PRELOAD": "preload", "LD_LIBRARY_PATH": "library", "MOONCAKE_CONFIG_PATH": "pool-config"}


def needed_files(model: str, processes: Sequence[Process]) -> list[dict[str, str]]:
    disks = {process.pool.disk.path: None for process in processes if process.pool and process.pool.disk}
    return [*_of_engines(model, processes), *({"path": path, "purpose": "ssd"} for path in disks)]


def mounts(model: str, processes: Sequence[Process]) -> dict[str, list[str]]:
    """What all engines of a host need of it in a container. What a single process needs besides is in its own unit."""
    engines = [process for process in processes if process.kind in ("prefill", "decode")]
    if not engines:
        return {"files": [], "folders": []}
    folders = {process.pool.disk.path: None for process in engines if process.pool and process.pool.disk}
    return {"files": [model, *(file["path"] for file in _of_engines(model, engines))], "folders": list(folders)}


def _of_engines(model: str, processes: Sequence[Process]) -> list[dict[str, str]]:
    engines = [process for process in processes if process.kind in ("prefill", "decode")]
    if not engines:
        return []
    found = {(f"{model}/config.json", "model"): None}
    for process in engines:
        written = {file.path for file in process.files}
        for name, purpose in _NAMED.items():
            found.update(((path, purpose), None) for path in _paths(process.environment, name) if path not in written)
    return [{"path": path, "purpose": purpose} for path, purpose in found]


def _paths(environment: Mapping[str, str], name: str) -> list[str]:
    """ld.so(8) takes spaces between libraries, too."""
    return [part for part in re.split(r"[:\s]+", environment.get(name, "")) if part.startswith("/")]
