# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What set_env.sh of CANN would give to a shell, as plain variables for a unit."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, Optional, Sequence

# What systemd gives a unit (systemd.exec(5), $PATH); scripts put theirs before it.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# of the shell that reads the scripts, not of the engine
_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # a function that a script exports has another one
_LISTS = re.compile(r"\w*PATH|LD_PRELOAD")
_BEFORE, _AFTER, _SCRIPT, _LIBRARY, _FOLDER = "before", "after", "script", "library", "folder"
# Words: -- SCRIPT... -- LIBRARY... -- FOLDER...; one kind of record each, ended by NUL.
# A script must neither see these words as its own arguments (nnal/atb reads them) nor print into the records.
_SOURCE = r"""
told() { printf '%s\0%s\0%s\0' "$1" "$2" "$3"; }
snapshot() { printf '%s\0' "$1"; env -0; printf '\0'; }
load() { local mooncake_pd_script=$1; shift; . "$mooncake_pd_script" >&2 </dev/null; }
shift
scripts=(); libraries=(); folders=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do scripts+=("$1"); shift; done; shift
while [ $# -gt 0 ] && [ "$1" != -- ]; do libraries+=("$1"); shift; done; shift
folders=("$@"); set --
snapshot before
for script in "${scripts[@]}"; do
  if [ -r "$script" ] && [ -f "$script" ]; then
    before=$(env); load "$script"; code=$?
    if [ "$before" = "$(env)" ]; then told script "$script" "$code"; else told script "$script" 0; fi
  else
    told script "$script" missing
  fi
done
for library in "${libraries[@]}"; do [ -f "$library" ] && told library "$library" found; done
for folder in "${folders[@]}"; do [ -d "$folder" ] && told folder "$folder" found; done
snapshot after
"""
_DRIVER = re.compile(r"/driver/lib64(/|$)")
# Libraries to link against where there is no driver: CANN's devlib, and the like
_STUBS = re.compile(r"/(?:devlib|stubs?)(/|$)")


def jemalloc_places(machine: str = "") -> list[str]:
    """Where distributions have it: Debian and Ubuntu, then openEuler."""
    machine = machine or platform.machine()
    return [
        f"/usr/lib/{machine}-linux-gnu/libjemalloc.so.2",
        "/usr/lib64/libjemalloc.so.2",
        "/usr/lib/libjemalloc.so.2",
    ]


def command(scripts: Sequence[str], libraries: Sequence[str], folders: Sequence[str]) -> list[str]:
    words = ["--", *scripts, "--", *libraries, "--", *folders]
    return ["bash", "--noprofile", "--norc", "-c", _SOURCE, "engine-environment", *words]


@dataclass
class Answer:
    before: dict[str, str] = field(default_factory=dict)
    after: Optional[dict[str, str]] = None
    scripts: dict[str, str] = field(default_factory=dict)  # path -> exit code, or "missing"
    libraries: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


def parse(output: str) -> Answer:
    answer = Answer()
    records = iter(output.split("\0"))
    for kind in records:
        if kind in (_BEFORE, _AFTER):
            values: dict[str, str] = {}
            for record in records:
                if not record:
                    break
                name, _equals, value = record.partition("=")
                values[name] = value
            if kind == _BEFORE:
                answer.before = values
            else:
                answer.after = values
        elif kind in (_SCRIPT, _LIBRARY, _FOLDER):
            name, value = next(records, ""), next(records, "")
            if kind == _SCRIPT:
                answer.scripts[name] = value
            else:
                (answer.libraries if kind == _LIBRARY else answer.folders).append(name)
    return answer


def problems(answer: Answer, complaints: str, optional: Iterable[str] = ()) -> list[str]:
    """What is wrong with the scripts. One that changes nothing may say so by its exit code; others may not."""
    found = []
    for path, code in answer.scripts.items():
        if code == "missing":
            found += [] if path in optional else [f"{path} is missing or cannot be read"]
        elif code != "0":
            found.append(f"{path} ended with code {code} and set nothing{_last(complaints)}")
    if answer.after is None:
        done = len(answer.scripts)
        found.append(f"the shell ended in script {done + 1} of the list, which must not call exit{_last(complaints)}")
    return found


def _last(complaints: str) -> str:
    lines = complaints.strip().splitlines()
    return f": {lines[-1]}" if lines else ""


def folders_in_order(folders: Iterable[str]) -> list[str]:
    """Each once and no empty one, which would mean the current folder; the driver after CANN, stubs after the driver.

    A stub of libascend_hal.so that is found before the driver's is an engine without NPUs.
    """
    unique = list(dict.fromkeys(folder for folder in folders if folder))
    return sorted(unique, key=lambda folder: 2 if _STUBS.search(folder) else 1 if _DRIVER.search(folder) else 0)


def environment(answer: Answer, preload: Optional[str], library_paths: Sequence[str]) -> dict[str, str]:
    """What the scripts set or changed, with the libraries to load first and the folders to look into last."""
    after = answer.after or {}
    found = {
        name: value
        for name, value in after.items()
        if _NAME.fullmatch(name) and name not in _SHELL and answer.before.get(name) != value
    }
    for name, value in found.items():
        if _LISTS.fullmatch(name):
            # a script that was read twice has put its folders there twice
            found[name] = ":".join(dict.fromkeys(part for part in value.split(":") if part))
    libraries = folders_in_order([*after.get("LD_LIBRARY_PATH", "").split(":"), *library_paths])
    if libraries and ("LD_LIBRARY_PATH" in found or library_paths):
        found["LD_LIBRARY_PATH"] = ":".join(libraries)
    if preload:
        others = [part for part in after.get("LD_PRELOAD", "").split(":") if part and part != preload]
        found["LD_PRELOAD"] = ":".join([preload, *others])
    return {name: found[name] for name in sorted(found)}


def scripts_of(packages: Sequence[Mapping[str, Any]]) -> list[str]:
    """set_env.sh of the toolkit, then of what stands beside it and needs the toolkit's."""
    toolkits = [package for package in packages if is_toolkit(package)]
    beside = [package for package in packages if "nnal" in str(package["path"])]
    chosen = [package["set_env"] for package in [*newest(toolkits)[:1], *newest(beside)[:1]]]
    return list(dict.fromkeys(path for path in chosen if path))


def is_toolkit(package: Mapping[str, Any]) -> bool:
    return bool(re.search(r"toolkit|nnae|^cann", str(package["package"]).lower()))


def newest(packages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(packages, key=lambda package: _order(str(package["version"] or "")), reverse=True)


def _order(version: str) -> tuple[tuple[int, ...], int, int]:
    """8.3.RC2 < 8.3.0; a later number is a later release."""
    match = re.match(r"([0-9.]*[0-9])(?:\.?(rc|alpha|beta|t)\.?([0-9]+))?", version.lower())
    if not match:
        return (), 0, 0
    numbers = [int(part) for part in match[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), -1 if match[2] else 0, int(match[3] or 0)
