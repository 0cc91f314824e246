# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planned ports and the source ports of the kernel; the ranges from which ports are drawn at random."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import EPHEMERAL
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import port_spans as spans
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.port_spans import HCCL, Span
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import some

_SYSCTL = "Documentation/networking/ip-sysctl.rst of Linux: ip_local_port_range, ip_local_reserved_ports"
_HCCL = "https://github.com/vllm-project/vllm-ascend/issues/4725; HCCL_IF_BASE_PORT in the hiascend documentation"
# fewer source ports than this, and an engine with many peers and clients feels it
_FEW = 4096
_MANY_TIME_WAIT, _MOST_TIME_WAIT = 0.5, 0.9


def _listed(pieces: list[Span]) -> str:
    return ", ".join(map(spans.text, pieces))


def _range(host: Host) -> str:
    among = spans.ephemeral(host)
    return f"net.ipv4.ip_local_port_range is {among[0]} {among[1]}" if among else ""


def _evidence(host: Host) -> str:
    return f"{_range(host)}, ip_local_reserved_ports is {host.fact('ports.reserved_raw') or 'empty'}"


@rule(
    "port-unreserved",
    family="ports",
    about="the kernel does not take planned ports as source ports",
    why="Any outgoing connection can hold the port when the process starts, which then ends with 'Address already in "
    "use'.",
    source=_SYSCTL,
    cases=("C-002", "C-013", "C-019"),
)
def port_unreserved(host: Host) -> Iterator[Found]:
    """Told once for a host, since one line puts an end to all of it."""
    pieces: dict[str, list[Span]] = {}
    for claim in spans.claims(host):
        exposed = spans.exposed(host, claim.span)
        if exposed:
            pieces.setdefault(claim.purpose, []).extend(exposed)
    if pieces:
        named = ", ".join(f"{purpose} {_listed(spans.merged(found))}" for purpose, found in pieces.items())
        yield Found(
            what=f"the kernel takes source ports from {_text(host)}, and planned ports of it are not reserved: {named}",
            evidence=_evidence(host),
            fix=spans.reserve(host),
            severity=spans.severity(host),
        )


@rule(
    "pool-unreserved",
    family="ports",
    severity="warning",
    about="the kernel does not take source ports where processes draw ports at random",
    why="Each connection makes the draw fail more often; Mooncake gives up after a number of tries.",
    source=_SYSCTL,
    cases=("C-013", "C-048"),
)
def pool_unreserved(host: Host) -> Iterator[Found]:
    yield from _pools(host, stock=True)


@rule(
    "ephemeral-widened",
    family="ports",
    severity="warning",
    about="source ports are not taken from more than the stock range where that meets drawn ports",
    why="Ranges that are safe with a stock kernel are full of outgoing connections here.",
    source=_SYSCTL,
    cases=("C-013", "C-022", "C-048"),
)
def ephemeral_widened(host: Host) -> Iterator[Found]:
    yield from _pools(host, stock=False)


def _pools(host: Host, stock: bool) -> Iterator[Found]:
    """Pools that meet the stock range, or those that are met only because the range was widened."""
    for pool in spans.pools(host):
        pieces = spans.exposed(host, pool.span)
        if pool.purpose == HCCL or not pieces:
            continue
        if any(spans.common(piece, EPHEMERAL) for piece in pieces) is not stock:
            continue
        share = f"{spans.size(pieces)} of the {spans.size([pool.span])} ports"
        widened = f", and reaches beyond the usual {EPHEMERAL[0]}-{EPHEMERAL[1]}" if not stock else ""
        yield Found(
            what=f"{share} that are drawn at random for {pool.named()} lie in the range from which the kernel takes "
            f"source ports, which is {_text(host)}{widened}",
            evidence=_evidence(host),
            fix=_narrow(host) if not stock else spans.reserve(host),
            severity=spans.severity(host) if stock else None,
        )


def _text(host: Host) -> str:
    among = spans.ephemeral(host)
    return spans.text(among) if among else "unknown"


def _narrow(host: Host) -> str:
    """Both ways out, as the range may have been widened for a reason."""
    stock = f"`net.ipv4.ip_local_port_range = {EPHEMERAL[0]} {EPHEMERAL[1]}`"
    return f"set {stock}, or {spans.reserve(host)}"


@rule(
    "hccl-unreserved",
    family="ports",
    severity="warning",
    about="the kernel does not take the host ports of HCCL as source ports",
    why="HCCL ends the start with 'host nic listen start failed' (EI0019, EJ0003) when one of them is held.",
    source=_HCCL,
    cases=("C-006", "C-013"),
)
def hccl_unreserved(host: Host) -> Iterator[Found]:
    if not host.ascend:
        return
    for pool in spans.pools(host):
        pieces = spans.exposed(host, pool.span) if pool.purpose == HCCL else []
        if pieces:
            yield Found(
                what=f"host ports {_listed(pieces)} of HCCL lie in the range from which the kernel takes source ports",
                evidence=_evidence(host),
                fix=spans.reserve(host),
                severity=spans.severity(host),
            )


