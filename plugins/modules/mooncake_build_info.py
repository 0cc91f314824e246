# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mooncake_build_info
short_description: Find out whether a host can build Mooncake, and what of it decides the result
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Looks at distribution, CANN, compiler, CMake, Python, headers, Go, MPI, memory and disk of a host, and lists
    everything that stands in the way of a build with the given options at once.
  - Changes nothing, and starts no compiler but for its version.
options:
  options:
    description:
      - The options of the build, by the name that C(cmake -D) takes. Values are texts, numbers or booleans.
      - They decide which headers, and whether CANN and Go, are needed.
    type: dict
    default: {}
  source:
    description:
      - Unpacked tree of Mooncake. Its submodules are looked at, and only headers that its CMake files ask for are
        demanded.
      - Without it, all that any release needs for O(options).
    type: path
  cann_path:
    description:
      - Root of CANN, the folder with C(set_env.sh).
      - "When omitted: C(ASCEND_HOME_PATH) of O(environment), C(/usr/local/Ascend/cann),
        C(/usr/local/Ascend/ascend-toolkit/latest), and the newest C(/usr/local/Ascend/cann-*), in this order."
    type: path
  python:
    description: Interpreter that Mooncake's extensions are built for.
    type: path
    default: /usr/bin/python3
  cc:
    description: C compiler, by name or path; C(gcc), or C(cc) where there is none, when omitted.
    type: str
  cxx:
    description: C++ compiler, by name or path; C(g++), or C(c++) where there is none, when omitted.
    type: str
  work_dir:
    description: Folder of the build. The free space of its file system counts; it need not exist.
    type: path
    default: /var/cache/mooncake-pd/build
  memory_per_job:
    description: Bytes of memory that one compiler may take. They decide RV(build.jobs).
    type: int
    default: 5368709120
  disk_needed:
    description: Bytes that must be free for O(work_dir).
    type: int
    default: 10737418240
  environment:
    description: Environment variables of the build. They win over those of the module.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
seealso:
  - module: mooncake.pd.mooncake_build
"""

EXAMPLES = r"""
- name: Look at the builder
  mooncake.pd.mooncake_build_info:
    source: /var/cache/mooncake-pd/source/mooncake
    options:
      USE_ASCEND_DIRECT: true
      BUILD_UNIT_TESTS: false
  register: look

- name: Stop when it cannot build
  ansible.builtin.assert:
    that: look.build.problems == []
    fail_msg: "{{ look.build.problems | map(attribute='what') | join('\n') }}"
"""

RETURN = r"""
build:
  description: What was found.
  returned: always
  type: dict
  contains:
    os:
      description: The distribution.
      type: dict
      contains:
        id:
          description: C(ID) of C(/etc/os-release).
          type: str
        version_id:
          description: C(VERSION_ID) of C(/etc/os-release).
          type: str
        arch:
          description: Architecture as C(uname -m) tells it.
          type: str
    cann:
      description: CANN; V(null) when none was found.
      type: dict
      contains:
        path:
          description: Its root.
          type: str
        version:
          description: Its version; V(null) when no file tells it.
          type: str
        missing:
          description: Headers and libraries that the build needs and that are not there.
          type: list
          elements: str
    compiler:
      description: The compiler; V(null) when there is none.
      type: dict
      contains:
        c:
          description: Path of the C compiler.
          type: str
        cxx:
          description: Path of the C++ compiler.
          type: str
        family:
          description: V(gcc) or V(clang).
          type: str
        version:
          description: Version of the C++ compiler.
          type: str
    cmake:
      description: Version of CMake; V(null) when there is none.
      type: str
    generator:
      description: V(Ninja) where it is, else V(Unix Makefiles); V(null) when there is neither.
      type: str
    python:
      description: The interpreter; V(null) when it cannot be run.
      type: dict
      contains:
        path:
          description: Its path.
          type: str
        version:
          description: Its version.
          type: str
        headers:
          description: Whether C(Python.h) is there.
          type: bool
    glibc:
      description: Version of the C library; V(null) when it is another one.
      type: str
    mpi:
      description: What MPI there is. Builds with C(USE_ASCEND_DIRECT) need none.
      type: dict
      contains:
        flavour:
          description: Of the C(mpicc) that comes first, V(mpich) or V(openmpi); V(null) without one.
          type: str
        both:
          description: Whether both are installed.
          type: bool
    go:
      description: Version of Go; V(null) when there is none.
      type: str
    jobs:
      description: Compilers at once that memory and CPUs allow; at least 1.
      type: int
    memory_available:
      description: Bytes; V(null) when the kernel does not tell.
      type: int
    disk_free:
      description: Bytes; V(null) when the file system does not tell.
      type: int
    key:
      description: Equal on hosts that can share a result of a build.
      type: str
    missing_headers:
      description: Headers that the options need and that are not there.
      type: list
      elements: str
    packages_hint:
      description:
        - What packages of the distribution are to bring, by names that are the same on all of them; C(compiler),
          C(cmake), C(ninja), C(patch), C(python), C(python-dev), C(go), and the names of libraries such as C(zstd).
      type: list
      elements: str
    problems:
      description: What stands in the way.
      type: list
      elements: dict
      contains:
        rule:
          description: Name of the rule.
          type: str
        what:
          description: What is wrong.
          type: str
        fix:
          description: The way out.
          type: str
        packages:
          description: Whether packages of the distribution can mend it.
          type: bool
  sample:
    os: {id: openEuler, version_id: "24.03", arch: aarch64}
    cann: {path: /usr/local/Ascend/cann, version: 8.5.1, missing: []}
    compiler: {c: /usr/bin/gcc, cxx: /usr/bin/g++, family: gcc, version: 12.3.1}
    cmake: 3.27.9
    generator: Ninja
    python: {path: /usr/bin/python3, version: 3.11.6, headers: true}
    glibc: "2.38"
    mpi: {flavour: null, both: false}
    go: null
    jobs: 96
    memory_available: 1099511627776
    disk_free: 549755813888
    key: openEuler-24.03-aarch64-cann8.5.1-py3.11
    missing_headers: [xxhash.h]
    packages_hint: [xxhash]
    problems:
      - rule: headers-missing
        what: "The options need headers that are not there: xxhash.h."
        fix: "Install the development packages of xxhash."
        packages: true
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import survey

ARGUMENTS: dict[str, Any] = {
    "options": {"type": "dict", "default": {}},
    "source": {"type": "path"},
    "cann_path": {"type": "path"},
    "python": {"type": "path", "default": "/usr/bin/python3"},
    "cc": {"type": "str"},
    "cxx": {"type": "str"},
    "work_dir": {"type": "path", "default": "/var/cache/mooncake-pd/build"},
    "memory_per_job": {"type": "int", "default": 5368709120},
    "disk_needed": {"type": "int", "default": 10737418240},
    "environment": {"type": "dict", "default": {}},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    module.exit_json(changed=False, build=survey.look(module.params))


if __name__ == "__main__":
    main()
