# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Answer
from ansible_collections.mooncake.pd.plugins.module_utils.host import programs
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees


@pytest.mark.parametrize(
    ("tool", "text", "version"),
    [
        ("gcc", "gcc (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright (C) 2022\n", "12.2.0"),
        ("gcc", "gcc (GCC) 10.3.1 20210422\n", "10.3.1"),
        ("g++", "g++ (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\n", "11.4.0"),
        ("gcc", "gcc: error\n", None),
        ("cmake", "cmake version 3.22.1\n\nCMake suite\n", "3.22.1"),
        ("make", "GNU Make 4.3\nBuilt for aarch64\n", "4.3"),
        ("ninja", "1.11.1\n", "1.11.1"),
        ("git", "git version 2.33.0\n", "2.33.0"),
        ("patch", "GNU patch 2.7.6\n", "2.7.6"),
        ("go", "go version go1.22.5 linux/arm64\n", "1.22.5"),
        ("mpicc", "mpicc: Open MPI 4.1.4 (Language: C)\n", "4.1.4"),
        ("mpicc", "mpicc for MPICH version 4.0.2\nUsing built-in specs.\ngcc version 12.2.0\n", "4.0.2"),
        ("mpirun", "mpirun (Open MPI) 4.1.4\n\nReport bugs\n", "4.1.4"),
        ("mpirun", "HYDRA build details:\n    Version:                                 3.4.1\n", "3.4.1"),
        (
            "mpirun",
            "Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307 (id: d82b3071db)\nCopyright 2003-2023\n",
            "2021.9",
        ),
        ("mpicc", "mpigcc for the Intel(R) MPI Library 2021.13 for Linux*\ngcc version 12.2.0\n", "2021.13"),
        ("ss", "ss utility, iproute2-5.15.0, libbpf 0.5.0\n", "5.15.0"),
        ("ss", "ss utility, iproute2-ss190107\n", "190107"),
        ("docker", "Docker version 18.09.0, build e7ce22e\n", "18.09.0"),
        ("podman", "podman version 4.3.1\n", "4.3.1"),
        ("containerd", "containerd github.com/containerd/containerd v1.6.20~ds1 1.6.20~ds1-1\n", "1.6.20~ds1"),
        ("chronyd", "chronyd (chrony) version 4.3 (+CMDMON +NTP)\n", "4.3"),
        ("ntpd", "ntpd 4.2.8p15@1.3728-o\n", "4.2.8p15"),
        ("ntpd", "ntpd ntpsec-1.2.2\n", "1.2.2"),
        ("pkg-config", "1.8.0\n", "1.8.0"),
        ("systemd-run", "systemd 249 (v249-43.oe2203)\n+PAM\n", "249"),
    ],
)
def test_versions(tool: str, text: str, version: str | None) -> None:
    assert programs.parse_version(text.strip(), programs.TOOLS[tool].pattern) == version


def installed(root: Path, *paths: str) -> None:
    trees.tree(root, dict.fromkeys(paths, "#!/bin/sh\n"))
    for path in paths:
        (root / path.lstrip("/")).chmod(0o755)


def test_tools(tmp_path: Path) -> None:
    installed(
        tmp_path, "/usr/bin/cmake", "/usr/lib64/openmpi/bin/mpicc", "/usr/bin/rping", "/usr/bin/go", "/usr/bin/git"
    )
    (tmp_path / "usr/bin/git").chmod(0o644)

    def mpicc(argv: Sequence[str]) -> Answer:
        assert argv[1] == "--showme:version"
        return Answer(out="mpicc: Open MPI 4.0.3 (Language: C)\n")

    told = trees.Told(
        {
            "cmake": Answer(out="cmake version 3.16.5\n"),
            "mpicc": mpicc,
            "go": Answer(None, why="gave no answer in 2.0 s", seconds=2),
        }
    )
    look = trees.look(tmp_path, system=told)
    found, pythons = programs.tools(look)
    assert set(found) == set(programs.TOOLS)
    assert {name: tool for name, tool in found.items() if tool} == {
        "cmake": {"path": "/usr/bin/cmake", "version": "3.16.5"},
        "mpicc": {"path": "/usr/lib64/openmpi/bin/mpicc", "version": "4.0.3", "flavour": "openmpi"},
        "rping": {"path": "/usr/bin/rping", "version": None},  # it is not asked
        "go": {"path": "/usr/bin/go", "version": None},
    }
    assert look.unknowns == [{"what": "tools.go.version", "why": "/usr/bin/go gave no answer in 2.0 s.", "raw": ""}]
    assert pythons == []


def test_mpicc_of_mpich_is_asked_in_its_own_way(tmp_path: Path) -> None:
    installed(tmp_path, "/usr/bin/mpicc")

    def mpicc(argv: Sequence[str]) -> Answer:
        if argv[1] == "-v":
            return Answer(err="mpicc for MPICH version 3.4.1\n")
        return Answer(1, err="gcc: error: unrecognized command-line option '--showme:version'\n")

    look = trees.look(tmp_path, system=trees.Told({"mpicc": mpicc}))
    assert programs.tools(look)[0]["mpicc"] == {"path": "/usr/bin/mpicc", "version": "3.4.1", "flavour": "mpich"}
    assert look.unknowns == []


