# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import failures

CASES = {
    "submodule": (
        "CMake Error at CMakeLists.txt:47 (add_subdirectory):\n  The source directory\n\n"
        "    /src/mc/extern/pybind11\n\n"
        "  does not contain a CMakeLists.txt file.\n",
        "submodule update",
    ),
    "old compiler": (
        '/usr/include/c++/10/coroutine:331:2: error: #error "the coroutine header requires -fcoroutines"\n',
        "GCC 11",
    ),
    "old compiler, option": ("g++: error: unrecognized command-line option '-fcoroutines'\n", "GCC 11"),
    "USE_ASCEND": (
        "/src/h.cpp:9:10: fatal error: transport_mem.h: No such file or directory\n",
        "USE_ASCEND_DIRECT",
    ),
    "zstd": (
        "CMake Error at cmake/Dependencies.cmake:8 (message):\n  zstd development files not found\n",
        "libzstd-dev",
    ),
    "zstd, older": (
        "CMake Error at mooncake-store/src/CMakeLists.txt:97 (message):\n  zstd library not found\n",
        "zstd-devel",
    ),
    "MPI": (
        "CMake Error at mooncake-transfer-engine/src/CMakeLists.txt:9 (target_link_libraries):\n"
        '  Target "transfer_engine" links to:\n\n    MPI::MPI\n\n  but the target was not found.\n',
        "MPI is only needed by USE_ASCEND",
    ),
    "old CMake": (
        "CMake Error at CMakeLists.txt:1 (cmake_minimum_required):\n"
        "  CMake 3.16 or higher is required.  You run 3.9.4\n",
        "newer CMake",
    ),
    "yaml-cpp": (
        "CMake Error at mooncake-common/common.cmake:657 (find_package):\n"
        '  By not providing "Findyaml-cpp.cmake" in CMAKE_MODULE_PATH this project has\n'
        '  asked CMake to find a package configuration file provided by "yaml-cpp", but\n'
        "  CMake did not find one.\n",
        "libyaml-cpp-dev",
    ),
    "yalantinglibs": (
        "CMake Error at mooncake-common/common.cmake:676 (find_package):\n"
        '  Could not find a package configuration file provided by "yalantinglibs" with\n'
        "  any of the following names:\n",
        "give its tree with yalantinglibs",
    ),
    "network": (
        "Cloning into 'googletest-src'...\n"
        "fatal: unable to access 'https://git.example.com/g.git/': Failed to connect\n",
        "https_proxy",
    ),
    "Go modules": (
        'go: go.etcd.io/etcd/client/v3@v3.6.1: Get "https://goproxy.example.com/x.mod": dial tcp '
        "198.51.100.7:443: i/o timeout\n",
        "GOPROXY",
    ),
    "no Go": ("bash: line 1: go: command not found\n", "Install Go"),
    "patch": ("/bin/sh: 1: patch: not found\n", "Install patch"),
    "not root": ("Require root permission, try sudo ./dependencies.sh\n", "build as root"),
    "memory": ("g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n", "fewer jobs"),
    "disk": ("/tmp/cc8.s: fatal error: error writing to /tmp/cc8.s: No space left on device\n", "Make room"),
    "CANN header": (
        "/src/a.cpp:3:10: fatal error: acl/acl_rt.h: No such file or directory\n",
        "CANN's toolkit is not complete",
    ),
    "CANN library": (
        "/usr/bin/ld: cannot find -lllm_datadist: No such file or directory\n",
        "CANN's toolkit is not complete",
    ),
    "GLIBCXX": ("/opt/x/libq.so: error: version `GLIBCXX_3.4.31' not found\n", "newer compiler"),
    "any header": ("/src/b.cpp:3:10: fatal error: foo/bar.h: No such file or directory\n", "contains foo/bar.h"),
    "any library": ("/usr/bin/ld: cannot find -lfoo: No such file or directory\n", "library foo."),
    "any package": (
        "CMake Error at x.cmake:1 (find_package):\n"
        '  Could not find a package configuration file provided by "Foo" with any of\n',
        "package of Foo.",
    ),
}
BEFORE = (
    "-- The CXX compiler identification is GNU 12.2.0\n-- Looking for pthread_create in pthreads - not found\n"
    "-- Could NOT find Doxygen (missing: DOXYGEN_EXECUTABLE)\n"
)
AFTER = (
    "-- Configuring incomplete, errors occurred!\nmake[2]: *** [CMakeFiles/x] Error 1\n"
    "ninja: build stopped: subcommand failed.\n"
)


@pytest.mark.parametrize("name", CASES)
def test_each_known_text_has_its_advice(name: str) -> None:
    text, advice = CASES[name]
    failure = failures.explain((BEFORE + text + AFTER).splitlines())
    assert advice in failure.advice
    assert failure.cause.split()[0] in text


def test_the_reason_of_cmake_stands_in_the_lines_after() -> None:
    failure = failures.explain((BEFORE + CASES["zstd"][0] + AFTER).splitlines())
    assert failure.cause == ("CMake Error at cmake/Dependencies.cmake:8 (message): zstd development files not found")


def test_the_first_cause_of_several() -> None:
    lines = [
        "/src/a.cpp:1:10: fatal error: numa.h: No such file or directory",
        "FAILED: b.o",
        "/src/b.cpp:1:10: fatal error: foo.h: No such file or directory",
    ]
    assert failures.explain(lines) == (lines[0], failures.advice_for(lines[0]))


def test_an_unknown_failure_is_told_as_it_is() -> None:
    lines = [
        "[1/2] x",
        "/src/a.cpp:7:1: error: 'q' was not declared in this scope",
        "ninja: build stopped: subcommand failed.",
    ]
    assert failures.explain(lines) == (lines[1], failures.NO_ADVICE)
    assert failures.explain(["something", ""]) == ("something", failures.NO_ADVICE)
    assert failures.explain([]).cause == "It ended without a word."


def test_what_is_told_is_bounded() -> None:
    lines = [f"{number} " + "x" * 5000 for number in range(100)]
    assert len(failures.explain(lines).cause) == 300
    assert [len(line) for line in failures.tail(lines)] == [300] * 20
