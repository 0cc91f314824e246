# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which releases a key is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

Span = tuple[str, "str | None"]  # first release that knows it, first one that no longer does


@dataclass(frozen=True)
class Key:
    spans: tuple[Span, ...]
    instead: str = ""

    def known(self, version: str) -> bool:
        return any(within(span, version) for span in self.spans)

    def gone(self, version: str) -> str | None:
        """The release that dropped it, when that lies behind and no later one took it up before this version."""
        past = [until for _since, until in self.spans if until and at_least(version, until)]
        return past[-1] if past else None

    def comes(self, version: str) -> str | None:
        return next((since for since, _until in self.spans if not at_least(version, since)), None)


def within(span: Span, version: str) -> bool:
    return at_least(version, span[0]) and not (span[1] and at_least(version, span[1]))


def since(first: str, until: str | None = None, instead: str = "") -> Key:
    return Key(((first, until),), instead)


def way_out(key: str, keys: Mapping[str, Key], version: str) -> str:
    known = keys.get(key)
    if known:
        return known.instead or "leave it out."
    close = get_close_matches(key, [name for name, entry in keys.items() if entry.known(version)], n=1)
    return f"did you mean {close[0]}?" if close else "leave it out."
