# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import cann

HOME = "usr/local/Ascend"
INFO = "package_name={name}\nversion={version}\ninnerversion=V1\narch={arch}\nos=linux\npath=/x\n"


def write(root: Path, path: str, text: str = "") -> Path:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return target


def test_toolkit_with_links_that_lead_to_it(tmp_path: Path) -> None:
    base = f"{HOME}/ascend-toolkit"
    info = INFO.format(name="Ascend-cann-toolkit", version="8.3.RC2", arch="aarch64")
    real = write(tmp_path, f"{base}/8.3.RC2/aarch64-linux/ascend_toolkit_install.info", info)
    write(tmp_path, f"{base}/set_env.sh")
    # once as a link, once as a folder whose content is links
    (tmp_path / base / "8.3").symlink_to("8.3.RC2")
    (tmp_path / base / "latest" / "aarch64-linux").mkdir(parents=True)
    (tmp_path / base / "latest/aarch64-linux/ascend_toolkit_install.info").symlink_to(real)
    found, problems = cann.toolkits(cann.Files(str(tmp_path)))
    assert problems == []
    assert found == [
        {
            "path": "/usr/local/Ascend/ascend-toolkit/8.3.RC2",
            "package": "Ascend-cann-toolkit",
            "version": "8.3.RC2",
            "arch": "aarch64",
            "set_env": "/usr/local/Ascend/ascend-toolkit/set_env.sh",
        }
    ]


def test_layout_since_8_5_and_nnal(tmp_path: Path) -> None:
    info = INFO.format(name="Ascend-cann-toolkit", version="9.0.0", arch="x86_64")
    write(tmp_path, f"{HOME}/cann-9.0.0/x86_64-linux/ascend_toolkit_install.info", info)
    write(tmp_path, f"{HOME}/cann-9.0.0/x86_64-linux/ascend_ops_install.info", "version=9.0.0\n")
    write(tmp_path, f"{HOME}/cann-9.0.0/set_env.sh")
    (tmp_path / HOME / "cann").symlink_to("cann-9.0.0")
    write(tmp_path, f"{HOME}/nnal/atb/9.0.0/version.info", "Version=9.0.0\n")
    write(tmp_path, f"{HOME}/nnal/atb/set_env.sh")
    found, problems = cann.toolkits(cann.Files(str(tmp_path)))
    assert [(one["path"], one["package"], one["version"], one["set_env"]) for one in found] == [
        (
            "/usr/local/Ascend/cann-9.0.0",
            "ascend_ops",
            "9.0.0",
            "/usr/local/Ascend/cann-9.0.0/set_env.sh",
        ),
        (
            "/usr/local/Ascend/cann-9.0.0",
            "Ascend-cann-toolkit",
            "9.0.0",
            "/usr/local/Ascend/cann-9.0.0/set_env.sh",
        ),
        ("/usr/local/Ascend/nnal/atb/9.0.0", "atb", "9.0.0", "/usr/local/Ascend/nnal/atb/set_env.sh"),
    ]
    assert problems == []


def test_version_cfg(tmp_path: Path) -> None:
    text = "# version: 1.0\nruntime_running_version=[7.7.0.1.200:8.2.RC1]\ntoolkit_running_version=[7.7:8.2.RC1]\n"
    write(tmp_path, f"{HOME}/ascend-toolkit/8.2.RC1/version.cfg", text)
    found, problems = cann.toolkits(cann.Files(str(tmp_path)))
    assert [(one["package"], one["version"], one["set_env"]) for one in found] == [("ascend-toolkit", "8.2.RC1", None)]
    assert problems == []


def test_installed_without_a_version_is_told(tmp_path: Path) -> None:
    write(tmp_path, f"{HOME}/cann-9.9.9/set_env.sh")
    found, problems = cann.toolkits(cann.Files(str(tmp_path)))
    assert [(one["path"], one["version"]) for one in found] == [("/usr/local/Ascend/cann-9.9.9", None)]
    assert problems == [("/usr/local/Ascend/cann-9.9.9", "no file in /usr/local/Ascend/cann-9.9.9 names its version")]


def test_nothing_installed(tmp_path: Path) -> None:
    (tmp_path / HOME / "ascend-toolkit/old").mkdir(parents=True)
    assert cann.toolkits(cann.Files(str(tmp_path))) == ([], [])


@pytest.mark.parametrize("name", ["driver", "firmware"])
def test_driver_and_firmware(tmp_path: Path, name: str) -> None:
    files = cann.Files(str(tmp_path))
    known, why, raw = cann.part(files, name)
    assert (known, why, raw) == (None, f"there is no /usr/local/Ascend/{name}/version.info", "")
    write(tmp_path, f"{HOME}/{name}/version.info", "package_version=25.5.1\n")
    known, why, raw = cann.part(files, name)
    assert (known, why) == (None, f"/usr/local/Ascend/{name}/version.info names no version")
    assert raw
    write(tmp_path, f"{HOME}/{name}/version.info", "Version=25.5.1\nascendhal_version=7.35.23\n")
    expected = {"version": "25.5.1", "path": f"/usr/local/Ascend/{name}/version.info"}
    assert cann.part(files, name) == (expected, "", "")


def test_driver_that_is_installed_elsewhere(tmp_path: Path) -> None:
    write(tmp_path, "etc/ascend_install.info", "Driver_Install_Path_Param=/opt/npu\n")
    write(tmp_path, "opt/npu/driver/version.info", "Version=25.2.0\n")
    known, _why, _raw = cann.part(cann.Files(str(tmp_path)), "driver")
    assert known == {"version": "25.2.0", "path": "/opt/npu/driver/version.info"}
