# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a process is: its command, user, systemd unit and container, read from /proc."""

from __future__ import annotations

import glob
import os
import pwd
import re
import time
from dataclasses import asdict, dataclass
from typing import Optional

from ansible_collections.mooncake.pd.plugins.module_utils import notes
from ansible_collections.mooncake.pd.plugins.module_utils.jobs import Job, Late
from ansible_collections.mooncake.pd.plugins.module_utils.masking import masked_command
from ansible_collections.mooncake.pd.plugins.module_utils.notes import CID, RUN_DIR

# docker-<id>.scope, libpod-<id>.scope, cri-containerd-<id>.scope, crio-<id>.scope, /docker/<id>, /kubepods/.../<id>
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?=/|$)")
# podman --cgroups=split: a container is part of the service that runs it
_PART_OF_SERVICE = re.compile(r"\.service/(?:[^/]+/)*?libpod-payload-[0-9a-f]{64}(?=/|$)")
_COMMAND_LENGTH = 160
_SECONDS, _LEAST = 1.0, 0.05  # for the command line of one process


@dataclass(frozen=True)
class Process:
    pid: int
    command: str
    user: str
    unit: Optional[str]
    container: Optional[str]
    login: bool = False  # below user.slice: its unit is a login session or a unit of a user, no service of the host
    late: bool = False  # its command line was not told in time: `command` is the name only

    def as_dict(self) -> dict[str, object]:
        return {key: value for key, value in asdict(self).items() if key != "late"}

    def __str__(self) -> str:
        text = f"pid {self.pid} ({self.command}), user {self.user}"
        if self.container:
            text += f", container {self.container}"
        if self.unit:
            return f"{text}, unit {self.unit}"
        return text if self.container else f"{text}, in no systemd unit"


def pids(proc: str = "/proc") -> list[int]:
    return sorted(int(name) for name in os.listdir(proc) if name.isdigit())


def _read(pid: int, name: str, proc: str) -> str:
    try:
        with open(os.path.join(proc, str(pid), name), "rb") as source:
            return source.read().decode("utf-8", "replace")
    except OSError:  # gone meanwhile, or not ours to see
        return ""


def cgroup_paths(text: str) -> list[str]:
    """Paths of /proc/PID/cgroup that systemd manages: the v1 hierarchy name=systemd and the v2 one; else all."""
    rows = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]
    managed = [path for _id, controllers, path in rows if controllers in ("", "name=systemd")]
    # On hybrid hosts the v2 path may be just "/", while the v1 hierarchies know the unit.
    useful = [path for path in managed if path != "/"]
    return useful or [path for _id, _controllers, path in rows]


def unit_of(paths: list[str]) -> Optional[str]:
    """Innermost service or scope."""
    for path in paths:
        for part in reversed(path.split("/")):
            if part.endswith((".service", ".scope")):
                return part
    return None


def container_of(paths: list[str]) -> Optional[str]:
    """Short id of the innermost container."""
    for path in paths:
        found = _CONTAINER.findall(path)
        if found:
            return str(found[-1][:12])
    return None


def containers_of_units(run_dir: str = RUN_DIR) -> dict[str, str]:
    """Short id -> unit, of the containers that our units have started through a daemon (docker)."""
    found = {}
    for path in glob.glob(os.path.join(glob.escape(run_dir), "*", CID)):
        container = notes.read(path)
        if container and _CONTAINER.fullmatch(container.strip()):
            found[container.strip()[:12]] = f"{os.path.basename(os.path.dirname(path))}.service"
    return found


def _words(pid: int, proc: str, deadline: float) -> Optional[list[str]]:
    """The command line lies in the memory of the process: who asks one that hangs in the kernel hangs as well."""
    job = Job(lambda: _read(pid, "cmdline", proc))
    try:
        return str(job.result(max(deadline, time.monotonic() + _LEAST))).rstrip("\0 ").split("\0")
    except Late:
        return None


def describe(pid: int, proc: str = "/proc", deadline: Optional[float] = None) -> Process:
    """deadline: of the monotonic clock, for its command line."""
    words = _words(pid, proc, time.monotonic() + _SECONDS if deadline is None else deadline)
    command = masked_command(words or []).strip() or f"[{_read(pid, 'comm', proc).strip() or '?'}]"
    if len(command) > _COMMAND_LENGTH:
        command = command[:_COMMAND_LENGTH] + "..."
    user = "?"
    match = re.search(r"^Uid:\s+\d+\s+(\d+)", _read(pid, "status", proc), re.MULTILINE)
    if match:
        try:
            user = pwd.getpwuid(int(match.group(1))).pw_name
        except KeyError:  # a user of a container
            user = match.group(1)
    paths = cgroup_paths(_read(pid, "cgroup", proc))
    container = container_of(paths)
    # A host that is itself a container must not call all its own processes foreign.
    if container and container == container_of(cgroup_paths(_read(1, "cgroup", proc))):
        container = None
    unit = unit_of(paths)
    if container:
        ours = containers_of_units().get(container)
        if ours or any(_PART_OF_SERVICE.search(path) for path in paths):
            unit, container = ours or unit, None
    login = any("user.slice" in path.split("/") for path in paths)
    return Process(pid, command, user, unit, container, login, late=words is None)


def in_control_group(control_group: str, proc: str = "/proc", unit: Optional[str] = None) -> set[int]:
    """Processes of a unit's control group (ControlGroup= of systemctl show), of the groups below it and, with the name
    of the unit, of the container that a daemon runs for it.
    """
    if not control_group:
        return set()
    containers = {container for container, owner in containers_of_units().items() if owner == unit} if unit else set()
    found = set()
    for pid in pids(proc):
        paths = cgroup_paths(_read(pid, "cgroup", proc))
        below = any(path == control_group or path.startswith(control_group + "/") for path in paths)
        if below or (containers and container_of(paths) in containers):
            found.add(pid)
    return found


def is_alive(pid: int, proc: str = "/proc") -> bool:
    return pid > 0 and os.path.exists(os.path.join(proc, str(pid)))
