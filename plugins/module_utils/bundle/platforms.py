# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What decides which wheels and packages fit a host: distribution, architecture, C library and Pythons."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Optional

# IDs of /etc/os-release; others are told by ID_LIKE
_FAMILIES = {
    "Debian": {"debian", "ubuntu"},
    "RedHat": {"rhel", "fedora", "centos", "openeuler", "euleros", "kylin", "anolis", "alinux", "rocky", "almalinux"},
}
# asked of each Python; nothing else of it is needed
ASK = "import platform; print(platform.python_version(), platform.libc_ver()[1])"


def os_release(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator:
            found[name.strip()] = value.strip().strip("\"'")
    return found


def family(identity: str, like: str = "") -> str:
    """The word of Ansible's os_family; empty when it is none that is known."""
    names = [identity, *like.split()]
    return next((one for name in names for one, known in _FAMILIES.items() if name.lower() in known), "")


def version_in(path: str) -> Optional[str]:
    """What the name of a Python says, for one that is yet to be installed."""
    match = re.search(r"python(3\.\d+)$", os.path.basename(path))
    return match.group(1) if match else None


def platform(
    release: Mapping[str, str], machine: str, pythons: Mapping[str, str], libc: Iterable[str]
) -> dict[str, object]:
    identity = release.get("ID", "").lower()
    return {
        "distribution": identity,
        "release": release.get("VERSION_ID", ""),
        "family": family(identity, release.get("ID_LIKE", "")),
        "architecture": machine,
        "glibc": next((version for version in libc if version), ""),
        "pythons": dict(pythons),
    }
