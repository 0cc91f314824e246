# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.modules import mooncake_build
from ansible_collections.mooncake.pd.tests.unit.plugins.modules.mooncake_builder import Bench

RunModule = Callable[..., dict[str, Any]]

TWO_STEPS = ["build --parallel 3 --target transfer_engine", "build --parallel 3"]
LIBRARIES = ["configure yalantinglibs", "build", "install"]
ALL = [*LIBRARIES, "configure mooncake", *TWO_STEPS, "install"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_build_and_nothing_the_second_time(bench: Bench, run_module: RunModule) -> None:
    first = run_module(mooncake_build, **bench.params)
    assert (first["failed"], first["changed"], first["built"]) == (False, True, True)
    assert bench.calls == ALL
    second = run_module(mooncake_build, **bench.params)
    assert (second["changed"], second["built"]) == (False, False)
    assert bench.calls == []
    assert {**first, "seconds": 0, "changed": 0, "built": 0} == {**second, "seconds": 0, "changed": 0, "built": 0}


def test_what_the_archive_holds(bench: Bench, run_module: RunModule) -> None:
    answer = run_module(mooncake_build, **bench.params)
    manifest = answer["manifest"]
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    modes = {
        "bin/mooncake_master": "0755",
        f"lib/{python}/site-packages/mooncake/__init__.py": "0644",
        f"lib/{python}/site-packages/mooncake/engine.so": "0755",
    }
    assert {entry["path"]: entry["mode"] for entry in manifest["files"]} == modes
    assert (manifest["version"], manifest["options"], manifest["cann"]) == ("0.3.12", {"USE_TCP": "ON"}, None)
    assert manifest["digest"] == answer["digest"]
    assert (
        os.path.basename(answer["artifact"]["path"])
        == f"mooncake-0.3.12-{manifest['key']}-{answer['digest'][:12]}.tar.gz"
    )
    with tarfile.open(answer["artifact"]["path"]) as archive:
        assert [member.name for member in archive] == ["share/mooncake-pd/mooncake.json", *modes]
        assert {(member.mtime, member.uid, member.uname) for member in archive} == {(0, 0, "")}


def test_how_cmake_is_called(bench: Bench, run_module: RunModule) -> None:
    root = bench.cann()
    options = {"USE_ASCEND_DIRECT": True, "CMAKE_BUILD_TYPE": "Release", "CMAKE_PREFIX_PATH": "/opt/x"}
    answer = run_module(mooncake_build, **{**bench.params, "options": options, "cann_path": str(root)})
    assert answer["failed"] is False
    environment = dict(line.split("=", 1) for line in (bench.root / "environment").read_text().splitlines())
    assert environment == {"ASCEND_HOME_PATH": str(root), "LDFLAGS": f"-Wl,-rpath,{bench.prefix}/lib"}
    words = (bench.root / "arguments").read_text().splitlines()
    folder = f"{bench.root}/work/{answer['digest'][:12]}"
    assert words[:6] == ["-S", str(bench.source), "-B", f"{folder}/build", "-G", "Ninja"]
    assert {
        "-DUSE_ASCEND_DIRECT=ON",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_INSTALL_PREFIX={bench.prefix}",
        f"-DCMAKE_INSTALL_RPATH={bench.prefix}/lib",
        f"-DPython3_EXECUTABLE={folder}/python/bin/python3",
        f"-DPYTHON_EXECUTABLE={folder}/python/bin/python3",
    } <= set(words)
    libraries = next(word for word in words if word.startswith("-DCMAKE_PREFIX_PATH="))
    assert libraries.startswith(f"-DCMAKE_PREFIX_PATH={bench.root}/work/deps/yalantinglibs-")
    assert libraries.endswith(";/opt/x")
    assert answer["manifest"]["cann"] == {"path": str(root), "version": "8.5.1"}
    assert "cann8.5.1" in answer["manifest"]["key"]


@pytest.mark.parametrize("what", ["source", "options", "prefix", "environment"])
def test_another_build_shares_only_yalantinglibs(bench: Bench, run_module: RunModule, what: str) -> None:
    first = run_module(mooncake_build, **bench.params)
    params = bench.params
    if what == "source":
        (bench.source / "CMakeLists.txt").write_text("changed")
    elif what == "options":
        params["options"] = {"USE_TCP": False}
    elif what == "prefix":
        params["prefix"] += "2"
    else:
        params["environment"]["CXXFLAGS"] = "-O1"
    assert bench.calls == ALL
    second = run_module(mooncake_build, **params)
    assert bench.calls == ALL[3:]
    assert second["digest"] != first["digest"]


def test_a_new_version_text_is_only_packed(bench: Bench, run_module: RunModule) -> None:
    first = run_module(mooncake_build, **bench.params)
    assert bench.calls == ALL
    second = run_module(mooncake_build, **{**bench.params, "version": "0.3.13"})
    assert bench.calls == []
    assert (second["changed"], second["built"], second["digest"]) == (True, False, first["digest"])
    assert second["artifact"]["path"].startswith(f"{bench.root}/work/artifacts/mooncake-0.3.13-")


@pytest.mark.parametrize("damage", ["archive", "no archive", "tree"])
def test_a_damaged_result_is_mended(bench: Bench, run_module: RunModule, damage: str) -> None:
    first = run_module(mooncake_build, **bench.params)
    assert bench.calls == ALL
    archive = Path(first["artifact"]["path"])
    if damage == "archive":
        archive.write_bytes(archive.read_bytes()[:-20])
    elif damage == "no archive":
        archive.unlink()
    else:
        (bench.root / "work" / first["digest"][:12] / "tree/bin/mooncake_master").write_text("other")
    second = run_module(mooncake_build, **bench.params)
    assert second["changed"] is True
    assert second["artifact"] == first["artifact"]
    assert bench.calls == ([] if damage != "tree" else ALL[4:])


def test_check_mode_starts_nothing(bench: Bench, run_module: RunModule) -> None:
    before = run_module(mooncake_build, check=True, **bench.params)
    assert (before["changed"], before["built"], before["manifest"]) == (True, True, None)
    assert before["artifact"]["sha256"] is None
    assert bench.calls == []
    assert not (bench.root / "work").exists()
    built = run_module(mooncake_build, **bench.params)
    assert built["artifact"]["path"] == before["artifact"]["path"]
    after = run_module(mooncake_build, check=True, **bench.params)
    assert (after["changed"], after["artifact"]) == (False, built["artifact"])


def test_problems_are_told_all_at_once(bench: Bench, run_module: RunModule) -> None:
    for path in ("pybind11", "yalantinglibs"):
        (bench.source / "extern" / path / "CMakeLists.txt").unlink()
    bench.program("g++", "#!/bin/sh\necho 9.4.0\n")
    bench.program("cmake", "#!/bin/sh\necho cmake version 3.10.2\n")
    options = {"USE_ASCEND": True, "USE_ASCEND_DIRECT": True, "a b": 1, "STORE_USE_ETCD": True}
    params = {**bench.params, "options": options, "prefix": "/a b", "version": "1/2", "cann_path": f"{bench.root}/none"}
    params["environment"]["PATH"] = f"{bench.root}/bin"
    (bench.root / "bin/patch").unlink()
    answer = run_module(mooncake_build, **params)
    assert [problem["rule"] for problem in answer["problems"]] == [
        "option-wrong",
        "option-refused",
        "compiler-old",
        "cmake-old",
        "patch-missing",
        "go-missing",
        "cann-missing",
        "submodule-empty",
        "path-wrong",
        "version-wrong",
        "yalantinglibs-missing",
    ]
    assert all(f"{problem['what']} {problem['fix']}" in answer["msg"] for problem in answer["problems"])


def test_yalantinglibs_from_elsewhere(bench: Bench, run_module: RunModule) -> None:
    (bench.source / "extern/yalantinglibs/CMakeLists.txt").unlink()
    other = bench.root / "ylt"
    other.mkdir()
    (other / "CMakeLists.txt").write_text("x")
    answer = run_module(mooncake_build, **bench.params, yalantinglibs=str(other))
    assert answer["failed"] is False
    (other / "CMakeLists.txt").write_text("y")
    assert run_module(mooncake_build, **bench.params, yalantinglibs=str(other))["digest"] != answer["digest"]


@pytest.mark.parametrize(
    ("wish", "text", "said"),
    [
        ("declared", "CMAKE_PREFIX_PATH", "USE_TCP is no option of this tree (asked for ON)"),
        ("cache", "USE_TCP:BOOL=OFF", "USE_TCP is OFF in CMakeCache.txt, ON was asked for"),
        ("configure", "CMake Error at x:1 (message):\n  zstd library not found", "libzstd-dev"),
        ("build", "/x.cpp:1:1: fatal error: numa.h: No such file or directory", "numactl-devel"),
        ("stray", "/etc/stray.conf", "/etc/stray.conf"),
    ],
)
def test_failures_leave_nothing_that_looks_finished(
    bench: Bench, run_module: RunModule, wish: str, text: str, said: str
) -> None:
    bench.wish(wish, text)
    for _turn in range(2 if wish in ("declared", "cache") else 1):
        answer = run_module(mooncake_build, **bench.params)
        assert answer["failed"] is True
        assert said in answer["msg"]
        assert "What to do: " in answer["msg"]
        assert answer["log"] in answer["msg"]
        assert not (bench.root / "work/artifacts").exists()
    bench.unwish(wish)
    answer = run_module(mooncake_build, **bench.params)
    assert (answer["failed"], answer["built"]) == (False, True)


def test_the_answer_is_bounded(bench: Bench, run_module: RunModule) -> None:
    bench.wish("build", "\n".join(f"/x.cpp:{number}:1: error: {'x' * 1000}" for number in range(2000)))
    answer = run_module(mooncake_build, **bench.params)
    assert len(json.dumps(answer)) < 10000
    assert os.path.getsize(answer["log"]) > 1000000


def begun(bench: Bench, generator: str) -> subprocess.Popen[bytes]:
    """A build that waits in its first step, in a process of its own."""
    bench.wish("hold", "x")
    arguments = {**bench.params, "generator": generator, "_ansible_remote_tmp": str(bench.root)}
    (bench.root / "arguments.json").write_text(json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))
    process = subprocess.Popen(
        [sys.executable, "-m", mooncake_build.__name__, str(bench.root / "arguments.json")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # ansible-test finds collections by a hook that only its own process has
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(Path(mooncake_build.__file__).parents[5]), *sys.path))},
    )
    until = time.monotonic() + 20
    # yalantinglibs is built first
    while time.monotonic() < until and not (bench.root / "building").exists():
        time.sleep(0.02)
    assert (bench.root / "building").exists(), process.poll()
    return process


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_a_killed_build_is_finished_by_the_next_run(bench: Bench, run_module: RunModule, generator: str) -> None:
    params = {**bench.params, "generator": generator}
    run_module(mooncake_build, **{**params, "options": {"USE_TCP": False}})  # so that yalantinglibs is there
    assert bench.calls == ALL
    (bench.root / "building").unlink()
    process = begun(bench, generator)
    busy = run_module(mooncake_build, **params)
    assert f"by process {process.pid}" in busy["msg"]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert bench.calls == ["configure mooncake", TWO_STEPS[0]]
    bench.unwish("hold")
    answer = run_module(mooncake_build, **params)
    assert (answer["failed"], answer["built"]) == (False, True)
    fresh = [] if generator == "Ninja" else ["configure mooncake"]
    assert bench.calls == [*fresh, *TWO_STEPS, "install"]


def test_go_writes_into_a_copy(bench: Bench, run_module: RunModule) -> None:
    bench.program("go", "#!/bin/sh\necho go version go1.25.9 linux/amd64\n")
    answer = run_module(mooncake_build, **{**bench.params, "options": {"STORE_USE_ETCD": True}})
    assert answer["failed"] is False
    words = (bench.root / "arguments").read_text().splitlines()
    copy = Path(words[words.index("-S") + 1])
    assert copy == bench.root / "work" / answer["digest"][:12] / "source"
    assert (copy / "CMakeLists.txt").read_text() == "CMakeLists.txt"


def test_nobody_else_may_write_to_the_result(bench: Bench, run_module: RunModule) -> None:
    answer = run_module(mooncake_build, **bench.params)
    tree = bench.root / "work" / answer["digest"][:12] / "tree"
    assert [path for path in tree.rglob("*") if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)] == []
