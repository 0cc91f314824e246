# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a bundle on a host."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.bundle.sources import apt_texts, dnf_texts
from ansible_collections.mooncake.pd.plugins.module_utils.bundle.store import (
    Store,
    StoreError,
    differences,
    free,
    inside,
)

GOOD = hashlib.sha256(b"good").hexdigest()


def arrive(tmp_path: Path, content: bytes = b"good") -> str:
    source = tmp_path / "arrived"
    source.write_bytes(content)
    return str(source)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(str(tmp_path / "store"))
    made.take("wheels/a.whl", arrive(tmp_path), GOOD)
    return made


def test_what_was_taken_is_there_and_readable_for_all(store: Store) -> None:
    assert Store(store.path).files() == {"wheels/a.whl": GOOD}
    assert os.stat(f"{store.path}/wheels/a.whl").st_mode & 0o777 == 0o644


def test_what_arrived_damaged_never_gets_its_name(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"b\.whl arrived damaged"):
        store.take("wheels/b.whl", arrive(tmp_path, b"gooD"), GOOD)
    assert os.listdir(f"{store.path}/wheels") == ["a.whl"]


def test_a_file_that_was_touched_is_read_again(store: Store) -> None:
    (Path(store.path) / "wheels/a.whl").write_bytes(b"evil")
    assert Store(store.path).files() != {"wheels/a.whl": GOOD}


def test_a_file_that_nobody_touched_is_not_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(path: str) -> str:
        raise AssertionError(path)

    monkeypatch.setattr("ansible_collections.mooncake.pd.plugins.module_utils.bundle.store.digest", never)
    assert Store(store.path).files() == {"wheels/a.whl": GOOD}


def test_an_index_that_is_none_is_no_harm(store: Store) -> None:
    (Path(store.path) / ".index.json").write_text("[1")
    assert Store(store.path).files() == {"wheels/a.whl": GOOD}


def test_what_is_not_wanted_goes_with_its_empty_folder(store: Store) -> None:
    store.remove(["wheels/a.whl"])
    assert Store(store.path).files() == {}
    assert not os.path.exists(f"{store.path}/wheels")


def test_ready_until_something_changes(store: Store) -> None:
    assert store.stamp is None
    store.ready("x")
    assert Store(store.path).stamp == "x"
    store.unready()
    store.unready()
    assert Store(store.path).stamp is None


def test_what_the_package_managers_keep_is_theirs(store: Store) -> None:
    (Path(store.path) / "apt/lists").mkdir(parents=True)
    (Path(store.path) / "apt/lists/x").write_text("")
    assert Store(store.path).files() == {"wheels/a.whl": GOOD}


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "a//b", ".."])
def test_no_name_leads_out(name: str) -> None:
    with pytest.raises(StoreError, match="no path below the bundle"):
        inside([name])


def test_missing_and_strange() -> None:
    have = {"same": "1", "other": "1", "strange": "1"}
    assert differences(have, {"same": "1", "other": "2", "new": "3"}) == (["new", "other"], ["strange"])


def test_room_is_that_of_the_folder_to_come(tmp_path: Path) -> None:
    assert free(str(tmp_path / "not/there/yet")) > 0


def test_a_store_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert Store(str(tmp_path / "none")).files() == {}
    assert not (tmp_path / "none").exists()


def test_sources_know_the_folder_only() -> None:
    apt = apt_texts("/b", "packages/d")
    assert apt["apt/sources.list"] == "deb [trusted=yes] file:/b/packages/d ./\n"
    assert 'Dir::Etc::SourceParts "/b/apt/none";' in apt["apt/apt.conf"]
    dnf = dnf_texts("/b", "packages/d")
    assert "baseurl=file:///b/packages/d\n" in dnf["dnf/mooncake-pd-bundle.repo"]
    assert "reposdir=/b/dnf\n" in dnf["dnf/dnf.conf"]
