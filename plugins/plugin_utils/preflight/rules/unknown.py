# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What could not be found out is reported, never taken for good; and hosts that did not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import LEFT_OUT, Fleet, Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, fleet_rule, rule

_WHY = "Nobody knows whether it is as the service needs it, and what is not known is where days are lost."
_OWN = "mooncake.pd"
_FIX = (
    "make it readable (run as root with become, install or repair the tool), or waive this rule for that fact"
    " (where: the fact)."
)

# Facts without which rules that are errors cannot be judged. The others are worth a warning.
_DECISIVE = {
    "host": (
        "limits",
        "shm",
        "tmp",
        "paths",
        "memory",
        "interfaces",
        "peers",
        "units",
        "systemd",
        "sysctl.net.ipv4.ip_local_port_range",
        "sysctl.fs.nr_open",
    ),
    "ports": ("court", "ephemeral", "reserved", "namespace", "published", "redirections"),
    "npu": ("tool", "chips", "processes", "hccn_conf", "devices", "driver", "cann", "generation"),
    "hccn": ("tool", "chips", "pings"),
    "rdma": ("devices",),
}
# what the network of NPUs and of RDMA devices can do without
_ASIDE = (".mtu", ".speed", ".lldp", ".netdetect", ".gateway", ".max_mr_size", ".max_mtu")

# where only notices and hints depend on it
_LITTLE = (".oom_kills", ".timezone", "governor", ".synchronized")


def _needed(host: Host, probe: str) -> bool:
    """Whether the plan rests on what it tells."""
    if probe in ("npu", "hccn"):
        return host.ascend
    return probe != "rdma" or (host.engine and host.protocol == "rdma")


def _meets(one: str, other: str) -> bool:
    return one == other or one.startswith((f"{other}.", f"{other}[")) or other.startswith((f"{one}.", f"{one}["))


def _severity(host: Host, probe: str, what: str) -> str:
    if what.endswith(_LITTLE):
        return "notice"
    if what.endswith(_ASIDE) or (probe == "host" and what and not host.engine):
        return "warning"  # a router lives with the defaults of any host
    return "error" if not what or any(_meets(what, path) for path in _DECISIVE[probe]) else "warning"


def _value(facts: Mapping[str, Any], path: str) -> Any:
    section, _dot, key = path.partition(".")
    value = facts.get(section)
    # names of sysctls have dots in them
    return value.get(key) if key and isinstance(value, Mapping) else value


def _unknown(probe: str) -> Callable[[Host], Iterator[Found]]:
    def check(host: Host) -> Iterator[Found]:
        if not _needed(host, probe):
            return
        facts = host.facts.get(probe)
        if not isinstance(facts, Mapping) or not isinstance(facts.get("unknown"), list):
            yield Found(what="everything is unknown: it was not looked at", fix=_FIX, severity="error")
            return
        for item in facts["unknown"]:
            yield Found(
                what=f"{item['what'] or 'everything'} is unknown: {item['why']}",
                fix=_FIX,
                evidence=item["raw"],
                severity=_severity(host, probe, item["what"]),
                where=item["what"],
            )
        told = [item["what"] for item in facts["unknown"]]
        for path in _DECISIVE[probe]:
            silent = _value(facts, path) is None and not any(not what or _meets(what, path) for what in told)
            if silent:
                why = "nothing was told of it"
                severity = _severity(host, probe, path)
                yield Found(what=f"{path} is unknown: {why}", fix=_FIX, severity=severity, where=path)

    return check


for _probe, _family, _about in (
    ("host", "host", "what the host is like could be found out"),
    ("ports", "ports", "who holds ports could be found out"),
    ("npu", "npu", "the state of the NPUs could be found out"),
    ("hccn", "npu", "the state of the network of the NPUs could be found out"),
    ("rdma", "rdma", "the state of the RDMA devices could be found out"),
):
    rule(f"{_probe}-unknown", family=_family, about=_about, why=_WHY, source=_OWN)(_unknown(_probe))


@fleet_rule(
    "host-absent",
    family="host",
    about="every host of the plan was looked at",
    why="A fleet starts as a whole; what is wrong with a host that did not answer shows when others wait for it.",
    source=_OWN,
    cases=("C-078", "C-094"),
)
def host_absent(fleet: Fleet) -> Iterator[Found]:
    for name, reason in fleet.absent.items():
        left_out = reason == LEFT_OUT
        yield Found(
            host=name,
            what=f"nothing is known: {reason}",
            fix=(
                "run without --limit to judge all hosts together; rules that compare hosts had to do without these."
                if left_out
                else "mend the connection (address, ssh key, python3, sudo), or take the host out of the topology."
            ),
            severity="notice" if left_out else "error",
        )
