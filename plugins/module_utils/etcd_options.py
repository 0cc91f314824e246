# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How modules are told to reach etcd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.module_utils.etcd_api import Member, Tls

ARGUMENTS: dict[str, Any] = {
    "endpoints": {"type": "list", "elements": "str", "required": True},
    "ca_file": {"type": "path"},
    "cert_file": {"type": "path"},
    "key_file": {"type": "path", "no_log": False},
    "user": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "timeout": {"type": "int", "default": 5},
}
TOGETHER = [("cert_file", "key_file"), ("user", "password")]


def connect(params: Mapping[str, Any]) -> Callable[[str], Member]:
    """What makes the connection to an endpoint."""
    tls = Tls(params["ca_file"], params["cert_file"], params["key_file"]) if params["ca_file"] else None

    def to(endpoint: str) -> Member:
        member = Member(endpoint, tls, params["timeout"])
        if params["user"]:
            member.login(params["user"], params["password"])
        return member

    return to
