# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What CMake, compilers and linkers say when a build fails, and what to do then."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_WIDTH = 300  # characters of a line that are shown

# The texts: Mooncake issues 335, 509, 1281, 1462 and pull requests 684, 1674; the CMake files of v0.3.9 to v0.3.12.
ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"(?:extern|thirdparties|third_party)\S* does not contain a CMakeLists\.txt|not an existing directory.*extern/",
        "A submodule is empty: run `git submodule update --init --recursive` in the source, or give an archive that "
        "contains the submodules.",
    ),
    (
        r"transport_mem\.h",
        "This is the transport of USE_ASCEND, whose header CANN does not publish: build with USE_ASCEND_DIRECT.",
    ),
    (
        r"coroutine header requires|unrecognized command.line option .*(?:-fcoroutines|c\+\+2[0a])"
        r"|dialect \"CXX20\"|CXX20 .*does not know|no such file or directory.*<(?:coroutine|source_location)>"
        r"|fatal error: (?:coroutine|source_location|concepts): No such file",
        "The compiler is too old: GCC 11 or newer is needed. Install it (gcc-toolset, gcc-11) and name "
        "it with cc and cxx.",
    ),
    (
        r"CMake \d[\d.]* or higher is required",
        "Install a newer CMake, from the distribution or as `pip install cmake`.",
    ),
    (
        r"zstd (?:development files|library) not found|zstd\.h",
        "Install the development files of zstd (libzstd-dev; zstd-devel on openEuler).",
    ),
    (
        r"(?i)xxhash development files not found|xxhash\.h",
        "Install the development files of xxHash (libxxhash-dev, xxhash-devel).",
    ),
    (
        r"hiredis development files not found|hiredis/hiredis\.h|hiredis\.h",
        "Install the development files of hiredis, or leave USE_REDIS and STORE_USE_REDIS out.",
    ),
    (
        r"libzmq development files not found|zmq\.h(?:pp)?:",
        "Install the development files of ZeroMQ, or leave ENABLE_KV_EVENTS out.",
    ),
    (
        r"Could NOT find MPI|MPI::MPI|mpi\.h: No such file",
        "MPI is only needed by USE_ASCEND: build with USE_ASCEND_DIRECT, or install MPICH with its development files.",
    ),
    (
        r"(?i)configuration file provided by \"yalantinglibs\"|ylt/\S+: No such file|asio\.hpp|standalone asio headers",
        "yalantinglibs is not the one that this release needs: give its tree with yalantinglibs, or fill "
        "extern/yalantinglibs.",
    ),
    (
        r"configuration file provided by \"yaml-cpp\"|yaml-cpp/yaml\.h",
        "Install the development files of yaml-cpp (libyaml-cpp-dev, yaml-cpp-devel).",
    ),
    (
        r"configuration file provided by \"gflags\"|gflags/gflags\.h",
        "Install the development files of gflags (libgflags-dev, gflags-devel).",
    ),
    (
        r"(?i)could not find glog|glog/logging\.h",
        "Install the development files of glog (libgoogle-glog-dev, glog-devel).",
    ),
    (
        r"(?i)could not find jsoncpp|json/json\.h",
        "Install the development files of JsonCpp (libjsoncpp-dev, jsoncpp-devel).",
    ),
    (
        r"(?i)could not find curl|curl/curl\.h",
        "Install the development files of libcurl, or build with USE_HTTP off.",
    ),
    (r"msgpack(?:\.hpp|/)", "Install the development files of msgpack for C++ (libmsgpack-dev, msgpack-devel)."),
    (
        r"infiniband/verbs\.h|cannot find -libverbs",
        "Install the development files of libibverbs (libibverbs-dev, rdma-core-devel).",
    ),
    (r"\bnuma\.h|cannot find -lnuma", "Install the development files of libnuma (libnuma-dev, numactl-devel)."),
    (
        r"Python\.h|Could NOT find Python3.*Development",
        "Install the development files of the Python that the build is for (python3-dev, python3-devel).",
    ),
    (
        r"acl/acl\S*\.h|adxl/\S+\.h|llm_datadist/\S+\.h|hixl/\S+\.h"
        r"|cannot find -l(?:ascendcl|llm_datadist|metadef|graph_base|graph)\b",
        "CANN's toolkit is not complete, or is not what cann_path names: it has to contain the headers and libraries "
        "of the toolkit package for this architecture.",
    ),
    (
        r"libcudart|cuda_runtime\.h|cannot find -lcuda",
        "Something asks for CUDA: leave USE_CUDA, USE_NVMEOF and USE_MNNVL out.",
    ),
    (
        r"go: (?:command )?not found|go not found|Could NOT find Go",
        "Install Go, or leave USE_ETCD, STORE_USE_ETCD and WITH_P2P_STORE out.",
    ),
    (
        r"go: \S+@\S+: |proxy\.golang\.org|go: (?:download|updat)\S* .*(?:timeout|refused)|requires go >=",
        "Go cannot load its modules: set GOPROXY in the environment to a proxy that this host reaches, or leave "
        "USE_ETCD, STORE_USE_ETCD and WITH_P2P_STORE out.",
    ),
    (
        r"googletest|gtest/gtest\.h",
        "The unit tests load googletest from the network: build with BUILD_UNIT_TESTS off.",
    ),
    (
        r"unable to access '|Failed to connect to|Could not resolve host|Connection timed out|status_code: [1-9]",
        "Something is loaded from the network, which this host does not reach: set https_proxy in the environment, or "
        "give a tree with everything in it and leave the option out that loads it.",
    ),
    (r"\bpatch: (?:command )?not found", "Install patch."),
    (r"(?i)require root|Permission denied", "The user of the build may not do that: build as root, or own the folder."),
    (
        r"Killed signal terminated program|fatal error: Killed|signal 9|std::bad_alloc|cannot allocate memory"
        r"|virtual memory exhausted|out of memory",
        "Memory ran out: build with fewer jobs, a higher memory_per_job, or ENABLE_DEBUG_SYMBOLS off.",
    ),
    (r"No space left on device", "Make room: a build needs about 10 GB in the work folder, and room in /tmp."),
    (
        r"`?GLIBCXX_[\d.]+'? not found|undefined reference to .*GLIBCXX",
        "A library was built with a newer compiler than this one: use the compiler that it was built with, or newer.",
    ),
    (
        r"internal compiler error",
        "The compiler itself broke: take another release of it, or fewer jobs if memory is short.",
    ),
    (
        r"fatal error: (?P<name>\S+): No such file",
        "Install the development package that contains {name}.",
    ),
    (r"cannot find -l(?P<name>\S+?):?(?: |$)", "Install the development package of the library {name}."),
    (
        r"configuration file provided by \"(?P<name>[^\"]+)\"|Could (?:NOT|not) find (?!a )(?P<name_>\w+)",
        "Install the development package of {name}.",
    ),
)
NO_ADVICE = "The log tells what led to it."
_TABLE = [(re.compile(pattern), advice) for pattern, advice in ADVICE]
_CAUSE = re.compile(
    r"^CMake Error|(?:^|[\s:])(?:fatal )?error(?: #?\d+)?:|undefined reference to|cannot find -l|\*\*\* |^fatal: "
    r"|not found$|No space left on device|^Killed|^go: |Permission denied|^[Rr]equire"
    r"|or higher is required|^Traceback|Error: "
)
_NOISE = re.compile(r"^-- |^FAILED: |^ninja: |^make(?:\[\d+\])?: \*\*\* .*(?:Error \d+|Waiting for unfinished)")