@pytest.mark.parametrize(
    ("text", "flavour"),
    [
        ("mpirun (Open MPI) 4.1.4\n", "openmpi"),
        ("HYDRA build details:\n    Version: 3.4.1\n", "mpich"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307\n", "intel"),
        ("mpirun 1\n", None),
    ],
)
def test_flavours_of_mpi(text: str, flavour: str | None) -> None:
    assert programs.flavour(text) == flavour


def test_tool_that_says_something_else(tmp_path: Path) -> None:
    installed(tmp_path, "/usr/bin/mpirun")
    look = trees.look(tmp_path, system=trees.Told({"mpirun": Answer(1, err="libopen-rte.so.40: cannot open\n")}))
    assert programs.tools(look)[0]["mpirun"] == {"path": "/usr/bin/mpirun", "version": None, "flavour": None}
    assert trees.what(look.unknowns) == {"tools.mpirun.version", "tools.mpirun.flavour"}
    assert {entry["raw"] for entry in look.unknowns} == {"libopen-rte.so.40: cannot open\n"}


def test_pythons_each_once(tmp_path: Path) -> None:
    installed(tmp_path, "/usr/bin/python3.9", "/usr/local/bin/python3.11", "/usr/bin/python3.9-config")
    (tmp_path / "usr/bin/python3").symlink_to("python3.9")
    (tmp_path / "usr/local/bin/python3.12").symlink_to("nowhere")
    told = trees.Told(
        {"python3.11": Answer(out="Python 3.11.6\n"), "python3.9": Answer(1, err="Fatal Python error\n")},
    )
    look = trees.look(tmp_path, system=told)
    assert programs.tools(look)[1] == [
        {"path": "/usr/local/bin/python3.11", "version": "3.11.6"},
        {"path": "/usr/bin/python3.9", "version": None},
    ]
    assert trees.what(look.unknowns) == {"pythons"}


def test_libraries_also_in_places_of_the_loader(tmp_path: Path) -> None:
    look = trees.look(
        tmp_path,
        {
            "/etc/ld.so.conf.d/vendor.conf": "# ours\n/opt/vendor/lib64\n",
            "/opt/vendor/lib64/libibverbs.so.1": "",
            "/usr/lib/aarch64-linux-gnu/libnuma.so.1": "",
        },
    )
    assert programs.libraries(look) == {
        "jemalloc": None,
        "libibverbs": "/opt/vendor/lib64/libibverbs.so.1",
        "libnuma": "/usr/lib/aarch64-linux-gnu/libnuma.so.1",
    }
    assert look.unknowns == []


def test_libc_and_the_newest_of_libstdcxx(tmp_path: Path) -> None:
    class Glibc(trees.Told):
        def libc(self) -> str:
            return "glibc 2.28"

    symbols = b"\0GLIBCXX_3.4\0GLIBCXX_3.4.9\0GLIBCXX_3.4.24\0GLIBCXX_DEBUG_MESSAGE_LENGTH\0GLIBCXX_3.4.30x\0"
    look = trees.look(tmp_path, {"/usr/lib64/libstdc++.so.6": symbols}, Glibc())
    assert programs.libc(look) == {
        "name": "glibc",
        "version": "2.28",
        "libstdcxx": {"path": "/usr/lib64/libstdc++.so.6", "newest": "3.4.24"},
    }
    assert look.unknowns == []
    trees.tree(tmp_path, {"/usr/lib64/libstdc++.so.6": b"no library"})
    programs.libc(look)
    assert trees.what(look.unknowns) == {"libc.libstdcxx.newest"}


def test_another_libc(tmp_path: Path) -> None:
    class Musl(trees.Told):
        def libc(self) -> str | None:
            return None

    look = trees.look(tmp_path, {"/usr/lib/x": ""}, Musl())
    assert programs.libc(look) == {"name": None, "version": None, "libstdcxx": None}
    assert trees.what(look.unknowns) == {"libc.name", "libc.version"}


def test_programs_for_which_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_ALL_SECONDS", 0.0)
    installed(tmp_path, "/usr/bin/cmake", "/usr/bin/mpirun", "/usr/bin/python3.9")
    look = trees.look(tmp_path)
    found, pythons = programs.tools(look)
    assert found["cmake"] == {"path": "/usr/bin/cmake", "version": None}
    assert found["mpirun"] == {"path": "/usr/bin/mpirun", "version": None, "flavour": None}
    assert pythons == [{"path": "/usr/bin/python3.9", "version": None}]
    assert trees.what(look.unknowns) == {"tools.cmake", "tools.mpirun", "pythons"}
