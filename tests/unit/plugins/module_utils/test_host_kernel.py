# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.host import kernel
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees

EULER = """NAME="EulerOS"
VERSION="2.0 (SP10)"
ID="euleros"
VERSION_ID="2.0"
PRETTY_NAME="EulerOS 2.0 (SP10)"

ANSI_COLOR="0;31"
"""
UBUNTU = "# made by hand\nPRETTY_NAME='Ubuntu 22.04.4 LTS'\nVERSION_ID=\"22.04\"\nID=ubuntu\nID_LIKE=debian\n"
ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.3"\nPRETTY_NAME="Rocky Linux 9.3 (it\'s \\"Blue\\")"\n'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (EULER, ("euleros", "2.0", [], "EulerOS 2.0 (SP10)")),
        (UBUNTU, ("ubuntu", "22.04", ["debian"], "Ubuntu 22.04.4 LTS")),
        (ROCKY, ("rocky", "9.3", ["rhel", "centos", "fedora"], 'Rocky Linux 9.3 (it\'s "Blue")')),
        ('ID="cut', ("cut", None, [], None)),
        ("", (None, None, [], None)),
    ],
)
def test_os_release(text: str, found: tuple[object, ...]) -> None:
    assert tuple(kernel.parse_os_release(text).values()) == found


def test_distribution_is_looked_for_in_both_places(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/usr/lib/os-release": UBUNTU})
    assert kernel.distribution(look)["id"] == "ubuntu"
    trees.tree(tmp_path, {"/etc/os-release": EULER})
    assert kernel.distribution(look)["id"] == "euleros"
    assert look.unknowns == []


def test_os_release_that_says_nothing_is_unknown(tmp_path: Path) -> None:
    look = trees.look(tmp_path, {"/etc/os-release": "NAME=Something\n"})
    assert kernel.distribution(look) == {"id": None, "version_id": None, "like": [], "pretty": "Something"}
    assert look.unknowns == [{"what": "os.id", "why": "/etc/os-release does not say it.", "raw": "NAME=Something\n"}]


@pytest.mark.parametrize(
    ("text", "found"), [("0-3,8", [0, 1, 2, 3, 8]), ("5\n", [5]), ("\n", []), ("0-1,4-5", [0, 1, 4, 5])]
)
def test_numbers(text: str, found: list[int]) -> None:
    assert kernel.numbers(text) == found


def test_kernel(tmp_path: Path) -> None:
    look = trees.look(
        tmp_path,
        {
            "/proc/uptime": "3600.25 7000.00\n",
            "/proc/sys/kernel/random/boot_id": "a2c4e6a8-0000-4000-8000-123456789abc\n",
            "/proc/cmdline": "ro luks.key_token=abcdef hugepages=1\n",
            "/proc/sys/kernel/numa_balancing": "1\n",
        },
    )
    found = kernel.kernel(look)
    assert found["machine"] == "aarch64"
    assert found["uptime"] == 3600.25
    assert found["boot_id"] == "a2c4e6a8-0000-4000-8000-123456789abc"
    assert found["cmdline"] == "ro luks.key_token=*** hugepages=1"
    assert found["numa_balancing"] == 1
    assert look.unknowns == []


def test_sysctl_tells_what_is_not_there_from_what_cannot_be_read(tmp_path: Path) -> None:
    look = trees.look(
        tmp_path,
        {
            "/proc/sys/vm/max_map_count": "262144\n",
            "/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
            "/proc/sys/net/ipv4/ip_local_reserved_ports": "\n",
            "/proc/sys/vm/swappiness/no_file": "",
        },
    )
    assert kernel.sysctl(look) == {
        "vm.max_map_count": "262144",
        "vm.swappiness": None,
        "net.ipv4.ip_local_port_range": "32768 60999",
        "net.ipv4.ip_local_reserved_ports": "",
    }
    assert trees.what(look.unknowns) == {"sysctl.vm.swappiness"}


def test_governor_counts_processors(tmp_path: Path) -> None:
    policy = "/sys/devices/system/cpu/cpufreq/policy"
    look = trees.look(
        tmp_path,
        {
            f"{policy}0/scaling_governor": "performance\n",
            f"{policy}0/affected_cpus": "0 1 2 3\n",
            f"{policy}4/scaling_governor": "powersave\n",
            f"{policy}4/affected_cpus": "4\n",
            "/sys/devices/system/cpu/cpufreq/boost": "1",
        },
    )
    assert kernel.governor(look) == {"performance": 4, "powersave": 1}
    look = trees.look(tmp_path / "machine", {"/sys/devices/system/cpu/online": "0-1"})
    assert kernel.governor(look) == {}
    assert kernel.cpus(look) == 2
    assert look.unknowns == []


def test_modules_loaded_and_built_in(tmp_path: Path) -> None:
    lines = "".join(
        f"{name} 16384 0 - Live 0x0000000000000000\n" for name in ("drv_devmm_host", "xfs", "ib_uverbs", "ascend_kms")
    )
    look = trees.look(tmp_path, {"/proc/modules": lines, "/sys/module/ib_core/x": "", "/sys/module/xfs/x": ""})
    assert kernel.modules(look) == ["ascend_kms", "drv_devmm_host", "ib_core", "ib_uverbs"]
    assert look.unknowns == []
