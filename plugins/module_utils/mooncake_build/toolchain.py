# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compiler, CMake, Python, Go and MPI of a host."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.host import programs
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.memory import Memory

Ask = Callable[[Sequence[str]], str]  # what a command says, both streams; empty when it fails

# docs of Mooncake ask for 9.4; what compiles since C++20 coroutines came (issue 335) is GCC 11
OLDEST_GCC = (11,)
OLDEST_CMAKE = (3, 16)  # cmake_minimum_required in CMakeLists.txt of v0.3.9 to v0.3.12
_GO = "/usr/local/go/bin"
_MPI = (
    "/usr/bin/mpicc.mpich",
    "/usr/bin/mpicc.openmpi",
    "/usr/lib64/mpich/bin/mpicc",
    "/usr/lib64/openmpi/bin/mpicc",
)
_PYTHON = """
import json, os, sys, sysconfig
there = os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h"))
print(json.dumps({"version": "%d.%d.%d" % sys.version_info[:3], "headers": there}))
"""


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def which(name: str, environment: Mapping[str, str], *more: str) -> Optional[str]:
    return shutil.which(name, path=":".join((environment.get("PATH", os.defpath), *more)))


def _first(names: Sequence[str], environment: Mapping[str, str]) -> Optional[str]:
    return next((path for path in (which(name, environment) for name in names) if path), None)


def compiler(
    ask: Ask, memory: Memory, environment: Mapping[str, str], cc: Optional[str], cxx: Optional[str]
) -> Optional[dict[str, Any]]:
    c = _first([cc] if cc else ["gcc", "cc"], environment)
    plus = _first([cxx] if cxx else ["g++", "c++"], environment)
    if c is None or plus is None:
        return None
    told = memory.recall(plus, "compiler", lambda: _compiler(ask, plus))
    return {"c": c, "cxx": plus, **told} if told else None


def _compiler(ask: Ask, path: str) -> Optional[dict[str, Any]]:
    version = ask([path, "-dumpfullversion", "-dumpversion"]).strip()
    if not re.match(r"\d+(\.\d+)*\Z", version):
        return None
    return {"family": "clang" if "clang" in ask([path, "--version"]) else "gcc", "version": version}


def cmake(ask: Ask, memory: Memory, environment: Mapping[str, str]) -> Optional[str]:
    path = which("cmake", environment)
    told = memory.recall(path, "cmake", lambda: _cmake(ask, path)) if path else None
    return told["version"] if told else None


def _cmake(ask: Ask, path: str) -> Optional[dict[str, Any]]:
    match = re.search(r"cmake3? version (\d+(?:\.\d+)+)", ask([path, "--version"]))
    return {"version": match[1]} if match else None


def generator(environment: Mapping[str, str]) -> Optional[str]:
    if which("ninja", environment) or which("ninja-build", environment):
        return "Ninja"
    return "Unix Makefiles" if which("make", environment) or which("gmake", environment) else None


def python(ask: Ask, path: str) -> Optional[dict[str, Any]]:
    try:
        told = json.loads(ask([path, "-I", "-c", _PYTHON]))
    except ValueError:
        return None
    return {"path": path, **told}


def go(ask: Ask, environment: Mapping[str, str]) -> Optional[str]:
    path = which("go", environment, _GO)
    match = re.search(r"go version go(\S+)", ask([path, "version"])) if path else None
    return match[1] if match else None


def mpi(ask: Ask, environment: Mapping[str, str], places: Sequence[str] = _MPI) -> dict[str, Any]:
    first = which("mpicc", environment)
    found = {}
    for path in [*([first] if first else []), *places]:
        if os.access(path, os.X_OK):
            found[path] = programs.flavour(ask([path, "--showme:version"]) + ask([path, "-v"]))
    flavour = found.get(first) if first else next(iter(found.values()), None)
    return {
        "flavour": flavour if flavour in ("mpich", "openmpi") else None,
        "both": {"mpich", "openmpi"} <= set(found.values()),
    }


def glibc() -> Optional[str]:
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return None
    name, _blank, version = text.partition(" ")
    return version if name == "glibc" and version else None
