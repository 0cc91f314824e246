# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From a source tree to a tree of files as it will lie below the prefix."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import (
    cann_root,
    cmake_cache,
    elf,
)
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import (
    manifest as manifests,
)
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import (
    options as given,
)
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.source_tree import file_hash
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.steps import StepFailed, Steps

NINJA = "Ninja"
_COMPLETE = "complete"
_PACKED = "{}.sha256"
# as dependencies.sh of Mooncake v0.3.12 builds it; the network is only needed by its tests
_YALANTINGLIBS = ("BUILD_EXAMPLES", "BUILD_BENCHMARK", "BUILD_UNIT_TESTS")


@dataclass(frozen=True)
class Plan:
    """What is decided before anything is started."""

    digest: str
    source: str
    commit: Optional[str]
    options: Mapping[str, str]
    prefix: str
    python: str
    python_version: str  # major and minor
    compiler: Mapping[str, Any]
    generator: str
    jobs: int
    cann: Optional[Mapping[str, Any]]
    arch: str
    yalantinglibs: str
    yalantinglibs_identity: str
    environment: Mapping[str, str]
    work_dir: str

    @property
    def folder(self) -> str:
        return os.path.join(self.work_dir, self.digest[:12])

    @property
    def log(self) -> str:
        return os.path.join(self.folder, "build.log")

    @property
    def tree(self) -> str:
        return os.path.join(self.folder, "tree")

    @property
    def site_packages(self) -> str:
        return os.path.join("lib", f"python{self.python_version}", "site-packages")


def finished(plan: Plan) -> Optional[list[dict[str, Any]]]:
    """The files of a build that came to its end and is as it was then."""
    try:
        with open(os.path.join(plan.folder, _COMPLETE), encoding="utf-8") as source:
            state = json.load(source)
    except (OSError, ValueError):
        return None
    if not isinstance(state, dict) or state.get("digest") != plan.digest:
        return None
    files = manifests.files_of(plan.tree)
    return files if files and files == state.get("files") else None


def is_packed(plan: Plan, path: str) -> bool:
    """Whether the archive is as it was when it was packed. Its name tells what is in it."""
    try:
        with open(os.path.join(plan.folder, _PACKED.format(os.path.basename(path))), encoding="utf-8") as source:
            return source.read() == file_hash(path)
    except OSError:
        return False


def note_packed(plan: Plan, path: str) -> None:
    with open(os.path.join(plan.folder, _PACKED.format(os.path.basename(path))), "w", encoding="utf-8") as target:
        target.write(file_hash(path))


