# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import npu_host, unknown_entries


def test_tool_in_path_first_then_in_the_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", f"a::{tmp_path}/a")
    assert npu_host.tool("npu-smi", [f"{tmp_path}/b"]) is None
    # a folder that depends on where we stand is nobody's
    monkeypatch.chdir(tmp_path)
    (tmp_path / "npu-smi").touch(0o755)
    assert npu_host.tool("npu-smi", ["a", ""]) is None
    for name in ("a", "b"):
        (tmp_path / name / "npu-smi").touch(0o755)
    assert npu_host.tool("npu-smi", [f"{tmp_path}/b"]) == f"{tmp_path}/a/npu-smi"
    (tmp_path / "a" / "npu-smi").chmod(0o644)
    assert npu_host.tool("npu-smi", [f"{tmp_path}/b"]) == f"{tmp_path}/b/npu-smi"


def test_device_nodes(tmp_path: Path) -> None:
    for name in ("davinci10", "davinci2", "davinci_manager", "davinci2x", "devmm_svm"):
        (tmp_path / name).touch(0o640)
        (tmp_path / name).chmod(0o640)
    found = npu_host.devices(str(tmp_path))
    assert found["davinci"] == [2, 10]
    group = grp.getgrgid(os.getgid()).gr_name
    assert found["manager"] == {
        "path": f"{tmp_path}/davinci_manager",
        "exists": True,
        "mode": "0640",
        "owner": "root" if os.getuid() == 0 else found["manager"]["owner"],
        "group": group,
    }
    assert found["hisi_hdc"]["exists"] is False
    assert found["group"] == group
    if group == "root":
        assert "root" in found["members"]


def test_nodes_of_different_groups_have_none(tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("needs root")
    for number in (0, 1):
        (tmp_path / f"davinci{number}").touch()
        os.chown(tmp_path / f"davinci{number}", 0, 40000 * number)
    found = npu_host.devices(str(tmp_path))
    assert (found["group"], found["members"]) == (None, None)


def test_no_nodes(tmp_path: Path) -> None:
    found = npu_host.devices(str(tmp_path))
    assert (found["davinci"], found["group"], found["manager"]["mode"]) == ([], None, None)


@pytest.mark.parametrize(("numbers", "text"), [([], ""), ([3], "3"), ([7, 3, 5, 6, 3], "3, 5-7"), (range(16), "0-15")])
def test_spans(numbers: list[int], text: str) -> None:
    assert unknown_entries.spans(numbers) == text


def test_raw_is_short() -> None:
    unknown = unknown_entries.Unknown()
    unknown.add("chips", "why", "x" * 5000)
    assert unknown.entries == [{"what": "chips", "why": "why", "raw": "x" * 2000}]
