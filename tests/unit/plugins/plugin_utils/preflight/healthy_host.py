# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a healthy A3 server (Kunpeng 920, 16 NPUs) before anything was started, as host_info returns them."""

from __future__ import annotations

import copy
from typing import Any

GIB = 1 << 30
SERVERS = {"p1": "192.0.2.11", "p2": "192.0.2.12", "d1": "192.0.2.21", "d2": "192.0.2.22"}
ENDLESS = {"soft": -1, "hard": -1}
FILES = {"soft": 1048576, "hard": 1048576}


def host(address: str = SERVERS["p1"], **changes: Any) -> dict[str, Any]:
    """The facts; a change replaces one of them: clock={...}, or further down with memory__available=1."""
    facts = copy.deepcopy(_facts(address, next((n for n, a in SERVERS.items() if a == address), "server")))
    for path, value in changes.items():
        *folders, last = path.split("__")
        place = facts
        for folder in folders:
            place = place[folder]
        if last not in place:
            raise KeyError(f"host_info has no {path}")
        place[last] = value
    return facts


def interface(name: str, kind: str = "physical", **changes: Any) -> dict[str, Any]:
    """One entry of `interfaces` without addresses."""
    entry = {
        "name": name,
        "up": True,
        "carrier": True,
        "mtu": 1500,
        "mac": "52:54:00:12:34:56",
        "speed": 25000 if kind in ("physical", "bond") else None,
        "kind": kind,
        "master": None,
        "members": [],
        "driver": "hns3" if kind == "physical" else None,
        "numa_node": 0 if kind == "physical" else None,
        "addresses": [],
    }
    if changes.keys() - entry.keys():
        raise KeyError(f"an interface has no {changes.keys() - entry.keys()}")
    return {**entry, **changes}


def peer(name: str, address: str, source: str | None = SERVERS["p1"], **changes: Any) -> dict[str, Any]:
    """One entry of `peers`: the way is open and nothing listens yet."""
    entry = {
        "name": name,
        "address": address,
        "source": source,
        "interface": "bond0",
        "gateway": None,
        "mtu": 1500,
        "ports": [
            {"port": 8100, "purpose": "api", "state": "closed", "error": "connection refused"},
            {"port": 8998, "purpose": "bootstrap", "state": "closed", "error": "connection refused"},
        ],
    }
    if changes.keys() - entry.keys():
        raise KeyError(f"a peer has no {changes.keys() - entry.keys()}")
    return {**entry, **changes}


def unit(**changes: Any) -> dict[str, Any]:
    """One entry of `units`: the unit runs and has its limits."""
    entry = {
        "load_state": "loaded",
        "active_state": "active",
        "sub_state": "running",
        "result": "success",
        "n_restarts": 0,
        "main_pid": 41001,
        "started": 1795996800.0,
        "memlock": ENDLESS,
        "nofile": FILES,
        "drop_ins": [],
        "needs_reload": False,
        "fragment": "/etc/systemd/system/mooncake-pd-p1.service",
        "environment_names": ["MOONCAKE_PD_DIGEST", "PATH"],
        "process": {"memlock": ENDLESS, "nofile": FILES},
        "oom_kills": 0,
        "pool_bytes": None,
    }
    if changes.keys() - entry.keys():
        raise KeyError(f"a unit has no {changes.keys() - entry.keys()}")
    return copy.deepcopy({**entry, **changes})


def path(name: str, purpose: str, **changes: Any) -> dict[str, Any]:
    """One entry of `paths`: a folder with room, readable and writable for the user."""
    entry = {
        "path": name,
        "purpose": purpose,
        "type": "directory",
        "nearest": name,
        "filesystem": "xfs",
        "mount": "/data",
        "total": 7000 * GIB,
        "free": 5000 * GIB,
        "inodes_free": 700000000,
        "read_only": False,
        "owner": "root",
        "mode": "0755",
        "readable": True,
        "writable": True,
    }
    if changes.keys() - entry.keys():
        raise KeyError(f"a path has no {changes.keys() - entry.keys()}")
    return {**entry, **changes}


def _tool(name: str, version: str | None) -> dict[str, Any]:
    return {"path": f"/usr/bin/{name}", "version": version}


