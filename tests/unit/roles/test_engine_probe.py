# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine role finds out about an environment before it decides to build, to keep or to refuse it."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

ROLE = Path(__file__).parents[3] / "roles" / "engine"
SHIM = ROLE / "files" / "vllm_cpu_shim"
SHIM_MODULES = sorted(path.stem for path in SHIM.glob("*.py"))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"engine_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


probe = load(ROLE / "files" / "probe.py")
LOCKS = sorted((ROLE / "files").glob("vllm_cpu-*/requirements.txt"))


@pytest.fixture(scope="module")
def empty_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engine") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    return path


@pytest.fixture
def venv(empty_venv: Path) -> Path:
    """The same environment, with the distributions of the last test removed."""
    for directory in site(empty_venv).glob("*.dist-info"):
        for file in directory.iterdir():
            file.unlink()
        directory.rmdir()
    for file in [*site(empty_venv).glob("*.py"), empty_venv / "bin" / "vllm"]:
        file.unlink(missing_ok=True)
    return empty_venv


def site(venv: Path) -> Path:
    return next((venv / "lib").glob("python3.*")) / "site-packages"


def distribution(venv: Path, name: str, version: str) -> None:
    directory = site(venv) / f"{name.replace('-', '_')}-{version}.dist-info"
    directory.mkdir()
    (directory / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def command(venv: Path, head: str | None = None, mode: int = 0o755) -> None:
    script = venv / "bin" / "vllm"
    script.write_text(f"{head or f'#!{venv}/bin/python'}\nprint()\n")
    script.chmod(mode)


def ask(path: Path, mode: str = "venv", **rest: object) -> dict:
    return probe.probe({"mode": mode, "path": str(path), **rest})


def test_empty_place_is_absent(tmp_path):
    found = ask(tmp_path / "engine")
    assert (found["state"], found["python"]) == ("absent", None)
    assert found["base_python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_complete_environment(venv):
    distribution(venv, "vllm", "0.32.0+cpu")
    distribution(venv, "typing-extensions", "4.16.0")
    command(venv)
    found = ask(venv, packages={"vllm": "0.32.0"}, lock="# a lock\ntyping-extensions==4.16.0\n")
    assert (found["state"], found["problems"]) == ("complete", [])


def test_all_differences_are_named(venv):
    distribution(venv, "vllm", "0.31.0+cpu")
    distribution(venv, "torch", "2.13.0")
    found = ask(venv, packages={"vllm": "0.32.0"}, lock="torch==2.13.0+cpu\nnumpy==2.3.5\n", modules={"shim": "0"})
    assert found["state"] == "incomplete"
    assert sorted(found["problems"]) == [
        "module shim is not the one of this collection",
        "numpy is not installed, 2.3.5 is wanted",
        "torch is 2.13.0, 2.13.0+cpu is wanted",
        "vllm is 0.31.0+cpu, 0.32.0 is wanted",
    ]


def test_changed_shim_of_the_same_version_is_seen(venv):
    command(venv)
    (site(venv) / "shim.py").write_text("new = 1\n")
    wanted = hashlib.sha256(b"new = 1\n").hexdigest()
    assert ask(venv, modules={"shim": wanted})["state"] == "complete"
    (site(venv) / "shim.py").write_text("old = 1\n")
    assert ask(venv, modules={"shim": wanted})["state"] == "incomplete"


def test_packages_without_the_command_are_incomplete(venv):
    distribution(venv, "vllm", "0.32.0")
    assert ask(venv, packages={"vllm": "0.32.0"})["problems"] == [f"{venv}/bin/vllm is missing or not executable"]


def test_other_python_prefix_is_refused_not_built_over(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    found = ask(tmp_path)
    assert found["state"] == "foreign"
    assert "pyvenv.cfg" in found["problems"][0]


def test_environment_whose_python_went_away(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").write_text("home = /nowhere\n")
    (tmp_path / "bin" / "python").symlink_to("/nowhere/python3.9")
    found = ask(tmp_path)
    assert found["state"] == "foreign"
    assert "cannot be run" in found["problems"][0]


@pytest.mark.parametrize("form", ["#!{python}", "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''"])
def test_installed_engine_is_asked_through_its_own_python(venv, form):
    distribution(venv, "vllm", "0.23.0+empty")
    distribution(venv, "vllm-ascend", "0.23.0.post1")
    command(venv, form.format(python=venv / "bin" / "python"))
    packages = {"vllm": "0.23.0", "vllm-ascend": "0.23.0.post1"}
    assert ask(venv, "installed", packages=packages)["state"] == "complete"
    assert ask(venv, "installed", packages=packages | {"vllm-ascend": "0.23.0"})["problems"] == [
        "vllm-ascend is 0.23.0.post1, 0.23.0 is wanted"
    ]


def test_installed_engine_that_is_none(venv):
    assert ask(venv, "installed")["problems"] == [f"{venv}/bin/vllm does not exist"]
    command(venv, mode=0o644)
    if os.geteuid() != 0 or not os.access(venv / "bin" / "vllm", os.X_OK):
        assert ask(venv, "installed")["problems"] == [f"{venv}/bin/vllm is not executable"]
    command(venv, "#!/usr/bin/perl")
    assert ask(venv, "installed")["state"] == "foreign"


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ("0.32.0", "0.32.0", True),
        ("0.32.0+cpu", "0.32.0", True),
        ("0.32.0+cpu", "0.32.0+cpu", True),
        ("0.32.0", "0.32.0+cpu", False),
        ("0.32.0.post1", "0.32.0", False),
        ("0.32.01", "0.32.0", False),
    ],
)
def test_version_stands_for_its_builds(found, wanted, same):
    assert probe.same_version(found, wanted) is same


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.parent.name)
def test_lock_is_complete_pinned_and_without_gpu_packages(lock):
    lines = [line for line in lock.read_text().splitlines() if not line.startswith("#")]
    pins = probe.locked(lock.read_text())
    assert len(pins) == len(lines)
    assert pins["vllm-cpu"] == lock.parent.name.removeprefix("vllm_cpu-")
    assert pins["torch"].endswith("+cpu")
    assert not {"triton", "torchvision", "torchaudio", "torchcodec"} & set(pins)
    # the shim is built with what the lock brings
    assert "setuptools" in pins


def test_every_lock_is_known_and_for_the_python_it_was_made_with():
    known = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())["__engine_lock_pythons"]
    assert {f"vllm_cpu-{version}" for version in known} == {lock.parent.name for lock in LOCKS}
    for lock in LOCKS:
        made_with = known[lock.parent.name.removeprefix("vllm_cpu-")][0]
        assert f"for Python {made_with}," in lock.read_text()


