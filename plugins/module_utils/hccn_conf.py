# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""/etc/hccn.conf: the NPUs' addresses, as Mooncake and HCCL read them."""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from typing import Any, Optional

from ansible_collections.mooncake.pd.plugins.module_utils import masking

PATH = "/etc/hccn.conf"
_KEY = re.compile(r"([A-Za-z]\w*?)_([0-9]+)")
_LISTS = {
    "address": "addresses",
    "netmask": "netmasks",
    "gateway": "gateways",
    "netdetect": "netdetect",
    "tls_enable": "tls",
}
_ADDRESSES = ("address", "netmask", "gateway", "netdetect")


def nothing(kind: Optional[str]) -> dict[str, Any]:
    return {
        "type": kind,
        "crlf": False,
        **{name: {} for name in _LISTS.values()},
        "repeated": [],
        "bad_lines": [],
        "empty": [],
    }


def parse(data: bytes) -> dict[str, Any]:
    """Values by the chip's number as text; of a repeated key the last one."""
    found = nothing("file")
    found["crlf"] = b"\r" in data
    seen: set[str] = set()
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        known = _KEY.fullmatch(key.strip())
        bad = not equals or not known or line.strip() != line or key != key.strip() or value != value.strip()
        value = value.strip()
        if equals and known:
            name, chip = known[1], known[2]
            if key.strip() in seen and key.strip() not in found["repeated"]:
                found["repeated"].append(key.strip())
            seen.add(key.strip())
            if not value:
                found["empty"].append(key.strip())
                bad = False
            elif name in _LISTS:
                found[_LISTS[name]][chip] = value
                bad = bad or (name in _ADDRESSES and not _is_address(value))
        if bad:
            found["bad_lines"].append({"line": number, "text": masking.raw(line, 200)})
    return found


def read(path: str = PATH) -> tuple[dict[str, Any], str]:
    """What stands there, and why that is not known."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            return nothing("directory"), ""
        if not stat.S_ISREG(mode):
            return nothing(None), f"{PATH} is no file"
        with open(path, "rb") as source:
            return parse(source.read(1 << 20)), ""
    except (FileNotFoundError, NotADirectoryError):
        return nothing("missing"), ""
    except OSError as error:
        return nothing(None), f"{PATH} cannot be read: {error.strerror}"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