@rule(
    "hccl-busy",
    family="ports",
    about="the host ports of HCCL are free",
    why="HCCL ends the start with 'host nic listen start failed' (EI0019, EJ0003). Its device port 16666 lies on the "
    "NPU's own network stack, which no tool of the host shows.",
    source=_HCCL,
    cases=("C-006",),
)
def hccl_busy(host: Host) -> Iterator[Found]:
    if not host.ascend:
        return
    for pool in host.each("ports.pools"):
        if pool["purpose"] == HCCL and pool["foreign"]:
            span = (pool["first"], pool["last"])
            yield Found(
                what=f"{len(pool['foreign'])} of the host ports {spans.text(span)} of HCCL "
                "are taken by processes that are not of this plan",
                evidence=_foreign(pool["foreign"]),
                fix="stop them, or move HCCL with HCCL_IF_BASE_PORT in engine_environment.",
            )


def _foreign(entries: list[dict[str, object]]) -> str:
    return "; ".join(f"{entry['port']}: {entry['owner']}" for entry in entries)


@rule(
    "pool-crowded",
    family="ports",
    severity="warning",
    about="ranges from which ports are drawn have room",
    why="Draws fail more and more often; Mooncake gives up after a number of tries.",
    source="https://github.com/kvcache-ai/Mooncake/issues/736",
    cases=("C-022", "C-048"),
)
def pool_crowded(host: Host) -> Iterator[Found]:
    if host.running:
        return  # the service itself listens there
    for pool in host.each("ports.pools"):
        span = (pool["first"], pool["last"])
        if pool["purpose"] == HCCL:  # each chip in use listens on one of them
            continue
        if pool["listeners"] is not None and pool["listeners"] * 2 >= spans.size([span]):
            yield Found(
                what=f"{pool['listeners']} of the {spans.size([span])} ports that are drawn at random for "
                f"{pool['purpose']} {spans.text(span)} are taken",
                evidence=_foreign(pool["foreign"]),
                fix="stop what listens there and is not of this plan, or give the range other limits.",
                severity="error" if pool["listeners"] >= spans.size([span]) else None,
            )


@rule(
    "pool-foreign",
    family="ports",
    severity="notice",
    about="only this plan's processes listen where ports are drawn at random",
    why="A draw that meets such a port fails and is repeated. A program with a fixed port there fails when it is "
    "started after this service, which may have drawn its port.",
    source="https://github.com/kvcache-ai/Mooncake/issues/736",
    cases=("C-022", "C-048"),
)
def pool_foreign(host: Host) -> Iterator[Found]:
    for pool in host.each("ports.pools"):
        if pool["purpose"] == HCCL or not pool["foreign"]:
            continue
        ports = some(entry["port"] for entry in pool["foreign"])
        yield Found(
            what=f"other programs listen where ports are drawn at random for {pool['purpose']} "
            f"{spans.text((pool['first'], pool['last']))}: {ports}",
            evidence=_foreign(pool["foreign"]),
            fix="move them, if they are to be restarted while this service runs.",
        )


@rule(
    "ephemeral-scarce",
    family="ports",
    severity="warning",
    about=f"at least {_FEW} source ports are left",
    why="Outgoing connections fail with 'Cannot assign requested address'.",
    source=_SYSCTL,
    cases=("C-085",),
)
def ephemeral_scarce(host: Host) -> Iterator[Found]:
    among = spans.ephemeral(host)
    if among is None or host.fact("ports.reserved") is None:
        return
    left = spans.size(spans.without(among, spans.reserved(host)))
    if left < _FEW:
        yield Found(
            what=f"only {left} source ports are left",
            evidence=_evidence(host),
            fix="widen net.ipv4.ip_local_port_range to where nothing is planned, or reserve less.",
        )


@rule(
    "time-wait-exhaustion",
    family="ports",
    severity="warning",
    about="connections in TIME-WAIT leave source ports free",
    why="New connections fail with 'Cannot assign requested address', and fixed ports of the range cannot be bound.",
    source="Mooncake, docs of the TCP transport: MC_TCP_ENABLE_CONNECTION_POOL",
    cases=("C-085",),
)
def time_wait_exhaustion(host: Host) -> Iterator[Found]:
    among, waiting = spans.ephemeral(host), host.fact("ports.sockets.time_wait_ephemeral")
    if among is None or waiting is None:
        return
    usable = spans.size(spans.without(among, spans.reserved(host)))
    if usable and waiting > _MANY_TIME_WAIT * usable:
        yield Found(
            what=f"{waiting} of {usable} source ports are held by connections in TIME-WAIT",
            evidence=_range(host),
            fix="set MC_TCP_ENABLE_CONNECTION_POOL=1 where Mooncake uses TCP, and let the client that opens a "
            "connection for each request keep it (`ss -tan state time-wait` shows to whom).",
            severity="error" if waiting > _MOST_TIME_WAIT * usable else None,
        )
