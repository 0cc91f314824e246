# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_info
short_description: RDMA devices of a host, and the GID that Mooncake takes on each port
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Reads devices, ports, GID tables with their types, PCI links and NUMA nodes from C(/sys), and MTUs and the largest
    memory region from C(ibv_devinfo -v), which only verbs tell.
  - Works out which entry of the GID table Mooncake takes where C(MC_GID_INDEX) is not set, by the rules of its release.
  - What could not be found out is V(null) or incomplete and stands in RV(rdma.unknown). A host without devices has an
    empty list and nothing unknown.
options:
  timeout:
    description: Seconds that C(ibv_devinfo) may take. It hangs where the firmware of an adapter does.
    type: float
    default: 5
  mooncake_version:
    description: Release of Mooncake whose choice of the GID is worked out. Empty for the newest known one.
    type: str
    default: ""
  root:
    description: Folder in whose C(sys) is looked.
    type: path
    default: /
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
"""

EXAMPLES = r"""
- name: Look at the RDMA devices
  mooncake.pd.rdma_info:
    mooncake_version: "{{ pd_cluster.mooncake.version }}"
  become: true
  register: found

- name: Show the GIDs that transfers would use
  ansible.builtin.debug:
    msg: "{{ found.rdma.devices | map(attribute='ports') | flatten | map(attribute='chosen') }}"
"""

RETURN = r"""
rdma:
  description: The RDMA side of the host.
  returned: always
  type: dict
  contains:
    devices:
      description: Devices of C(/sys/class/infiniband).
      type: list
      elements: dict
      contains:
        name:
          description: Name, as in C(--device_name) and C(MC_TE_FILTERS).
          type: str
          sample: mlx5_0
        driver:
          description: Kernel driver of the device.
          type: str
          sample: mlx5_core
        firmware:
          description: Version of the firmware. V(null) where the driver tells none.
          type: str
        board:
          description: Kind of the board. V(null) where the driver tells none.
          type: str
        numa_node:
          description: NUMA node. V(-1) when the firmware of the host names none; V(null) for devices in software.
          type: int
        netdevs:
          description: Network interfaces that belong to it or to its GIDs.
          type: list
          elements: str
        guid:
          description: Node GUID.
          type: str
        pci:
          description:
            - The PCI link, with C(speed) and C(max_speed) in GT/s and C(width) and C(max_width) in lanes.
            - V(null) for devices without one, in software or inside the CPU. A virtual function has its adapter's.
          type: dict
          sample: {address: "0000:5e:00.0", speed: 16.0, width: 16, max_speed: 16.0, max_width: 16}
        max_mr_size:
          description: Largest memory region in bytes, by C(ibv_devinfo).
          type: int
        ports:
          description: Its ports.
          type: list
          elements: dict
          contains:
            port:
              description: Number, from 1 on. Mooncake uses port 1 where C(MC_IB_PORT) is not set.
              type: int
            state:
              description: Logical state, such as V(ACTIVE), V(DOWN) or V(INIT).
              type: str
            phys_state:
              description: State of the cable, such as V(LinkUp) or V(Disabled).
              type: str
            link_layer:
              description: V(Ethernet) or V(InfiniBand).
              type: str
            rate:
              description: Gb/s.
              type: float
            active_mtu:
              description: MTU in use, by C(ibv_devinfo).
              type: int
            max_mtu:
              description: Largest MTU of the port, by C(ibv_devinfo).
              type: int
            netdev:
              description: Network interface of the chosen GID, or of the port. V(null) where there is none.
              type: str
            netdev_mtu:
              description: Its MTU.
              type: int
            gids:
              description: Entries of the GID table in use, with C(index), C(gid), C(type), C(address) and C(netdev).
              type: list
              elements: dict
            chosen:
              description:
                - The entry that Mooncake takes by itself, with C(index), C(gid) and C(address) (the IPv4 address of
                  which it is made, if it is).
                - V(null) when it takes none, or when that is unknown.
              type: dict
              sample: {index: 3, gid: "0000:0000:0000:0000:0000:ffff:c000:020b", address: 192.0.2.11}
    tools:
      description: Path of C(ibv_devinfo) and C(ib_write_bw). V(null) where there is none.
      type: dict
    modules:
      description: Kernel modules that matter to RDMA and are there.
      type: list
      elements: str
    unknown:
      description:
        - What could not be found out, with C(what) (a path below RV(rdma), with C(*) for all devices or ports), C(why)
          and the C(raw) text.
      type: list
      elements: dict
"""

from shutil import which
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import rdma_ibv
from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Runner
from ansible_collections.mooncake.pd.plugins.module_utils.rdma_sysfs import Tree

# a service's PATH may lack these
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FROM_DEVICE = ("max_mr_size",)
FROM_PORT = ("active_mtu", "max_mtu")


def add_verbs(tree: Tree, devices: list[Dict[str, Any]], tool: Any, timeout: float) -> None:
    """Fill in what sysfs does not tell."""
    if not tool:
        _doubt(tree, devices, "ibv_devinfo is not installed.")
        return
    said = Runner(timeout).run([[tool, "-v"]])[0]
    trouble = f"{tool} {said.failure}." if said.failure else ""
    told = rdma_ibv.parse_devinfo(said.text)
    if not told:
        _doubt(tree, devices, trouble or f"{tool} names no device.", said.text)
        return
    silent = []
    for device in devices:
        seen = told.get(device["name"])
        if seen is None:
            silent.append(device)
            continue
        device["max_mr_size"] = seen.max_mr_size
        device["firmware"] = device["firmware"] or seen.firmware
        what = f"devices.{device['name']}"
        missing = [] if seen.max_mr_size is not None else [f"{what}.max_mr_size"]
        for port in device["ports"]:
            its = seen.ports.get(port["port"], rdma_ibv.Port())
            port.update(active_mtu=its.active_mtu, max_mtu=its.max_mtu)
            missing += [f"{what}.ports.{port['port']}.{key}" for key, value in vars(its).items() if value is None]
        for path in missing:
            tree.doubt(path, trouble or f"{tool} does not tell it in a way that is understood.", said.text)
    for device in silent:
        _doubt(tree, [device], trouble or f"{tool} does not name the device.", said.text, device["name"])


def _doubt(tree: Tree, devices: list[Dict[str, Any]], why: str, raw: str = "", which: str = "*") -> None:
    """What only verbs tell is unknown, and the devices themselves are not."""
    paths = list(FROM_DEVICE)
    if any(device["ports"] for device in devices):
        paths += [f"ports.*.{key}" for key in FROM_PORT]
    for path in paths:
        tree.doubt(f"devices.{which}.{path}", why, raw)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "timeout": {"type": "float", "default": 5},
            "mooncake_version": {"type": "str", "default": ""},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    tree = Tree(module.params["root"], module.params["mooncake_version"])
    tools = {name: which(name, path=SEARCHED) for name in ("ibv_devinfo", "ib_write_bw")}
    devices = tree.devices()
    if devices:
        add_verbs(tree, devices, tools["ibv_devinfo"], module.params["timeout"])
    rdma = {"devices": devices, "tools": tools, "modules": tree.modules(), "unknown": tree.unknown}
    module.exit_json(changed=False, rdma=rdma)


if __name__ == "__main__":
    main()
