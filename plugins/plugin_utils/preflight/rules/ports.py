# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planned ports that cannot be bound, by what stands in the way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import port_spans as spans
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import some

_BIND = "bind(2) and ip(7), SO_REUSEADDR; tried on Linux 6.18"
_TAKEN = "The process ends at its start with 'Address already in use', or hangs."


def _rulings(host: Host, verdict: str, *causes: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is said, once for ports that only differ in their number, and the first entry."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for entry in host.each("ports.court"):
        if entry["verdict"] == verdict and (not causes or entry["cause"] in causes):
            alike = entry["text"].replace(f":{entry['port']}", ":", 1)
            groups[entry["process"], entry["purpose"], entry["address"], alike, entry["fix"]].append(entry)
    for entries in groups.values():
        first = entries[0]
        ports = ", ".join(map(spans.text, spans.merged((entry["port"], entry["port"]) for entry in entries)))
        said = first["text"].replace(f":{first['port']}", f":{ports}", 1)
        yield f"{first['process']}: {said.rstrip('.')}", first


def _evidence(entry: dict[str, Any]) -> str:
    parts = [f"{', '.join(entry['states'])}"] if entry["states"] else []
    if entry["remote"]:
        parts.append(f"to {entry['remote']}")
    parts += [f"pid {owner['pid']}: {owner['command']}" for owner in entry["owners"]]
    return "; ".join(parts)


def _fix(entry: dict[str, Any]) -> str:
    fix = str(entry["fix"])
    return fix[:1].lower() + fix[1:]


@rule(
    "port-taken",
    family="ports",
    about="nothing else listens on a planned port",
    why=_TAKEN,
    source=_BIND,
    cases=("C-012", "C-019", "C-041", "C-049", "C-092"),
)
def port_taken(host: Host) -> Iterator[Found]:
    for what, entry in _rulings(host, "taken", "listener"):
        if not entry["published_by"]:
            yield Found(what=what, evidence=_evidence(entry), fix=_fix(entry))


@rule(
    "port-held-for-container",
    family="ports",
    about="no container publishes a planned port",
    why=_TAKEN,
    source="https://docs.docker.com/engine/network/port-publishing/: docker-proxy listens for the container",
    cases=("C-022", "C-092"),
)
def port_held_for_container(host: Host) -> Iterator[Found]:
    for what, entry in _rulings(host, "taken", "listener"):
        if entry["published_by"]:
            yield Found(what=what, evidence=_evidence(entry), fix=_fix(entry))


@rule(
    "port-source-of-client",
    family="ports",
    about="no outgoing connection uses a planned port as its source",
    why=f"{_TAKEN} `ss -tln` shows nothing on the port.",
    source=_BIND,
    cases=("C-002", "C-013"),
)
def port_source_of_client(host: Host) -> Iterator[Found]:
    for what, entry in _rulings(host, "taken", "client"):
        yield Found(what=what, evidence=_evidence(entry), fix=_reserve(host, entry, "Then restart that program."))


@rule(
    "port-time-wait",
    family="ports",
    about="no connection that has ended holds a planned port",
    why=f"{_TAKEN} It goes on for a minute, or for as long as a client keeps coming by.",
    source=_BIND,
    cases=("C-013",),
)
def port_time_wait(host: Host) -> Iterator[Found]:
    for what, entry in _rulings(host, "taken", "time-wait"):
        yield Found(what=what, evidence=_evidence(entry), fix=_reserve(host, entry, "Then wait a minute."))


def _reserve(host: Host, entry: dict[str, Any], then: str) -> str:
    if spans.exposed(host, (entry["port"], entry["port"])):
        return f"{spans.reserve(host)} {then}"
    return "stop the client, which chose this port by itself, or plan another port."


@rule(
    "port-bound",
    family="ports",
    about="no process has bound a planned port without listening on it",
    why=f"{_TAKEN} No table shows such a socket; an engine that is loading has its API port in this state.",
    source="net/ipv4/inet_diag.c of Linux 6.8, TCPF_BOUND_INACTIVE; vLLM binds its API port before it loads the model",
    cases=("C-002", "C-026"),
)
def port_bound(host: Host) -> Iterator[Found]:
    for what, entry in _rulings(host, "taken", "bound"):
        yield Found(what=what, evidence=_evidence(entry), fix=_fix(entry))


@rule(
    "port-owner-hidden",
    family="ports",
    about="every planned port can be bound",
    why=_TAKEN,
    source=_BIND,
    cases=("C-002", "C-095"),
)
def port_owner_hidden(host: Host) -> Iterator[Found]:
    for what, entry in _rulings(host, "taken", "hidden", "kernel", None):
        yield Found(what=what, evidence=_evidence(entry), fix=_fix(entry))


@rule(
    "port-address",
    family="ports",
    about="the addresses of planned ports are on the host",
    why="The process ends at its start with 'Cannot assign requested address'; with ip_nonlocal_bind it starts, and "
    "nobody reaches it.",
    source="ip(7), ip_nonlocal_bind",
    cases=("C-005",),
)
def port_address(host: Host) -> Iterator[Found]:
    """Once for each address: all of its ports share the fault."""
    seen: dict[str, list[str]] = {}
    for entry in host.each("ports.court"):
        if entry["verdict"] == "no-address":
            names = seen.setdefault(entry["address"], [])
            names += [entry["process"]] if entry["process"] not in names else []
    for address, names in seen.items():
        yield Found(
            what=f"{address}, on which {some(names)} would listen, is not an address of this host",
            fix="compare hosts.<name>.address in the topology with `ip -brief address`.",
        )


@rule(
    "port-permission",
    family="ports",
    about="the planned ports may be bound",
    why="Ports below 1024 need CAP_NET_BIND_SERVICE.",
    source="ip(7), ip_unprivileged_port_start",
)
def port_permission(host: Host) -> Iterator[Found]:
    for what, entry in _rulings(host, "no-permission"):
        yield Found(what=what, fix=_fix(entry))


@rule(
    "port-invalid",
    family="ports",
    about="planned ports are ports",
    why="The process ends at its start with 'Invalid argument'.",
    source="bind(2)",
    cases=("C-092",),
)
def port_invalid(host: Host) -> Iterator[Found]:
    for what, entry in _rulings(host, "invalid"):
        yield Found(what=what, fix=_fix(entry))


@rule(
    "port-own-in-part",
    family="ports",
    severity="warning",
    about="a unit that runs holds all of its ports",
    why="It is still starting, or one of its processes is gone and the service is broken.",
    source="the readiness of the process in the plan",
    cases=("C-026", "C-041"),
)
def port_own_in_part(host: Host) -> Iterator[Found]:
    own = {(entry["process"], entry["port"]) for entry in host.each("ports.court") if entry["verdict"] == "own"}
    for process in host.processes:
        name = process["name"]
        wanted = [
            port
            for claim in (process.get("ready") or {}).get("ports") or ()
            for port in range(claim["first"], claim["last"] + 1)
        ]
        missing = [port for port in wanted if (name, port) not in own]
        if missing and any(owner == name for owner, _port in own):
            listed = ", ".join(map(spans.text, spans.merged((port, port) for port in missing)))
            yield Found(
                what=f"{process['unit']['name']} runs and holds only {len(wanted) - len(missing)} of its {len(wanted)} "
                f"ports; {listed} of {name} {'is' if len(missing) == 1 else 'are'} missing",
                fix="if it is not just starting, look into its log and restart it.",
            )


@rule(
    "port-namespace",
    family="ports",
    about="the look at the ports is at those of the host",
    why="Units of systemd run in the network namespace of process 1: what was found here says nothing about them.",
    source="network_namespaces(7)",
)
def port_namespace(host: Host) -> Iterator[Found]:
    if host.fact("ports.namespace.same_as_init") is False:
        yield Found(
            what="Ansible works in another network namespace than process 1",
            fix="connect to the host itself, not into a network namespace or container of it.",
        )
