# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the mooncake role says about a Mooncake that is not there, is another one, or does not load."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = Path(__file__).parents[3] / "roles" / "mooncake" / "files" / "probe.py"
spec = importlib.util.spec_from_file_location("mooncake_probe", PROBE)
assert spec
assert spec.loader
probe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(probe)

NPU = "mooncake-transfer-engine-npu"
CPU = "mooncake-transfer-engine-non-cuda"


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with a stand-in for the package: both proofs work until a test breaks them."""
    path = tmp_path_factory.mktemp("mooncake") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    site = next((path / "lib").glob("python3.*")) / "site-packages"
    (site / "mooncake").mkdir()
    (site / "mooncake" / "__init__.py").write_text("")
    info = site / "mooncake_transfer_engine_npu-0.3.13.post1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NPU}\nVersion: 0.3.13.post1\n")
    return path


@pytest.fixture
def package(venv: Path) -> Path:
    folder = next((venv / "lib").glob("python3.*")) / "site-packages" / "mooncake"
    (folder / "engine.py").write_text("TransferEngine = object\n")
    (folder / "mooncake_master").write_text("#!/bin/sh\necho mooncake_master version 0.3.13.post1\n")
    (folder / "mooncake_master").chmod(0o755)
    return folder


def ask(venv: Path, packages: tuple[str, ...] = (NPU,), version: str = "0.3.13.post1") -> dict:
    question = {
        "mode": "wheel",
        "installed_version": "",
        "path": str(venv),
        "version": version,
        "packages": list(packages),
        "prove": ["engine", "master"],
    }
    return probe.probe(question)


def test_no_environment(tmp_path):
    found = ask(tmp_path)
    assert found["version_problems"] == [f"there is no Python in {tmp_path}/bin"]
    assert found["foreign"] is None


def test_environment_whose_python_went_away(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/nowhere/python3.9")
    assert "cannot be run" in ask(tmp_path)["foreign"]


def test_planned_version_that_works(venv, package):
    found = ask(venv)
    assert (found["version_problems"], found["proof_problems"]) == ([], [])
    assert found["installed"] == {NPU: "0.3.13.post1"}


def test_other_version_is_not_tried(venv, package):
    (package / "engine.py").write_text("raise ImportError('not reached')\n")
    found = ask(venv, version="0.3.11.post1")
    assert found["version_problems"] == [f"{NPU} is 0.3.13.post1, 0.3.11.post1 is wanted"]
    assert found["proof_problems"] == []


def test_other_variant_is_named(venv, package):
    assert ask(venv, packages=(CPU,))["version_problems"] == [
        f"{CPU} is not installed, 0.3.13.post1 is wanted",
        f"variants that overwrite one another must not be there: {NPU}",
    ]


def test_two_variants_are_refused_even_where_any_is_right():
    both = {NPU: "0.3.13.post1", CPU: "0.3.13.post1"}
    assert len(probe.wheel_problems(both, [NPU, CPU], "0.3.13.post1")) == 1


def test_failed_proofs_name_library_and_way_out(venv, package):
    (package / "engine.py").write_text(
        "raise ImportError('libascendcl.so: cannot open shared object file: No such file or directory')\n"
    )
    (package / "mooncake_master").write_text(
        "#!/bin/sh\necho 'mooncake_master: error while loading shared libraries: libibverbs.so.1: "
        "cannot open shared object file: No such file or directory' >&2\nexit 127\n"
    )
    engine, master = ask(venv)["proof_problems"]
    assert engine.startswith("import mooncake.engine: missing libascendcl.so (CANN: ")
    assert master.startswith("mooncake_master --version: missing libibverbs.so.1 (libibverbs1 ")


def test_failure_of_another_kind_is_quoted(venv, package):
    (package / "engine.py").write_text("raise ImportError('numpy is too old')\n")
    (package / "mooncake_master").chmod(0o644)
    engine, master = ask(venv)["proof_problems"]
    assert engine.endswith("ImportError: numpy is too old")
    assert "mooncake_master cannot be run: Permission denied" in master


def test_ldd_names_every_missing_library_once():
    listing = """\
\tlibibverbs.so.1 => not found
\tlibnuma.so.1 => /lib/x86_64-linux-gnu/libnuma.so.1 (0x00007f)
\tlibibverbs.so.1 => not found
\tlibcudart.so.12 => not found
./engine.so: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by ./engine.so)
"""
    assert probe.missing_libraries(listing) == ["libcudart.so.12", "libibverbs.so.1", "GLIBCXX_3.4.30"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("libibverbs.so.1", "libibverbs1"),
        ("libnuma.so.1", "numactl-libs"),
        ("libcurl.so.4", "libcurl"),
        ("libllm_datadist.so", "mooncake_environment"),
        ("libcudart.so.12", "issue 3314"),
        ("GLIBCXX_3.4.30", "newer distribution"),
        ("libfoo.so.2", "missing libfoo.so.2"),
    ],
)
def test_each_known_library_has_its_advice(name, advice):
    assert [advice in text for text in probe.with_advice([name])] == [True]


def test_libraries_with_one_way_out_share_a_sentence():
    texts = probe.with_advice(["libascendcl.so", "libnuma.so.1", "libmetadef.so"])
    assert [text.split(" (")[0] for text in texts] == ["missing libascendcl.so, libmetadef.so", "missing libnuma.so.1"]


def test_what_runs_from_it_is_told_whatever_it_calls_itself(venv, package, tmp_path):
    """One is called by its path, one has only loaded a file of it."""
    python = str(venv / "bin" / "python")
    library = package / "engine.so"
    library.write_bytes(b"\0" * 4096)
    loads = (
        "import mmap, sys\n"
        "file = open(sys.argv[1], 'rb')\n"
        "held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
        "input('1')"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        subprocess.Popen([python, "-c", "input('1')"], **pipes) as called,
        subprocess.Popen(
            ["python-of-another-name", "-c", loads, str(library)], executable=sys.executable, **pipes
        ) as loaded,
    ):
        for process in (called, loaded):
            assert process.stdout.read(1) == b"1"
        found = ask(venv, version="0.3.12")["running"]
        assert ask(venv)["running"] == []  # it stays
        assert {text.split()[1] for text in found} == {f"{called.pid}:", f"{loaded.pid}:"}
        assert probe.running(str(tmp_path)) == []
        # a folder whose name begins with the same letters
        assert probe.running(str(venv)[:-1]) == []
        for process in (called, loaded):
            process.communicate(b"\n")
    library.unlink()
    assert ask(venv, version="0.3.12")["running"] == []


def test_of_what_is_only_looked_at_nothing_is_asked(venv, package, monkeypatch):
    monkeypatch.setattr(probe, "running", lambda path: [path])
    question = {"installed_version": "", "path": str(venv), "version": "0.3.12", "packages": [NPU], "prove": []}
    assert probe.probe({"mode": "installed", **question})["running"] == []
    assert probe.probe({"mode": "source", **question})["running"] == [str(venv)]