class Namespace:
    """Something that attributes can be set on."""


def foreign(monkeypatch: pytest.MonkeyPatch, cpu: bool, accelerator: bool) -> tuple[Any, Any]:
    """Stand-ins for torch and vLLM; the real ones run the plugins in the sandbox. Gives torch and multi_connector."""
    torch, platforms, multi = Namespace(), Namespace(), Namespace()
    torch.accelerator, torch.cuda, platforms.current_platform = Namespace(), Namespace(), Namespace()
    torch.accelerator.is_available = lambda: accelerator
    platforms.current_platform.is_cpu = lambda: cpu
    multi.MultiKVConnectorPromMetrics = type("MultiKVConnectorPromMetrics", (), {})
    above = "vllm.distributed.kv_transfer.kv_connector.v1"
    parents = [above.rsplit(".", count)[0] for count in range(5)]
    modules = {**{name: Namespace() for name in parents}, "torch": torch, "vllm.platforms": platforms}
    modules[above].multi_connector = multi
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return torch, multi


@pytest.mark.parametrize(("cpu", "accelerator"), [(False, False), (True, True)])
def test_plugins_do_nothing_but_on_a_cpu(monkeypatch, cpu, accelerator):
    torch, multi = foreign(monkeypatch, cpu, accelerator)
    for name in SHIM_MODULES:
        load(SHIM / f"{name}.py").register()
    assert not hasattr(torch.accelerator, "current_device_index")
    assert not hasattr(torch.cuda, "Event")
    assert not hasattr(multi.MultiKVConnectorPromMetrics, "observe")


