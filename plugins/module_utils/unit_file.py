# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Render a systemd service from an argument vector, an environment and sections, quoted so that systemd reads the same.

Rules: systemd.service(5) "COMMAND LINES", systemd.unit(5) "SPECIFIERS", systemd.exec(5) "Environment=".
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.unit_log import START_MARK, log_path, stem

HEADER = "# Managed by mooncake.pd: changes by hand are lost"
UNIT_DIR = "/etc/systemd/system"
PREVIOUS = ".previous"  # after the name of a unit: systemd loads no such file
STARTS = ("started", "previous")

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./$-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_EXECUTABLE = re.compile(r"/[A-Za-z0-9_@+=:,./-]*[A-Za-z0-9_@+=:,.-]")
_NAME = re.compile(r"[A-Za-z0-9:_.-]+\.service")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECTION = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
# What the units cannot do without stays; what a caller gives for these keys comes after it.
_ADDED = {("Service", "Environment"), ("Service", "ExecStartPre"), ("Service", "RuntimeDirectory")}
# Where the log goes is log_dir's to say: readiness reads it there.
_REFUSED = {("Service", "StandardOutput"), ("Service", "StandardError"), ("Service", "ExecStart")}


class UnitFileError(ValueError):
    """Something systemd could not be told truthfully."""


@dataclass(frozen=True)
class Rendered:
    name: str
    text: str
    digest: str


def _checked(text: str, what: str) -> str:
    match = _CONTROL.search(text)
    if match:
        raise UnitFileError(f"{what} holds the character U+{ord(match.group()):04X} (line break, tab or the like)")
    return text


