# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTML elements. What is not made here is escaped, so no name out of a file can become markup."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_VOID = frozenset(("input", "meta"))


class Markup(str):
    """Text that is HTML already. Made by tag(), by joined(), and of constants of this collection only."""

    __slots__ = ()


def tag(element: str, /, *children: object, **attributes: object) -> Markup:
    """An element. class_ is class, aria_label is aria-label; None and False leave an attribute out."""
    told = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if element in _VOID:
        return Markup(f"<{element}{told}>")
    return Markup(f"<{element}{told}>{joined(children)}</{element}>")


def joined(children: Iterable[object]) -> Markup:
    return Markup("".join(child if isinstance(child, Markup) else escape(str(child)) for child in children))


def whole(title: str, style: str, policy: str, *body: Markup) -> str:
    """A page that has its style in it."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("title", title),
        tag("style", Markup(style)),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *body), lang='en')}\n"


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
