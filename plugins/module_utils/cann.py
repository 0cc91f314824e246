# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of Ascend's software is installed, by the files that its installers leave."""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Optional

HOME = "/usr/local/Ascend"
# ascend-toolkit/<version> up to CANN 8.3, cann-<version> since 8.5; links such as `latest` lead to the same folders
_FOLDERS = ("ascend-toolkit/*", "cann", "cann-*", "nnae/*", "nnal/atb/*", "nnal/*", "latest")
_RUNNING = re.compile(r"(?m)^(?:toolkit|runtime)_(?:running|installed)_version=\[[^\]:]*:([^\]]+)\]")


class Files:
    """The files of a host below a folder, which only tests change."""

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def real(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def told(self, path: str) -> str:
        """The path as the host knows it."""
        return path if self.root == "/" else "/" + os.path.relpath(path, os.path.realpath(self.root))

    def read(self, path: str) -> str:
        """The text; nothing when there is no such file. OSError when it may not be read."""
        try:
            with open(self.real(path), encoding="utf-8", errors="replace") as source:
                return source.read(1 << 18)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return ""


def values(text: str) -> dict[str, str]:
    """name=value lines; names in lower case."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name.strip().lower(), value.strip().strip('"'))
    return found


def part(files: Files, name: str) -> tuple[Optional[dict[str, str]], str, str]:
    """driver or firmware: version and path, or why not and what stood there instead."""
    homes = [HOME]
    try:
        # written by the driver's installer
        told = values(files.read("/etc/ascend_install.info")).get(f"{name}_install_path_param")
        homes += [told] if told and told != HOME else []
        for home in homes:
            path = f"{home}/{name}/version.info"
            text = files.read(path)
            version = values(text).get("version")
            if version:
                return {"version": version, "path": path}, "", ""
            if text:
                return None, f"{path} names no version", text
    except OSError as error:
        return None, f"{error.filename} cannot be read: {error.strerror}", ""
    return None, f"there is no {' and no '.join(f'{home}/{name}/version.info' for home in homes)}", ""


def toolkits(files: Files) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """The installed packages, and why the version of some is not known, by their folder."""
    found: list[dict[str, Any]] = []
    problems: list[tuple[str, str]] = []
    seen: set[str] = set()
    for pattern in _FOLDERS:
        for folder in sorted(glob.glob(os.path.join(glob.escape(files.real(HOME)), pattern))):
            real = os.path.realpath(folder)
            if real in seen or not os.path.isdir(real):
                continue
            seen.add(real)
            try:
                held = packages(files, real, seen)
            except OSError as error:
                problems.append((files.told(real), f"{files.told(real)} cannot be read: {error.strerror}"))
                continue
            set_env = _set_env(files, real)
            inside = any(package["path"].startswith(f"{files.told(real)}/") for package in found)
            if not held and not inside and os.path.dirname(set_env or "") == files.told(real):
                held = [{"package": None, "version": None, "arch": None}]
                problems.append((files.told(real), f"no file in {files.told(real)} names its version"))
            found += [{"path": files.told(real), **package, "set_env": set_env} for package in held]
    return found, problems


def packages(files: Files, folder: str, seen: set[str]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    escaped = glob.escape(folder)
    for path in sorted(glob.glob(f"{escaped}/*_install.info") + glob.glob(f"{escaped}/*-linux/*_install.info")):
        # `latest` may be a folder of its own whose content leads to that of the release
        if os.path.realpath(path) in seen:
            continue
        seen.add(os.path.realpath(path))
        told = values(files.read(files.told(path)))
        package = told.get("package_name") or os.path.basename(path)[: -len("_install.info")]
        if told.get("version"):
            found.setdefault(package, {"package": package, "version": told["version"], "arch": told.get("arch")})
    if found:
        return list(found.values())
    cfg = os.path.realpath(os.path.join(folder, "version.cfg"))
    if cfg in seen:
        return []
    seen.add(cfg)
    running = _RUNNING.search(files.read(files.told(cfg)))
    version = running[1] if running else values(files.read(files.told(f"{folder}/version.info"))).get("version")
    if not version:
        return []
    parent = os.path.basename(os.path.dirname(folder))
    return [{"package": parent if parent != "Ascend" else "cann", "version": version, "arch": None}]


def _set_env(files: Files, folder: str) -> Optional[str]:
    for place in (folder, os.path.dirname(folder)):
        path = os.path.join(place, "set_env.sh")
        if os.path.isfile(path):
            return files.told(path)
    return None
