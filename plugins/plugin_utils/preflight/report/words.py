# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes out of hosts, made fit to be shown: no control characters reach a terminal, a file or a page."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import names

EVIDENCE = 160  # characters of it that are shown in one line


def printable(text: str) -> str:
    """Line ends and tabs stay; the rest of what cannot be seen is shown as an escape."""
    if text.isprintable():
        return text
    return "".join(char if _seen(char) else ascii(char)[1:-1] for char in text)


def one_line(text: str, most: int = 0) -> str:
    told = printable(" ".join(text.split()))
    return told if not most or len(told) <= most else f"{told[: most - 3]}..."


def counted(count: int, one: str) -> str:
    return f"{count} {one}{'' if count == 1 else 's'}"


def where(hosts: Iterable[str | None], widest: int = names.WIDEST) -> str:
    found = list(dict.fromkeys(hosts))
    named = [one_line(host) for host in found if host is not None]
    told = [names.FLEET] if None in found else []
    return ", ".join([*told, *([names.shortened(named, widest)] if named else [])])


def by_what(findings: Iterable[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Each different text with the findings that say it, the most frequent first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        found.setdefault(finding["what"], []).append(finding)
    return sorted(found.items(), key=lambda item: -len(item[1]))


def _seen(char: str) -> bool:
    return char in "\n\t" or char.isprintable() or unicodedata.category(char) == "Zs"
