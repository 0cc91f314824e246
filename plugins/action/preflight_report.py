# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge the facts of all hosts against the plan, once, on the controller; show and write the report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.mooncake.pd.plugins.plugin_utils.controller_files import (
    FilesError,
    Reports,
    folder,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.judge import PROBES, judge
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import LEFT_OUT
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import FAMILIES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import document, junit, page, text
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.verdict import Verdict

ARGUMENTS: dict[str, Any] = {
    "dest": {"type": "path"},
    "families": {"type": "list", "elements": "str", "choices": list(FAMILIES), "default": list(FAMILIES)},
    "facts": {"type": "path"},
    "results": {
        "type": "dict",
        "default": {},
        "options": {probe: {"type": "list", "elements": "str", "default": []} for probe in ("told", *PROBES)},
    },
}
SCHEMA = 1  # of facts.json
_COLOURS = {
    "title": "bright blue",
    "error": "red",
    "warning": "bright purple",
    "notice": "cyan",
    "good": "green",
    "plain": None,
    "dim": "dark gray",
}

display = Display()

Facts = dict[str, dict[str, Any]]


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENTS)
        planned = list(task_vars.get("groups", {}).get("pd") or ())
        if not planned:
            raise AnsibleActionFail("The inventory gives no host in group pd, so there is nothing to judge.")
        seen = _Seen(task_vars, planned, options["results"])
        families = _tagged(options["families"], task_vars)
        if options.get("facts"):
            facts, absent, recorded = _read(Path(options["facts"]))
            families = [family for family in families if family in recorded]
        else:
            facts, absent = seen.facts()
        verdict = judge(seen.cluster, seen.plans, facts, _only(absent, seen.plans, facts), families)
        content = document.document(verdict)

        for line in text.lines(content):
            display.display(line.text, color=_COLOURS[line.style])
        dest = Path(options.get("dest") or Path("preflight", folder(verdict.cluster))).absolute()
        try:
            texts = {
                dest / "preflight.json": document.to_json(content),
                dest / "junit.xml": junit.junit(content),
                dest / "preflight.html": page.page(content),
            }
            # what was seen is not replaced by what somebody sent, nor by a part of it
            if not options.get("facts"):
                texts[dest / "facts.json"] = _facts_json(verdict, facts, absent)
            reports = Reports.outside(task_vars.get("ansible_inventory_sources") or (), dest, texts)
            if not self._task.check_mode:
                reports.write()
        except FilesError as error:
            raise AnsibleActionFail(str(error)) from None
        for said in reports.said(self._task.check_mode):
            display.display(said)
        summary = content["summary"]
        # the files tell of this moment: writing them again changes nothing that anybody set
        result.update(changed=False)
        if not verdict.families or not facts:
            result.update(failed=True, msg=_nothing(options["families"]))
        elif summary["errors"]:
            result.update(failed=True, msg=_failure(verdict, summary, dest))
        else:
            result.update(summary=summary, files=reports.results())
        return result


