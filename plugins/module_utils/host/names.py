# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names: this host's own, and what it makes of those of the others."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any, Callable, Mapping, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.plugins.module_utils.jobs import Late, in_parallel

_WORKERS = 16
SECONDS = 2.0  # a name server that is not there takes 5 s and more
_NOT_THERE = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


def parse_hosts(text: str) -> list[tuple[str, list[str]]]:
    """Addresses of /etc/hosts with their names."""
    rows = (line.partition("#")[0].split() for line in text.splitlines())
    return [(words[0], words[1:]) for words in rows if len(words) > 1]


def at_loopback(text: str, hostname: str) -> list[str]:
    """Names that are the host's own, short or long, and stand at 127.*"""
    found = []
    for address, names in parse_hosts(text):
        if not address.startswith("127."):
            continue
        found += [name for name in names if name.lower().split(".")[0] == hostname.lower().split(".")[0]]
    return list(dict.fromkeys(found))


def _why(error: Exception) -> str:
    if isinstance(error, Late):
        return f"no answer within {SECONDS:g} s"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


def names(look: Look, wishes: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    hostname = look.system.uname().nodename

    def job(name: str) -> Callable[[], tuple[str, list[str]]]:
        return lambda: look.system.resolve(name)

    asked = [hostname, *(wish["name"] for wish in wishes)]
    own, *others = in_parallel([job(name) for name in asked], _WORKERS, SECONDS)
    fqdn, addresses = (hostname, []) if isinstance(own, Exception) else own
    if isinstance(own, Exception) and not (isinstance(own, socket.gaierror) and own.errno in _NOT_THERE):
        for what in ("names.own", "names.fqdn"):
            look.unknown(what, f"{hostname} could not be resolved: {_why(own)}.")
    hosts = look.text("/etc/hosts", "names.hosts_loopback")
    resolved = []
    for wish, answer in zip(wishes, others):
        failed = isinstance(answer, Exception)
        resolved.append(
            {
                "name": wish["name"],
                "address": wish["address"],
                "addresses": [] if failed else answer[1],
                "error": _why(answer) if failed else None,
            }
        )
    return {
        "hostname": hostname,
        "fqdn": fqdn if fqdn and not _is_ip(fqdn) else hostname,
        "own": addresses,
        "resolved": resolved,
        "hosts_loopback": at_loopback(hosts or "", hostname),
    }


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