class Failure(NamedTuple):
    cause: str
    advice: str


def advice_for(line: str) -> str:
    """The advice on the failure that this line tells; empty when it tells none that is known."""
    for pattern, advice in _TABLE:
        match = pattern.search(line)
        if match:
            names = [text for key, text in match.groupdict().items() if key.startswith("name") and text]
            return advice.replace("{name}", names[0]) if names else advice
    return ""


def _told(lines: Sequence[str], first: int) -> str:
    """CMake puts the reason into the indented lines that follow."""
    line = lines[first].strip()
    if not line.startswith("CMake Error"):
        return line
    reason = []
    for text in lines[first + 1 : first + 8]:
        if text.strip() and not text.startswith(" "):
            break
        reason += [text.strip()] if text.strip() else []
    return " ".join((line, *reason))


def explain(lines: Sequence[str]) -> Failure:
    """The first line that tells of a failure, and one advice."""
    starts = [number for number, line in enumerate(lines) if _CAUSE.search(line) and not _NOISE.search(line)]
    told = [_told(lines, number) for number in starts]
    for text in told:
        advice = advice_for(text)
        if advice:
            return Failure(cut(text), advice)
    last = next((line.strip() for line in reversed(lines) if line.strip()), "It ended without a word.")
    return Failure(cut(told[0] if told else last), NO_ADVICE)


def cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."


def tail(lines: Sequence[str], number: int = 20) -> list[str]:
    return [cut(line.rstrip()) for line in lines if line.strip()][-number:]
