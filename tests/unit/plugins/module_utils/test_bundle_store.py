# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a bundle on a host."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.bundle import platforms
from ansible_collections.mooncake.pd.plugins.module_utils.bundle.sources import apt_texts, dnf_texts, texts
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


def packed(tmp_path: Path, **contents: bytes) -> str:
    path = tmp_path / "packed.tar"
    with tarfile.open(path, "w") as archive:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return str(path)


def test_of_an_archive_what_is_named_is_taken_and_nothing_else(store: Store, tmp_path: Path) -> None:
    archive = packed(tmp_path, b=b"good", c=b"good", **{"../out": b"good"})
    store.take_archive(archive, {"b": GOOD})
    assert Store(store.path).files() == {"wheels/a.whl": GOOD, "b": GOOD}
    assert not (tmp_path / "out").exists()
    assert not os.path.exists(archive)


def test_an_archive_that_lacks_a_file_keeps_the_others(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"the archive that arrived lacks c, d"):
        store.take_archive(packed(tmp_path, b=b"good"), {"b": GOOD, "c": GOOD, "d": GOOD})
    assert Store(store.path).files()["b"] == GOOD


def test_a_link_is_never_a_file_of_ours(store: Store, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"good")
    (Path(store.path) / "link").symlink_to(tmp_path / "elsewhere")
    assert Store(store.path).files()["link"] == ""


def test_texts_only_where_there_are_packages() -> None:
    assert texts("Debian", "/b", "") == {}
    assert set(texts("Debian", "/b", "p")) == {"apt/sources.list", "apt/apt.conf"}
    assert set(texts("RedHat", "/b", "p")) == {"dnf/dnf.conf", "dnf/mooncake-pd-bundle.repo"}


@pytest.mark.parametrize(
    ("identity", "like", "family"),
    [
        ("debian", "", "Debian"),
        ("linuxmint", "ubuntu debian", "Debian"),
        ("openEuler", "", "RedHat"),
        ("ol", "fedora", "RedHat"),
        ("gentoo", "", ""),
    ],
)
def test_whose_packages_a_host_takes(identity: str, like: str, family: str) -> None:
    release = platforms.os_release(f'ID="{identity}"\nID_LIKE="{like}"\n# x\nVERSION_ID=\'7\'\n')
    found = platforms.platform(release, "aarch64", {"/p": "3.9.1"}, ["", "2.28"])
    assert (found["family"], found["release"], found["glibc"]) == (family, "7", "2.28")


@pytest.mark.parametrize(("path", "version"), [("/usr/bin/python3.11", "3.11"), ("/usr/bin/python3", None)])
def test_a_python_to_come_is_known_by_its_name(path: str, version: str) -> None:
    assert platforms.version_in(path) == version
