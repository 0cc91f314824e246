# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import parallel, toolchain
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.memory import Memory

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(folder: Path, name: str, content: bytes = b"\x7fELF...") -> str:
    path = folder / "bin" / name
    path.write_bytes(content)
    path.chmod(0o755)
    return str(path)


class Says:
    """Answers by the last words of a command."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, argv: Sequence[str]) -> str:
        name = os.path.basename(argv[0])
        self.asked.append(name)
        return self.answers.get(name, "") if argv[1] != "--version" else self.answers.get(f"{name}_version", "")


def test_a_compiler_is_asked_once(folder: Path) -> None:
    environment = {"PATH": f"{folder}/bin"}
    program(folder, "gcc")
    path = program(folder, "g++")
    says = Says(**{"g++": "12.2.0\n", "g++_version": "g++ (Debian 12.2.0-14) 12.2.0\n"})
    memory = Memory(str(folder))
    found = toolchain.compiler(says, memory, environment, None, None)
    assert found == {"c": f"{folder}/bin/gcc", "cxx": path, "family": "gcc", "version": "12.2.0"}
    memory.keep()
    assert toolchain.compiler(Says(), Memory(str(folder)), environment, None, None) == found
    program(folder, "g++", b"\x7fELF another")
    newer = Says(**{"g++": "13.1.0"})
    changed = toolchain.compiler(newer, Memory(str(folder)), environment, None, None)
    assert changed is not None
    assert changed["version"] == "13.1.0"


@pytest.mark.parametrize(("name", "content"), [("g++", b"#!/bin/sh\n"), ("g++-cache", b"\x7fELF")])
def test_what_may_hide_another_compiler_is_asked_each_time(folder: Path, name: str, content: bytes) -> None:
    program(folder, "gcc")
    program(folder, name, content)
    memory = Memory(str(folder))
    for version in ("12.2.0", "12.3.0"):
        found = toolchain.compiler(Says(**{name: version}), memory, {"PATH": f"{folder}/bin"}, None, name)
        assert found is not None
        assert found["version"] == version


@pytest.mark.parametrize("text", ["[]", "", '{"cmake /x": 3}'])
def test_memory_that_is_none(folder: Path, text: str) -> None:
    (folder / "programs.json").write_text(text)
    program(folder, "cmake")
    says = Says(cmake_version="cmake version 3.25.1\n\nCMake suite")
    assert toolchain.cmake(says, Memory(str(folder)), {"PATH": f"{folder}/bin"}) == "3.25.1"


def test_compilers_that_are_none(folder: Path) -> None:
    environment = {"PATH": f"{folder}/bin"}
    assert toolchain.compiler(Says(), Memory(None), environment, None, None) is None
    program(folder, "gcc")
    program(folder, "g++")
    assert toolchain.compiler(Says(), Memory(None), environment, None, None) is None
    assert toolchain.compiler(Says(**{"g++": "usage: g++"}), Memory(None), environment, None, None) is None
    assert toolchain.compiler(Says(**{"g++": "12"}), Memory(None), environment, None, "g++-13") is None
    assert toolchain.cmake(Says(), Memory(None), environment) is None


def test_clang_is_told_apart(folder: Path) -> None:
    for name in ("clang", "clang++"):
        program(folder, name)
    says = Says(**{"clang++": "14.0.6\n", "clang++_version": "Debian clang version 14.0.6\n"})
    found = toolchain.compiler(says, Memory(None), {"PATH": f"{folder}/bin"}, "clang", "clang++")
    assert found is not None
    assert found["family"] == "clang"


def test_generators(folder: Path) -> None:
    environment = {"PATH": f"{folder}/bin"}
    assert toolchain.generator(environment) is None
    program(folder, "make")
    assert toolchain.generator(environment) == "Unix Makefiles"
    program(folder, "ninja-build")
    assert toolchain.generator(environment) == "Ninja"


def test_python_and_go(folder: Path) -> None:
    said = json.dumps({"version": "3.11.2", "headers": False})
    assert toolchain.python(Says(python3=said), "/x/python3") == {
        "path": "/x/python3",
        "version": "3.11.2",
        "headers": False,
    }
    assert toolchain.python(Says(), "/x/python3") is None
    program(folder, "go")
    environment = {"PATH": f"{folder}/bin"}
    assert toolchain.go(Says(go="go version go1.25.9 linux/arm64\n"), environment) == "1.25.9"
    assert toolchain.go(Says(), environment) is None


def test_mpi(folder: Path) -> None:
    environment = {"PATH": f"{folder}/bin"}
    other = f"{folder}/bin/mpicc.openmpi"
    assert toolchain.mpi(Says(), environment, [other]) == {"flavour": None, "both": False}
    program(folder, "mpicc.openmpi")
    says = Says(
        **{"mpicc.openmpi": "mpicc: Open MPI 4.1.4 (Language: C)\n", "mpicc": "mpicc for MPICH version 4.0.2\n"}
    )
    assert toolchain.mpi(says, environment, [other]) == {"flavour": "openmpi", "both": False}
    program(folder, "mpicc")
    assert toolchain.mpi(says, environment, [other]) == {"flavour": "mpich", "both": True}


def test_jobs() -> None:
    meminfo = "MemTotal:       16000000 kB\nMemAvailable:    8388608 kB\n"
    assert parallel.available(meminfo) == 8192 * MIB
    assert parallel.available(meminfo, ["max\n", f"{4096 * MIB}\n", ""]) == 4096 * MIB
    assert parallel.available("") is None
    assert parallel.jobs(8192 * MIB, 16, 2048 * MIB) == 4
    assert parallel.jobs(8192 * MIB, 2, 2048 * MIB) == 2
    assert parallel.jobs(100, 16, 2048 * MIB) == 1
    assert parallel.jobs(None, 16, 2048 * MIB) == 1
