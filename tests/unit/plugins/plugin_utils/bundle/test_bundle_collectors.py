# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pip and apt as they are asked on the connected machine."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle import packages, wheels
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.run import CollectError, run

HOW = {"python": "3.9.7", "architecture": "aarch64", "glibc": "2.31", "arguments": []}


def wheel(folder: Path, name: str, tag: str, requires: tuple[str, ...] = ()) -> str:
    file = f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(folder / file, "w") as out:
        lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {r}" for r in requires)]
        out.writestr(f"{name}-1.0.dist-info/METADATA", "\n".join(lines) + "\n")
        out.writestr(f"{name}-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        out.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return file


def collected(tmp_path: Path, requirements: list[str], dependencies: bool = True) -> dict[str, dict[str, str]]:
    work, dest = tmp_path / "work", tmp_path / "dest"
    work.mkdir()
    dest.mkdir()
    how = {**HOW, "arguments": ["--no-index", f"--find-links={tmp_path}", "--no-compile"]}
    request = {"requirements": requirements, "constraints": [], "dependencies": dependencies, "build": {}}
    return wheels.collect(request, how, work, dest)


def test_wheels_are_those_of_the_host_not_of_this_machine(tmp_path: Path) -> None:
    """The real pip: tags, markers, and what the C library is too old for."""
    markers = (
        "older; python_version < '3.10'",
        "newer; python_version >= '3.10'",
        "elsewhere; platform_machine == 'x86_64'",
        "patched; python_full_version >= '3.9.7'",
    )
    good = [
        wheel(tmp_path, "top", "py3-none-any", markers),
        wheel(tmp_path, "older", "cp39-cp39-manylinux_2_31_aarch64"),
        wheel(tmp_path, "patched", "cp38-abi3-manylinux2014_aarch64"),
    ]
    wheel(tmp_path, "older", "cp310-cp310-manylinux_2_17_aarch64")
    wheel(tmp_path, "older", "cp39-cp39-manylinux_2_17_x86_64")
    told = collected(tmp_path, ["top"])
    assert sorted(told) == sorted(good)
    assert told[good[0]] == {"version": "1.0", "from": f"file://{tmp_path}/{good[0]}"}


def test_a_lock_is_taken_line_by_line_and_nothing_else(tmp_path: Path) -> None:
    names = [wheel(tmp_path, f"part{number}", "py3-none-any", ("absent",)) for number in range(7)]
    told = collected(tmp_path, [f"part{number}==1.0" for number in range(7)], dependencies=False)
    assert sorted(told) == names


def test_what_has_no_wheel_for_the_host_is_told_with_the_way_out(tmp_path: Path) -> None:
    wheel(tmp_path, "older", "cp39-cp39-manylinux_2_35_aarch64")
    with pytest.raises(CollectError, match=r"(?s)No matching distribution found for older.*bundle_pip_args"):
        collected(tmp_path, ["older"])


def test_tags_from_the_newest_that_runs_to_the_oldest() -> None:
    assert list(wheels.tags("aarch64", "2.18")) == [
        "manylinux_2_18_aarch64",
        "manylinux_2_17_aarch64",
        "manylinux2014_aarch64",
        "linux_aarch64",
    ]
    assert list(wheels.tags("x86_64", "2.5"))[:2] == ["manylinux_2_5_x86_64", "manylinux1_x86_64"]


@pytest.mark.parametrize(
    ("given_words", "kept"),
    [
        (["--no-compile", "--index-url", "u"], ["--index-url", "u"]),
        (["--extra-index-url=u", "--pre", "--force-reinstall"], ["--extra-index-url=u", "--pre"]),
        (["-f", "/w", "--target=/t"], ["-f", "/w"]),
        ([], []),
    ],
)
def test_of_a_roles_arguments_those_that_tell_where(given_words: list[str], kept: list[str]) -> None:
    assert wheels.arguments(given_words) == kept


@given(st.lists(st.text("abc=.", min_size=1), min_size=1, max_size=30), st.booleans())
def test_every_requirement_is_asked_for_once(requirements: list[str], dependencies: bool) -> None:
    parts = wheels.shards(requirements, dependencies)
    assert sorted(line for part in parts for line in part) == sorted(requirements)
    assert all(parts)
    assert not dependencies or parts == [requirements]


def test_where_files_came_from() -> None:
    log = [
        "2026 Found link https://index.invalid/a/b/x-1%2Bcpu-py3-none-any.whl#sha256=00 (from ...), version: 1+cpu\n",
        "2026 Found link https://index.invalid/a/b/y-2-py3-none-any.whl (from ...), version: 2\n",
        "2026 Skipping link: none of the wheel's tags match\n",
    ]
    assert wheels.sources(log, ["x-1+cpu-py3-none-any.whl"]) == {
        "x-1+cpu-py3-none-any.whl": "https://index.invalid/a/b/x-1%2Bcpu-py3-none-any.whl"
    }


def test_vllm_is_built_for_no_device_before_the_rest_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[str], dict[str, str]]] = []

    def note(command: list[str], mend: str, **more: dict[str, str]) -> str:
        asked.append(([str(word) for word in command], more.get("environment") or {}))
        return ""

    monkeypatch.setattr(wheels, "run", note)
    request = {
        "requirements": ["vllm-ascend==0.9", "vllm==0.9"],
        "constraints": ["torch==1"],
        "dependencies": True,
        "build": {"vllm": {"VLLM_TARGET_DEVICE": "empty"}},
    }
    wheels.collect(request, HOW, tmp_path, tmp_path)
    (built, environment), (fetched, _none) = asked
    assert built[-1] == "vllm==0.9"
    assert "--no-binary=vllm" in built
    assert environment == {"VLLM_TARGET_DEVICE": "empty"}
    assert f"--find-links={tmp_path}" in fetched
    assert (tmp_path / "constraints.txt").read_text() == "torch==1\n"
    assert "--no-deps" not in fetched


