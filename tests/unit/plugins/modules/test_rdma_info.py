# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.modules import rdma_info

from . import rdma_trees as trees
from .conftest import RunModule

Look = Callable[..., dict[str, Any]]
FROM_VERBS = ("max_mr_size", "ports.*.active_mtu", "ports.*.max_mtu")
MTU = {1: ("4096 (5)", "4096 (5)")}


@pytest.fixture
def look(run_module: RunModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """The module on a tree; `said` is what ibv_devinfo prints, None where it is not installed."""

    def run(said: str | None, script: str = 'cat "${0}.txt"', **params: Any) -> dict[str, Any]:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        tool = folder / "ibv_devinfo"
        tool.unlink(missing_ok=True)
        if said is not None:
            (folder / "ibv_devinfo.txt").write_text(said)
            tool.write_text(f"#!/bin/sh\n{script}\n")
            tool.chmod(0o755)
        monkeypatch.setattr(rdma_info, "SEARCHED", str(folder))
        answer = run_module(rdma_info, root=str(tmp_path), **params)
        assert (answer["failed"], answer["changed"]) == (False, False)
        assert_told(answer["rdma"])
        return answer["rdma"]

    return run


def assert_told(rdma: dict[str, Any]) -> None:
    """What could be found out or not is null only with an entry that says why, or by its nature."""
    doubts = [entry["what"] for entry in rdma["unknown"]]
    by_nature = ("netdev", "netdev_mtu", "firmware", "board", "driver", "pci", "numa_node", "chosen", "address")

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{path}.{key}")
        elif isinstance(value, list):
            for item in value:
                name = item.get("name", item.get("port", item.get("index"))) if isinstance(item, dict) else item
                walk(item, f"{path}.{name}")
        elif value is None and path.rsplit(".", 1)[1] not in by_nature:
            assert any(fnmatch(path, what) or fnmatch(path, f"{what}.*") for what in doubts), path

    walk(rdma["devices"], "devices")


def only(rdma: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    (device,) = rdma["devices"]
    return device, device["ports"][0]


def test_no_device_is_known(look: Look, tmp_path: Path) -> None:
    for said in (None, "No IB devices found"):
        assert look(said) == {
            "devices": [],
            "tools": {"ibv_devinfo": str(tmp_path / "bin/ibv_devinfo") if said else None, "ib_write_bw": None},
            "modules": [],
            "unknown": [],
        }


def test_bond_of_mlx5(look: Look, tmp_path: Path) -> None:
    """The GIDs belong to the bond, the PCI function to its first member."""
    netdevs = {"ens10f0np0": {"mtu": "4200"}}
    device = trees.device(tmp_path, "mlx5_bond_0", netdevs=netdevs, numa="1")
    trees.port(device, trees.roce("192.0.2.11", "bond0"))
    trees.network(tmp_path, "bond0", mtu="4200")
    (tmp_path / "sys/module/mlx5_core").mkdir(parents=True)
    rdma = look(trees.devinfo({"name": "mlx5_bond_0", "ports": MTU}))
    found, port = only(rdma)
    assert rdma["unknown"] == []
    assert rdma["modules"] == ["ib_uverbs", "mlx5_core"]
    assert {key: found[key] for key in ("name", "driver", "numa_node", "netdevs", "firmware", "max_mr_size")} == {
        "name": "mlx5_bond_0",
        "driver": "mlx5_core",
        "numa_node": 1,
        "netdevs": ["bond0", "ens10f0np0"],
        "firmware": "28.41.1000",
        "max_mr_size": 2**64 - 1,
    }
    assert found["pci"] == {
        "address": "0000:5e:00.0",
        **{"speed": 16.0, "width": 16, "max_speed": 16.0, "max_width": 16},
    }
    assert (port["state"], port["phys_state"], port["link_layer"], port["rate"]) == (
        "ACTIVE",
        "LinkUp",
        "Ethernet",
        200.0,
    )
    assert (port["netdev"], port["netdev_mtu"], port["active_mtu"], port["max_mtu"]) == ("bond0", 4200, 4096, 4096)
    assert [gid["index"] for gid in port["gids"]] == [0, 1, 2, 3]
    assert port["chosen"] == {"index": 3, "gid": trees.mapped("192.0.2.11"), "address": "192.0.2.11"}


def test_erdma_has_no_interface_of_its_own(look: Look, tmp_path: Path) -> None:
    """The interface belongs to another PCI function; only the GIDs tell it. Its memory regions end at 64 GiB."""
    device = trees.device(tmp_path, "erdma_0", driver="erdma", numa="-1", pci_files={})
    trees.port(device, {0: (trees.LOCAL, trees.V1, "eth0"), 1: (trees.mapped("192.0.2.11"), trees.V2, "eth0")})
    trees.network(tmp_path, "eth0", mtu="1500")
    said = trees.devinfo({"name": "erdma_0", "mr": "0x1000000000", "ports": {1: ("4096 (5)", "1024 (3)")}})
    found, port = only(look(said))
    assert (found["numa_node"], found["pci"], found["max_mr_size"]) == (-1, None, 64 << 30)
    assert (port["netdev"], port["active_mtu"], port["chosen"]["index"]) == ("eth0", 1024, 1)


def test_kunpeng_adapter_has_no_pci_link(look: Look, tmp_path: Path) -> None:
    """hns sits inside the CPU: its function tells a link of no speed, which is no gap in knowledge."""
    none = {"current_link_speed": "Unknown", "current_link_width": "0", "max_link_speed": "Unknown"}
    device = trees.device(
        tmp_path,
        "hns_0",
        pci="0000:7d:00.0",
        driver="hns3",
        netdevs={"enp125s0f0": {}},
        pci_files={**none, "max_link_width": "255"},
    )
    trees.port(device, trees.roce("192.0.2.11", "enp125s0f0"), rate="100 Gb/sec (4X EDR)")
    rdma = look(trees.devinfo({"name": "hns_0", "ports": MTU}))
    found, port = only(rdma)
    assert (rdma["unknown"], found["pci"], found["numa_node"], port["rate"]) == ([], None, 0, 100.0)


def test_infiniband(look: Look, tmp_path: Path) -> None:
    """The only GID is made of the port's GUID; its type is written as that of RoCE v1."""
    device = trees.device(tmp_path, "mlx5_0", netdevs={"ib0": {"mtu": "2044"}})
    trees.port(device, {0: (trees.LOCAL, trees.V1, "")}, link="InfiniBand", rate="400 Gb/sec (4X NDR)")
    _found, port = only(look(trees.devinfo({"name": "mlx5_0", "ports": MTU})))
    assert (port["link_layer"], port["netdev"], port["netdev_mtu"]) == ("InfiniBand", "ib0", 2044)
    assert (port["chosen"]["index"], port["chosen"]["address"]) == (0, None)


def test_port_down_and_second_port(look: Look, tmp_path: Path) -> None:
    device = trees.device(tmp_path, "mlx4_0", netdevs={"ens3": {}, "ens3d1": {"dev_port": "1", "mtu": "1500"}})
    trees.port(device, {}, state="1: DOWN", phys_state="3: Disabled", rate="10 Gb/sec (1X QDR)")
    trees.port(device, {}, number=2, state="2: INIT")
    ports = {1: ("4096 (5)", "1024 (3)"), 2: ("4096 (5)", "4096 (5)")}
    rdma = look(trees.devinfo({"name": "mlx4_0", "ports": ports}))
    found, port = only(rdma)
    assert rdma["unknown"] == []
    assert (port["state"], port["phys_state"], port["gids"], port["chosen"]) == ("DOWN", "Disabled", [], None)
    assert [(p["state"], p["netdev"], p["netdev_mtu"], p["active_mtu"]) for p in found["ports"]] == [
        ("DOWN", "ens3", 9000, 1024),
        ("INIT", "ens3d1", 1500, 4096),
    ]


def test_gid_far_in_the_table(look: Look, tmp_path: Path) -> None:
    """Releases 0.3.10 and 0.3.11 end at the first empty entry and fall back to the link-local GID."""
    device = trees.device(tmp_path, "mlx5_0", netdevs={"ens10np0": {}})
    gids = {
        0: (trees.LOCAL, trees.V1, "ens10np0"),
        1: (trees.LOCAL, trees.V2, "ens10np0"),
        5: (trees.mapped("192.0.2.11"), trees.V2, "ens10np0"),
    }
    trees.port(device, gids)
    said = trees.devinfo({"name": "mlx5_0", "ports": MTU})
    for release, index in (("", 5), ("0.3.13.post1", 5), ("0.3.11.post1", 1), ("0.3.9", 5)):
        _found, port = only(look(said, mooncake_version=release))
        assert port["chosen"]["index"] == index, release


def test_half_the_lanes(look: Look, tmp_path: Path) -> None:
    slow = {"current_link_speed": "8.0 GT/s PCIe", "current_link_width": "8"}
    device = trees.device(tmp_path, "mlx5_0", pci_files={**slow, **trees.LINK_MAX})
    trees.port(device, {})
    found, _port = only(look(trees.devinfo({"name": "mlx5_0", "ports": MTU})))
    assert (found["pci"]["speed"], found["pci"]["width"], found["pci"]["max_width"]) == (8.0, 8, 16)


def test_virtual_function_has_the_link_of_its_adapter(look: Look, tmp_path: Path) -> None:
    device = trees.device(tmp_path, "mlx5_2", pci="0000:5e:00.2", pci_files={"current_link_speed": "Unknown"})
    adapter = tmp_path / "sys/devices/pci0000:5d/0000:5e:00.0"
    for name, text in {**trees.LINK, **trees.LINK_MAX}.items():
        trees.write(adapter / name, text)
    trees.link(tmp_path / "sys/devices/pci0000:5d/0000:5e:00.2/physfn", adapter)
    trees.port(device, {})
    found, _port = only(look(trees.devinfo({"name": "mlx5_2", "ports": MTU})))
    assert (found["pci"]["address"], found["pci"]["speed"]) == ("0000:5e:00.2", 16.0)


def test_link_that_does_not_tell_its_speed(look: Look, tmp_path: Path) -> None:
    files = {"current_link_speed": "Unknown", "current_link_width": "16", **trees.LINK_MAX}
    device = trees.device(tmp_path, "mlx5_0", pci_files=files)
    trees.port(device, {})
    rdma = look(trees.devinfo({"name": "mlx5_0", "ports": MTU}))
    (doubt,) = rdma["unknown"]
    assert (doubt["what"], doubt["raw"]) == ("devices.mlx5_0.pci.speed", "Unknown")


def simple(tmp_path: Path, *names: str) -> None:
    for number, name in enumerate(names or ("mlx5_0",)):
        device = trees.device(tmp_path, name, pci=f"0000:5e:00.{number}")
        trees.port(device, trees.roce(f"192.0.2.{11 + number}", f"ens{number}"))
        trees.network(tmp_path, f"ens{number}")


def test_devices_stand_in_the_order_of_their_numbers(look: Look, tmp_path: Path) -> None:
    simple(tmp_path, "mlx5_10", "mlx5_2")
    rdma = look(trees.devinfo({"name": "mlx5_2", "ports": MTU}, {"name": "mlx5_10", "ports": MTU}))
    assert [device["name"] for device in rdma["devices"]] == ["mlx5_2", "mlx5_10"]


def doubted(rdma: dict[str, Any]) -> list[str]:
    return [doubt["what"] for doubt in rdma["unknown"]]


def test_a_device_without_ports_and_no_tool(look: Look, tmp_path: Path) -> None:
    trees.device(tmp_path, "mlx5_0")
    assert doubted(look(None)) == ["devices.mlx5_0.ports", "devices.*.max_mr_size"]


def test_missing_tool_matters_only_where_there_are_devices(look: Look, tmp_path: Path) -> None:
    simple(tmp_path)
    rdma = look(None)
    assert doubted(rdma) == [f"devices.*.{path}" for path in FROM_VERBS]  # and the devices themselves are known
    assert {doubt["why"] for doubt in rdma["unknown"]} == {"ibv_devinfo is not installed."}
    assert only(rdma)[1]["chosen"]["index"] == 3  # what sysfs tells stands


def test_tool_that_fails(look: Look, tmp_path: Path) -> None:
    simple(tmp_path)
    said = "Failed to get IB devices list: Function not implemented\n"
    rdma = look(said, script='cat "${0}.txt"; exit 255')
    assert doubted(rdma) == [f"devices.*.{path}" for path in FROM_VERBS]
    assert "ended with code 255" in rdma["unknown"][0]["why"]
    assert {doubt["raw"] for doubt in rdma["unknown"]} == {said}


def test_no_secret_is_told(look: Look, tmp_path: Path) -> None:
    simple(tmp_path)
    rdma = look("", script="echo 'API_KEY=hunter2 is not understood' >&2; exit 1")
    assert {doubt["raw"] for doubt in rdma["unknown"]} == {"API_KEY=*** is not understood\n"}


def test_tool_that_hangs(look: Look, tmp_path: Path) -> None:
    simple(tmp_path)
    started = time.monotonic()
    doubt, *_others = look("", script="echo hca; sleep 60", timeout=0.3)["unknown"]
    assert time.monotonic() - started < 20
    assert "gave no answer" in doubt["why"]
    assert doubt["raw"] == "hca\n"


def test_tool_that_knows_one_device_only(look: Look, tmp_path: Path) -> None:
    simple(tmp_path, "mlx5_0", "mlx5_1")
    rdma = look(trees.devinfo({"name": "mlx5_0", "ports": MTU}))
    assert doubted(rdma) == [f"devices.mlx5_1.{path}" for path in FROM_VERBS]
    assert [device["max_mr_size"] for device in rdma["devices"]] == [2**64 - 1, None]


def test_values_that_are_not_understood(look: Look, tmp_path: Path) -> None:
    simple(tmp_path)
    rdma = look(trees.devinfo({"name": "mlx5_0", "mr": "plenty", "ports": {1: ("4096 (5)", "invalid MTU (0)")}}))
    assert [doubt["what"] for doubt in rdma["unknown"]] == [
        "devices.mlx5_0.max_mr_size",
        "devices.mlx5_0.ports.1.active_mtu",
    ]


def test_no_types_no_choice(look: Look, tmp_path: Path) -> None:
    """Kernels before 4.5 do not tell the types of GIDs."""
    device = trees.device(tmp_path, "mlx5_0")
    trees.port(device, {})
    trees.write(device / "ports/1/gids/0", trees.LOCAL)
    rdma = look(trees.devinfo({"name": "mlx5_0", "ports": MTU}))
    assert [doubt["what"] for doubt in rdma["unknown"]] == [
        "devices.mlx5_0.ports.1.gids",
        "devices.mlx5_0.ports.1.chosen",
    ]
    assert only(rdma)[1]["chosen"] is None


def test_half_a_device(look: Look, tmp_path: Path) -> None:
    """A driver that is being loaded, or a kernel that shows less."""
    trees.write(tmp_path / "sys/class/infiniband/mlx5_0/fw_ver", "28.41.1000")
    trees.write(tmp_path / "sys/class/infiniband/mlx5_1/ports/1/state", "?")
    rdma = look(trees.devinfo({"name": "mlx5_0", "ports": {}}, {"name": "mlx5_1", "ports": MTU}))
    doubted = {doubt["what"] for doubt in rdma["unknown"]}
    assert {"devices.mlx5_0.guid", "devices.mlx5_0.ports", "devices.mlx5_1.ports.1.state"} <= doubted


def test_interface_of_another_namespace(look: Look, tmp_path: Path) -> None:
    device = trees.device(tmp_path, "mlx5_0")
    trees.port(device, trees.roce("192.0.2.11", "eth1"))
    rdma = look(trees.devinfo({"name": "mlx5_0", "ports": MTU}))
    assert [doubt["what"] for doubt in rdma["unknown"]] == ["devices.mlx5_0.ports.1.netdev_mtu"]


def test_this_machine(run_module: RunModule) -> None:
    """Whatever is here, it is looked at without failing."""
    answer = run_module(rdma_info, check=True)
    assert not answer["failed"]
    there = Path("/sys/class/infiniband")
    assert len(answer["rdma"]["devices"]) == (len(list(there.iterdir())) if there.is_dir() else 0)
