# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mooncake_build
short_description: Build Mooncake from a source tree into one archive
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Configures a tree of Mooncake with CMake, builds the Transfer Engine first and then the rest, installs into a
    staging folder and packs that into an archive for M(mooncake.pd.mooncake_install).
  - The build folder is named by a digest of everything that decides the result. When there is a result for it, neither
    CMake nor a compiler is started.
  - An unfinished build is finished by the next call. With Ninja it continues, with Makefiles it starts afresh, as they
    take half-written files for good ones.
  - When the module is killed, all that it started ends too.
  - The options are passed with C(-D). After the configuration, C(CMakeCache.txt) is compared with what was asked.
  - C(PYTHONPATH) is taken out of the environment of CMake, as Mooncake would install into CANN's folder otherwise. The
    permissions that its installation leaves (a folder that everybody may write to) are set right in the archive.
  - The source tree is not written to.
options:
  source:
    description: Unpacked tree of Mooncake with its submodules.
    type: path
    required: true
  version:
    description: The version that the tree is. It stands in the name of the archive and in its manifest.
    type: str
    required: true
  prefix:
    description:
      - Where the result will be installed. Libraries find each other there without C(LD_LIBRARY_PATH).
      - Nothing is written there by this module.
    type: path
    required: true
  options:
    description:
      - Options of the build, by the name that C(cmake -D) takes. Values are texts, numbers or booleans.
      - C(USE_ASCEND) is refused, as it needs a header that CANN does not publish. Take C(USE_ASCEND_DIRECT).
    type: dict
    default: {}
  yalantinglibs:
    description:
      - Unpacked tree of yalantinglibs. When omitted, C(extern/yalantinglibs) of O(source).
      - It is installed below O(work_dir), never into the system.
    type: path
  cann_path:
    description: Root of CANN, as for M(mooncake.pd.mooncake_build_info). It is only used when O(options) need it.
    type: path
  python:
    description: Interpreter that the extensions are built for.
    type: path
    default: /usr/bin/python3
  cc:
    description: C compiler, by name or path; C(gcc), or C(cc) where there is none, when omitted.
    type: str
  cxx:
    description: C++ compiler, by name or path; C(g++), or C(c++) where there is none, when omitted.
    type: str
  generator:
    description: What CMake writes files for. When omitted, Ninja where it is installed.
    type: str
    choices: [Ninja, Unix Makefiles]
  jobs:
    description: Compilers at once. V(0) decides by memory and CPUs.
    type: int
    default: 0
  memory_per_job:
    description: Bytes of memory that one compiler may take, for O(jobs=0).
    type: int
    default: 5368709120
  environment:
    description: Environment variables of the build. They win over those of the module.
    type: dict
    default: {}
  work_dir:
    description:
      - Folder of all builds. There is one build at a time in it.
      - Builds in it that are not the asked one stay.
    type: path
    default: /var/cache/mooncake-pd/build
  artifact:
    description: Folder that the archive is put into. C(artifacts) in O(work_dir) when omitted.
    type: path
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - C(USE_ETCD), C(STORE_USE_ETCD) and C(WITH_P2P_STORE) build Go code, which loads its modules from the
    network. Set C(GOPROXY) in O(environment) where there is a mirror.
seealso:
  - module: mooncake.pd.mooncake_build_info
  - module: mooncake.pd.mooncake_install
"""

EXAMPLES = r"""
- name: Build Mooncake for NPUs
  mooncake.pd.mooncake_build:
    source: /var/cache/mooncake-pd/source/mooncake
    version: 0.3.12.post1
    prefix: /opt/mooncake-pd/mooncake
    options:
      USE_ASCEND_DIRECT: true
      BUILD_UNIT_TESTS: false
      BUILD_BENCHMARK: false
      ENABLE_DEBUG_SYMBOLS: false
      CMAKE_BUILD_TYPE: Release
  register: built

- name: Take the archive to the controller
  ansible.builtin.fetch:
    src: "{{ built.artifact.path }}"
    dest: build/
    flat: true
"""

RETURN = r"""
digest:
  description: SHA-256 of everything that decides the result.
  returned: success
  type: str
  sample: 5d1f0c6f0a5a4d0cb2a1f1b3a1f7b0a7c3a7d1c9b2d0c4f8e6a5b4c3d2e1f0a9