def test_plugin_answers_for_an_accelerator(monkeypatch):
    torch, multi = foreign(monkeypatch, cpu=True, accelerator=False)
    shim = load(SHIM / "mooncake_pd_vllm_cpu.py")
    shim.register()
    shim.register()
    assert torch.accelerator.current_device_index() == 0
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    event.synchronize()
    assert event.query()
    # it is not the one that engines without a pool lack
    assert not hasattr(multi.MultiKVConnectorPromMetrics, "observe")


def test_plugin_of_a_pool_leaves_out_statistics_without_metrics(monkeypatch):
    _torch, multi = foreign(monkeypatch, cpu=True, accelerator=False)
    shim = load(SHIM / "mooncake_pd_vllm_cpu_pool.py")
    shim.register()
    shim.register()
    counted, metrics = [], multi.MultiKVConnectorPromMetrics()
    store = Namespace()
    store.observe = lambda stats, index: counted.append((stats, index))
    metrics._prom_metrics = {"MooncakeStoreConnector": store}
    metrics.observe({"MooncakeConnector": {"a": 1}, "MooncakeStoreConnector": {"b": 2}}, 3)
    assert counted == [({"b": 2}, 3)]


def test_all_modules_of_the_shim_are_installed_and_loaded():
    project = (SHIM / "pyproject.toml").read_text()
    assert f"py-modules = {json.dumps(SHIM_MODULES)}" in project
    for name in SHIM_MODULES:
        assert f'"{name}:register"' in project


@pytest.mark.parametrize("pool", [False, True])
def test_only_a_pool_demands_the_module_for_it(pool):
    """What an environment of before lacks is no reason to refuse a plan that does not use it."""
    loader = DataLoader()
    # from ansible-core 2.19 on, only text marked as trusted is ever templated
    trusted = "trusted_as_template" in inspect.signature(loader.load_from_file).parameters
    options = {"trusted_as_template": True} if trusted else {}
    variables = {}
    for folder in ("defaults", "vars"):
        variables.update(loader.load_from_file(str(ROLE / folder / "main.yml"), **options))
    text = variables["__engine_shim_paths"]
    variables.update(role_path=str(ROLE), engine_pool=pool)
    names = SHIM_MODULES if pool else SHIM_MODULES[:1]
    paths = [str(SHIM / f"{name}.py") for name in names]
    assert Templar(loader=loader, variables=variables).template(text) == paths


def test_in_an_image_the_command_is_found_in_path(venv, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask(tmp_path, "command")["problems"] == ["vllm is not in PATH"]
    monkeypatch.setenv("PATH", f"{tmp_path}:{venv}/bin")
    distribution(venv, "vllm", "0.23.0+empty")
    command(venv)
    assert ask(tmp_path, "command", packages={"vllm": "0.23.0"})["state"] == "complete"


def test_what_need_not_be_there_must_be_right_where_it_is(venv):
    distribution(venv, "mooncake-transfer-engine-npu", "0.3.11.post1")
    command(venv)
    wanted = {"mooncake-transfer-engine-npu": "0.3.11.post1", "mooncake-transfer-engine": "0.3.11.post1"}
    assert ask(venv, "installed", optional=wanted)["state"] == "complete"
    wanted["mooncake-transfer-engine-npu"] = "0.3.12"
    assert ask(venv, "installed", optional=wanted)["problems"] == [
        "mooncake-transfer-engine-npu is 0.3.11.post1, 0.3.12 is wanted"
    ]


def test_what_runs_from_the_environment_is_told(empty_venv: Path) -> None:
    python = str(empty_venv / "bin" / "python")
    argv = [python, "-c", "input(1)"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.read(1) == b"1"  # it runs
        assert probe.running(str(empty_venv)) == [f"pid {process.pid}: {' '.join(argv)}"]
        assert probe.running(f"{empty_venv}/") == probe.running(str(empty_venv))
        # a folder whose name begins with the same letters
        assert probe.running(str(empty_venv)[:-1]) == []
        process.communicate(b"\n")
    assert probe.running(str(empty_venv)) == []
