# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the measurements of all pairs with the last good ones, once, on the controller; show and archive them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.mooncake.pd.plugins.plugin_utils import baseline
from ansible_collections.mooncake.pd.plugins.plugin_utils.controller_files import (
    FilesError,
    Reports,
    folder,
)

ARGUMENTS: dict[str, Any] = {
    "cluster": {"type": "str", "required": True},
    **{name: {"type": "str", "default": f"__baseline_{name}"} for name in ("peer", "target", "measured", "pinged")},
    "dest": {"type": "path"},
    "bandwidth_drop": {"type": "float", "default": 20},
    "latency_rise": {"type": "float", "default": 50},
    "accept": {"type": "bool", "default": False},
    "strict": {"type": "bool", "default": False},
}
_COLOURS = {
    "title": "bright blue",
    baseline.WORSE: "bright purple",
    baseline.UNMEASURED: "red",
    baseline.ABSENT: "dark gray",
    baseline.GOOD: "green",
}

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENTS)
        result["changed"] = False
        if self._task.check_mode:
            return {**result, "skipped": True, "msg": "check mode measures nothing"}
        pairs = list(_pairs(task_vars, options))
        home = Path(options.get("dest") or Path("baseline", folder(options["cluster"]))).absolute()
        kept = home / "last-good.json"
        last = _read(kept)
        limits = baseline.Limits(options["bandwidth_drop"] / 100, options["latency_rise"] / 100)
        rows = baseline.compare(pairs, last, limits)
        run = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())
        texts = {home / run / f"{folder(pair['pair'])}.json": _json({**pair, "run": run}) for pair in pairs}
        fresh = baseline.new_last_good(pairs, rows, last, run, options["accept"])
        if fresh["pairs"]:
            texts[kept] = _json(fresh)
        try:
            reports = Reports.outside(task_vars.get("ansible_inventory_sources") or (), home, texts)
            reports.write()
        except FilesError as error:
            raise AnsibleActionFail(str(error)) from None

        for text, state in baseline.table(rows) if rows else [("no pair of hosts was measured", "title")]:
            display.display(text, color=_COLOURS.get(state))
        if pairs:
            display.display(f"{home / run}  written, compared with {kept if last else 'nothing: it is the first'}")
        worse = [row for row in rows if row.state == baseline.WORSE]
        for row in worse:
            display.warning(f"{row.pair} {row.plane} ({row.tool}): {row.why}")
        result.update(
            rows=[row.as_dict() for row in rows],
            files=reports.results(),
            first=last is None,
        )
        failures = baseline.failures(rows, options["strict"])
        if failures:
            advice = " A worse run that is to stay becomes the baseline with baseline_accept=true." if worse else ""
            result.update(failed=True, msg="; ".join(failures) + "." + advice)
        return result


def _pairs(task_vars: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """What the hosts of this play registered. Raw, for nothing in it is a template."""
    hostvars = task_vars["hostvars"]
    for source in task_vars.get("ansible_play_hosts_all") or ():
        variables = hostvars.raw_get(source)
        peer = variables.get(names["peer"])
        if peer:
            results = list(_results(variables, names))
            yield {"pair": baseline.pair_name(source, peer), "source": source, "peer": peer, "results": results}


def _results(variables: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Every pair has one: a host that got lost on the way has not measured, and that is told."""
    told = False
    for key, tool in (("measured", "transfer_bench"), ("pinged", "hccn_info")):
        answer = variables.get(names[key]) or {}
        if "bench" in answer:
            yield from answer["bench"]["results"]
            told = True
        elif "hccn" in answer:
            yield baseline.npu_result(answer["hccn"]["pings"], answer["hccn"]["unknown"])
            told = True
        elif answer and not answer.get("skipped"):
            yield _broken(tool, answer)
            told = True
    if not told:
        yield _broken("transfer_target", variables.get(names["target"]) or {})


def _broken(tool: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    why = " ".join(str(answer.get("msg") or "the run ended before").split())
    blank: dict[str, Any] = {"bandwidth": None, "latency": None, "settings": {}, "optional": False}
    return {"plane": "-", "tool": tool, **blank, "problem": why}


def _read(path: Path) -> dict[str, Any] | None:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise AnsibleActionFail(f"{path} cannot be read: {error}. Mend: restore it, or move it away.") from None
    if not isinstance(told, dict) or told.get("schema") != baseline.SCHEMA:
        raise AnsibleActionFail(f"{path} was not written by this version. Mend: move it away to begin anew.")
    return told


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"
