# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine as it was before the first lab, and back to that after the last one."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from typing import Any

from . import plan
from .machine import Machine, read

FOLDERS = ("/run/netns", "/run/runc")


class Found:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def look(self) -> dict[str, Any]:
        """What podman and its network leave changed."""
        return {
            "sysctl": self._sysctl(),
            "chains": {tool: plan.chain_names(self._saved(tool)) for tool in ("iptables", "ip6tables")},
            "bridges": self._bridges(),
            "groups": self._groups(),
            "netns": mounted("/run/netns"),
            "folders": [folder for folder in FOLDERS if os.path.isdir(folder)],
        }

    def _sysctl(self) -> dict[str, str]:
        keys = ["net/ipv4/ip_forward", "net/ipv4/conf/all/accept_redirects"]
        keys += [
            path[len("/proc/sys/") :]
            for path in glob.glob("/proc/sys/net/ipv4/conf/*/forwarding")
            if "/all/" not in path
        ]
        found = {}
        for key in keys:
            try:
                found[key] = read(f"/proc/sys/{key}")
            except OSError:
                continue
        return found

    def _saved(self, tool: str) -> str:
        if not self.machine.which(f"{tool}-save"):
            return ""
        return self.machine.sudo(f"{tool}-save", check=False).stdout

    def _bridges(self) -> list[str]:
        return [link["ifname"] for link in self.machine.ip_json("link", "show", "type", "bridge") if link.get("ifname")]

    def _groups(self) -> list[str]:
        return glob.glob("/sys/fs/cgroup/libpod_parent") + glob.glob("/sys/fs/cgroup/*/libpod_parent")

    def restore(self, found: dict[str, Any], labs: Iterable[str]) -> bool:
        """After the last lab: what changed since the first goes back, as long as nobody else lives on it."""
        machine = self.machine
        others = [*labs, *machine.pod("ps", "--quiet").stdout.split()]
        bridges = sorted(set(self._bridges()) - set(found["bridges"]))
        if others or bridges:
            reason = "other containers run, or other labs" if others else f"bridge {', '.join(bridges)} came meanwhile"
            machine.say(f"forwarding and firewall stay as they are: {reason}; the next `lab down` looks again")
            return False
        undone = []
        sysctls = plan.sysctl_undo(found["sysctl"], self._sysctl())
        if sysctls:
            words = [word for pair in sysctls for word in pair]
            script = 'while [ $# -gt 1 ]; do [ ! -e "/proc/sys/$1" ] || echo "$2" > "/proc/sys/$1"; shift 2; done'
            machine.sudo("sh", "-c", script, "sh", *words, why="writing net.ipv4 keys back")
            undone.append(f"net.ipv4.ip_forward={found['sysctl']['net/ipv4/ip_forward']}")
        for tool, before in found["chains"].items():
            calls = plan.firewall_undo(before, self._saved(tool))
            for call in calls:
                machine.sudo(tool, "--wait", *call, why="taking netavark's chains away")
            if calls:
                undone.append(f"{tool}: netavark's chains")
        for group in sorted(set(self._groups()) - set(found["groups"])):
            machine.sudo("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";", check=False)
        if mounted("/run/netns") and not found.get("netns") and not os.listdir("/run/netns"):
            machine.sudo("umount", "/run/netns", check=False)
        for folder in FOLDERS:
            if folder not in found.get("folders", FOLDERS) and os.path.isdir(folder):
                machine.sudo("rmdir", folder, check=False)  # goes only when nothing is in it
        machine.say("no lab left; the machine is as it was found" + (f" ({', '.join(undone)})" if undone else ""))
        return True


def mounted(path: str) -> bool:
    """Also when it is a bind of the same file system, which os.path.ismount does not see."""
    return any(line.split()[4] == path for line in read("/proc/self/mountinfo").splitlines())
