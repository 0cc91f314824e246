# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel, the distribution, the processors, and the keys of sysctl."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from typing import Any, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.plugins.module_utils.masking import masked

SYSCTL = (
    "vm.max_map_count",
    "vm.swappiness",
    "vm.overcommit_memory",
    "vm.nr_hugepages",
    "kernel.numa_balancing",
    "kernel.pid_max",
    "kernel.threads-max",
    "fs.file-max",
    "fs.nr_open",
    "net.core.somaxconn",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_nonlocal_bind",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.all.arp_ignore",
    "net.ipv4.conf.all.arp_announce",
    "net.ipv4.neigh.default.gc_thresh3",
)
# RDMA in general, the NICs of NPU and GPU servers; the NPU driver's modules all begin with drv_ or ascend
MODULES = (
    "bonding",
    "br_netfilter",
    "hns3",
    "hns_roce_hw_v2",
    "ib_core",
    "ib_uverbs",
    "ip_vs",
    "irdma",
    "mlx5_core",
    "mlx5_ib",
    "nvidia",
    "nvidia_peermem",
    "rdma_cm",
    "rdma_ucm",
)
_NPU_MODULES = ("drv_", "ascend")


def numbers(text: str) -> list[int]:
    """0-3,8: a list of CPUs or nodes as sysfs prints it."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _dash, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def parse_os_release(text: str) -> dict[str, Any]:
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if not equals or key.startswith("#"):
            continue
        try:
            values[key] = "".join(shlex.split(value))
        except ValueError:
            values[key] = value.strip("\"'")
    return {
        "id": values.get("ID"),
        "version_id": values.get("VERSION_ID"),
        "like": values.get("ID_LIKE", "").split(),
        "pretty": values.get("PRETTY_NAME") or values.get("NAME"),
    }


def kernel(look: Look) -> dict[str, Any]:
    name = look.system.uname()
    uptime = look.word("/proc/uptime", "kernel.uptime")
    boot = look.word("/proc/sys/kernel/random/boot_id", "kernel.boot_id")
    cmdline = look.text("/proc/cmdline", "kernel.cmdline")
    balancing = look.optional("/proc/sys/kernel/numa_balancing", "kernel.numa_balancing")
    return {
        "release": name.release,
        "machine": name.machine,
        "page_size": look.system.page_size(),
        "uptime": float(uptime.split()[0]) if uptime else None,
        "boot_id": boot,
        "cmdline": masked(cmdline.strip()) if cmdline is not None else None,
        "numa_balancing": int(balancing) if balancing else None,
    }


def distribution(look: Look) -> dict[str, Any]:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        if look.exists(path):
            text = look.text(path, "os")
            found = parse_os_release(text or "")
            for key in ("id", "version_id", "pretty"):
                # rolling distributions have no version
                if text is not None and found[key] is None and key != "version_id":
                    look.unknown(f"os.{key}", f"{path} does not say it.", text)
            return found
    look.unknown("os", "There is neither /etc/os-release nor /usr/lib/os-release.")
    return parse_os_release("")


def cpus(look: Look) -> Optional[int]:
    text = look.text("/sys/devices/system/cpu/online", "cpus")
    return len(numbers(text)) if text is not None else None


def sysctl(look: Look) -> dict[str, Optional[str]]:
    """A key that this kernel does not have is not there."""
    found: dict[str, Optional[str]] = {}
    if not look.exists("/proc/sys"):
        look.unknown("sysctl", "There is no /proc/sys.")
        return dict.fromkeys(SYSCTL)
    for key in SYSCTL:
        try:
            found[key] = " ".join(look.read("/proc/sys/" + key.replace(".", "/")).split())
        except FileNotFoundError:
            continue
        except OSError as error:
            found[key] = None
            look.unknown(f"sysctl.{key}", f"It cannot be read: {error.strerror}.")
    return found


def governor(look: Look) -> dict[str, int]:
    folder = "/sys/devices/system/cpu/cpufreq"
    if not look.exists(os.path.dirname(folder)):
        look.unknown("governor", f"There is no {os.path.dirname(folder)}.")
    found: Counter[str] = Counter()
    for policy in look.listing(folder) if look.exists(folder) else []:
        if policy.startswith("policy") and look.exists(f"{folder}/{policy}/scaling_governor"):
            name = look.read(f"{folder}/{policy}/scaling_governor").strip()
            found[name] += len(look.read(f"{folder}/{policy}/affected_cpus").split())
    return dict(found)


def modules(look: Look) -> list[str]:
    """Those that are loaded or built in."""
    if not look.exists("/proc/modules") and not look.exists("/sys/module"):
        look.unknown("modules", "There is neither /proc/modules nor /sys/module.")
        return []
    loaded = re.findall(r"^(\S+)", look.read("/proc/modules"), re.MULTILINE) if look.exists("/proc/modules") else []
    built_in = [name for name in MODULES if look.exists(f"/sys/module/{name}")]
    return sorted({*built_in, *(n for n in loaded if n in MODULES or n.startswith(_NPU_MODULES))})
