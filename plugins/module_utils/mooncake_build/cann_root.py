# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The root of CANN that a build is to use, and whether it has what Mooncake looks for."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from typing import Any, Optional

from ansible_collections.mooncake.pd.plugins.module_utils import cann

# mooncake-common/common.cmake and src/transport/ascend_transport/CMakeLists.txt of Mooncake v0.3.12: it takes
# <root>/<arch>-linux, and goes on with a warning when a file is not there
_HEADERS = ("acl/acl_rt.h",)
_LIBRARIES = ("libascendcl.so", "libllm_datadist.so")
_EITHER = (("libmetadef.so",), ("libgraph_base.so", "libgraph.so"))
_DRIVER = ("driver/lib64", "driver/lib64/common", "driver/lib64/driver")


def _number(path: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", os.path.basename(path))))


def candidates(environment: Mapping[str, str], home: str = cann.HOME) -> list[str]:
    versions = sorted(glob.glob(f"{glob.escape(home)}/cann-*"), key=_number, reverse=True)
    named = [environment["ASCEND_HOME_PATH"]] if environment.get("ASCEND_HOME_PATH") else []
    return [*named, f"{home}/cann", f"{home}/ascend-toolkit/latest", *versions]


def find(path: Optional[str], environment: Mapping[str, str], home: str = cann.HOME) -> Optional[str]:
    """The root; the one that is named even when it is not there."""
    if path:
        return os.path.normpath(path)
    found = next((folder for folder in candidates(environment, home) if os.path.isdir(folder)), None)
    return os.path.normpath(found) if found else None


def missing(root: str, arch: str) -> list[str]:
    """Paths below the root."""
    inner = f"{arch}-linux"
    absent = [
        path
        for path in (
            *(f"{inner}/include/{name}" for name in _HEADERS),
            *(f"{inner}/lib64/{name}" for name in _LIBRARIES),
        )
        if not os.path.isfile(os.path.join(root, path))
    ]
    if not any(all(os.path.isfile(f"{root}/{inner}/lib64/{name}") for name in names) for names in _EITHER):
        absent.append(f"{inner}/lib64/{_EITHER[0][0]}")
    return absent


def version(root: str) -> Optional[str]:
    real = os.path.realpath(root)
    for folder in (real, *sorted(glob.glob(f"{glob.escape(real)}/*-linux"))):
        for package in cann.packages(cann.Files(), folder, set()):
            if package["version"]:
                return str(package["version"])
    return None


def look(path: Optional[str], environment: Mapping[str, str], arch: str) -> Optional[dict[str, Any]]:
    root = find(path, environment)
    if root is None or not os.path.isdir(root):
        return None
    return {"path": root, "version": version(root), "missing": missing(root, arch)}


def library_folders(root: str, arch: str, home: str = cann.HOME) -> list[str]:
    """Where the linker finds what CANN's own libraries need. devlib stands in for a driver that is not there."""
    places = [f"{root}/{arch}-linux/lib64", f"{root}/lib64", *(f"{home}/{name}" for name in _DRIVER)]
    return [place for place in (*places, f"{root}/{arch}-linux/devlib") if os.path.isdir(place)]