built:
  description: Whether something was built, or would be in check mode.
  returned: success
  type: bool
  sample: true
artifact:
  description: The archive.
  returned: success
  type: dict
  contains:
    path:
      description: Its path.
      type: str
    sha256:
      description: Its SHA-256; V(null) in check mode when it is not there yet.
      type: str
    size:
      description: Its size in bytes; V(null) in check mode when it is not there yet.
      type: int
  sample:
    path: /srv/artifacts/mooncake-0.3.12.post1-debian-12-x86_64-cann8.5.1-py3.11-5d1f0c6f0a5a.tar.gz
    sha256: 0b5f7f6f7d7ec5f6d3e8a1a3f5b7c9d1e3f5a7b9c1d3e5f7a9b1c3d5e7f9a1b3
    size: 21044563
manifest:
  description: What the archive holds; V(null) in check mode when it is not there yet.
  returned: success
  type: dict
  contains:
    version:
      description: As given.
      type: str
    commit:
      description: Commit of the source; V(null) when the tree is not a clean checkout.
      type: str
    source:
      description: What the source was identified by, C(commit:...) or C(tree:...).
      type: str
    options:
      description: As asked; booleans as V(ON) and V(OFF).
      type: dict
    cann:
      description: Path and version; V(null) when the options need none.
      type: dict
    compiler:
      description: Family and version.
      type: dict
    python:
      description: Major and minor version that the extensions are for.
      type: str
    yalantinglibs:
      description: What its source was identified by.
      type: str
    key:
      description: As RV(ignore:build.key) of M(mooncake.pd.mooncake_build_info).
      type: str
    digest:
      description: As RV(digest).
      type: str
    prefix:
      description: As given.
      type: str
    files:
      description: Every file and link.
      type: list
      elements: dict
      contains:
        path:
          description: Path below the prefix.
          type: str
        sha256:
          description: Of a file.
          type: str
        mode:
          description: Of a file, V(0755) or V(0644).
          type: str
        size:
          description: Of a file, in bytes.
          type: int
        target:
          description: Of a link, where it leads.
          type: str
log:
  description: File with all that CMake and the compilers said.
  returned: success, or when a step of the build failed
  type: str
  sample: /var/cache/mooncake-pd/build/5d1f0c6f0a5a/build.log
seconds:
  description: How long it took.
  returned: success
  type: float
  sample: 512.4
