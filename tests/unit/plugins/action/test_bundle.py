# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle on its way: checked for all hosts, brought to one."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.action import bundle_check, bundle_collect, bundle_store
from ansible_collections.mooncake.pd.plugins.modules import bundle_check as check_manual
from ansible_collections.mooncake.pd.plugins.modules import bundle_collect as collect_manual
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.jobs import Job, jobs_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.manifest import Manifest, describe

PLATFORM = {
    "distribution": "debian",
    "release": "12",
    "family": "Debian",
    "architecture": "x86_64",
    "glibc": "2.36",
    "pythons": {"/usr/bin/python3": "3.11.2"},
}
NEEDS: list[dict[str, Any]] = [
    {"kind": "packages", "names": {"Debian": ["haproxy"]}},
    {"kind": "wheels", "name": "router", "python": "/usr/bin/python3", "requirements": ["vllm-router==1"]},
    {"kind": "source", "name": "mooncake", "from": "https://git.invalid/m.git", "version": "v1"},
]


class Task:
    diff = False

    def __init__(self, action: str, args: dict[str, Any], check: bool = False) -> None:
        self.action, self.args, self.check_mode = action, args, check


class Hostvars(dict[str, Any]):
    raw_get = dict.__getitem__

    def __getitem__(self, name: str) -> Any:
        raise AssertionError("templated")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A bundle that has what NEEDS asks for."""
    manifest = Manifest()
    for job in jobs_of(NEEDS, PLATFORM, "h"):
        (tmp_path / job.folder).mkdir(parents=True)
        (tmp_path / job.folder / "file").write_text(job.label)
        files = describe(tmp_path / job.folder, {})
        manifest.jobs[job.key] = {"what": job.what, "folder": job.folder, "files": files}
    manifest.write(tmp_path)
    return tmp_path


def check(home: Path, **hosts: dict[str, Any]) -> dict[str, Any]:
    action = bundle_check.ActionModule.__new__(bundle_check.ActionModule)
    action._task = Task("mooncake.pd.bundle_check", {"path": str(home), "command": "collect it"})
    action._load_name = action._task.action
    found: dict[str, Any] = action.run(task_vars={"hostvars": Hostvars(hosts), "ansible_play_hosts": list(hosts)})
    return found


def host(*needs: dict[str, Any], **platform: Any) -> dict[str, Any]:
    return {"bundle_needs": list(needs), "bundle_platform": {**PLATFORM, **platform}}


def test_each_host_gets_its_own_and_sources_stay(home: Path) -> None:
    told = check(home, one=host(*NEEDS), two=host(NEEDS[0]), idle=host())["hosts"]
    (wheels,) = told["one"]["wheels"]
    assert wheels.startswith("wheels/router-debian-12")
    assert sorted(told["one"]["files"]) == sorted([f"{told['one']['packages']}/file", f"{wheels}/file"])
    assert told["one"]["files"][f"{wheels}/file"] == hashlib.sha256(b"router-debian-12-x86_64-py3.11").hexdigest()
    assert Path(told["one"]["controller_files"]["mooncake"]).read_text() == "mooncake"
    assert list(told["two"]["files"]) == [f"{told['one']['packages']}/file"]
    assert (told["idle"]["files"], told["idle"]["packages"]) == ({}, "")


def test_everything_that_is_wrong_is_one_error(home: Path) -> None:
    next(home.glob("wheels/*/file")).unlink()
    other = {**NEEDS[1], "requirements": ["vllm-router==2"]}
    with pytest.raises(AnsibleActionFail) as told:
        check(home, one=host(*NEEDS, other), two=host(other), odd=host(family=""))
    lines = str(told.value).splitlines()
    assert "nothing was changed" in lines[0]
    assert any(line.startswith("odd: debian is none that is known") for line in lines)
    assert any(line.endswith("/file is missing") for line in lines)
    assert "it lacks, for one, two: wheels router-debian-12-x86_64-py3.11: vllm-router==2" in lines
    assert (
        lines[-1]
        == "Mend: on the connected machine: collect it -e bundle_path=FOLDER, then carry the folder over again."
    )


def test_another_python_than_collected_for_is_lacking(home: Path) -> None:
    with pytest.raises(AnsibleActionFail, match=r"it lacks, for one: wheels router-debian-12-x86_64-py3\.13"):
        check(home, one=host(*NEEDS, pythons={"/usr/bin/python3": "3.13.0"}))


class Far:
    """The host: it takes what arrives and answers for the module."""

    def __init__(self, action: Any, missing: list[str], **look: Any) -> None:
        self.look = {"missing": missing, "strange": [], "ready": False, "free": 1 << 40, **look}
        self.sent: dict[str, str] = {}
        self.calls: list[dict[str, Any]] = []
        self.folders = 0
        self.packed: list[list[str]] = []
        action._connection = self
        action._make_tmp_path = self.place
        action._remove_tmp_path = self.gone
        action._transfer_file = self.arrive
        action._execute_module = self.module
        self._shell = self

    def join_path(self, *parts: str) -> str:
        return "/".join(parts)

    def place(self) -> str:
        self.folders += 1
        return f"/far/{self.folders}"

    def gone(self, path: str, force: bool) -> None:
        assert force
        self.folders -= 1

    def arrive(self, local: str, remote: str) -> None:
        if remote.endswith("/small"):
            with tarfile.open(local) as archive:
                self.packed.append(archive.getnames())
        self.sent[remote] = local

    def module(self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(module_args)
        return self.look if module_args["state"] == "look" else {"changed": True}


def bring(home: Path, files: dict[str, str], check: bool = False, **look: Any) -> tuple[dict[str, Any], Far]:
    action = bundle_store.ActionModule.__new__(bundle_store.ActionModule)
    arguments = {"bundle": str(home), "path": "/store", "files": files}
    action._task = Task("mooncake.pd.bundle_store", arguments, check)
    far = Far(action, look.pop("missing", sorted(files)), **look)
    return action.run(task_vars={}), far


def test_large_files_alone_small_ones_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_store, "LARGE", 10)
    monkeypatch.setattr(bundle_store, "BATCH", 25)
    files = {"a": "s-a", "b": "s-b", "large": "s-large", "w/c": "s-c"}
    (tmp_path / "w").mkdir()
    for name in files:
        (tmp_path / name).write_text("x" * (20 if name == "large" else 2))
    result, far = bring(tmp_path, files)
    look, first, last = far.calls
    assert look["state"] == "look"
    assert (sorted(first["arrived"]), first["packed"], first["complete"]) == (
        ["", "large"],
        {"a": "s-a", "b": "s-b"},
        False,
    )
    assert (list(last["arrived"]), last["packed"], last["complete"]) == ([""], {"w/c": "s-c"}, True)
    assert far.packed == [["a", "b"], ["w/c"]]
    assert far.sent[first["arrived"]["large"]] == str(tmp_path / "large")
    assert (result["changed"], result["ready"], far.folders) == (True, True, 0)


def test_what_is_all_there_but_not_known_to_apt_needs_one_step(tmp_path: Path) -> None:
    result, far = bring(tmp_path, {}, strange=["old"])
    assert [(call["state"], call.get("complete")) for call in far.calls] == [("look", None), ("take", True)]
    assert result["changed"]


@pytest.mark.parametrize(("check_mode", "ready"), [(True, False), (False, True), (True, True)])
def test_nothing_is_brought_in_check_mode_or_when_all_is_there(tmp_path: Path, check_mode: bool, ready: bool) -> None:
    result, far = bring(tmp_path, {"a": "s"}, check_mode, ready=ready)
    assert (len(far.calls), far.sent, result["changed"]) == (1, {}, not ready)


def test_too_little_room_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("xxxx")
    with pytest.raises(AnsibleActionFail, match=r"/store has 0\.0 GB left.*Mend: make room"):
        bring(tmp_path, {"a": "s"}, free=3)


@given(st.dictionaries(st.text(min_size=1), st.integers(0, 1 << 30)))
def test_every_file_is_in_one_batch_and_none_is_too_large_but_a_single_file(sizes: dict[str, int]) -> None:
    parts = list(bundle_store.batches(sizes))
    assert [name for part in parts for name in part] == list(sizes)
    assert all(len(part) == 1 or sum(sizes[name] for name in part) <= bundle_store.BATCH for part in parts)


@pytest.mark.parametrize(
    ("plugin", "manual"), [(bundle_check, check_manual), (bundle_collect, collect_manual)], ids=["check", "collect"]
)
def test_the_manual_tells_the_options(plugin: Any, manual: Any) -> None:
    documented = yaml.safe_load(manual.DOCUMENTATION)["options"]
    keys = ("type", "required", "default", "elements")
    told = {name: {key: option[key] for key in keys if key in option} for name, option in documented.items()}
    assert told == plugin.ARGUMENTS


def collect(monkeypatch: pytest.MonkeyPatch, path: Path, **hosts: dict[str, Any]) -> dict[str, Any]:
    job = Job("collection", "mooncake-pd", {"contents": "0"})
    monkeypatch.setattr(bundle_collect, "collection_job", lambda: job)
    action = bundle_collect.ActionModule.__new__(bundle_collect.ActionModule)
    action._task = Task("mooncake.pd.bundle_collect", {"path": str(path), "hosts": list(hosts)}, check=True)
    action._load_name = action._task.action
    found: dict[str, Any] = action.run(task_vars={"hostvars": Hostvars(hosts)})
    return found


def test_check_mode_tells_what_would_be_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = collect(monkeypatch, tmp_path / "new", one=host(*NEEDS), two=host(*NEEDS))
    assert [line.split()[0] for line in told["collected"]] == ["wheels", "source", "packages", "wheels", "collection"]
    assert told["changed"]
    assert not (tmp_path / "new").exists()


def test_hosts_that_nobody_knows_are_all_named_before_anything_is_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = {"bundle_needs": NEEDS, "bundle_platform": {}}
    with pytest.raises(AnsibleActionFail, match=r"(?s)one: it did not answer.*two: it did not answer"):
        collect(monkeypatch, tmp_path, one=silent, two=silent)
