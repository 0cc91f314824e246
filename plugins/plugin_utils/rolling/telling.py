# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A roll in sentences: what is about to happen, and what is worth knowing beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.refusals import joined
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.settings import Settings
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.state import Seen
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.waves import Wave

SHOWN = 8  # names and changes of a kind that a sentence tells


def resumed(done: Collection[str] | None, began: object) -> Iterator[str]:
    if done is not None:
        who = f"{joined(sorted(done))} {'was' if len(done) == 1 else 'were'}" if done else "nothing was"
        yield f"The interrupted restart of {began} goes on; {who} restarted by it already."


def notes(seen: Sequence[Seen], todo: Sequence[Seen], out: frozenset[str]) -> Iterator[str]:
    touched = {item.name for item in todo}
    for item in seen:
        if item.name in touched:
            continue
        if item.new:
            yield f"{item.name} was never started, which is not a roll's to do: scale.yml or site.yml starts it."
            continue
        if item.out:
            yield f"{item.name} is out of the router and stays there, because this run leaves it out."
        elif len(item.left_out) == len(item.hosts):
            yield f"{item.name} is left out by --limit."
        elif item.old:
            yield f"{item.name} runs something else than planned and is left out by only."
        if item.healthy is not True and not item.out:
            state = "is not healthy" if item.healthy is False else "did not say whether it is healthy"
            why = f" ({joined(item.problems, 2)})" if item.problems else ""
            yield f"{item.name} {state}{why} and does not count as one that serves."
    gone = sorted(out - {item.name for item in seen})
    if gone:
        yield f"The routers leave out {joined(gone)}, of which the plan knows nothing."


def summary(waves: Sequence[Wave], planned: int, settings: Settings) -> str:
    if not waves:
        some = len(settings.selected) < planned
        who = f"the {len(settings.selected)} selected of {planned}" if some else f"all {planned}"
        return f"Nothing to do: {who} instances run what is planned and are in the router."
    shown = "; ".join(wave.name for wave in waves[:SHOWN])
    more = f" and {len(waves) - SHOWN} more" if len(waves) > SHOWN else ""
    restarted = sum(len(wave.restart) for wave in waves)
    return (
        f"{len(waves)} wave{'s' if len(waves) > 1 else ''} for {sum(len(wave.names) for wave in waves)} of {planned} "
        f"instances, {restarted} restarted: {shown}{more}."
    )
