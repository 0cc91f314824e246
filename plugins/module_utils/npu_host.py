# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a host has the NPUs' device nodes and tools."""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
from collections.abc import Iterable
from typing import Any, Optional

TOOL_FOLDERS = ("/usr/local/bin", "/usr/local/sbin", "/usr/local/Ascend/driver/tools")
_NODES = {"manager": "davinci_manager", "devmm_svm": "devmm_svm", "hisi_hdc": "hisi_hdc"}


def tool(name: str, folders: Iterable[str] = TOOL_FOLDERS) -> Optional[str]:
    for folder in (*os.environ.get("PATH", "").split(":"), *folders):
        path = os.path.join(folder, name)
        if os.path.isabs(path) and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def chips(dev: str = "/dev") -> list[int]:
    """N of /dev/davinciN"""
    found = (re.fullmatch(r"davinci([0-9]+)", name) for name in os.listdir(dev))
    return sorted(int(match[1]) for match in found if match)


def devices(dev: str = "/dev") -> dict[str, Any]:
    numbers = chips(dev)
    nodes = {key: _node(os.path.join(dev, name)) for key, name in _NODES.items()}
    owners = [_node(os.path.join(dev, f"davinci{number}")) for number in numbers]
    groups = sorted({node["group"] for node in (*owners, *nodes.values()) if node["group"]})
    group = groups[0] if len(groups) == 1 else None
    return {"davinci": numbers, **nodes, "group": group, "members": _members(group)}


def _node(path: str) -> dict[str, Any]:
    try:
        found = os.stat(path)
    except OSError:
        return {"path": path, "exists": False, "mode": None, "owner": None, "group": None}
    return {
        "path": path,
        "exists": True,
        "mode": f"{stat.S_IMODE(found.st_mode):04o}",
        "owner": _name(pwd.getpwuid, found.st_uid),
        "group": _name(grp.getgrgid, found.st_gid),
    }


def _name(look: Any, number: int) -> str:
    try:
        return str(look(number)[0])
    except KeyError:
        return str(number)


def _members(group: Optional[str]) -> Optional[list[str]]:
    """Local users of a group."""
    try:
        known = grp.getgrnam(group or "")
    except KeyError:
        return None
    primary = [user.pw_name for user in pwd.getpwall() if user.pw_gid == known.gr_gid]
    return sorted({*known.gr_mem, *primary})