class Builder:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.build = os.path.join(plan.folder, "build")
        self.stage = os.path.join(plan.folder, "stage")
        self.venv = os.path.join(plan.folder, "python")
        os.makedirs(plan.folder, exist_ok=True)
        self.steps = Steps(plan.work_dir, plan.log, plan.environment)

    def run(self) -> list[dict[str, Any]]:
        plan = self.plan
        self._begin()
        dependencies = self._yalantinglibs()
        self._configure(dependencies)
        arguments = ["cmake", "--build", self.build, "--parallel", str(plan.jobs)]
        environment = self._environment()
        if given.on(dict(plan.options), "WITH_TE", True):
            step = "The build of the Transfer Engine"
            self.steps.run(step, [*arguments, "--target", "transfer_engine"], self.build, environment)
        self.steps.run("The build", arguments, self.build, environment)
        shutil.rmtree(self.stage, ignore_errors=True)
        install = {**environment, "DESTDIR": self.stage}
        self.steps.run("The installation", ["cmake", "--install", self.build], self.build, install)
        self._collect()
        files = manifests.files_of(plan.tree)
        self._mark(_COMPLETE, {"digest": plan.digest, "files": files})
        shutil.rmtree(self.stage, ignore_errors=True)
        return files

    # ---- what an earlier run left --------------------------------------------------------------------------------

    def _begin(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self.plan.folder, _COMPLETE))
        if not self._can_continue():
            for folder in (self.build, self.venv, self._copy):
                shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(self.build, exist_ok=True)

    def _can_continue(self) -> bool:
        """Ninja knows which commands ended; make takes a half-written file for a good one."""
        try:
            with open(os.path.join(self.plan.folder, "configured"), encoding="utf-8") as source:
                return bool(json.load(source) == self._configuration and self.plan.generator == NINJA)
        except (OSError, ValueError):
            return False

    @property
    def _configuration(self) -> dict[str, str]:
        return {"digest": self.plan.digest, "generator": self.plan.generator, "source": self.plan.source}

    def _mark(self, name: str, content: Mapping[str, Any]) -> None:
        path = os.path.join(self.plan.folder, name)
        with open(f"{path}.new", "w", encoding="utf-8") as target:
            json.dump(content, target)
        os.replace(f"{path}.new", path)

    # ---- the steps -----------------------------------------------------------------------------------------------

    def _environment(self) -> dict[str, str]:
        """What CMake of Mooncake reads from there: the first python3, and where CANN is."""
        plan = self.plan
        # Targets that set their own INSTALL_RPATH look for libraries only beside themselves, and those are in lib.
        flags = f"-Wl,-rpath,{plan.prefix}/lib {plan.environment.get('LDFLAGS', '')}".strip()
        found = {"PATH": f"{self.venv}/bin:{plan.environment.get('PATH', os.defpath)}", "LDFLAGS": flags}
        if plan.cann:
            root = plan.cann["path"]
            libraries = [*cann_root.library_folders(root, plan.arch), plan.environment.get("LD_LIBRARY_PATH", "")]
            found.update(ASCEND_HOME_PATH=root, ASCEND_PATH=root, LD_LIBRARY_PATH=":".join(filter(None, libraries)))
        return found

    def _yalantinglibs(self) -> str:
        plan = self.plan
        name = f"yalantinglibs-{plan.yalantinglibs_identity.partition(':')[2][:16]}"
        folder = os.path.join(plan.work_dir, "deps", name)
        mark = os.path.join(folder, _COMPLETE)
        if os.path.exists(mark):
            return folder
        build = os.path.join(plan.work_dir, "deps", f"{name}.build")
        for left in (folder, build):
            shutil.rmtree(left, ignore_errors=True)
        os.makedirs(build)
        configure = [
            *("cmake", "-S", plan.yalantinglibs, "-B", build, "-G", plan.generator),
            *(f"-DCMAKE_INSTALL_PREFIX={folder}", *self._compilers()),
            *(f"-D{option}=OFF" for option in _YALANTINGLIBS),
        ]
        self.steps.run("The configuration of yalantinglibs", configure, build, {})
        self.steps.run("The build of yalantinglibs", ["cmake", "--build", build], build, {})
        self.steps.run("The installation of yalantinglibs", ["cmake", "--install", build], build, {})
        shutil.rmtree(build)
        with open(mark, "w", encoding="utf-8") as target:
            target.write(f"{plan.yalantinglibs_identity}\n")
        return folder

    def _compilers(self) -> tuple[str, str]:
        compiler = self.plan.compiler
        return f"-DCMAKE_C_COMPILER={compiler['c']}", f"-DCMAKE_CXX_COMPILER={compiler['cxx']}"

    @property
    def _copy(self) -> str:
        return os.path.join(self.plan.folder, "source")

    def _source(self) -> str:
        """Go's wrapper writes into the source while it is built, so that gets a copy."""
        plan = self.plan
        if not given.needs_go(dict(plan.options)):
            return plan.source
        if not os.path.isdir(self._copy):
            partial = f"{self._copy}.new"
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(plan.source, partial, symlinks=True, ignore=shutil.ignore_patterns(".git"))
            if plan.commit:
                # the version that mooncake_master tells has the commit in it
                with open(os.path.join(partial, ".git"), "w", encoding="utf-8") as target:
                    target.write(f"gitdir: {os.path.join(plan.source, '.git')}\n")
            os.replace(partial, self._copy)
        return self._copy

    def _configure(self, dependencies: str) -> None:
        plan = self.plan
        if self._can_continue():
            return
        # An environment of its own is where sys.path has "packages" first, and so where Mooncake installs to. Nothing
        # of the host is there that its installation could change.
        self.steps.run("The environment for Python", [plan.python, "-m", "venv", "--without-pip", self.venv], "/", {})
        python = os.path.join(self.venv, "bin", "python3")
        asked = dict(plan.options)
        asked[given.PREFIX_PATH] = ";".join(filter(None, (dependencies, asked.get(given.PREFIX_PATH, ""))))
        # With a CUDA toolkit on the host, the store would link it whatever USE_CUDA says
        # (mooncake-store/src/CMakeLists.txt@3b5a594): such a master
        # starts nowhere else (issue 3314 of Mooncake).
        no_cuda = [] if given.on(asked, "USE_CUDA") else ["-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON"]
        configure = [
            *("cmake", "-S", self._source(), "-B", self.build, "-G", plan.generator),
            *(f"-DCMAKE_INSTALL_PREFIX={plan.prefix}", f"-DCMAKE_INSTALL_RPATH={plan.prefix}/lib"),
            *(f"-DPython3_EXECUTABLE={python}", f"-DPYTHON_EXECUTABLE={python}", *self._compilers(), *no_cuda),
            *(f"-D{name}={value}" for name, value in sorted(asked.items())),
        ]
        said = self.steps.run("The configuration", configure, self.build, self._environment())
        with open(os.path.join(self.build, "CMakeCache.txt"), encoding="utf-8", errors="replace") as source:
            cache = cmake_cache.parse(source.read())
        wrong = cmake_cache.disagreements(asked, cache, cmake_cache.unused(said))
        if wrong:
            raise StepFailed(
                "The configuration is not what was asked for: " + "; ".join(wrong) + ".\n"
                "What to do: Correct the options; those of a tree are in its CMakeLists.txt and "
                f"mooncake-common/common.cmake.\nAll that CMake said is in {plan.log}."
            )
        self._mark("configured", self._configuration)

    # ---- what was installed --------------------------------------------------------------------------------------

    def _collect(self) -> None:
        """From where it was installed to where it will be, with permissions as they should be."""
        plan = self.plan
        fresh = f"{plan.tree}.new"
        for folder in (fresh, plan.tree):
            shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(fresh)
        packages = os.path.join(self.venv, plan.site_packages)
        for origin, below in ((plan.prefix, ""), (packages, plan.site_packages)):
            staged = self.stage + origin
            if os.path.isdir(staged):
                _move(staged, os.path.join(fresh, below))
        stray = [entry["path"] for entry in manifests.files_of(self.stage)]
        if stray:
            raise StepFailed(
                f"The installation put files outside of {plan.prefix} and of Python's packages: "
                f"{', '.join('/' + path for path in stray[:5])}.\nWhat to do: This release of Mooncake, or an option, "
                f"has paths of its own; leave the option out.\nAll that CMake said is in {plan.log}."
            )
        _set_modes(fresh)
        self._check(fresh)
        os.replace(fresh, plan.tree)

    def _check(self, tree: str) -> None:
        plan = self.plan
        package = os.path.join(plan.site_packages, "mooncake", "__init__.py")
        problems = [] if os.path.isfile(os.path.join(tree, package)) else [f"{package} was not installed"]
        problems += elf.unresolved(tree, plan.prefix)
        problems += [
            f"{entry['path']} is a link out of the tree, to {entry['target']}"
            for entry in manifests.files_of(tree)
            if os.path.isabs(entry.get("target", ""))
        ]
        if problems:
            raise StepFailed(
                f"The result would not work in {plan.prefix}: {'; '.join(problems[:5])}.\nWhat to do: Leave out "
                f"options that change how libraries are installed or found (RPATH, linker flags).\nAll of it is in "
                f"{plan.log}."
            )


