# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host as a builder: what it has, and everything that stands in the way of a build."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Optional

from ansible_collections.mooncake.pd.plugins.module_utils import cann as ascend
from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Runner
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import (
    cann_root,
    digest,
    headers,
    parallel,
    source_tree,
    toolchain,
)
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import (
    options as given,
)
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.memory import Memory

Problem = dict[str, Any]

_SECONDS = 20.0  # for one program


def problem(rule: str, what: str, fix: str, packages: bool = False) -> Problem:
    return {"rule": rule, "what": what, "fix": fix, "packages": packages}


def _read(path: str) -> str:
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as source:
        return source.read()
    return ""


def environment_of(variables: Mapping[str, Any]) -> dict[str, str]:
    """The environment of a build: without what leads its Python or its installation astray, and in English."""
    merged = {**os.environ, **{name: str(value) for name, value in variables.items() if value is not None}}
    for name in ("PYTHONPATH", "PYTHONHOME", "DESTDIR", "MAKEFLAGS", "CMAKE_GENERATOR"):
        merged.pop(name, None)
    return {**merged, "LC_ALL": "C", "LANG": "C"}


class Survey:
    """What is only asked once, by parameters that both modules have."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params = params
        self.environment = environment_of(params["environment"])
        self.options, self.wrong = given.normalised(params["options"])
        self.memory = Memory(params["work_dir"])
        self.arch = platform.machine()
        told = ascend.values(_read("/etc/os-release"))
        self.distribution = {
            "id": told.get("id", "linux").strip("'"),
            "version_id": told.get("version_id", "").strip("'"),
            "arch": self.arch,
        }
        self.with_cann = given.needs_cann(self.options)
        self.cann = cann_root.look(params["cann_path"], self.environment, self.arch)
        self.python = toolchain.python(self.ask, params["python"])
        self.compiler = toolchain.compiler(self.ask, self.memory, self.environment, params["cc"], params["cxx"])
        self.cmake = toolchain.cmake(self.ask, self.memory, self.environment)
        self.generator = toolchain.generator(self.environment)

    def ask(self, argv: Sequence[str]) -> str:
        if not os.access(argv[0], os.X_OK):
            return ""
        answer = Runner(_SECONDS, environment=self.environment).run([argv])[0]
        return "" if answer.failure else answer.text

    def git(self, arguments: Sequence[str]) -> Optional[str]:
        if toolchain.which("git", self.environment) is None:
            return None
        answer = Runner(_SECONDS, environment=self.environment, most=1 << 16).run([["git", *arguments]])[0]
        return None if answer.failure else answer.out

    @property
    def key(self) -> str:
        version = self.cann["version"] if self.cann else None
        return digest.platform_key(self.distribution, version, (self.python or {}).get("version", "?"), self.with_cann)

    # ---- what stands in the way ----------------------------------------------------------------------------------

    def problems(self) -> list[Problem]:
        return [
            *(problem("option-wrong", f"options: {text}.", "Correct it.") for text in self.wrong),
            *(problem("option-refused", what, fix) for what, fix in given.refused(self.options)),
            *self._of_programs(),
            *self._of_python(),
            *self._of_cann(),
            *self._of_source(),
        ]

    def _of_programs(self) -> list[Problem]:
        found = []
        if self.compiler is None:
            named = " and ".join(filter(None, (self.params["cc"], self.params["cxx"]))) or "gcc and g++"
            fix = "Install GCC 11 or newer for C and C++, or name the compilers with cc and cxx."
            what = f"There is no compiler {named} that tells its version."
            found.append(problem("compiler-missing", what, fix, True))
        elif self.compiler["family"] == "gcc" and toolchain.numbers(self.compiler["version"]) < toolchain.OLDEST_GCC:
            what = f"{self.compiler['cxx']} is GCC {self.compiler['version']}; Mooncake needs 11 or newer."
            fix = "Install a newer one (gcc-toolset, gcc-11) and name it with cc and cxx."
            found.append(problem("compiler-old", what, fix))
        if self.cmake is None:
            fix = "Install cmake, from the distribution or with pip."
            found.append(problem("cmake-missing", "There is no cmake that tells its version.", fix, True))
        elif toolchain.numbers(self.cmake)[:2] < toolchain.OLDEST_CMAKE:
            what = f"CMake is {self.cmake}; Mooncake needs 3.16 or newer."
            found.append(problem("cmake-old", what, "Install a newer one, for instance with `pip install cmake`."))
        if self.generator is None:
            found.append(problem("generator-missing", "There is neither ninja nor make.", "Install ninja.", True))
        if toolchain.which("patch", self.environment) is None:
            found.append(problem("patch-missing", "There is no patch.", "Install patch.", True))
        go = given.needs_go(self.options)
        if go and toolchain.go(self.ask, self.environment) is None:
            fix = "Install Go, or leave these options out."
            found.append(problem("go-missing", f"{', '.join(go)} need Go, which is not there.", fix, True))
        return found

    def _of_python(self) -> list[Problem]:
        if self.python is None:
            what = f"{self.params['python']} is no Python that can be run."
            return [problem("python-missing", what, "Install it, or name another one with python.", True)]
        if self.python["headers"] or (self.tree and "Development" not in self.cmake_files):
            return []
        what = f"{self.params['python']} has no Python.h."
        return [problem("python-headers", what, "Install its development package.", True)]

    def _of_cann(self) -> list[Problem]:
        if not self.with_cann:
            return []
        if self.cann is None:
            root = cann_root.find(self.params["cann_path"], self.environment)
            where = f"in {root}" if root else f"in {' or '.join(cann_root.candidates(self.environment))}"
            fix = "Install CANN's toolkit on the builder, or name its root with cann_path."
            return [problem("cann-missing", f"The options need CANN, and there is none {where}.", fix)]
        found = []
        if self.cann["missing"]:
            what = f"CANN in {self.cann['path']} lacks {', '.join(self.cann['missing'])}. CMake would only warn of it."
            fix = f"Install CANN's toolkit for {self.arch}, or name its root with cann_path."
            found.append(problem("cann-incomplete", what, fix))
        if self.cann["version"] is None:
            what = f"No file of {self.cann['path']} tells the version of CANN, which decides what the result is."
            found.append(problem("cann-unknown", what, "Name the root that CANN's installer made with cann_path."))
        return found

    @property
    def tree(self) -> Optional[str]:
        source = self.params["source"]
        return source if source and source_tree.has_cmake(source) else None

    @property
    def cmake_files(self) -> str:
        return source_tree.cmake_files(self.tree) if self.tree else ""

    def _of_source(self) -> list[Problem]:
        source = self.params["source"]
        if not source:
            return []
        if self.tree is None:
            what = f"{source} is no source of Mooncake: it has no CMakeLists.txt."
            return [problem("source-missing", what, "Give the folder that holds Mooncake's CMakeLists.txt.")]
        empty = source_tree.empty_submodules(source)
        if not empty:
            return []
        what = f"Submodules of {source} are empty: {', '.join(empty)}."
        fix = "Run `git submodule update --init --recursive` in it, or give an archive that contains them."
        return [problem("submodule-empty", what, fix)]

    # ---- what only looking wants ---------------------------------------------------------------------------------

    def missing_headers(self) -> list[headers.Header]:
        wanted = headers.needed(self.options, self.cmake_files)
        return headers.missing(wanted, headers.folders(self.environment, self.options))

    def memory_available(self) -> Optional[int]:
        groups = re.findall(r"(?m)^0::(/.*)$", _read("/proc/self/cgroup"))
        names = {"/sys/fs/cgroup/memory.max", *(f"/sys/fs/cgroup{group}/memory.max" for group in groups)}
        return parallel.available(_read("/proc/meminfo"), [_read(name) for name in names])

    def jobs(self) -> int:
        cpus = len(os.sched_getaffinity(0))
        return parallel.jobs(self.memory_available(), cpus, self.params["memory_per_job"])

    def disk_free(self) -> Optional[int]:
        path = os.path.abspath(self.params["work_dir"])
        while not os.path.isdir(path):
            path = os.path.dirname(path)
        try:
            state = os.statvfs(path)
        except OSError:
            return None
        return state.f_bavail * state.f_frsize


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def look(params: Mapping[str, Any]) -> dict[str, Any]:
    """What mooncake_build_info returns."""
    survey = Survey(params)
    missing = survey.missing_headers()
    memory, disk = survey.memory_available(), survey.disk_free()
    problems = survey.problems()
    if missing:
        names = ", ".join(header.paths[0] for header in missing)
        brings = ", ".join(header.brings for header in missing)
        fix = f"Install the development packages of {brings}."
        problems.append(problem("headers-missing", f"The options need headers that are not there: {names}.", fix, True))
    if disk is not None and disk < params["disk_needed"]:
        what = f"{params['work_dir']} has {_gib(disk)} free; a build needs {_gib(params['disk_needed'])}."
        problems.append(problem("disk-small", what, "Make room, or put work_dir elsewhere."))
    if memory is None or memory < params["memory_per_job"]:
        has = "unknown" if memory is None else _gib(memory)
        what = f"Available memory is {has}; one compiler may take {_gib(params['memory_per_job'])}."
        problems.append(problem("memory-small", what, "Free memory, build elsewhere, or lower memory_per_job."))
    return {
        "os": survey.distribution,
        "cann": survey.cann,
        "compiler": survey.compiler,
        "cmake": survey.cmake,
        "generator": survey.generator,
        "python": survey.python,
        "glibc": toolchain.glibc(),
        "mpi": toolchain.mpi(survey.ask, survey.environment),
        "go": toolchain.go(survey.ask, survey.environment),
        "jobs": survey.jobs(),
        "memory_available": memory,
        "disk_free": disk,
        "key": survey.key,
        "missing_headers": [header.paths[0] for header in missing],
        "packages_hint": hints(problems, missing, survey.generator),
        "problems": problems,
    }


_BRINGS = {
    "compiler-missing": "compiler",
    "cmake-missing": "cmake",
    "patch-missing": "patch",
    "go-missing": "go",
    "python-headers": "python-dev",
    "python-missing": "python",
}


def hints(problems: Sequence[Problem], missing: Sequence[headers.Header], generator: Optional[str]) -> list[str]:
    """What packages are to bring. Ninja also where make would do: only with it a broken-off build continues."""
    names = [_BRINGS[found["rule"]] for found in problems if found["rule"] in _BRINGS]
    return [*names, *(["ninja"] if generator != "Ninja" else []), *(header.brings for header in missing)]
