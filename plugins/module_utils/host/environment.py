# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Environment variables: which there are, and the values of those that decide how engines talk to each other."""

from __future__ import annotations

import re
import shlex
from typing import Any, Iterable, Mapping, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.plugins.module_utils.masking import is_secret, masked, masked_proxy

_SHOWN = ("LD_", "ASCEND", "HCCL", "MC_", "GLOO", "TP_SOCKET", "NCCL", "VLLM")
_PROXY = re.compile(r"(?:https?|all|no|ftp|socks)_proxy", re.IGNORECASE)
_FILES = ("/etc/environment", "/etc/profile", "/etc/bashrc", "/etc/bash.bashrc", "/root/.bashrc")
_FOLDER = "/etc/profile.d"


def is_proxy(name: str) -> bool:
    return bool(_PROXY.fullmatch(name))


def shown(name: str, value: str) -> Optional[str]:
    """The value, or None when it is nobody's business."""
    if is_secret(name):
        return None
    if is_proxy(name):
        return masked_proxy(value)
    return masked(value) if name.startswith(_SHOWN) else None


def parse_environ(text: str) -> dict[str, str]:
    """/proc/PID/environ"""
    pairs = (entry.partition("=") for entry in text.split("\0"))
    return {name: value for name, equals, value in pairs if name and equals}


def filtered(environment: Mapping[str, str]) -> dict[str, Optional[str]]:
    return {name: shown(name, value) for name, value in sorted(environment.items())}


def parse_property(text: str) -> list[str]:
    """Names in Environment= of systemctl show: words, those with blanks in quotes."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return sorted({name for name, equals, _value in (word.partition("=") for word in words) if equals})


def parse_settings(text: str) -> list[tuple[str, str]]:
    """Proxy variables in /etc/environment or in a script of the shell."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s*(?:export\s+|declare\s+-x\s+)?(\w+)=(.*)$", line)
        if not match or not is_proxy(match.group(1)):
            continue
        try:
            words = shlex.split(match.group(2), comments=True)
        except ValueError:
            words = [match.group(2).strip()]
        found.append((match.group(1), words[0] if words else ""))
    return found


def proxies(look: Look, unit: Optional[Mapping[str, Optional[str]]]) -> list[dict[str, Any]]:
    """Those that a unit really gets, and those that programs get whose environment a login or PAM makes."""
    found = [
        {"where": "unit", "name": name, "value": value}
        for name, value in (unit or {}).items()
        if is_proxy(name) and value is not None
    ]
    if unit is None:
        look.unknown("proxies", "The environment of a unit is unknown (see limits).")
    for path in _files(look):
        text = look.text(path, "proxies")
        for name, value in parse_settings(text or ""):
            found.append({"where": path, "name": name, "value": masked_proxy(value)})
    return found


def _files(look: Look) -> Iterable[str]:
    if not look.exists("/etc"):
        look.unknown("proxies", "There is no /etc.")
    scripts = look.listing(_FOLDER) if look.exists(_FOLDER) else []
    paths = [*_FILES, *(f"{_FOLDER}/{name}" for name in scripts if name.endswith(".sh"))]
    return [path for path in paths if look.exists(path)]
