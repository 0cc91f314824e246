# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What hccn_tool answers about one NPU. Each question has a reader: text -> facts.

Forms as guides, parsers and bug reports show them; none of it was seen on hardware by us. An empty text means that the
tool answered and names none, e.g. no gateway.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from statistics import median
from typing import Any, Optional

Facts = dict[str, Any]

# The tool may end with 0 all the same.
_REFUSED = re.compile(
    r"(?im)^.*(?:(?:command|cmd) execute[d]? fail|input parameter error|error while loading shared libraries).*$"
)
_NO_ADDRESS = ("", "0.0.0.0", "NA", "none", "null")


class NotUnderstood(ValueError):
    pass


def refusal(text: str) -> Optional[str]:
    refused = _REFUSED.search(text)
    return refused[0].strip()[:200] if refused else None


def _found(pattern: str, text: str) -> re.Match[str]:
    match = re.search(pattern, text, re.MULTILINE)
    if not match:
        raise NotUnderstood
    return match


def _address(pattern: str, text: str) -> str:
    value = _found(pattern, text)[1].strip()
    return "" if value in _NO_ADDRESS else value


def _link(text: str) -> Facts:
    return {"link": _found(r"^\s*link status:\s*(UP|DOWN)\s*$", text)[1]}


def _net_health(text: str) -> Facts:
    return {"net_health": _found(r"^\s*net health status:\s*(\S.*?)\s*$", text)[1]}


def _lldp(text: str) -> Facts:
    if not text.strip():
        return {"lldp": {}}
    port = _found(r"^\s*Ifname:\s*(\S.*?)\s*$", text)[1]
    switch = re.search(r"System Name TLV\s*\n\s*(\S.*?)\s*$|^\s*IPv4:\s*(\S+)", text, re.MULTILINE)
    return {"lldp": {"port": port, "switch": (switch[1] or switch[2]) if switch else None}}


def _netdetect(text: str) -> Facts:
    return {"netdetect": _address(r"^\s*netdetect address:[ \t]*(.*)$", text) if text.strip() else ""}


def _gateway(text: str) -> Facts:
    return {"gateway": _address(r"^\s*default gateway:[ \t]*([^,\n]*)", text) if text.strip() else ""}


def _ip(text: str) -> Facts:
    if not text.strip():
        return {"address": "", "netmask": ""}
    return {
        "address": _address(r"^\s*ipaddr:[ \t]*(.*)$", text),
        "netmask": _address(r"^\s*netmask:[ \t]*(.*)$", text),
    }


def _vnic(text: str) -> Facts:
    return {"vnic": _address(r"^\s*ipaddr:[ \t]*(.*)$", text) if text.strip() else ""}


def _tls(text: str) -> Facts:
    return {"tls": int(_found(r"tls switch\[([01])\]", text)[1])}


def _speed(text: str) -> Facts:
    if re.search(r"^\s*Speed:\s*Unknown!?\s*$", text, re.MULTILINE):
        return {"speed": 0}
    return {"speed": int(_found(r"^\s*Speed:\s*([0-9]+)\s*Mb/s", text)[1])}


def _mtu(text: str) -> Facts:
    return {"mtu": int(_found(r"^\s*mtu[:\s]\s*([0-9]+)", text)[1])}


# name of the question = option of the tool; its facts, its reader
QUESTIONS: dict[str, tuple[tuple[str, ...], Callable[[str], Facts]]] = {
    "link": (("link",), _link),
    "net_health": (("net_health",), _net_health),
    "lldp": (("lldp",), _lldp),
    "netdetect": (("netdetect",), _netdetect),
    "gateway": (("gateway",), _gateway),
    "ip": (("address", "netmask"), _ip),
    "vnic": (("vnic",), _vnic),
    "tls": (("tls",), _tls),
    "speed": (("speed",), _speed),
    "mtu": (("mtu",), _mtu),
}
FACTS = tuple(fact for facts, _reader in QUESTIONS.values() for fact in facts)

PINGS = {"roce": "-ping", "hccs": "-hccs_ping"}


def question(tool: str, chip: int, name: str) -> tuple[str, ...]:
    return (tool, "-i", str(chip), f"-{name}", "-g")


def ping(tool: str, chip: int, plane: str, address: str) -> tuple[str, ...]:
    return (tool, "-i", str(chip), PINGS[plane], "-g", "address", address)


def read_ping(text: str) -> Facts:
    """ok, loss in percent, time in ms (the middle one of the packets')."""
    hccs = [word.lower() == "success" for word in re.findall(r"(?i)pkt ping (success|fail)", text)]
    if hccs:
        # a line speaks of one packet or of all of them
        loss = round(100 * hccs.count(False) / len(hccs), 2) if len(hccs) > 1 else None
        return {"ok": all(hccs), "loss": loss, "time": None}
    loss = float(_found(r"([0-9]+(?:\.[0-9]+)?)% packet loss", text)[1])
    times = [float(value) for value in re.findall(r"time=([0-9]+(?:\.[0-9]+)?)\s*ms", text)]
    return {"ok": loss == 0.0, "loss": loss, "time": round(median(times), 6) if times else None}
