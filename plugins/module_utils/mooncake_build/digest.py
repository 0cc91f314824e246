# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What identifies a build, and what hosts must share to share its result."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Optional

_LAYOUT = 1  # of the archive; another one is another result
# of the environment, what compilers, linkers and CMake read
_VARIABLES = (
    *("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"),
    *("CMAKE_PREFIX_PATH", "PKG_CONFIG_PATH", "CGO_CFLAGS", "CGO_LDFLAGS", "GOFLAGS"),
)


def platform_key(distribution: Mapping[str, Any], cann_version: Optional[str], python: str, with_cann: bool) -> str:
    """python: its version, of which major and minor count."""
    cann = [f"cann{cann_version or '?'}"] if with_cann else []
    parts = [distribution["id"], distribution["version_id"], distribution["arch"], *cann, f"py{minor(python)}"]
    return "-".join(re.sub(r"[^\w.+?]+", "_", str(part)) for part in parts if part)


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def of(
    *,
    source: str,
    options: Mapping[str, str],
    key: str,
    cann: Optional[Mapping[str, Any]],
    compiler: Mapping[str, Any],
    prefix: str,
    yalantinglibs: str,
    environment: Mapping[str, str],
) -> str:
    text = json.dumps(
        {
            "layout": _LAYOUT,
            "source": source,
            "options": dict(options),
            "key": key,
            "cann": {name: cann[name] for name in ("path", "version")} if cann else None,
            "compiler": {name: compiler[name] for name in ("family", "version")},
            "prefix": prefix,
            "yalantinglibs": yalantinglibs,
            "environment": {name: environment[name] for name in _VARIABLES if environment.get(name)},
        },
        sort_keys=True,
    )
    return hashlib.sha256(text.encode()).hexdigest()