def _quote(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    mark = "'" if '"' in text and "'" not in text else '"'  # keeps JSON readable
    return mark + text.replace("\\", "\\\\").replace(mark, "\\" + mark) + mark


def quote_argument(value: str, what: str = "argv") -> str:
    """One word of ExecStart: no specifier, no variable is expanded in it."""
    return _quote(_checked(value, what).replace("%", "%%").replace("$", "$$"))


def quote_assignment(name: str, value: Any, what: str = "environment") -> str:
    """One assignment of Environment=, where $ means nothing and % still does."""
    if not _VARIABLE.fullmatch(name):
        raise UnitFileError(f"{what}: {name!r} is no name of an environment variable")
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UnitFileError(f"{what}.{name}: {value!r} is no text; put it in quotes as the program should see it")
    return _quote(f"{name}={_checked(str(value), f'{what}.{name}')}".replace("%", "%%"))


def command_line(argv: Sequence[str], executable_dir: Optional[str], what: str) -> str:
    if not argv:
        raise UnitFileError(f"{what} is empty: it needs at least the program")
    program = argv[0]
    if not program.startswith("/"):
        if not executable_dir:
            raise UnitFileError(f"{what}[0] {program!r} is relative: give its full path or set executable_dir")
        program = posixpath.join(executable_dir, program)
    if not _EXECUTABLE.fullmatch(program):
        raise UnitFileError(f"{what}[0] {program!r} is no plain absolute path (letters, digits and _@+=:,.- only)")
    words = [program]
    for index, word in enumerate(argv[1:], 1):
        words.append(quote_argument(word, f"{what}[{index}]"))
    return " ".join(words)


def _setting(value: Any, what: str) -> list[str]:
    values = value if isinstance(value, (list, tuple)) else [value]
    texts = []
    for given in values:
        item = ("no", "yes")[given] if isinstance(given, bool) else given
        if not isinstance(item, (str, int, float)):
            raise UnitFileError(f"{what}: {item!r} is no text, number, boolean or list of them")
        texts.append(_checked(str(item), what))
    return texts


def _start_marks(name: str, log_dir: Optional[str]) -> str:
    """Leave the digest of the unit file that starts in the runtime folder, and mark the log.

    The file itself is read, so that one changed by hand shows. The runtime folder goes when the unit stops.
    """
    # Variables are doubled ($$), as the shell and not systemd is to expand them; so is %, for printf.
    script = f'd=$$(sha256sum < {UNIT_DIR}/{name} | cut -c -64); echo "$$d" > /run/mooncake-pd/{stem(name)}/digest'
    if log_dir:
        script += (
            f'; printf "%%s unit=%%s invocation=%%s digest=%%.12s\\n" "{START_MARK}" {name} "$$INVOCATION_ID" "$$d"'
        )
    return "/bin/sh -ec '" + script.replace("\\", "\\\\") + "'"


def _merge(sections: dict[str, dict[str, list[str]]], more: Mapping[str, Any], what: str) -> None:
    for section, settings in more.items():
        if not _SECTION.fullmatch(section) or not isinstance(settings, Mapping):
            raise UnitFileError(f"{what}.{section}: expected a section name (Unit, Service, Install) with its settings")
        target = sections.setdefault(section, {})
        for key, value in settings.items():
            place = f"{what}.{section}.{key}"
            if not _SECTION.fullmatch(str(key)):
                raise UnitFileError(f"{place}: no name of a setting")
            if (section, key) in _REFUSED:
                raise UnitFileError(f"{place}: set by this module (argv, log_dir)")
            if (section, key) in _ADDED:
                target[key] = target.get(key, []) + ([] if value is None else _setting(value, place))
            elif value is None:
                target.pop(key, None)
            else:
                target[key] = _setting(value, place)


def render(
    unit: Mapping[str, Any],
    executable_dir: Optional[str] = None,
    defaults: Optional[Mapping[str, Any]] = None,
    environment: Optional[Mapping[str, Any]] = None,
    log_dir: Optional[str] = None,
) -> Rendered:
    name = check_name(unit["name"])
    if log_dir and not _EXECUTABLE.fullmatch(log_dir):
        raise UnitFileError(f"log_dir {log_dir!r} is no plain absolute path")
    variables = {**(unit.get("environment") or {}), **(environment or {})}
    service: dict[str, list[str]] = {
        "Type": ["exec"],
        "Environment": [quote_assignment(key, variables[key]) for key in sorted(variables)],
        "RuntimeDirectory": ["mooncake-pd/%N"],
        "ExecStartPre": [_start_marks(name, log_dir)],
        "ExecStart": [command_line(unit.get("argv") or [], executable_dir, "argv")],
        # SIGTERM to the main process, which drains; what is left of the group is killed, so no orphan keeps a device.
        "KillMode": ["mixed"],
    }
    if unit.get("timeout_stop") is not None:
        service["TimeoutStopSec"] = [str(unit["timeout_stop"])]
    if log_dir:
        service["StandardOutput"] = [f"append:{log_path(log_dir, name)}"]
        service["StandardError"] = ["inherit"]
    sections: dict[str, dict[str, list[str]]] = {
        "Unit": {
            "Description": [_checked(unit.get("description") or name, "description").replace("%", "%%")],
            "Wants": ["network-online.target"],
            "After": ["network-online.target"],
        },
        "Service": service,
        "Install": {"WantedBy": ["multi-user.target"]},
    }
    _merge(sections, defaults or {}, "defaults")
    _merge(sections, unit.get("sections") or {}, "sections")

    blocks = []
    for section, settings in sections.items():
        rows = [f"{key}={value}" for key, values in settings.items() for value in values]
        if rows:
            blocks.append("\n".join([f"[{section}]", *rows]) + "\n")
    text = f"{HEADER}\n" + "\n".join(blocks)
    for row in text.splitlines():
        if row.endswith("\\"):
            raise UnitFileError(f"the line {row!r} ends with a backslash, which systemd takes for a continuation")
    return Rendered(name, text, digest(text))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UnitFileError(f"{name!r} is no plain name of a service (like mooncake-pd-p1.service)")
    return name


def is_ours(text: str) -> bool:
    return text.startswith(HEADER + "\n")


START, RESTART, STOP, OUTDATED, NOTHING = "start", "restart", "stop", "outdated", "nothing"


def decide(state: str, on_change: str, running: bool, runs_digest: Optional[str], planned: Optional[str]) -> str:
    """What to do with one unit. A running one that does not say what it runs is taken to run something else."""
    if state in ("stopped", "absent"):
        return STOP if running else NOTHING
    if running and runs_digest != planned:
        return RESTART if state in STARTS and on_change == "restart" else OUTDATED
    return START if state in STARTS and not running else NOTHING
