# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts as the judge would give them, written by hand."""

from __future__ import annotations

from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.verdict import Finding, Verdict, Waived

FAMILIES = ("host", "network", "ports", "npu", "rdma")
RULES = (
    ("memlock-low", "host", "units may lock memory"),
    ("swap-on", "host", "no swap is in use"),
    ("governor-slow", "host", "processors run at full speed"),
    ("host-unknown", "host", "what the host is like could be found out"),
    ("peer-filtered", "network", "hosts reach each other"),
    ("port-taken", "ports", "every planned port is free"),
    ("link-down", "npu", "links of the NPUs are up"),
    ("tls-differs", "npu", "TLS of the NPUs is the same everywhere"),
    ("gid-missing", "rdma", "RoCE devices have a v2 GID"),
)
SOURCES = {
    "memlock-low": "https://docs.example.org/rdma#memlock",
    "peer-filtered": "http://plain.example.org/firewalls",
    "link-down": "vendor's manual (https://docs.example.org/hccn), and https://docs.example.org/lldp.",
}
_FAMILY = {rule: family for rule, family, _about in RULES}
_ABOUT = {rule: about for rule, _family, about in RULES}


def finding(rule: str, host: str | None, severity: str = "error", **more: Any) -> Finding:
    told: dict[str, Any] = {
        "family": _FAMILY.get(rule, "host"),
        "what": f"{rule} is not as it has to be",
        "evidence": "",
        "fix": f"mend {rule}.",
        "about": _ABOUT.get(rule, rule),
        "why": "the service would not start.",
        "source": SOURCES.get(rule, ""),
    }
    return Finding(rule=rule, host=host, severity=severity, **{**told, **more})


def fleet(count: int) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Families that were looked at and kinds: half prefill, half decode, and a router with the master."""
    engines = [f"npu{number}" for number in range(1, count)]
    kinds = {name: ("prefill",) if number < count // 2 else ("decode",) for number, name in enumerate(engines)}
    looked = dict.fromkeys(engines, FAMILIES)
    return {**looked, "front": FAMILIES[:3]}, {**kinds, "front": ("router", "frontend", "master")}


def verdict(count: int = 4, **more: Any) -> Verdict:
    hosts, kinds = fleet(count)
    told: dict[str, Any] = {
        **{"cluster": "qwen", "topology": "/etc/pd/topology.yml"},
        **{"families": FAMILIES, "hosts": hosts, "kinds": kinds, "rules": RULES},
    }
    return Verdict(**{**told, **more})


def small() -> Verdict:
    """12 hosts with some of everything."""
    lock = {
        "what": "units may lock 64 KiB of memory only",
        "fix": "set LimitMEMLOCK=infinity in the drop-in that caps it:\n  systemctl edit mooncake-pd-<name>",
    }
    findings = [
        finding("swap-on", "npu2", "warning", what="8 GiB of swap are in use", fix="swapoff -a", evidence="Swap: 8.0G"),
        finding("governor-slow", "npu1", "notice"),
        *(finding("memlock-low", f"npu{n}", evidence=f"memlock 6553{n}", **lock) for n in (1, 2, 3, 5)),
        *(
            finding(
                "link-down",
                f"npu{n}",
                what=f"chip {n} is DOWN",
                evidence=f"link status: DOWN\nchip: {n}",
                fix="look at the cable.",
            )
            for n in range(1, 9)
        ),
        finding("tls-differs", None, what="TLS is on at npu1 and off at npu2", fix="set tls_enable alike."),
        finding("peer-filtered", "front", what="port 7100 of npu1 does not answer"),
    ]
    hosts, kinds = fleet(12)
    hosts["npu9"] = ()
    return verdict(
        hosts=hosts,
        kinds=kinds,
        absent={"npu9": "ssh: no route to host"},
        findings=tuple(findings),
        waived=(Waived(finding("gid-missing", "npu4"), "the card is a spare"),),
    )


def clean() -> Verdict:
    return verdict()


def large(count: int = 1000, each: int = 3) -> Verdict:
    """Every host has so many findings of its own."""
    rules = [rule for rule, _family, _about in RULES]
    hosts, kinds = fleet(count)
    findings = [
        finding(
            rules[(number + turn) % len(rules)],
            host,
            ("error", "warning", "notice")[turn % 3],
            what=f"thing {number * 7 + turn} of this host is not as the service needs it",
            evidence=f"seen: {number} " + "raw text of a tool " * 5,
            fix=f"mend it in way {number % 3}.",
        )
        for number, host in enumerate(hosts)
        for turn in range(each)
    ]
    return verdict(hosts=hosts, kinds=kinds, findings=tuple(findings))


HOSTILE = "<b onload=x>\"'&</script><!--\x1b[31m\x00\u202e\udcff]]>"


def hostile() -> Verdict:
    """small() with everything that comes from outside made of what hurts."""
    one = verdict(
        cluster=f"qwen{HOSTILE}",
        topology=HOSTILE,
        hosts={f"npu1{HOSTILE}": FAMILIES, "npu2": ()},
        kinds={f"npu1{HOSTILE}": (f"prefill{HOSTILE}",), "npu2": ()},
        absent={"npu2": HOSTILE},
        findings=(
            finding(
                "memlock-low",
                f"npu1{HOSTILE}",
                **dict.fromkeys(("what", "evidence", "fix", "about", "why"), HOSTILE),
                source=f"javascript:alert(1) https://example.org/{HOSTILE}",
            ),
        ),
        waived=(Waived(finding("swap-on", "npu2", evidence=HOSTILE), HOSTILE),),
        rules=(("memlock-low", "host", HOSTILE), *RULES[1:]),
    )
    return one


def harmless() -> Verdict:
    """hostile() without what hurts."""
    hosts = {"npu1": FAMILIES, "npu2": ()}
    return verdict(
        hosts=hosts,
        kinds={"npu1": ("prefill",), "npu2": ()},
        absent={"npu2": "x"},
        findings=(finding("memlock-low", "npu1", evidence="x", source="javascript:alert(1) https://example.org/x"),),
        waived=(Waived(finding("swap-on", "npu2", evidence="x"), "x"),),
    )
