# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where each key of a YAML file stands."""

from __future__ import annotations

from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def line_map(text: str) -> tuple[dict[str, int], list[str]]:
    """The line of every key, as {"prefill[0].host": 14}, and the keys that are written twice.

    YAML lets the last of two equal keys win in silence, so a copied host would replace another one.
    """
    lines: dict[str, int] = {}
    twice: list[str] = []
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError:
        return lines, twice  # the loader of the inventory reports it, with its own line
    # a list instead of recursion: an alias may point to an ancestor, so a node is never entered twice
    todo: list[tuple[str, Any]] = [("", root)]
    entered: set[int] = set()
    while todo:
        path, node = todo.pop()
        if node is None or id(node) in entered:
            continue
        entered.add(id(node))
        if isinstance(node, yaml.MappingNode):
            here: set[str] = set()
            for key, value in node.value:
                place = f"{path}.{key.value}" if path else str(key.value)
                if place in here:
                    twice.append(place)
                here.add(place)
                lines[place] = key.start_mark.line + 1
                todo.append((place, value))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                place = f"{path}[{index}]"
                lines[place] = value.start_mark.line + 1
                todo.append((place, value))
    return lines, sorted(twice)
