# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import archive, installation, manifest
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.source_tree import file_hash
from ansible_collections.mooncake.pd.plugins.modules import mooncake_install

RunModule = Callable[..., dict[str, Any]]

PACKAGE = "lib/python3.11/site-packages/mooncake"


class Bench:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.prefix = root / "prefix"

    def archive(self, version: str, files: dict[str, str], prefix: str = "") -> dict[str, Any]:
        """The parameters that install it."""
        tree = self.root / f"tree{version}"
        for name, text in files.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
            (tree / name).chmod(0o755 if name.startswith("bin/") else 0o644)
        path = str(self.root / f"{version}.tar.gz")
        described = {"version": version, "digest": "d" * 64, "prefix": prefix or str(self.prefix)}
        archive.pack(str(tree), {**described, "files": manifest.files_of(str(tree))}, path)
        return {"artifact": path, "sha256": file_hash(path), "path": str(self.prefix)}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


FILES = {"bin/mooncake_master": "m", f"{PACKAGE}/__init__.py": "i"}


def test_installed_once(bench: Bench, run_module: RunModule) -> None:
    params = bench.archive("1", FILES)
    expected = {"version": "1", "digest": "d" * 64, "sha256": params["sha256"], "files": 2}
    planned = run_module(mooncake_install, check=True, **params)
    assert not bench.prefix.exists()
    done = run_module(mooncake_install, **params)
    assert planned == done
    assert (done["changed"], done["installed"], done["replaced"]) == (True, expected, sorted(FILES))
    assert "bin/mooncake_master 0755" in done["diff"]["after"]
    again = run_module(mooncake_install, **params)
    assert (again["changed"], again["replaced"], again["diff"]["before"]) == (False, [], again["diff"]["after"])


def test_the_archive_may_be_gone_once_it_is_installed(bench: Bench, run_module: RunModule) -> None:
    params = bench.archive("1", FILES)
    missing = {**params, "artifact": str(bench.root / "none.tar.gz")}
    assert "none.tar.gz is not there" in run_module(mooncake_install, **missing)["msg"]
    planned = run_module(mooncake_install, check=True, **missing)
    assert (planned["failed"], planned["changed"]) == (False, True)
    run_module(mooncake_install, **params)
    assert run_module(mooncake_install, **missing)["changed"] is False
    (bench.prefix / "bin/mooncake_master").write_text("other")
    assert "none.tar.gz is not there" in run_module(mooncake_install, **missing)["msg"]
    assert run_module(mooncake_install, check=True, **missing)["changed"] is True


def test_another_version_and_back_to_nothing(bench: Bench, run_module: RunModule) -> None:
    run_module(mooncake_install, **bench.archive("1", {**FILES, "lib/a.so": "a"}))
    second = run_module(mooncake_install, **bench.archive("2", {**FILES, "bin/mooncake_master": "M"}))
    assert (second["replaced"], second["removed"]) == (["bin/mooncake_master"], ["lib/a.so"])
    assert "lib/a.so" in second["diff"]["before"]
    assert "lib/a.so" not in second["diff"]["after"]
    gone = {"path": str(bench.prefix), "state": "absent"}
    planned = run_module(mooncake_install, check=True, **gone)
    assert (bench.prefix / "bin/mooncake_master").exists()
    assert run_module(mooncake_install, **gone) == planned
    assert planned["changed"] is True
    assert list(bench.prefix.iterdir()) == []
    assert run_module(mooncake_install, **gone)["changed"] is False


def test_a_version_that_only_its_manifest_changes(bench: Bench, run_module: RunModule) -> None:
    run_module(mooncake_install, **bench.archive("1", FILES))
    params = bench.archive("2", FILES)
    answer = run_module(mooncake_install, **params)
    assert (answer["changed"], answer["replaced"], answer["installed"]["version"]) == (True, [], "2")
    assert run_module(mooncake_install, **params)["changed"] is False


def test_owner_and_group(bench: Bench, run_module: RunModule) -> None:
    params = bench.archive("1", FILES)
    run_module(mooncake_install, **params)
    if os.getuid() == 0:
        answer = run_module(mooncake_install, **params, owner="1", group="1")
        assert answer["replaced"] == sorted(FILES)
        status = (bench.prefix / "bin/mooncake_master").stat()
        assert (status.st_uid, status.st_gid) == (1, 1)
        assert run_module(mooncake_install, **params, owner="1", group="1")["changed"] is False
    assert "no owner nobody-of-that-name" in run_module(mooncake_install, **params, owner="nobody-of-that-name")["msg"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sha256": "0" * 64}, "copy it again"),
        ({"path": "/other"}, "was built for"),
    ],
)
def test_what_is_refused(bench: Bench, run_module: RunModule, change: dict[str, Any], said: str) -> None:
    answer = run_module(mooncake_install, **{**bench.archive("1", FILES), **change})
    assert answer["failed"] is True
    assert said in answer["msg"]
    assert not bench.prefix.exists()


def test_the_checksum_is_not_left_out(bench: Bench, run_module: RunModule) -> None:
    params = bench.archive("1", FILES)
    del params["sha256"]
    assert "sha256" in run_module(mooncake_install, **params)["msg"]


def test_foreign_files_are_named_and_stay(bench: Bench, run_module: RunModule) -> None:
    (bench.prefix / "bin").mkdir(parents=True)
    (bench.prefix / "bin/mooncake_master").write_text("mine")
    answer = run_module(mooncake_install, **bench.archive("1", FILES))
    assert answer["msg"] == (
        f"Nothing was changed.\n{bench.prefix}/bin/mooncake_master was not installed by mooncake.pd: move it away"
    )
    assert (bench.prefix / "bin/mooncake_master").read_text() == "mine"
    assert run_module(mooncake_install, path=str(bench.prefix), state="absent")["changed"] is False


def test_a_note_of_what_was_begun_cannot_name_files_elsewhere(bench: Bench, run_module: RunModule) -> None:
    params = bench.archive("1", FILES)
    run_module(mooncake_install, **params)
    precious = bench.root / "precious"
    precious.write_text("mine")
    note = bench.prefix / installation._PENDING
    note.write_text(json.dumps(["../precious", str(precious), "bin/mooncake_master"]))
    assert run_module(mooncake_install, path=str(bench.prefix), state="absent")["changed"] is True
    assert precious.read_text() == "mine"
    assert not (bench.prefix / "bin/mooncake_master").exists()


def test_files_of_the_module_are_not_written_through_links(bench: Bench, run_module: RunModule) -> None:
    precious = bench.root / "precious"
    precious.write_text("mine")
    place = bench.prefix / f"{manifest.PATH}.tmp"
    place.parent.mkdir(parents=True)
    place.symlink_to(precious)
    run_module(mooncake_install, **bench.archive("1", FILES))
    assert precious.read_text() == "mine"


def test_a_manifest_that_is_none_is_named(bench: Bench, run_module: RunModule) -> None:
    path = bench.prefix / manifest.PATH
    path.parent.mkdir(parents=True)
    path.write_text("{")
    answer = run_module(mooncake_install, **bench.archive("1", FILES))
    assert answer["msg"] == f"{path} is no manifest of mooncake.pd"
