# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections to planned ports that never arrive, although a process listens: containers, NAT, Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import NODE_PORTS
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import port_spans as spans
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import some

_NAT = "iptables-extensions(8), DNAT and REDIRECT; nft(8)"
_LOST = "The process starts and says it is ready, and its peers talk to something else."
_NODEPORT = "https://kubernetes.io/docs/concepts/services-networking/service/#type-nodeport"


@rule(
    "port-published",
    family="ports",
    about="no container publishes a planned port by NAT",
    why=_LOST,
    source="https://docs.docker.com/engine/network/packet-filtering-firewalls/: userland-proxy false, netavark, CNI",
    cases=("C-092",),
)
def port_published(host: Host) -> Iterator[Found]:
    """Where the runtime also listens for the container, the bind has failed and was told already."""
    taken = {(entry["address"], entry["port"]) for entry in host.each("ports.court") if entry["verdict"] == "taken"}
    published = host.each("ports.published")
    groups: dict[tuple[spans.Planned, str], list[int]] = {}
    for claim, span, index in spans.meeting(spans.claims(host), published):
        if (claim.address, span[0]) not in taken:
            entry = published[index]
            groups.setdefault((claim, _container(entry)), []).append(span[0])
    for (claim, container), ports in groups.items():
        listed = ", ".join(map(spans.text, spans.merged((port, port) for port in ports)))
        yield Found(
            what=f"connections to {claim.purpose} {listed} of {claim.process} ({claim.where}) go to {container}, which "
            "publishes it, though it can be bound",
            fix="stop that container, publish it on another port, or plan another port.",
        )


def _container(entry: dict[str, Any]) -> str:
    name = f" {entry['container']}" if entry["container"] else ""
    return f"the {entry['runtime']} container{name} (port {entry['to']})"


def _rule(entry: dict[str, Any]) -> str:
    chain = f" chain {entry['chain']}" if entry["chain"] else ""
    return f"{entry['by']}{chain}: port {spans.text((entry['first'], entry['last']))} to {entry['to'] or 'nowhere'}"


@rule("port-redirected", family="ports", about="no NAT rule catches a planned port", why=_LOST, source=_NAT)
def port_redirected(host: Host) -> Iterator[Found]:
    for ports, entry in _caught(host, kubernetes=False):
        where = f"chain {entry['chain']} of {entry['by']}" if entry["chain"] else entry["by"]
        yield Found(
            what=f"connections to {ports} are sent to {entry['to'] or 'nowhere'} by {where}",
            evidence=_rule(entry),
            fix="remove that rule, or plan other ports.",
        )


def _caught(host: Host, kubernetes: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each rule that catches planned ports, after them."""
    entries = [entry for entry in host.each("ports.redirections") if entry["kubernetes"] is kubernetes]
    caught: dict[int, list[str]] = {}
    for claim, span, index in spans.meeting(spans.claims(host), entries):
        caught.setdefault(index, []).append(claim.named(span))
    for index, names in caught.items():
        yield some(names), entries[index]


@rule(
    "port-is-nodeport",
    family="ports",
    about="no Kubernetes service has a planned port as its NodePort",
    why=_LOST,
    source=_NODEPORT,
    cases=("C-044", "C-073"),
)
def port_is_nodeport(host: Host) -> Iterator[Found]:
    for ports, entry in _caught(host, kubernetes=True):
        yield Found(
            what=f"connections to {ports} go to a Kubernetes service ({entry['to'] or 'no pod'})",
            evidence=_rule(entry),
            fix=f"plan ports below {NODE_PORTS[0]}, or take the NodePort from that service.",
        )


@rule(
    "port-among-nodeports",
    family="ports",
    severity="warning",
    about="planned ports of a Kubernetes node are none that a service can get",
    why="A service that is created later takes the traffic, though the process listens.",
    source=_NODEPORT,
    cases=("C-044", "C-073"),
)
def port_among_nodeports(host: Host) -> Iterator[Found]:
    if not (host.fact("ports.nodeports") or host.fact("host.kubernetes.kube_proxy")):
        return
    for one in [*spans.claims(host), *spans.pools(host)]:
        inside = spans.common(one.span, NODE_PORTS)
        if inside:
            drawn = "" if one.process else ", drawn at random,"
            yield Found(
                what=f"{one.named(inside)}{drawn} lies in {spans.text(NODE_PORTS)}, the NodePorts of Kubernetes, and "
                "this host is a node",
                fix=f"plan ports below {NODE_PORTS[0]}, or give the API server another --service-node-port-range.",
            )


@rule(
    "pool-redirected",
    family="ports",
    severity="warning",
    about="connections to ports that are drawn at random arrive",
    why="A process that draws such a port listens, and its peers talk to something else: one start in many fails.",
    source=_NAT,
    cases=("C-044", "C-048"),
)
def pool_redirected(host: Host) -> Iterator[Found]:
    entries = [*host.each("ports.redirections"), *host.each("ports.published")]
    met: dict[spans.Planned, list[spans.Span]] = {}
    for pool, span, _index in spans.meeting(spans.pools(host), entries):
        met.setdefault(pool, []).append(span)
    for pool, caught in met.items():
        ports = some(map(spans.text, spans.merged(caught)))
        yield Found(
            what=f"{pool.named()} is drawn at random, and connections to {ports} are sent elsewhere",
            fix="move what is published or redirected there out of the range.",
        )
