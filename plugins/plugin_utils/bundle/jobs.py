# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts need, as jobs. A job is one exact request and fills one folder of the bundle; its key tells it apart.

Both sides make the jobs of an inventory with this: who collects a bundle, and who looks whether it has everything.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# what Ansible's own modules for packages import on the host
_ANSIBLE_NEEDS = {"Debian": ["python3-apt"], "RedHat": ["python3-dnf"]}
# The C library of a release, which nothing tells when the host cannot be asked.
# packages.debian.org, packages.ubuntu.com, repo.openeuler.org: libc6 and glibc of each release
GLIBC = {
    "debian-11": "2.31",
    "debian-12": "2.36",
    "debian-13": "2.41",
    "ubuntu-22.04": "2.35",
    "ubuntu-24.04": "2.39",
    "openeuler-22.03": "2.34",
    "openeuler-24.03": "2.38",
}
# as roles/mooncake tells git addresses from folders and archives of the controller
_GIT_URL = r"^(https?|ssh|git|file)://|^[^/:]+@[^/:]+:"
_TARGET_KEYS = ("distribution", "release", "architecture", "python")


class NeedError(Exception):
    """One problem per line."""


@dataclass(frozen=True)
class Job:
    kind: str  # wheels, packages, source, image, collection
    label: str
    request: Mapping[str, Any]
    # how it is collected; it does not decide what it is
    how: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> str:
        text = json.dumps([self.kind, self.label, self.request], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def folder(self) -> str:
        return f"{self.kind}/{self.label}-{self.key}"

    @property
    def what(self) -> str:
        return f"{self.kind} {self.label}: {', '.join(self._told())}"

    def _told(self) -> list[str]:
        named = [str(name) for name in self.request.get("requirements") or self.request.get("names") or ()]
        named = named or [without_user(str(value)) for value in self.request.values()]
        return [*named[:8], f"and {len(named) - 8} more"] if len(named) > 8 else named


def without_user(url: str) -> str:
    """An address as it may be shown, kept and carried elsewhere: a token in it is for git alone."""
    return re.sub(r"(\w[\w+.-]*://)[^\s/@]+@", r"\1", url)


def platform_of(target: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A platform as a person describes it (the variable bundle_target)."""
    lacking = [key for key in _TARGET_KEYS if not target.get(key)]
    if lacking:
        raise NeedError(
            f"{where}: bundle_target lacks {', '.join(lacking)}. "
            "Mend: name distribution and release (ID and VERSION_ID of /etc/os-release), architecture and python."
        )
    told = {key: str(target[key]) for key in _TARGET_KEYS}
    glibc = str(target.get("glibc") or GLIBC.get(f"{told['distribution']}-{told['release']}", ""))
    family = str(target.get("family") or _family(told["distribution"]))
    lacking = [key for key, value in (("glibc", glibc), ("family", family)) if not value]
    if lacking:
        raise NeedError(
            f"{where}: of {told['distribution']} {told['release']} nothing is known. "
            f"Mend: name {' and '.join(lacking)} in bundle_target (ldd --version; Debian or RedHat)."
        )
    return {**told, "glibc": glibc, "family": family, "pythons": {"": told["python"]}}


def jobs_of(needs: Iterable[Mapping[str, Any]], platform: Mapping[str, Any], where: str) -> list[Job]:
    """The jobs of one host."""
    system = f"{platform['distribution']}-{platform['release']}-{platform['architecture']}"
    names: set[str] = set()
    jobs: list[Job] = []
    problems: list[str] = []
    for need in needs:
        if need["kind"] == "packages":
            # by family, by release, or both
            for who in (platform["family"], f"{platform['distribution']}-{platform['release']}"):
                names.update(need["names"].get(who) or ())
        elif need["kind"] == "wheels":
            python = _python(platform, need["python"])
            if python is None:
                problems.append(
                    f"{where}: {need['python']} is not there, so nobody knows which wheels fit {need['name']}. "
                    "Mend: install it, or describe the host with bundle_target."
                )
                continue
            jobs.append(_wheels(need, platform, system, python))
        elif need["kind"] == "image":
            request = {"image": need["image"], "architecture": platform["architecture"]}
            jobs.append(Job("image", platform["architecture"], request, {"runtime": need["runtime"]}))
        else:
            request = {"from": need["from"], "version": need["version"]}
            git = re.search(_GIT_URL, need["from"]) is not None
            jobs.append(Job("source", need["name"], request, {**need, "git": git}))
    if names:
        names.update(_ANSIBLE_NEEDS.get(platform["family"], ()))
        how = {key: platform[key] for key in ("distribution", "release", "architecture", "family")}
        jobs.append(Job("packages", system, {"names": sorted(names)}, how))
    if problems:
        raise NeedError("\n".join(problems))
    return jobs


def _family(distribution: str) -> str:
    return {"debian": "Debian", "ubuntu": "Debian", "openeuler": "RedHat"}.get(distribution, "")


def _python(platform: Mapping[str, Any], path: str) -> str | None:
    pythons = platform["pythons"]
    version = pythons.get(path) or pythons.get("")
    return None if version is None else str(version)


def _wheels(need: Mapping[str, Any], platform: Mapping[str, Any], system: str, python: str) -> Job:
    minor = ".".join(python.split(".")[:2])
    lines = [line.strip() for line in need["requirements"]]
    request = {
        "requirements": [line for line in lines if line and not line.startswith("#")],
        "constraints": list(need.get("constraints") or ()),
        "dependencies": bool(need.get("dependencies", True)),
        "build": dict(need.get("build") or {}),
    }
    how = {
        "python": python,
        "architecture": platform["architecture"],
        "glibc": platform["glibc"],
        "arguments": [str(word) for word in need.get("arguments") or ()],
    }
    return Job("wheels", f"{need['name']}-{system}-py{minor}", request, how)
