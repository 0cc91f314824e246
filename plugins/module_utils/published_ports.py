# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""TCP ports that container runtimes publish on this host: asked over their sockets, which cost no tool.

Only a runtime that runs is asked: systemd would start one that sleeps behind its socket. Containers of a podman whose
service sleeps are seen by their NAT rules.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Optional

from ansible_collections.mooncake.pd.plugins.module_utils import socket_holders, unix_listeners
from ansible_collections.mooncake.pd.plugins.module_utils.nat import Redirection
from ansible_collections.mooncake.pd.plugins.module_utils.redirections import ToolFailed

TIMEOUT = 5.0
# podman answers the same question in the same words (its compatible API)
SOCKETS = (("docker", "/var/run/docker.sock"), ("podman", "/run/podman/podman.sock"))
_UNASKED = "so it was not asked: that might start something"
_MOST = 4096  # of the ports that one NAT rule publishes


@dataclass(frozen=True)
class Published:
    runtime: str  # docker, podman, cni
    container: Optional[str]
    address: str
    port: int
    to: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def catches(self, address: str) -> bool:
        anywhere = ("0.0.0.0", "::")
        return self.address in (address, *anywhere) or address in anywhere

    def __str__(self) -> str:
        return f"the {self.runtime} container {self.container}" if self.container else f"a {self.runtime} container"


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(path: str, timeout: float = TIMEOUT) -> str:
    """The running containers, as JSON; ToolFailed when the socket does not answer."""
    connection = _UnixConnection(path, timeout)
    try:
        connection.request("GET", "/containers/json")
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
    except socket.timeout as error:
        raise ToolFailed(f"{path} did not answer within {timeout:g} s.") from error
    except (OSError, http.client.HTTPException) as error:
        raise ToolFailed(f"{path} cannot be asked for its containers.", str(error) or type(error).__name__) from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise ToolFailed(f"{path} answered with HTTP status {answer.status}.", text)
    return text


def is_served(path: str, proc: str = "/proc") -> bool:
    """Whether a process serves the socket here. ToolFailed when it is not seen which one, or whether it is systemd."""
    try:
        listening = unix_listeners.of(path, proc)
    except (OSError, ValueError) as error:
        raise ToolFailed(f"Who listens on {path} cannot be found out, {_UNASKED}.", str(error)) from error
    if not listening:  # left behind, or of a runtime that publishes in another network namespace
        return False
    holders = socket_holders.look(proc)
    pids = [set(holders.pids([inode])) for inode in listening]
    serving = [bool(found - unix_listeners.starters(found, proc)) for found in pids]
    if all(serving):
        return True
    if any(serving) or not all(pids) or holders.hidden:
        raise ToolFailed(f"Which process serves {path} is not seen, {_UNASKED}.")
    return False


def parse(runtime: str, text: str) -> list[Published]:
    """ValueError when it is not what the runtimes answer."""
    containers = json.loads(text)
    if not isinstance(containers, list):
        raise ValueError("no list of containers")
    found = []
    for container in containers:
        if not isinstance(container, dict):
            raise ValueError("a container is no object")
        name = str((container.get("Names") or [container.get("Id") or "?"])[0]).lstrip("/")
        for port in container.get("Ports") or ():
            # a port without PublicPort is exposed only, to other containers
            if port.get("Type") == "tcp" and port.get("PublicPort"):
                address = port.get("IP") or "0.0.0.0"
                found.append(Published(runtime, name, address, int(port["PublicPort"]), str(port.get("PrivatePort"))))
    return found


def read(sockets: Iterable[tuple[str, str]] = SOCKETS, proc: str = "/proc") -> tuple[list[Published], list[ToolFailed]]:
    found: list[Published] = []
    failed: list[ToolFailed] = []
    for runtime, path in sockets:
        if not os.path.exists(path):
            continue
        try:
            if not is_served(path, proc):
                continue
            text = ask(path)
        except ToolFailed as failure:
            failed.append(failure)
            continue
        try:
            found += parse(runtime, text)
        except (ValueError, TypeError, AttributeError) as error:
            failed.append(ToolFailed(f"What {path} answered is not understood: {error}.", text))
    return found, failed


def told_apart(
    published: Iterable[Published], redirections: Iterable[Redirection]
) -> tuple[list[Published], list[Redirection]]:
    """What runtimes publish by NAT rules joins what they say themselves; the other rules are left."""
    found = list(published)
    known = {(item.runtime, item.port) for item in found}
    others = []
    for item in redirections:
        if item.runtime is None or item.last - item.first >= _MOST:
            others.append(item)
            continue
        for port in range(item.first, item.last + 1):
            if (item.runtime, port) not in known:
                found.append(Published(item.runtime, item.container, item.address or "0.0.0.0", port, item.to))
    return found, others
