# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Headers that a build needs, which of them are not there, and what brings them."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import options as given

_FOLDERS = ("usr/local/include", "usr/include", "usr/include/*-linux-gnu*")
_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")


class Header(NamedTuple):
    brings: str  # the name that packages_hint has for it
    paths: tuple[str, ...]  # one of them is enough
    asked: tuple[str, ...]  # what the CMake files of a tree have that wants it, all of it
    wanted: tuple[tuple[str, bool], ...] = ()  # options, any of them, with their defaults; none: always


_STORE = (("WITH_STORE", True),)
_ZSTD = r"zstd\.h|find_library\(\s*ZSTD"
_ALLOCATOR = r"cachelib_memory_allocator"
# CMakeLists.txt, cmake/Dependencies.cmake and mooncake-common of Mooncake v0.3.9 to v0.3.12
HEADERS = (
    Header("yaml-cpp", ("yaml-cpp/yaml.h",), (r"find_package\(\s*yaml-cpp",)),
    Header("gflags", ("gflags/gflags.h",), (r"find_package\(\s*gflags",)),
    Header("glog", ("glog/logging.h",), (r"glog/logging\.h|FindGLOG",)),
    Header("jsoncpp", ("json/json.h", "jsoncpp/json/json.h"), (r"json/json\.h|FindJsonCpp",)),
    Header("ibverbs", ("infiniband/verbs.h",), (r"\bibverbs\b",)),
    Header("numa", ("numa.h",), (r"(?m)^[^#\n]*\bnuma\b",)),
    Header("zstd", ("zstd.h",), (_ZSTD,), _STORE),
    Header("xxhash", ("xxhash.h",), (r"xxhash\.h",), _STORE),
    # No CMake file asks for these two: msgpack came with zstd, for the snapshots of the master, and the sources of the
    # store's allocator want boost.
    Header("msgpack", ("msgpack.hpp",), (_ZSTD, _ALLOCATOR), _STORE),
    Header("boost", ("boost/functional/hash.hpp",), (_ALLOCATOR,), _STORE),
    Header("curl", ("curl/curl.h",), (r"find_package\(\s*CURL",), (("USE_HTTP", True),)),
    Header("hiredis", ("hiredis/hiredis.h",), (r"hiredis",), (("USE_REDIS", False), ("STORE_USE_REDIS", False))),
    Header("zmq", ("zmq.h",), (r"zmq",), (("ENABLE_KV_EVENTS", False),)),
    Header("jemalloc", ("jemalloc/jemalloc.h",), (r"jemalloc",), (("STORE_USE_JEMALLOC", False),)),
)


def needed(options: Mapping[str, str], cmake_files: str = "") -> list[Header]:
    """cmake_files: the text of the tree's CMake files; empty when there is no tree, then none is left out for it."""
    return [
        header
        for header in HEADERS
        if (not header.wanted or any(given.on(dict(options), name, default) for name, default in header.wanted))
        and (not cmake_files or all(re.search(pattern, cmake_files) for pattern in header.asked))
    ]


def folders(environment: Mapping[str, str], options: Mapping[str, str], root: str = "/") -> list[str]:
    """Where the compiler and CMake look."""
    found = [folder for name in _VARIABLES for folder in environment.get(name, "").split(":") if folder]
    found += re.findall(r"-(?:I|isystem)\s*(\S+)", environment.get("CXXFLAGS", "") + options.get("CMAKE_CXX_FLAGS", ""))
    prefixes = options.get(given.PREFIX_PATH, "").split(";") + environment.get(given.PREFIX_PATH, "").split(":")
    found += [f"{prefix}/include" for prefix in prefixes if prefix]
    for pattern in _FOLDERS:
        found += sorted(glob.glob(os.path.join(root, pattern)))
    return found


def missing(headers: Iterable[Header], places: list[str]) -> list[Header]:
    return [
        header
        for header in headers
        if not any(os.path.isfile(os.path.join(place, path)) for place in places for path in header.paths)
    ]