def _facts(address: str, name: str) -> dict[str, Any]:
    return {
        "settings": {},
        "kernel": {
            "release": "5.10.0-216.0.0.115.oe2203sp4.aarch64",
            "machine": "aarch64",
            "page_size": 4096,
            "uptime": 864000.5,
            "boot_id": f"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1{address.rpartition('.')[2]:0>2}",
            "cmdline": "BOOT_IMAGE=/vmlinuz-5.10.0 root=/dev/mapper/system-root ro crashkernel=1024M",
            "numa_balancing": 0,
        },
        "os": {"id": "openEuler", "version_id": "22.03", "like": [], "pretty": "openEuler 22.03 (LTS-SP4)"},
        "cpus": 320,
        "numa": [{"node": node, "cpus": 40, "memory_total": 256 * GIB, "memory_free": 240 * GIB} for node in range(8)],
        "memory": {"total": 2048 * GIB, "available": 1960 * GIB, "swap_total": 0, "swap_free": 0},
        "hugepages": {
            "default_size": 2 << 20,
            "sizes": [
                {
                    "size": size,
                    "total": 0,
                    "free": 0,
                    "reserved": 0,
                    "surplus": 0,
                    "nodes": [{"node": node, "total": 0, "free": 0} for node in range(8)],
                }
                for size in (64 << 10, 2 << 20, 32 << 20, 1 << 30)
            ],
            "asked": [],
        },
        "transparent_hugepages": "madvise",
        "sysctl": {
            "vm.max_map_count": "16777216",
            "vm.swappiness": "0",
            "vm.overcommit_memory": "0",
            "vm.nr_hugepages": "0",
            "kernel.numa_balancing": "0",
            "kernel.pid_max": "4194304",
            "fs.file-max": "9223372036854775807",
            "fs.nr_open": "1073741816",
            "net.core.somaxconn": "4096",
            "net.core.rmem_max": "16777216",
            "net.core.wmem_max": "16777216",
            "net.ipv4.ip_local_port_range": "40000 60999",
            "net.ipv4.ip_local_reserved_ports": "",
            "net.ipv4.ip_nonlocal_bind": "0",
            "net.ipv4.tcp_tw_reuse": "2",
            "net.ipv4.conf.all.rp_filter": "0",
            "net.ipv4.conf.all.arp_ignore": "0",
            "net.ipv4.conf.all.arp_announce": "0",
            "net.ipv4.neigh.default.gc_thresh3": "16384",
            "kernel.threads-max": "4194304",
        },
        "limits": {
            "unit": "mooncake-pd-preflight.service",
            "user": "mooncake",
            "memlock": ENDLESS,
            "nofile": FILES,
            "nproc": ENDLESS,
            "core": {"soft": 0, "hard": -1},
            "stack": {"soft": 8 << 20, "hard": -1},
            "environment": {},
        },
        "units": {},
        "shm": {
            "total": 1024 * GIB,
            "free": 1023 * GIB,
            "inodes_free": 260000000,
            "options": ["rw", "nosuid", "nodev"],
            "segments": [],
            "segments_total": {"count": 0, "size": 0, "unused_count": 0, "unused_size": 0},
        },
        "tmp": {"total": 400 * GIB, "free": 380 * GIB},
        "paths": [
            path("/data/models/model", "model", inodes_free=700000000),
            path("/var/log/mooncake-pd", "log", mount="/", total=400 * GIB, free=380 * GIB, owner="mooncake"),
        ],
        "clock": {
            "epoch": 1796000000.25,
            "synchronized": True,
            "timezone": "Etc/UTC",
            "controller": {"sent": 1796000000.0, "received": 1796000000.9},
        },
        "interfaces": [
            interface(
                "lo",
                "loopback",
                carrier=True,
                mtu=65536,
                mac="00:00:00:00:00:00",
                addresses=[
                    {"address": "127.0.0.1", "prefix": 8, "family": 4, "scope": "host"},
                    {"address": "::1", "prefix": 128, "family": 6, "scope": "host"},
                ],
            ),
            interface("enp125s0f0", master="bond0"),
            interface("enp125s0f1", master="bond0"),
            interface(
                "bond0",
                "bond",
                speed=50000,
                members=["enp125s0f0", "enp125s0f1"],
                addresses=[
                    {"address": address, "prefix": 24, "family": 4, "scope": "global"},
                    {"address": "fe80::5054:ff:fe12:3456", "prefix": 64, "family": 6, "scope": "link"},
                ],
            ),
        ],
        "default_routes": [{"interface": "bond0", "gateway": "192.0.2.1", "metric": 300, "family": 4}],
        "peers": [peer(other, there, source=address) for other, there in SERVERS.items() if there != address],
        "names": {
            "hostname": name,
            "fqdn": name,
            "own": [address],
            "resolved": [
                {"name": other, "address": there, "addresses": [there], "error": None}
                for other, there in SERVERS.items()
            ],
            "hosts_loopback": [],
        },
        "proxies": [],
        "systemd": {"version": 249, "state": "running", "failed": [], "pid1": "systemd"},
        "cgroup": {"version": 1, "memory_max": -1},
        "containers": {
            "inside": None,
            "runtimes": [{"name": "docker", "socket": "/run/docker.sock", "version": "18.09.0"}],
        },
        "libc": {
            "name": "glibc",
            "version": "2.34",
            "libstdcxx": {"path": "/usr/lib64/libstdc++.so.6", "newest": "3.4.28"},
        },
        "pythons": [
            {"path": "/usr/bin/python3.9", "version": "3.9.9"},
            {"path": "/usr/bin/python3.11", "version": "3.11.6"},
        ],
        "tools": {
            "gcc": _tool("gcc", "12.3.1"),
            "g++": _tool("g++", "12.3.1"),
            "cmake": _tool("cmake", "3.22.0"),
            "make": _tool("make", "4.3"),
            "ninja": None,
            "git": _tool("git", "2.33.0"),
            "patch": _tool("patch", "2.7.6"),
            "go": None,
            "mpicc": {**_tool("mpicc", "4.1.4"), "flavour": "openmpi"},
            "mpirun": {**_tool("mpirun", "4.1.4"), "flavour": "openmpi"},
            "pkg-config": _tool("pkg-config", "1.8.0"),
            "numactl": _tool("numactl", None),
            "ibv_devinfo": _tool("ibv_devinfo", None),
            "ib_write_bw": _tool("ib_write_bw", None),
            "rping": _tool("rping", None),
            "ss": _tool("ss", "5.15.0"),
            "docker": _tool("docker", "18.09.0"),
            "podman": None,
            "chronyd": {"path": "/usr/sbin/chronyd", "version": "4.1"},
            "ntpd": None,
            "systemd-run": _tool("systemd-run", "249"),
        },
        "libraries": {
            "jemalloc": "/usr/lib64/libjemalloc.so.2",
            "libibverbs": "/usr/lib64/libibverbs.so.1",
            "libnuma": "/usr/lib64/libnuma.so.1",
        },
        "engines": [],
        "security": {"selinux": "disabled", "apparmor": False, "firewall": []},
        "kubernetes": {"kubelet": False, "kube_proxy": False},
        "governor": {"performance": 320},
        "modules": ["drv_pcie_host", "ib_core", "ib_uverbs", "rdma_cm"],
        "unknown": [],
    }
