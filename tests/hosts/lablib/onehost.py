# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What befalls a single host of a lab: reboot, crash, hang, loss of its network."""

from __future__ import annotations

import os
import shlex
import sys
import time

from .labs import Labs
from .machine import LabError
from .plan import LABEL_HOST, hardware_address, network_name


class OneHost:
    def __init__(self, labs: Labs, lab: str, host: str) -> None:
        self.labs, self.lab, self.host = labs, lab, host
        self.machine, self.say = labs.machine, labs.say
        found = {c["Labels"][LABEL_HOST]: c for c in labs.containers(lab)}
        if not found:
            raise LabError(f"there is no lab {lab}; `lab list` shows what there is")
        if host not in found:
            raise LabError(f"lab {lab} has no host {host}; it has {', '.join(sorted(found))}")
        self.container = found[host]
        self.network = network_name(lab)

    def execute(self, command: list[str]) -> None:
        tty = ["--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else []
        command = command or ["bash", "-l"]
        words = self.machine.podman("exec", "--interactive", *tty, self.container["Id"], *command)
        os.environ["PATH"] = self.machine.path
        os.execvp(words[0], words)

    def ssh(self, command: list[str]) -> None:
        words = ["ssh", "-F", str(self.labs.folder(self.lab) / "ssh_config"), self.host]
        if command:
            words.append(" ".join(shlex.quote(word) for word in command))
        os.execvp(words[0], words)

    def kill(self) -> None:
        container = self.container
        if container["State"] not in ("running", "paused"):
            self.say(f"{self.host}: is {container['State']} already, nothing changed")
            return
        if container["State"] == "paused":
            self.machine.pod("unpause", container["Id"])
        self.machine.pod("kill", container["Id"])
        self.machine.pod("wait", container["Id"], check=False, timeout=30)
        self.say(f"{self.host}: killed; `lab start {self.lab} {self.host}` starts it")

    def start(self, timeout: float) -> None:
        container = self.container
        state, _hosts = self.labs.true_state(container)
        if state == "paused":
            raise LabError(f"{self.host} is paused, not down; `lab unpause {self.lab} {self.host}`")
        if state not in ("exited", "running"):
            raise LabError(f"{self.host} is {state} and cannot be started again; `lab up {self.lab}` makes it anew")
        if state == "running":
            self.say(f"{self.host}: runs already, nothing changed")
            return
        self.labs.end_connections(self.lab, [self.host])
        self.machine.pod("start", container["Id"], why=f"starting {self.host}")
        self.labs.wait_boot(self.lab, self.host, timeout)
        self.say(f"{self.host}: started")

    def reboot(self, timeout: float) -> None:
        container = self.container
        if container["State"] != "running":
            raise LabError(
                f"{self.host} is {container['State']} and cannot reboot;"
                f" `lab {'unpause' if container['State'] == 'paused' else 'start'} {self.lab} {self.host}` first"
            )
        pod = self.machine.pod
        before = pod("inspect", "--format", "{{.State.StartedAt}}", container["Id"]).stdout
        self.labs.end_connections(self.lab, [self.host])
        pod("exec", container["Id"], "systemctl", "reboot", check=False)
        deadline = time.monotonic() + timeout
        while True:
            info = self.machine.pod_json("inspect", container["Id"])[0]
            if info["State"]["Status"] == "running" and not same_time(info["State"]["StartedAt"], before):
                break
            if time.monotonic() > deadline:
                raise LabError(
                    f"{self.host} has not gone down in {timeout:.0f} s;"
                    f" look with `lab exec {self.lab} {self.host} -- systemctl list-jobs`"
                )
            time.sleep(0.1)
        self.labs.wait_boot(self.lab, self.host, timeout)
        self.say(f"{self.host}: rebooted")

    def pause(self) -> None:
        if self.container["State"] != "running":
            self.say(f"{self.host}: is {self.container['State']} already, nothing changed")
            return
        self.machine.pod("pause", self.container["Id"])
        self.say(f"{self.host}: stands still")

    def unpause(self) -> None:
        if self.container["State"] != "paused":
            self.say(f"{self.host}: is {self.container['State']}, nothing changed")
            return
        self.machine.pod("unpause", self.container["Id"])
        self.say(f"{self.host}: goes on")

    def joined(self) -> bool:
        return self.network in (self.container.get("Networks") or [])

    def cut(self) -> None:
        if not self.joined():
            self.say(f"{self.host}: is cut off already, nothing changed")
            return
        self.machine.pod("network", "disconnect", self.network, self.container["Id"])
        self.say(f"{self.host}: cut off")

    def join(self) -> None:
        if self.joined():
            self.say(f"{self.host}: is joined already, nothing changed")
            return
        words = self.machine.pod_json("inspect", self.container["Id"])[0]["Config"]["CreateCommand"]
        address = words[words.index("--ip") + 1]
        mac = hardware_address(address)
        self.machine.pod(
            "network", "connect", "--ip", address, "--mac-address", mac, self.network, self.container["Id"]
        )
        self.say(f"{self.host}: joined again, {address}")


def same_time(one: str, other: str) -> bool:
    """podman writes a moment in two ways: 2026-11-29T19:27:57.9Z and 2026-11-29 19:27:57.9 +0000 UTC."""
    return one.replace("T", " ")[:23] == other.strip().replace("T", " ")[:23]
