# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All facts of host_info. What waits for somebody (systemd, name servers, peers, mounts, programs) waits at once."""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping

from ansible_collections.mooncake.pd.plugins.module_utils.host import (
    clock,
    environment,
    filesystems,
    kernel,
    limits,
    links,
    memory,
    names,
    peers,
    programs,
    services,
    surroundings,
)
from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.plugins.module_utils.jobs import Job

_SECONDS = 12.0  # nothing else may last longer than the connects and this

Facts = dict[str, Any]


def gather(look: Look, params: Mapping[str, Any]) -> Facts:
    untried = [{"readable": None, "writable": None} for _path in params["paths"]]
    # before the first thread
    access = look.sane("paths", untried, lambda: filesystems.access(look, params["paths"], params["user"]))
    deadline = time.monotonic() + _SECONDS + params["peer_timeout"]
    interfaces = look.sane("interfaces", [], look.system.links)
    default_routes = look.sane("default_routes", [], look.system.default_routes)
    no_limits = {"unit": params["unit"], "user": params["user"], **dict.fromkeys(limits.NAMES), "environment": None}
    slow: dict[str, tuple[Any, Job]] = {
        key: (default, Job(function))
        for key, default, function in (
            (
                "limits",
                no_limits,
                lambda: limits.trial(look, params["unit"], params["user"], params["unit_properties"]),
            ),
            ("units", ({}, None), lambda: services.units(look, params["units"])),
            ("systemd", _no_systemd(), lambda: services.manager(look)),
            # a process that hangs in a driver may hold up who reads its command line
            ("engines", ([], _both_unknown()), lambda: surroundings.workload(look)),
            ("names", None, lambda: names.names(look, params["names"])),
            ("peers", [], lambda: _peers(look, params, interfaces)),
            ("paths", [], lambda: filesystems.paths(look, params["paths"])),
            ("shm", None, lambda: filesystems.shm(look)),
            ("tools", ({}, []), lambda: programs.tools(look)),
        )
    }
    facts: Facts = {
        "settings": params["settings"],
        **{key: look.sane(key, default, function) for key, default, function in _files(look)},
        "clock": clock.clock(look),
        "interfaces": look.sane("interfaces", [], lambda: links.interfaces(look, interfaces)),
        "default_routes": links.default_routes(look, interfaces, default_routes),
    }

    def wait(key: str) -> Any:
        default, job = slow[key]
        return look.sane(key, default, lambda: job.result(deadline))

    for key in ("limits", "systemd", "names", "peers", "paths", "shm"):
        facts[key] = wait(key)
    facts["paths"] = [{**entry, **allowed} for entry, allowed in zip(facts["paths"], access)]
    facts["engines"], facts["kubernetes"] = wait("engines")
    if facts["kubernetes"] == _both_unknown():
        look.unknown("kubernetes", "The processes could not be looked at.")
    facts["units"], shown = wait("units")
    if shown is None:
        look.unknown("security.firewall", "systemctl did not tell the state of the services (see units).")
    facts["security"] = {
        "selinux": look.sane("security.selinux", None, lambda: surroundings.selinux(look)),
        "apparmor": look.sane("security.apparmor", None, lambda: surroundings.apparmor(look)),
        "firewall": look.sane("security.firewall", [], lambda: services.firewalls(look, shown)),
    }
    unit_environment = (facts["limits"] or {}).get("environment")
    facts["proxies"] = look.sane("proxies", [], lambda: environment.proxies(look, unit_environment))
    found, facts["pythons"] = wait("tools")
    facts["containers"] = {
        "inside": look.sane("containers.inside", None, lambda: surroundings.inside(look)),
        "runtimes": look.sane("containers.runtimes", [], lambda: surroundings.runtimes(look, found)),
    }
    facts["tools"] = {name: tool for name, tool in found.items() if name != "containerd"}
    facts["unknown"] = sorted(look.unknowns, key=lambda entry: entry["what"])
    return facts


def _files(look: Look) -> tuple[tuple[str, Any, Callable[[], Any]], ...]:
    """What is read from files and waits for nobody."""
    return (
        ("kernel", None, lambda: kernel.kernel(look)),
        ("os", None, lambda: kernel.distribution(look)),
        ("cpus", None, lambda: kernel.cpus(look)),
        ("numa", [], lambda: memory.numa(look)),
        ("memory", None, lambda: memory.memory(look)),
        ("hugepages", None, lambda: memory.hugepages(look)),
        ("transparent_hugepages", None, lambda: memory.transparent(look)),
        ("sysctl", {}, lambda: kernel.sysctl(look)),
        ("tmp", None, lambda: filesystems.tmp(look)),
        ("cgroup", None, lambda: surroundings.cgroup(look)),
        ("libc", None, lambda: programs.libc(look)),
        ("libraries", None, lambda: programs.libraries(look)),
        ("governor", {}, lambda: kernel.governor(look)),
        ("modules", [], lambda: kernel.modules(look)),
    )


def _peers(look: Look, params: Mapping[str, Any], interfaces: list[Any]) -> list[Facts]:
    return peers.peers(look, params["peers"], params["source"], params["peer_timeout"], interfaces)


def _no_systemd() -> Facts:
    return {"version": None, "state": None, "failed": [], "pid1": None}


def _both_unknown() -> dict[str, None]:
    return {"kubelet": None, "kube_proxy": None}
