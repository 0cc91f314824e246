# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.modules import host_tuning

from .conftest import RunModule

FILES = {
    "proc/sys/vm/swappiness": "60\n",
    "proc/meminfo": "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\nHugepagesize: 2048 kB\n",
    "proc/77/comm": "chronyd\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "0\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages": "0\n",
    "sys/devices/system/node/node0/cpulist": "0\n",
    "sys/class/net/eth0/device/numa_node": "1\n",
    "sys/class/net/lo/address": "0\n",
    "sys/bus/pci/devices/0000:c1:00.0/vendor": "0x19e5\n",
    "sys/bus/pci/devices/0000:c1:00.0/class": "0x120000\n",
    "sys/bus/pci/devices/0000:c1:00.0/numa_node": "-1\n",
    "sys/bus/pci/devices/0000:c2:00.0/vendor": "0x8086\n",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(host_tuning, "ROOT", str(tmp_path))
    return tmp_path


def test_check_mode_tells_what_a_run_does(run_module: RunModule, root: Path) -> None:
    told = run_module(host_tuning, check=True, sysctl={"vm.swappiness": 0})
    assert (root / "proc/sys/vm/swappiness").read_text() == "60\n"
    done = run_module(host_tuning, sysctl={"vm.swappiness": 0})
    assert told == done
    assert done["changed"]
    assert done["settings"] == [{"name": "vm.swappiness", "before": "60", "wanted": "0", "after": "0"}]
    assert done["files"] == ["/etc/sysctl.d/95-mooncake-pd.conf"]
    assert done["limits_changed"] is False
    assert not run_module(host_tuning, sysctl={"vm.swappiness": 0})["changed"]


def test_time_and_numa_are_only_told(run_module: RunModule, root: Path) -> None:
    answer = run_module(host_tuning)
    assert answer["time"]["keepers"] == ["chronyd"]
    assert answer["numa"] == {
        "nodes": [0],
        "nics": [{"name": "eth0", "node": 1}],
        "npus": [{"address": "0000:c1:00.0", "node": None}],
    }
    assert not answer["changed"]


def test_problems_come_before_any_change(run_module: RunModule, root: Path) -> None:
    answer = run_module(host_tuning, sysctl={"vm.swappiness": 0}, reserved_ports=["no"], shm_size="much")
    assert answer["failed"]
    assert answer["msg"].startswith("Nothing was changed.\n")
    assert len(answer["problems"]) == 2
    assert (root / "proc/sys/vm/swappiness").read_text() == "60\n"


def test_missing_hugepages_fail_with_what_was_done(
    run_module: RunModule, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel takes every number, and gives what it has."""
    monkeypatch.setattr(host_tuning.Tree, "set", lambda self, path, value: None)
    pages = [{"size": "2MB", "pages": 4}]
    assert not run_module(host_tuning, check=True, hugepages=pages)["failed"]
    answer = run_module(host_tuning, hugepages=pages)
    assert answer["failed"]
    assert "hugepages of 2MB: 0 of 4 are there, 4 are missing" in answer["msg"]
    assert answer["hugepages"][0]["total"] == 0
    assert answer["files"] == ["/etc/tmpfiles.d/mooncake-pd-host.conf"]
