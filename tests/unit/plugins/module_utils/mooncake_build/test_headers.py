# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import headers

NEW = """
find_package(yaml-cpp REQUIRED)
find_package(gflags REQUIRED)
include(mooncake-common/FindGLOG.cmake)
find_path(MOONCAKE_ZSTD_INCLUDE_DIR zstd.h)
find_path(MOONCAKE_XXHASH_INCLUDE_DIR xxhash.h)
find_package(CURL REQUIRED)
find_path(HIREDIS hiredis/hiredis.h)
target_link_libraries(transfer_engine PUBLIC ibverbs numa)
add_library(cachelib_memory_allocator x.cpp)
"""
OLD = NEW.replace("zstd.h", "").replace("xxhash.h", "").replace("ZSTD", "")


def brings(options: dict[str, str], text: str) -> list[str]:
    return [header.brings for header in headers.needed(options, text)]


def test_a_tree_is_asked_what_it_wants() -> None:
    common = ["yaml-cpp", "gflags", "glog", "ibverbs", "numa"]
    assert brings({}, NEW) == [*common, "zstd", "xxhash", "msgpack", "boost", "curl"]
    assert brings({}, OLD) == [*common, "boost", "curl"]


@pytest.mark.parametrize(
    ("options", "more", "less"),
    [
        ({"USE_REDIS": "ON"}, {"hiredis"}, set()),
        ({"STORE_USE_REDIS": "ON"}, {"hiredis"}, set()),
        ({"USE_HTTP": "OFF"}, set(), {"curl"}),
        ({"WITH_STORE": "OFF"}, set(), {"zstd", "xxhash", "msgpack", "boost"}),
    ],
)
def test_options_decide_too(options: dict[str, str], more: set[str], less: set[str]) -> None:
    assert set(brings(options, NEW)) == (set(brings({}, NEW)) | more) - less


def test_without_a_tree_nothing_is_left_out() -> None:
    assert {"jsoncpp", "zstd", "msgpack"} <= set(brings({}, ""))
    assert "zmq" not in brings({}, "")
    assert "zmq" in brings({"ENABLE_KV_EVENTS": "ON"}, "")


def test_they_are_looked_for_where_compilers_look(tmp_path: Path) -> None:
    for path in (
        "usr/include/zstd.h",
        "usr/include/aarch64-linux-gnu/curl/curl.h",
        "own/include/xxhash.h",
        "cpath/numa.h",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    options = {"CMAKE_PREFIX_PATH": f"/nowhere;{tmp_path}/own"}
    places = headers.folders({"CPATH": f"{tmp_path}/cpath"}, options, root=str(tmp_path))
    missing = [header.brings for header in headers.missing(headers.needed({}, NEW), places)]
    assert missing == ["yaml-cpp", "gflags", "glog", "ibverbs", "msgpack", "boost"]
