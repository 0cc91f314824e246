# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Problems with what the arithmetic is given: all of them in one error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Problem


class CapacityError(Exception):
    """Nothing can be told; the text is every problem."""

    def __init__(self, problems: list[tuple[str, Problem]]) -> None:
        self.problems = tuple(problem for _source, problem in problems)
        count = len(problems)
        head = f"The capacity cannot be told, {count} problem{'s' if count != 1 else ''}:"
        super().__init__("\n".join([head, *(f"  {problem.text(source)}" for source, problem in problems)]))


@dataclass
class Faults:
    found: list[tuple[str, Problem]] = field(default_factory=list)

    def add(self, source: str, where: str, rule: str, message: str, fix: str) -> None:
        self.found.append((source, Problem(rule, where, message, fix)))

    def raise_all(self) -> None:
        if self.found:
            raise CapacityError(self.found)

    def whole(self, source: str, raw: Mapping[str, Any], names: tuple[str, ...], least: int = 1) -> int | None:
        """The first of these keys that is set, if it is a whole number; another thing is a fault, and so is none."""
        name = next((key for key in names if raw.get(key) is not None), None)
        if name is None:
            self.add(source, names[0], "config-missing", "is not there, and the arithmetic rests on it.", COMPLETE)
            return None
        return self.number(source, name, raw[name], least)

    def number(self, source: str, where: str, value: Any, least: int = 1, fix: str = "") -> int | None:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            message = f"has to be a whole number of at least {least}, not {shown(value)}."
            self.add(source, where, "config-number" if fix == "" else "number", message, fix or CORRECT)
            return None
        return int(value)


COMPLETE = (
    "give the whole config.json of the model as the engine reads it; of a checkpoint that leaves defaults out, "
    "AutoConfig.from_pretrained(PATH).to_json_string(use_diff=False) writes them all."
)
CORRECT = "compare it with the config.json that was published with the model."


def shown(value: Any) -> str:
    text = repr(str(value) if isinstance(value, str) else value)
    return text if len(text) <= 40 else f"{text[:37]}..."
