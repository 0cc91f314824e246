# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clock: what time it is, whether the kernel takes it for synchronized, and the zone."""

from __future__ import annotations

import os
import re
from typing import Any, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look

_ZONES = "zoneinfo/"


def clock(look: Look) -> dict[str, Any]:
    epoch = look.system.now()
    return {
        "epoch": round(epoch, 3),
        "synchronized": look.sane("clock.synchronized", None, look.system.synchronized),
        "timezone": look.sane("clock.timezone", None, lambda: timezone(look)),
        "controller": None,
    }


def timezone(look: Look) -> Optional[str]:
    """localtime(5): the link's name; UTC where there is none. A copy has no name, but a rule."""
    path = look.at("/etc/localtime")
    if os.path.islink(path):
        return os.readlink(path).rpartition(_ZONES)[2]
    if look.exists("/etc/timezone"):
        return look.word("/etc/timezone", "clock.timezone")
    if not look.exists("/etc"):
        look.unknown("clock.timezone", "There is no /etc.")
        return None
    if os.path.lexists(path):
        name = parse_rule(look.bytes("/etc/localtime"))
        if name is None:
            look.unknown("clock.timezone", "/etc/localtime is a copy and no link, and tells no time zone itself.")
        return name
    return "UTC"


def parse_rule(zone: bytes) -> Optional[str]:
    """The last line of a tzfile(5) since version 2, as TZ has it: CST-8."""
    match = re.fullmatch(rb"TZif[2-9].*\n([A-Za-z<][\x21-\x7e]*)\n", zone, re.DOTALL)
    return match.group(1).decode() if match else None