"""

import os
import re
import time
from typing import Any, Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import (
    archive,
    builder,
    digest,
    lock,
    source_tree,
    survey,
)
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.steps import StepFailed

ARGUMENTS: dict[str, Any] = {
    "source": {"type": "path", "required": True},
    "version": {"type": "str", "required": True},
    "prefix": {"type": "path", "required": True},
    "options": {"type": "dict", "default": {}},
    "yalantinglibs": {"type": "path"},
    "cann_path": {"type": "path"},
    "python": {"type": "path", "default": "/usr/bin/python3"},
    "cc": {"type": "str"},
    "cxx": {"type": "str"},
    "generator": {"type": "str", "choices": ["Ninja", "Unix Makefiles"]},
    "jobs": {"type": "int", "default": 0},
    "memory_per_job": {"type": "int", "default": 5368709120},
    "environment": {"type": "dict", "default": {}},
    "work_dir": {"type": "path", "default": "/var/cache/mooncake-pd/build"},
    "artifact": {"type": "path"},
}
# They end up in linker flags and in lists of CMake, or in the name of a file.
_PATH = re.compile(r"/[^\s;:,$'\"\\]*\Z")
_VERSION = re.compile(r"\w[\w.+-]*\Z")


class Build:
    """One run of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params = module.params
        self.begun = time.monotonic()
        for name in ("source", "prefix", "work_dir"):
            self.params[name] = os.path.normpath(self.params[name])
        self.survey = survey.Survey(self.params)

    def check(self) -> None:
        problems = self.survey.problems() + self._of_paths() + self._of_yalantinglibs()
        if problems:
            lines = [f"- {problem['what']} {problem['fix']}" for problem in problems]
            self.module.fail_json(msg="\n".join(["Mooncake cannot be built:", *lines]), problems=problems)

    def _of_paths(self) -> list[survey.Problem]:
        found = []
        for name in ("prefix", "work_dir", "source"):
            if not _PATH.match(self.params[name]):
                what = f"{name} is {self.params[name]!r}: CMake's lists and linker flags cannot hold that."
                found.append(survey.problem("path-wrong", what, "Take an absolute path without blanks and ;:,$."))
        if not _VERSION.match(self.params["version"]):
            what = f"version is {self.params['version']!r}, which cannot be part of the name of a file."
            found.append(survey.problem("version-wrong", what, "Give it as in 0.3.12.post1."))
        return found

    @property
    def yalantinglibs(self) -> str:
        given: Optional[str] = self.params["yalantinglibs"]
        return given or os.path.join(self.params["source"], source_tree.YALANTINGLIBS)

    def _of_yalantinglibs(self) -> list[survey.Problem]:
        if source_tree.has_cmake(self.yalantinglibs):
            return []
        what = f"There is no yalantinglibs in {self.yalantinglibs}: it has no CMakeLists.txt."
        fix = (
            "Run `git submodule update --init` in the source, or give an unpacked tree of the release that this "
            "Mooncake wants with yalantinglibs."
        )
        return [survey.problem("yalantinglibs-missing", what, fix)]

    def plan(self) -> builder.Plan:
        look, params = self.survey, self.params
        if look.compiler is None or look.python is None or look.generator is None:
            raise AssertionError("the problems name them")
        self.source = source_tree.identity(params["source"], look.git)
        libraries = source_tree.identity(self.yalantinglibs, look.git)
        cann = look.cann if look.with_cann else None
        return builder.Plan(
            digest=digest.of(
                source=self.source.text,
                options=look.options,
                key=look.key,
                cann=cann,
                compiler=look.compiler,
                prefix=params["prefix"],
                yalantinglibs=libraries.text,
                environment=look.environment,
            ),
            source=params["source"],
            commit=self.source.commit,
            options=look.options,
            prefix=params["prefix"],
            python=params["python"],
            python_version=digest.minor(look.python["version"]),
            compiler=look.compiler,
            generator=params["generator"] or look.generator,
            jobs=params["jobs"] if params["jobs"] > 0 else look.jobs(),
            cann=cann,
            arch=look.arch,
            yalantinglibs=self.yalantinglibs,
            yalantinglibs_identity=libraries.text,
            environment=look.environment,
            work_dir=params["work_dir"],
        )

    def run(self) -> None:
        self.check()
        plan = self.plan()
        files = builder.finished(plan)
        if self.module.check_mode:
            self._end(plan, files, built=files is None)
        os.makedirs(plan.work_dir, exist_ok=True)
        built = files is None
        if files is None:
            try:
                with lock.Lock(plan.work_dir):
                    lock.end_left_running(plan.work_dir)
                    files = builder.Builder(plan).run()
            except lock.Busy as busy:
                self.module.fail_json(msg=f"Nothing was done: {busy}. Wait for its end, or end that process.")
            except StepFailed as failed:
                self.module.fail_json(msg=str(failed), log=plan.log, digest=plan.digest)
        self.survey.memory.keep()
        self._end(plan, files, built)

    def _end(self, plan: builder.Plan, files: Optional[list[dict[str, Any]]], built: bool) -> None:
        params = self.params
        folder = params["artifact"] or os.path.join(params["work_dir"], "artifacts")
        path = os.path.join(folder, archive.name_of(params["version"], self.survey.key, plan.digest))
        described, packed = None, False
        if files is not None:
            described = builder.described(plan, params["version"], self.survey.key, self.source.text, files)
            packed = not builder.is_packed(plan, path)
            if packed and not self.module.check_mode:
                os.makedirs(folder, exist_ok=True)
                archive.pack(plan.tree, described, path)
                builder.note_packed(plan, path)
        there = os.path.isfile(path) and not (packed and self.module.check_mode)
        self.module.exit_json(
            changed=built or packed,
            built=built,
            digest=plan.digest,
            artifact={
                "path": path,
                "sha256": source_tree.file_hash(path) if there else None,
                "size": os.path.getsize(path) if there else None,
            },
            manifest=described,
            log=plan.log,
            seconds=round(time.monotonic() - self.begun, 1),
        )


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    Build(module).run()


if __name__ == "__main__":
    main()