class _Seen:
    """What the hosts answered. Raw, for nothing in it is a template and 1,000 hosts are many."""

    def __init__(self, task_vars: Mapping[str, Any], planned: list[str], results: Mapping[str, list[str]]) -> None:
        self.hostvars = task_vars["hostvars"]
        self.played = frozenset(task_vars.get("ansible_play_hosts_all") or ())
        self.results = results
        self.variables = {name: self.hostvars.raw_get(name) for name in planned}
        self.plans = {name: variables["pd_host"] for name, variables in self.variables.items()}
        self.cluster = self.variables[planned[0]]["pd_cluster"]

    def facts(self) -> tuple[Facts, dict[str, str]]:
        facts: Facts = {}
        absent: dict[str, str] = {}
        for name, variables in self.variables.items():
            if name not in self.played:
                absent[name] = LEFT_OUT
                continue
            unreachable = next(self._unreachable(variables), None)
            if unreachable is not None:
                absent[name] = unreachable
            elif own := self._of_host(variables):
                facts[name] = own
            else:
                absent[name] = "it was lost before it could be looked at"
        return facts, absent

    def _unreachable(self, variables: Mapping[str, Any]) -> Iterator[str]:
        for registered in (name for names in self.results.values() for name in names):
            answer = variables.get(registered) or {}
            if answer.get("unreachable"):
                yield f"it cannot be reached: {' '.join(str(answer.get('msg', '')).split())}"

    def _of_host(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        found = {probe: seen for probe in PROBES if (seen := self._probe(variables, probe)) is not None}
        told = [line for name in self.results["told"] for line in _told(variables.get(name) or {})]
        return {**found, "told": told} if told else found

    def _probe(self, variables: Mapping[str, Any], probe: str) -> dict[str, Any] | None:
        """What the module of a probe returned; of several calls the later one knows more."""
        found: dict[str, Any] | None = None
        for registered in self.results[probe]:
            answer = variables.get(registered)
            if not answer or answer.get("skipped"):
                continue
            if probe in answer:
                found = answer[probe]
            else:
                found = {**(found or {}), "unknown": [*(found or {}).get("unknown", ()), _broken(probe, answer)]}
        return found


def _told(answer: Mapping[str, Any]) -> list[str]:
    refused = answer.get("failed") or answer.get("evaluated_to", True) is False
    return [line for line in str(answer.get("msg", "")).splitlines() if line.strip()] if refused else []


def _broken(probe: str, answer: Mapping[str, Any]) -> dict[str, str]:
    raw = str(answer.get("exception") or answer.get("module_stderr") or answer.get("module_stdout") or "")
    why = " ".join(str(answer.get("msg") or "its result holds no facts").split())
    return {"what": "", "why": f"{probe}_info failed: {why}", "raw": raw[-2000:]}


def _only(absent: Mapping[str, str], plans: Mapping[str, Any], facts: Facts) -> dict[str, str]:
    """Hosts of the plan; one that recorded facts say nothing of is absent, too."""
    return {
        name: absent.get(name, "the recorded facts do not have it")
        for name in plans
        if name in absent or name not in facts
    }


def _tagged(families: list[str], task_vars: Mapping[str, Any]) -> list[str]:
    """With --tags ports only what was looked at for it is judged."""
    tags = set(task_vars.get("ansible_run_tags") or ["all"])
    skipped = set(task_vars.get("ansible_skip_tags") or ())
    return [family for family in families if ("all" in tags or family in tags) and family not in skipped]


def _read(path: Path) -> tuple[Facts, dict[str, str], list[str]]:
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        if recorded["schema"] != SCHEMA:
            raise ValueError(f"schema {recorded['schema']} instead of {SCHEMA}")
        return recorded["hosts"], recorded["absent"], recorded["families"]
    except OSError as error:
        raise AnsibleActionFail(f"facts: {path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise AnsibleActionFail(
            f"facts: {path} holds no facts of preflight ({error}). Mend: name a facts.json that preflight wrote."
        ) from None


def _facts_json(verdict: Verdict, facts: Facts, absent: Mapping[str, str]) -> str:
    content = {
        "schema": SCHEMA,
        "cluster": verdict.cluster,
        "families": verdict.families,
        "absent": absent,
        "hosts": facts,
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=str) + "\n"


def _nothing(families: list[str]) -> str:
    return (
        f"Nothing was judged: of {', '.join(families)} the plan has nothing that this run has looked at. "
        f"Mend: --tags takes {', '.join(FAMILIES)}; without it all is looked at."
    )


def _failure(verdict: Verdict, summary: Mapping[str, Any], dest: Path) -> str:
    rules = dict.fromkeys(finding.rule for finding in verdict.findings if finding.severity == "error")
    many = "s" if summary["errors"] != 1 else ""
    return (
        f"Preflight found {summary['errors']} error{many} ({', '.join(rules)}); nothing was changed. "
        f"The report is above, and in {dest}/preflight.html."
    )
