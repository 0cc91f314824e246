# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits of logins: limits.d(5). They are for people at a shell; units have limits of their own."""

from __future__ import annotations

import re
from typing import Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree

FOLDER = "/etc/security/limits.d"
FILE = f"{FOLDER}/90-mooncake-pd.conf"
# item -> its line in /proc/PID/limits, and how many of that line's units are one; proc_pid_limits(5), limits.conf(5)
ITEMS: dict[str, tuple[Optional[str], int]] = {
    "as": ("Max address space", 1024),
    "core": ("Max core file size", 1024),
    "cpu": ("Max cpu time", 60),
    "data": ("Max data size", 1024),
    "fsize": ("Max file size", 1024),
    "locks": ("Max file locks", 1),
    "maxlogins": (None, 1),
    "maxsyslogins": (None, 1),
    "memlock": ("Max locked memory", 1024),
    "msgqueue": ("Max msgqueue size", 1),
    "nice": (None, 1),
    "nofile": ("Max open files", 1),
    "nonewprivs": (None, 1),
    "nproc": ("Max processes", 1),
    "priority": (None, 1),
    "rss": ("Max resident set", 1024),
    "rtprio": ("Max realtime priority", 1),
    "sigpending": ("Max pending signals", 1),
    "stack": ("Max stack size", 1024),
}
ENDLESS = ("unlimited", "infinity", "-1")


def problems(limits: Sequence[Mapping[str, str]], most_files: Optional[int]) -> list[str]:
    found = []
    for limit in limits:
        place = f"limits: {limit['domain']} {limit['type']} {limit['item']} {limit['value']}"
        value = str(limit["value"])
        if not re.fullmatch(r"[^\s#]+", limit["domain"]):
            found.append(f"{place}: {limit['domain']!r} is no user, @group, %group or *")
        if limit["item"] not in ITEMS:
            found.append(f"{place}: {limit['item']!r} is none of {', '.join(sorted(ITEMS))}")
        if value not in ENDLESS and not re.fullmatch(r"-?\d+", value):
            found.append(f"{place}: {value!r} is no number and not unlimited")
        too_many = most_files and (value in ENDLESS or (value.isdigit() and int(value) > most_files))
        if limit["item"] == "nofile" and too_many:
            # setrlimit(2) fails then, and pam_limits(8), which is `required`, lets nobody in
            found.append(
                f"{place}: the kernel allows {most_files} (fs.nr_open), and whoever asks for more cannot log in at all"
            )
    return found


def out_of_reach(tree: Tree, limit: Mapping[str, str], may_raise: bool) -> Optional[str]:
    """Why no login gets this much here: what process 1 may not have, nobody below it gets, and nobody says so."""
    title, scale = ITEMS.get(limit["item"], (None, 1))
    value = str(limit["value"])
    if title is None or may_raise:
        return None
    match = re.search(rf"^{title}\s+\S+\s+(\d+)", tree.read("/proc/1/limits") or "", re.MULTILINE)
    if not match:  # without limit, or not told
        return None
    most = int(match.group(1))
    if value in ENDLESS or int(value) * scale > most:
        return f"process 1 has {most // scale} at most, and nobody may raise limits here (no CAP_SYS_RESOURCE)"
    return None


def text(limits: Sequence[Mapping[str, str]], header: str) -> Optional[str]:
    """None when there is nothing to say."""
    rows = [f"{limit['domain']} {limit['type']} {limit['item']} {limit['value']}" for limit in limits]
    return "\n".join([header, "# for logins; units take Limit...= of their own", *rows]) + "\n" if rows else None


def parse(content: str) -> list[tuple[str, str, str, str]]:
    rows = [line.split("#", 1)[0].split() for line in content.splitlines()]
    return [(row[0], row[1], row[2], row[3]) for row in rows if len(row) == 4]


def overridden(tree: Tree, limits: Sequence[Mapping[str, str]]) -> list[str]:
    """Lines of files that are read after ours and say something else about the same."""
    found = []
    for name in tree.listing(FOLDER):
        path = f"{FOLDER}/{name}"
        if not name.endswith(".conf") or path <= FILE:
            continue
        for domain, kind, item, value in parse(tree.read(path) or ""):
            for limit in limits:
                same = (limit["domain"], limit["item"]) == (domain, item)
                meets = "-" in (kind, limit["type"]) or kind == limit["type"]
                if same and meets and value != str(limit["value"]):
                    found.append(f"{path} is read later and says {domain} {kind} {item} {value}")
    return found


def applied(tree: Tree) -> bool:
    """Whether logins are told at all: PAM asks for it in files that distributions name differently."""
    return any(
        re.search(r"^\s*session\b.*\bpam_limits\.so\b", tree.read(f"/etc/pam.d/{name}") or "", re.MULTILINE)
        for name in tree.listing("/etc/pam.d")
    )
