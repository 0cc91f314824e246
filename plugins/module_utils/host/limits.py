# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits of processes and units: -1 is unlimited."""

from __future__ import annotations

import os
import re
from typing import Any, Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Answer
from ansible_collections.mooncake.pd.plugins.module_utils.host.environment import filtered, parse_environ
from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look

Limit = dict[str, int]

NAMES = {
    "memlock": "Max locked memory",
    "nofile": "Max open files",
    "nproc": "Max processes",
    "core": "Max core file size",
    "stack": "Max stack size",
}
_ENDLESS = (1 << 64) - 1  # what systemd before 229 prints for infinity
_TRIAL_SECONDS = 5
_NOBODY = "nobody"


def amount(text: str) -> Optional[int]:
    if text in ("unlimited", "infinity"):
        return -1
    if not text.isdigit():
        return None
    return -1 if int(text) == _ENDLESS else int(text)


def parse(text: str) -> dict[str, Limit]:
    """/proc/PID/limits"""
    found = {}
    for name, title in NAMES.items():
        match = re.search(rf"^{title}\s+(\S+)\s+(\S+)", text, re.MULTILINE)
        soft, hard = (amount(match.group(1)), amount(match.group(2))) if match else (None, None)
        if soft is not None and hard is not None:
            found[name] = {"soft": soft, "hard": hard}
    return found


def words(properties: Mapping[str, Any]) -> list[str]:
    """-p KEY=VALUE of systemd-run; a list repeats the key, null leaves it out."""
    found = []
    for key, value in properties.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                text = ("yes" if each else "no") if isinstance(each, bool) else str(each)
                found += ["-p", f"{key}={text}"]
    return found


def command(unit: str, user: str, properties: Mapping[str, Any]) -> list[str]:
    """A real trial: systemd makes the unit as it makes the real ones. Its own limits, the defaults of system.conf and
    the drop-ins of the name's prefix (mooncake-pd-.service.d) and of all services (service.d) count, and the
    processor, the container or the kernel may still refuse; no file says all of that together.

    --collect unloads it when it has failed, too, and RuntimeMaxSec ends it when nobody waits any more. One program
    prints both files, so that they are of the unit's own main process and need no shell.
    """
    return [
        *("systemd-run", "--no-ask-password", "--wait", "--pipe", "--collect", "--quiet"),
        *(f"--unit={unit}", f"--uid={user}"),
        *words(properties),
        *("-p", f"RuntimeMaxSec={_TRIAL_SECONDS}"),
        *("cat", "/proc/self/limits", "/proc/self/environ"),
    ]


def trial(look: Look, unit: str, user: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    who = user if look.system.user(user) else _NOBODY
    answer = _try(look, unit, who, properties)
    if "already" in answer.text and answer.code == 1:  # somebody else looks at the same time
        stem, dot, suffix = unit.rpartition(".")
        answer = _try(look, f"{stem}-{os.getpid()}{dot}{suffix}", who, properties)
    limits, environ = _split(answer.out)
    found = parse(limits)
    result: dict[str, Any] = {"unit": unit, "user": who, **{name: found.get(name) for name in NAMES}}
    if answer.failure:
        look.unknown("limits", f"A trial unit could not be run with systemd-run: it {answer.failure}.", answer.text)
        return {**result, **dict.fromkeys(NAMES), "environment": None}
    for name in NAMES:
        if name not in found:
            look.unknown(f"limits.{name}", "The trial unit did not print it.", limits)
    return {**result, "environment": filtered(parse_environ(environ))}


def _split(text: str) -> tuple[str, str]:
    """The table of limits, and the environment behind it. No line of the table has a NUL or begins otherwise."""
    lines = text.splitlines(keepends=True)
    table = [
        line for line in lines[: len(NAMES) + 20] if re.match(r"Limit\s+Soft|Max [a-z]", line) and "\0" not in line
    ]
    rest = text[sum(map(len, table)) :]
    return "".join(table), rest


def _try(look: Look, unit: str, user: str, properties: Mapping[str, Any]) -> Answer:
    answer = look.run(command(unit, user, properties), _TRIAL_SECONDS)
    if answer.why and answer.seconds:  # it hangs
        look.run(["systemctl", "stop", "--no-block", unit], 1)
    return answer


def of_process(
    look: Look, pid: int, what: str, names: Sequence[str] = ("memlock", "nofile")
) -> Optional[dict[str, Any]]:
    """None when it has ended meanwhile."""
    if not look.exists(f"/proc/{pid}"):
        return None
    text = look.text(f"/proc/{pid}/limits", what)
    found = parse(text or "")
    for name in names:
        if text is not None and name not in found:
            look.unknown(f"{what}.{name}", f"/proc/{pid}/limits does not tell it.", text)
    return {name: found.get(name) for name in names}
