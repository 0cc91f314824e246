# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the mooncake role says of builds from source, and of a Mooncake that others installed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = Path(__file__).parents[3] / "roles" / "mooncake" / "files" / "probe.py"
spec = importlib.util.spec_from_file_location("mooncake_probe_modes", PROBE)
assert spec
assert spec.loader
probe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(probe)


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mooncake") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    return path


@pytest.fixture
def package(venv: Path) -> Path:
    """As `cmake --install` leaves it: no metadata, the master in bin."""
    folder = next((venv / "lib").glob("python3.*")) / "site-packages" / "mooncake"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    (folder / "__init__.py").write_text("")
    (folder / "engine.py").write_text("TransferEngine = object\n")
    master(venv, "0.3.12.post1")
    manifest = venv / "share/mooncake-pd/mooncake.json"
    manifest.unlink(missing_ok=True)
    return folder


def master(venv: Path, told: str) -> None:
    path = venv / "bin/mooncake_master"
    path.write_text(f"#!/bin/sh\necho mooncake_master {'version' if told else ''} {told}\n")
    path.chmod(0o755)


def manifest(venv: Path, version: str = "0.3.12.post1") -> None:
    path = venv / "share/mooncake-pd/mooncake.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256((venv / "bin/mooncake_master").read_bytes()).hexdigest()
    files = [{"path": "bin/mooncake_master", "sha256": digest}]
    path.write_text(json.dumps({"version": version, "digest": "d" * 64, "files": files}))


def ask(venv: Path, mode: str, version: str = "0.3.12.post1", word: str = "") -> dict:
    question = {"mode": mode, "path": str(venv), "version": version, "installed_version": word}
    return probe.probe({**question, "packages": list(probe.VARIANTS), "prove": ["engine", "master"]})


def test_build_that_is_whole(venv, package):
    manifest(venv)
    found = ask(venv, "source")
    assert (found["version_problems"], found["proof_problems"]) == ([], [])
    assert found["manifest"] == {"version": "0.3.12.post1", "digest": "d" * 64}


def test_no_build_is_there(venv, package):
    assert "holds no build from source" in ask(venv, "source")["version_problems"][0]


def test_build_of_which_a_file_was_changed(venv, package):
    manifest(venv)
    master(venv, "0.3.12")
    assert ask(venv, "source")["version_problems"] == ["1 files are not as installed: bin/mooncake_master"]


def test_manifest_says_what_others_installed(venv, package):
    manifest(venv, "0.3.11.post1")
    assert "the build is of 0.3.11.post1" in ask(venv, "installed")["version_problems"][0]


def test_master_says_what_others_installed(venv, package):
    assert ask(venv, "installed")["version_problems"] == []
    assert ask(venv, "installed", "0.3.11.post1")["version_problems"] == ["it is 0.3.12.post1, 0.3.11.post1 is wanted"]


def test_where_nothing_says_it_the_user_has_to(venv, package):
    master(venv, "")
    assert "set mooncake_installed_version" in ask(venv, "installed")["version_problems"][0]
    assert ask(venv, "installed", word="0.3.12.post1")["version_problems"] == []


def test_word_of_the_user_against_that_of_the_master(venv, package):
    assert "the master there says 0.3.12.post1" in ask(venv, "installed", word="0.3.9")["version_problems"][0]


def test_package_that_everyone_may_write_to(venv, package):
    package.chmod(0o767)
    assert ask(venv, "installed")["proof_problems"] == [f"everyone may write to {package}: chmod -R o-w {package}"]


def test_second_mooncake_on_the_path(venv, package, tmp_path, monkeypatch):
    hidden = tmp_path / "cann" / "mooncake"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("")
    (hidden / "engine.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(hidden.parent))
    (problem,) = ask(venv, "installed")["proof_problems"]
    assert f"{hidden} hides {package}" in problem


def test_master_of_another_release_is_a_failed_proof(venv, package):
    master(venv, "0.3.11")
    manifest(venv)
    assert any("is 0.3.11, 0.3.12.post1 is wanted" in text for text in ask(venv, "source")["proof_problems"])


def test_library_of_a_part_that_nobody_asked_for(tmp_path, monkeypatch):
    for name in ("store.so", "engine.so"):
        (tmp_path / name).write_bytes(b"\x7fELF")
    monkeypatch.setattr(probe, "run", lambda argv: (0, "\tlibcudart.so.12 => not found\n", ""))
    files = [str(tmp_path / name) for name in ("store.so", "engine.so")]
    (text,) = probe.unresolved(files, ["engine"])
    assert text.endswith("asked for by engine.so")
