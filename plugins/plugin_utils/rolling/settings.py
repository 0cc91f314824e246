# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a roll is asked for: what the operator writes, as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.capacity import KINDS
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.refusals import Refusal, joined
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.fields import suggestion

_AMOUNT = re.compile(r"([0-9]{1,6})(%?)")


@dataclass(frozen=True)
class Settings:
    selected: frozenset[str]  # names of instances
    restart: frozenset[str]  # also when they run as planned
    batch: Mapping[str, int]
    canary: int
    min_healthy: Mapping[str, int]
    downtime: bool
    mix: bool


def read_settings(options: Mapping[str, Any], instances: Sequence[Mapping[str, Any]]) -> tuple[Settings, list[Refusal]]:
    """instances: those of the plan, with name and kind. What is wrong is read as its default, so that all shows."""
    found: list[Refusal] = []
    planned = {kind: sum(item["kind"] == kind for item in instances) for kind in KINDS}
    batch = {kind: _batch(options["batch"], planned[kind], found) for kind in KINDS}
    least = {kind: _least(options["min_healthy"].get(kind), kind, planned[kind], found) for kind in KINDS}
    if options["canary"] < 0:
        found.append(_invalid("canary", options["canary"], "a number from 0 on"))
    selected = _selected(options["only"], instances, found)
    settings = Settings(
        selected=selected,
        restart=selected if options["restart"] else frozenset(),
        batch=batch,
        canary=max(options["canary"], 0),
        min_healthy=least,
        downtime=options["downtime"],
        mix=options["mix"],
    )
    return settings, list(dict.fromkeys(found))


def _selected(only: Any, instances: Sequence[Mapping[str, Any]], found: list[Refusal]) -> frozenset[str]:
    words = [part.strip() for word in _words(only) for part in str(word).split(",")]
    wanted = [word for word in words if word]
    names = {item["name"] for item in instances}
    if not wanted:
        return frozenset(names)
    chosen: set[str] = set()
    for word in dict.fromkeys(wanted):
        if word in names:
            chosen.add(word)
        elif word in KINDS:
            chosen |= {item["name"] for item in instances if item["kind"] == word}
        else:
            known = [*sorted(names), *KINDS]
            fix = suggestion(word, known) or f"name some of {joined(known)}."
            found.append(Refusal("only-unknown", "only", f"there is no instance and no kind {word}.", fix))
    return frozenset(chosen)


def _words(only: Any) -> Iterable[Any]:
    return only if isinstance(only, list | tuple) else [only or ""]


def _batch(value: Any, planned: int, found: list[Refusal]) -> int:
    amount = _amount(value, planned, up=False)
    if amount is None or str(value).strip() in ("0", "0%"):
        found.append(_invalid("batch", value, "a number from 1 on, or a percentage such as 25%"))
        return 1
    return max(amount, 1)


def _least(value: Any, kind: str, planned: int, found: list[Refusal]) -> int:
    where = f"min_healthy.{kind}"
    amount = 1 if value is None else _amount(value, planned, up=True)
    if amount is None:
        found.append(_invalid(where, value, "a number from 1 on, or a percentage such as 50%"))
        return 1
    if amount < 1 <= planned:
        fix = "write at least 1, or say downtime=true (-e roll_downtime=true) to accept that nothing is served."
        message = f"{value} would leave no {kind} instance, and without one nothing is served."
        found.append(Refusal("setting-invalid", where, message, fix))
    return max(amount, 1)


def _amount(value: Any, planned: int, up: bool) -> int | None:
    match = _AMOUNT.fullmatch(str(value).strip())
    if not match:
        return None
    number = int(match[1])
    if not match[2]:
        return number
    if number > 100:
        return None
    return ceil(planned * number / 100) if up else planned * number // 100


def _invalid(where: str, value: Any, wanted: str) -> Refusal:
    return Refusal("setting-invalid", where, f"{value} is not {wanted}.", f"write {wanted}.")