def test_markers_are_of_the_host() -> None:
    assert wheels.markers("3.12", "aarch64")["python_full_version"] == "3.12.0"
    assert json.loads(wheels.command(HOW, [], Path("/d"), [])[3])["python_version"] == "3.9"


def test_apt_knows_a_machine_without_packages(tmp_path: Path) -> None:
    text = packages.apt_conf(tmp_path, "aarch64", tmp_path / "given.list")
    assert 'APT::Architecture "arm64";' in text
    assert f'Dir::State::status "{tmp_path}/status";' in text
    assert f'Dir::Etc::SourceList "{tmp_path}/given.list";' in text
    assert "SourceList" not in packages.apt_conf(tmp_path, "aarch64", None)


def test_what_apt_would_fetch() -> None:
    fetched = "'http://d.invalid/a%2bb_1_all.deb' a+b_1_all.deb 10 SHA256:00\n"
    text = f"W: something\n{fetched}'http://d.invalid/x.gz' x.gz 1 -\n"
    assert packages.uris(text) == {"a+b_1_all.deb": "http://d.invalid/a%2bb_1_all.deb"}


def test_the_same_packages_give_the_same_index() -> None:
    stanzas = {"b.deb": ("Package: b\n", 2, "22"), "a.deb": ("Package: a\nVersion: 1", 1, "11")}
    text = packages.index(stanzas)
    assert text.startswith("Package: a\nVersion: 1\nFilename: ./a.deb\nSize: 1\nSHA256: 11\n\nPackage: b\n")
    assert packages.index(dict(reversed(stanzas.items()))) == text
    assert packages.release(text) == packages.release(text)
    assert f" {len(text)} Packages\n" in packages.release(text)


def test_another_release_needs_its_own_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "own_release", lambda: "debian-12")
    how = {"distribution": "ubuntu", "release": "24.04", "architecture": "x86_64", "family": "Debian"}
    with pytest.raises(
        CollectError, match=r"\(debian-12\) has no package sources of ubuntu-24\.04.*bundle_package_sources"
    ):
        packages.collect({"names": ["a"]}, how, "", tmp_path, tmp_path)


def test_rpms_as_the_manual_tells(tmp_path: Path) -> None:
    how = {"release": "24.03", "architecture": "aarch64"}
    download, index = packages.rpm_commands(["haproxy"], how, "/srv/repos/own.repo", tmp_path)
    assert download[-1] == "haproxy"
    assert {"--resolve", "--alldeps", "--forcearch=aarch64", "--setopt=reposdir=/srv/repos"} <= set(download)
    assert index == ["createrepo_c", "--quiet", str(tmp_path)]


def test_a_program_that_fails_or_is_not_there() -> None:
    with pytest.raises(CollectError, match=r"no-such-program is not on this machine\. Mend: install it"):
        run(["no-such-program"], "install it")
    with pytest.raises(CollectError, match=r"ended with 3: said out \| said err\. Mend: look"):
        run(
            [sys.executable, "-c", "import sys; print('said out'); print('said err', file=sys.stderr); sys.exit(3)"],
            "look",
        )
