# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A restart of what runs as planned, interrupted: what it has restarted already is not due again. Pure.

What ran when it began is noted by systemd's id of each start. No clocks are compared, for those of hosts differ, and
nothing has to be noted in between: whatever has another id was started since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.state import Running

Starts = dict[str, dict[str, str]]  # by instance and process, the id of its start; empty when it does not run


def starts(instances: Iterable[Mapping[str, Any]], names: Collection[str], running: Running) -> Starts:
    """instances: of the plan, with name and processes; names: those that count."""
    told: dict[tuple[str, str], str] = {
        (host, state["name"]): str(state.get("invocation_id") or "") if state["active"] else ""
        for host, states in running.items()
        for state in states
    }
    return {
        item["name"]: {process["name"]: told.get((process["host"], process["name"]), "") for process in _own(item)}
        for item in instances
        if item["name"] in names
    }


def restarted(noted: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> frozenset[str]:
    """Instances of which every process runs in another start than the noted one. What is not known is none."""
    return frozenset(name for name, own in now.items() if name in noted and _anew(noted[name], own))


def resume(noted: Any, now: Starts, selected: Collection[str], needing: Collection[str]) -> frozenset[str] | None:
    """What an interrupted restart of the same instances has done already; None when there is none to go on with.

    now: without those of selected that --limit leaves out, as it does while a host is lost. needing: what has to be
    rolled anyway. While there is such a thing, one that has restarted all is not over.
    """
    if not isinstance(noted, Mapping) or not {*now} <= {*noted} <= {*selected}:
        return None
    done = restarted(noted, now)
    return None if done == {*now} and not needing else done


def _anew(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    return bool(after) and all(start and start != before.get(process) for process, start in after.items())


def _own(item: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    processes: Sequence[Mapping[str, Any]] = item["processes"]
    return processes