def _move(origin: str, target: str) -> None:
    for folder, folders, names in os.walk(origin):
        place = os.path.normpath(os.path.join(target, os.path.relpath(folder, origin)))
        os.makedirs(place, exist_ok=True)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*names, *links):
            os.replace(os.path.join(folder, name), os.path.join(place, name))
        folders[:] = [name for name in folders if name not in links]


def _set_modes(tree: str) -> None:
    for folder, _folders, names in os.walk(tree):
        os.chmod(folder, 0o755)
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755 if _is_program(path) else 0o644)


def _is_program(path: str) -> bool:
    """By the owner's bit, but not what chmod 766 of Mooncake's installation made of a text."""
    return bool(os.stat(path).st_mode & 0o100) and not path.endswith(".py")


def described(plan: Plan, version: str, key: str, source: str, files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The manifest."""
    return {
        "version": version,
        "commit": plan.commit,
        "source": source,
        "options": dict(plan.options),
        "cann": {name: plan.cann[name] for name in ("path", "version")} if plan.cann else None,
        "compiler": {name: plan.compiler[name] for name in ("family", "version")},
        "python": plan.python_version,
        "yalantinglibs": plan.yalantinglibs_identity,
        "key": key,
        "digest": plan.digest,
        "prefix": plan.prefix,
        "files": list(files),
    }
