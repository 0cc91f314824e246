# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.headers import HEADERS
from ansible_collections.mooncake.pd.plugins.modules import mooncake_build, mooncake_build_info
from ansible_collections.mooncake.pd.tests.unit.plugins.modules.mooncake_builder import Bench

RunModule = Callable[..., dict[str, Any]]

RETURNED = yaml.safe_load(mooncake_build_info.RETURN)["build"]["contains"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def look(bench: Bench, run_module: RunModule, **more: Any) -> dict[str, Any]:
    params = {name: bench.params[name] for name in ("source", "work_dir", "python", "environment", "options")}
    answer = run_module(mooncake_build_info, check=True, **{**params, **more})
    assert (answer["failed"], answer["changed"]) == (False, False)
    build: dict[str, Any] = answer["build"]
    return build


def rules(build: dict[str, Any]) -> list[str]:
    return [problem["rule"] for problem in build["problems"]]


def undocumented(value: Any, documented: dict[str, Any], path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{path}.{name}" for name in value.keys() ^ documented.keys())
        for name in value.keys() & documented.keys():
            yield from undocumented(value[name], documented[name].get("contains", {}), f"{path}.{name}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from undocumented(value[0], documented, path)


def test_a_host_that_can(bench: Bench, run_module: RunModule) -> None:
    build = look(bench, run_module)
    assert (rules(build), build["packages_hint"], build["missing_headers"]) == ([], [], [])
    assert build["compiler"] == {
        "c": f"{bench.root}/bin/gcc",
        "cxx": f"{bench.root}/bin/g++",
        "family": "gcc",
        "version": "12.2.0",
    }
    assert (build["cmake"], build["generator"]) == ("3.25.1", "Ninja")
    assert build["jobs"] >= 1
    assert build["key"].endswith(f"-py{sys.version_info[0]}.{sys.version_info[1]}")
    assert list(undocumented(build, RETURNED)) == []
    assert bench.calls == []


def test_both_modules_have_one_key(bench: Bench, run_module: RunModule) -> None:
    root = bench.cann()
    given = {"options": {"USE_ASCEND_DIRECT": True}, "cann_path": str(root)}
    build = look(bench, run_module, **given)
    assert build["cann"] == {"path": str(root), "version": "8.5.1", "missing": []}
    assert run_module(mooncake_build, **{**bench.params, **given})["manifest"]["key"] == build["key"]


def test_everything_at_once(bench: Bench, run_module: RunModule) -> None:
    for name in ("gcc", "cmake", "ninja", "make", "patch"):
        (bench.root / "bin" / name).unlink()
    (bench.source / "CMakeLists.txt").write_text(
        "find_path(X odd/xxhash.h)\nfind_package(Python3 COMPONENTS Development)\n"
    )
    environment = {"PATH": f"{bench.root}/bin", "CPATH": str(bench.root)}
    options = {"USE_ASCEND_DIRECT": True, "USE_ETCD": True}
    build = look(
        bench,
        run_module,
        environment=environment,
        options=options,
        cann_path=f"{bench.root}/none",
        python="/no/python",
        disk_needed=1 << 60,
        memory_per_job=1 << 60,
    )
    assert rules(build)[:7] == [
        "compiler-missing",
        "cmake-missing",
        "generator-missing",
        "patch-missing",
        "go-missing",
        "python-missing",
        "cann-missing",
    ]
    assert rules(build)[-2:] == ["disk-small", "memory-small"]
    assert build["jobs"] == 1
    assert build["packages_hint"][:6] == ["compiler", "cmake", "patch", "go", "python", "ninja"]
    packages = {problem["rule"] for problem in build["problems"] if problem["packages"]}
    assert not packages & {"cann-missing", "disk-small", "memory-small"}
    assert list(undocumented(build, RETURNED)) == []


def test_cann_that_is_not_whole(bench: Bench, run_module: RunModule) -> None:
    root = bench.cann()
    for path in (*root.glob("*/include/acl/acl_rt.h"), *root.glob("*/*.info")):
        path.unlink()
    build = look(bench, run_module, options={"USE_ASCEND_DIRECT": True}, cann_path=str(root))
    assert rules(build) == ["cann-incomplete", "cann-unknown"]
    assert "acl/acl_rt.h" in build["problems"][0]["what"]
    assert rules(look(bench, run_module, cann_path=str(root))) == []


def test_ninja_is_asked_for_where_make_would_do(bench: Bench, run_module: RunModule) -> None:
    (bench.root / "bin/ninja").unlink()
    build = look(bench, run_module, environment={"PATH": f"{bench.root}/bin"})
    assert (build["generator"], rules(build), build["packages_hint"]) == ("Unix Makefiles", [], ["ninja"])


def test_no_source(bench: Bench, run_module: RunModule) -> None:
    # without a tree all headers are wanted, and not every machine of developers has them
    for path in (path for header in HEADERS for path in header.paths):
        (bench.root / "include" / path).parent.mkdir(parents=True, exist_ok=True)
        (bench.root / "include" / path).touch()
    environment = {**bench.params["environment"], "CPATH": f"{bench.root}/include"}
    build = look(bench, run_module, source=str(bench.root / "none"), environment=environment)
    assert rules(build) == ["source-missing"]
