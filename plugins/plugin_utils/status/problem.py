# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong, with its way out. An error makes the status a bad one, a notice is worth knowing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

ERROR, NOTICE = "error", "notice"
RESTARTED = "restarted"
START = "start.yml starts what is down and leaves the rest alone"
ROLL = "roll.yml restarts it without a lost request"


@dataclass(frozen=True)
class Problem:
    rule: str
    name: str  # of the instance, the service or the host
    host: str | None
    what: str
    fix: str
    severity: str = ERROR

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def of_unit(name: str, host: str, unit: Mapping[str, Any], now: float) -> Iterator[Problem]:
    """What systemd says of one unit of the plan."""
    who, log = f"{unit['name']} on {host}", f"read {unit['log']} on {host}"
    how = f": {unit['exit_text']}" if unit["exit_text"] else ""
    advice = f"{unit['advice']} " if unit["advice"] else ""
    if not unit["installed"]:
        yield Problem("not-installed", name, host, f"{who} is not installed", "site.yml installs and starts it")
        return
    if unit["waits_for_restart"]:
        what = f"{who} ended and waits to be started again{how}"
        yield Problem("restarting", name, host, what, f"{advice}{log}; when it comes back by itself, wait")
    elif unit["active_state"] == "failed":
        yield Problem("failed", name, host, f"{who} failed{how}", f"{advice}{log}, mend that, then start.yml")
    elif unit["active_state"] == "inactive":
        # systemd keeps how the main process ended; one that was told to end has no more to say
        how = "" if unit["result"] == "success" else how
        yield Problem("stopped", name, host, f"{who} does not run{how}", START)
    elif unit["active_state"] != "active":
        yield Problem("changing", name, host, f"{who} is {unit['active_state']}", "wait, and look again")
    elif unit["restarts"]:
        times = f"{unit['restarts']} time{'s' if unit['restarts'] > 1 else ''}"
        since = f", the last one {age(now - unit['since'])} ago" if unit["since"] else ""
        what = f"{who} ended and was started again {times}{since}"
        yield Problem(RESTARTED, name, host, what, f"{log}; a restart by hand sets the count back", NOTICE)
    if not unit["enabled"]:
        yield Problem("not-enabled", name, host, f"{who} does not start at boot", "start.yml enables it again", NOTICE)


def age(seconds: float) -> str:
    """Two units at most: 3d 4h."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for letter, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts or letter == "s":
            parts.append(f"{count}{letter}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0")) or "0s"
