# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host is to its processes: control groups, containers, security, and processes that matter."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils import procs
from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look

_CGROUP = "/sys/fs/cgroup"
_V1_ENDLESS = 1 << 62  # v1 has no word for it, it prints the largest multiple of the page size
_SOCKETS = {
    "docker": "/run/docker.sock",
    "podman": "/run/podman/podman.sock",
    "containerd": "/run/containerd/containerd.sock",
}
_TITLES = ("VLLM::", "sglang::")
_PROGRAMS = ("mooncake_master", "mooncake_client", "vllm-router")
_MODULES = re.compile(r"(?:vllm\.entrypoints|sglang\.launch_server|sglang\.srt|mooncake\.)[\w.]*")
_MOST = 500


class Process(NamedTuple):
    pid: int
    comm: str
    argv: list[str]


def processes(look: Look) -> list[Process]:
    found = []
    for pid in procs.pids(look.at("/proc")):
        try:
            comm = look.read(f"/proc/{pid}/comm").strip()
            argv = look.read(f"/proc/{pid}/cmdline").rstrip("\0 ").split("\0")
        except (FileNotFoundError, ProcessLookupError):  # gone meanwhile
            continue
        except OSError as error:
            look.unknown("engines", f"Process {pid} could not be looked at: {error.strerror}.")
            look.unknown("kubernetes", f"Process {pid} could not be looked at: {error.strerror}.")
            continue
        found.append(Process(pid, comm, argv))
    return found


def is_engine(process: Process) -> bool:
    """An engine, its workers (which change their title), a master, or a client of the store."""
    first = process.argv[0]
    if first.startswith(_TITLES) or process.comm.startswith(_TITLES):
        return True
    # a script runs as the second word of its interpreter
    heads = [os.path.basename(word) for word in process.argv[:2]]
    if any(head in _PROGRAMS for head in heads):
        return True
    for index, head in enumerate(heads):
        if head in ("vllm", "sglang") and process.argv[index + 1 : index + 2] == ["serve"]:
            return True
    return any(
        word == "-m" and _MODULES.match(" ".join(process.argv[at + 1 : at + 2]))
        for at, word in enumerate(process.argv[1:4], 1)
    )


def engines(look: Look, running: Sequence[Process]) -> list[dict[str, Any]]:
    entries = []
    for process in [process for process in running if is_engine(process)][:_MOST]:
        what = procs.describe(process.pid, look.at("/proc"))
        entries.append(
            {
                "pid": process.pid,
                "command": what.command,
                "user": what.user,
                "unit": what.unit,
                "container": what.container,
                "age": _age(look, process.pid),
                "title": process.comm,
            }
        )
    return entries


def _age(look: Look, pid: int) -> Optional[int]:
    try:
        started = int(look.read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])
        uptime = float(look.read("/proc/uptime").split()[0])
    except (OSError, ValueError, IndexError):
        look.unknown("engines", f"Process {pid} ended, or the time of its start cannot be read.")
        return None
    return max(0, int(uptime - started / os.sysconf("SC_CLK_TCK")))


def workload(look: Look) -> tuple[list[dict[str, Any]], dict[str, bool]]:
    running = processes(look)
    return engines(look, running), kubernetes(running)


def kubernetes(running: Sequence[Process]) -> dict[str, bool]:
    comms = {process.comm for process in running}
    return {"kubelet": "kubelet" in comms, "kube_proxy": "kube-proxy" in comms}


def cgroup(look: Look) -> dict[str, Optional[int]]:
    """memory_max is the least of what stands above the services."""
    if look.exists(f"{_CGROUP}/cgroup.controllers"):
        found = [_maximum(look, f"{_CGROUP}{group}/memory.max") for group in ("", "/system.slice")]
        return {"version": 2, "memory_max": _least(found)}
    if look.exists(f"{_CGROUP}/memory"):
        found = [_maximum(look, f"{_CGROUP}/memory{group}/memory.limit_in_bytes") for group in ("", "/system.slice")]
        return {"version": 1, "memory_max": _least(found)}
    look.unknown("cgroup", f"{_CGROUP} holds neither version 2 nor the memory controller of version 1.")
    return {"version": None, "memory_max": None}


def _maximum(look: Look, path: str) -> int:
    """The root group of a machine has no limit, and in version 2 no file for one."""
    text = look.read(path).strip() if look.exists(path) else "max"
    value = -1 if text == "max" else int(text)
    return -1 if value >= _V1_ENDLESS else value


def _least(values: Sequence[int]) -> int:
    return min((value for value in values if value >= 0), default=-1)


def inside(look: Look) -> Optional[str]:
    """The container that this host is; None for a machine."""
    for path, name in (("/run/.containerenv", "podman"), ("/.dockerenv", "docker")):
        if look.exists(path):
            return name
    if look.exists("/run/systemd/container"):  # systemd notes there what it was started in
        return look.read("/run/systemd/container").strip() or "other"
    text = look.text("/proc/1/environ", "containers.inside")
    match = re.search(r"(?:^|\0)container=([^\0]+)", text or "")
    return match.group(1) if match else None


def runtimes(look: Look, tools: dict[str, Optional[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Those that have a program or a socket. Nothing is sent to the sockets: systemd would start what sleeps there."""
    entries = []
    for name, socket in _SOCKETS.items():
        path = socket if look.exists(socket) else None
        tool = tools.get(name)
        if path or tool:
            if not tool:
                look.unknown("containers.runtimes", f"{name} has a socket, and no program {name} to ask its version.")
            entries.append({"name": name, "socket": path, "version": tool["version"] if tool else None})
    return entries


def selinux(look: Look) -> Optional[str]:
    path = "/sys/fs/selinux/enforce"
    if look.exists(path):
        return "enforcing" if look.read(path).strip() == "1" else "permissive"
    if look.exists("/sys/fs"):
        return "disabled"
    look.unknown("security.selinux", "There is no /sys/fs.")
    return None


def apparmor(look: Look) -> Optional[bool]:
    path = "/sys/module/apparmor/parameters/enabled"
    if look.exists(path):
        return look.read(path).strip() == "Y"
    if look.exists("/sys/module"):
        return False
    look.unknown("security.apparmor", "There is no /sys/module.")
    return None
