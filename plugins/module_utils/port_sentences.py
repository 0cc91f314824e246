# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said about a port that cannot simply be bound, and what to do about it. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ansible_collections.mooncake.pd.plugins.module_utils import procs, sockets

# Stopping one of these takes more down than a port: the way into the host, other containers, the host itself.
_NEVER_STOP = re.compile(
    r"(?:sshd?|user|docker|containerd|crio|kubelet|dbus|dbus-broker|systemd-[\w-]+)(?:@.*)?\.service"
)
# They hold ports of the host for a container.
_PROXIES = {"docker-proxy": "docker", "rootlessport": "podman", "conmon": "podman", "pasta": "podman"}

_NAMED = 16  # a socket that a whole tree of processes has inherited

ANOTHER = "or plan another port."
RESERVE = "Reserve the port (net.ipv4.ip_local_reserved_ports), so that the kernel does not hand it out"


def no_range(first: int, last: int) -> tuple[str, str]:
    return f"is no port range ({first}-{last}).", "Plan ports from 1 to 65535."


def no_address(address: str) -> tuple[str, str]:
    return (
        f"cannot be used: {address} is not an address of this host.",
        "Compare hosts.<name>.address in the topology with `ip -brief address`.",
    )


def no_permission() -> tuple[str, str]:
    return "may not be bound by this user.", "Run this as root (become), or plan a port from 1024 on."


def invalid(address: str, port: int) -> tuple[str, str]:
    return (
        f"cannot be used: {sockets.place(address, port)} is no IP address and port that can be bound here.",
        "Write an IP address of this host.",
    )


def listener(owners: Sequence[procs.Process], unit: str, published_by: str | None) -> tuple[str, str]:
    text = f"is taken by {_named(owners)}"
    if published_by:
        return f"{text}, for {published_by}, which publishes it.", f"Stop that container, publish elsewhere, {ANOTHER}"
    return f"{text}.", way_out(owners, unit)


def bound(owners: Sequence[procs.Process], unit: str, shared: bool) -> tuple[str, str]:
    """shared: a bind of ours succeeds beside theirs, as both allow it (SO_REUSEADDR)."""
    who = _named(owners)
    if shared:
        text = f"is bound by {who}, which does not listen yet: of two that bind it, the one that listens first gets it."
        return text, way_out(owners, unit)
    return f"is taken by {who}, which has bound it and does not listen yet, or never will.", way_out(owners, unit)


def client(owners: Sequence[procs.Process], states: Sequence[str], remote: str | None) -> tuple[str, str]:
    to = f" to {remote}" if remote else ""
    return (
        f"is taken by {_named(owners)}, as the source port of a connection of its own{to} ({', '.join(states)}).",
        f"{RESERVE} again, and wait for that connection to end or restart its program.",
    )


def time_wait(states: Sequence[str], remote: str | None) -> tuple[str, str]:
    to = f" to {remote}" if remote else ""
    return (
        f"is taken by a connection{to} without a process ({', '.join(states)}): a client used it as its source port"
        " and is gone.",
        f"Wait a minute. {RESERVE}.",
    )


def kernel(states: Sequence[str]) -> tuple[str, str]:
    return (
        f"is taken by a socket ({', '.join(states)}) that no process of this host has open: the kernel itself (NFS, a"
        " tunnel), or a process of another PID namespace, such as the machine that runs this container.",
        f"Look there, {ANOTHER}",
    )


def unseen(processes: int) -> tuple[str, str]:
    return (
        f"is taken, and {processes} processes may not be asked whether they hold it.",
        "Run this as root (become).",
    )


def hidden(problems: Sequence[str]) -> tuple[str, str]:
    """Every table was read, and every process asked that can be."""
    text = (
        "is taken, and nothing that can be seen here says by whom: a process has bound it and does not listen yet, or"
        " never will."
    )
    return (
        " ".join([text, *problems]),
        "Look for a program that is starting or hangs (`ss --bound-inactive`, iproute2 6.8 and kernel 6.8), " + ANOTHER,
    )


def way_out(owners: Sequence[procs.Process], unit: str) -> str:
    foreign = [owner for owner in owners if owner.unit != unit or owner.container]
    containers = sorted({owner.container for owner in foreign if owner.container})
    if containers:
        return f"Stop the container ({', '.join(containers)}) {ANOTHER}"
    units = {owner.unit or "" for owner in foreign}
    stop = units.pop() if len(units) == 1 else ""
    login = any(owner.login for owner in foreign)
    if stop.endswith(".service") and not login and not _NEVER_STOP.fullmatch(stop):
        return f"Stop it (systemctl stop {stop}) {ANOTHER}"
    return f"Stop that process if it is a leftover, {ANOTHER}"


def proxied(owner: procs.Process) -> str | None:
    """Whether the process only holds the port for a container, by its command."""
    runtime = _PROXIES.get(os.path.basename(owner.command.split(" ", 1)[0]).rstrip(":"))
    return f"a {runtime} container" if runtime else None


def _named(owners: Sequence[procs.Process]) -> str:
    more = len(owners) - _NAMED
    named = [str(owner) for owner in owners[:_NAMED]] + ([f"{more} more processes"] if more > 0 else [])
    return " and ".join(named)
