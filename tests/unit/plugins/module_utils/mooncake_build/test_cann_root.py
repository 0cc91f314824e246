# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import cann_root


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


WHOLE = (
    "x86_64-linux/include/acl/acl_rt.h",
    "x86_64-linux/lib64/libascendcl.so",
    "x86_64-linux/lib64/libllm_datadist.so",
)


def test_the_order_of_places(tmp_path: Path) -> None:
    home = str(tmp_path)
    assert cann_root.find(None, {}, home) is None
    for name in ("cann-8.5.0", "cann-8.5.10", "ascend-toolkit/latest"):
        (tmp_path / name).mkdir(parents=True)
    assert cann_root.find(None, {}, home) == f"{home}/ascend-toolkit/latest"
    (tmp_path / "cann").symlink_to("cann-8.5.0")
    assert cann_root.find(None, {}, home) == f"{home}/cann"
    assert cann_root.find(None, {"ASCEND_HOME_PATH": f"{home}/cann-8.5.0/"}, home) == f"{home}/cann-8.5.0"
    assert cann_root.find("/named", {"ASCEND_HOME_PATH": home}, home) == "/named"
    (tmp_path / "cann").unlink()
    (tmp_path / "ascend-toolkit/latest").rmdir()
    assert cann_root.find(None, {}, home) == f"{home}/cann-8.5.10"


def test_what_mooncake_looks_for(tmp_path: Path) -> None:
    assert cann_root.missing(str(tmp_path), "x86_64") == [*WHOLE, "x86_64-linux/lib64/libmetadef.so"]
    make(tmp_path, *WHOLE)
    assert cann_root.missing(str(tmp_path), "x86_64") == ["x86_64-linux/lib64/libmetadef.so"]
    make(tmp_path, "x86_64-linux/lib64/libgraph.so")
    assert cann_root.missing(str(tmp_path), "x86_64") == ["x86_64-linux/lib64/libmetadef.so"]
    make(tmp_path, "x86_64-linux/lib64/libgraph_base.so")
    assert cann_root.missing(str(tmp_path), "x86_64") == []
    assert len(cann_root.missing(str(tmp_path), "aarch64")) == 4


def test_version_and_where_nothing_is(tmp_path: Path) -> None:
    make(tmp_path, *WHOLE, "x86_64-linux/lib64/libmetadef.so")
    assert cann_root.look(str(tmp_path), {}, "x86_64") == {"path": str(tmp_path), "version": None, "missing": []}
    info = tmp_path / "x86_64-linux/ascend_toolkit_install.info"
    info.write_text("package_name=Ascend-cann-toolkit\nversion=8.3.RC1\narch=x86_64\n")
    found = cann_root.look(str(tmp_path), {}, "x86_64")
    assert found is not None
    assert found["version"] == "8.3.RC1"
    assert cann_root.look(f"{tmp_path}/none", {}, "x86_64") is None


def test_the_linker_finds_what_cann_needs_itself(tmp_path: Path) -> None:
    make(tmp_path, *WHOLE, "x86_64-linux/devlib/libascend_hal.so", "home/driver/lib64/driver/libascend_hal.so")
    assert cann_root.library_folders(str(tmp_path), "x86_64", f"{tmp_path}/home") == [
        f"{tmp_path}/x86_64-linux/lib64",
        f"{tmp_path}/home/driver/lib64",
        f"{tmp_path}/home/driver/lib64/driver",
        f"{tmp_path}/x86_64-linux/devlib",
    ]
