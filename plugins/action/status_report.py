# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put together what was seen of all hosts, once, on the controller; show it and write it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
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
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.table import joined
from ansible_collections.mooncake.pd.plugins.plugin_utils.status import document, text
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.seen import LEFT_OUT, Seen, instances_of

REGISTERED = ("units", "uncompared", "asked", "engines", "routers")
ARGUMENTS: dict[str, Any] = {
    **{name: {"type": "str", "default": f"__status_{name}"} for name in REGISTERED},
    "etcd": {"type": "str", "default": "__etcd_asked"},
    "running": {"type": "str", "default": "instance_running"},
    "dest": {"type": "path"},
    "format": {"type": "str", "choices": ["text", "json"], "default": "text"},
    "every": {"type": "bool", "default": False},
}
_COLOURS = {
    "title": "bright blue",
    "good": "green",
    "bad": "red",
    "notice": "cyan",
    "plain": None,
    "dim": "dark gray",
}

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENTS)
        planned = list(task_vars.get("groups", {}).get("pd") or ())
        if not planned:
            raise AnsibleActionFail("The inventory gives no host in group pd, so there is nothing to tell of.")
        content = document.document(_seen(task_vars, planned, options))
        dest = Path(options.get("dest") or Path("status", folder(content["cluster"]))).absolute()
        reports = _reports(dest, content, task_vars)
        if options["format"] == "text":
            for line in joined(text.lines(content, options["every"])):
                display.display(line.text + "\n" * line.text.endswith("\n"), color=_COLOURS[line.style])
        if not self._task.check_mode:
            try:
                reports.write()
            except FilesError as error:
                raise AnsibleActionFail(str(error)) from None
        # the file tells of this moment: writing it again changes nothing that anybody set
        result.update(changed=False)
        if options["format"] == "json":
            # shown without -v too
            result.update(status=content, _ansible_verbose_always=True)
        if content["ok"]:
            result.update(summary=content["summary"], files=reports.results())
        else:
            result.update(failed=True, msg=_failure(content, dest))
        return result


def _seen(task_vars: Mapping[str, Any], planned: Sequence[str], options: Mapping[str, Any]) -> Seen:
    """What the tasks before registered. Raw, for nothing in it is a template and 1,000 hosts are many."""
    hostvars = task_vars["hostvars"]
    variables = {name: hostvars.raw_get(name) for name in planned}
    # the router's host has it; without one, the plan of every host tells the same
    listed = next((own["pd_instances"] for own in variables.values() if "pd_instances" in own), None)
    plans = {name: own["pd_host"] for name, own in variables.items()}
    answers = {name: own.get(options["units"]) or {} for name, own in variables.items()}
    played = frozenset(task_vars.get("ansible_play_hosts_all") or ())
    engines = list(_answers(variables, options["engines"], "instances"))
    routers = list(_answers(variables, options["routers"], "routers"))
    # that nobody answers is an answer, too
    etcd = [one for own in variables.values() if "answering" in (one := own.get(options["etcd"]) or {})]
    engines_unknown, routers_unknown, etcd_unknown = (
        next(_broken(variables, options[name]), "no host that could ask was reached")
        for name in ("engines", "routers", "etcd")
    )
    return Seen(
        cluster=variables[planned[0]]["pd_cluster"],
        instances=instances_of(plans) if listed is None else listed,
        plans=plans,
        units={name: answer for name, answer in answers.items() if "units" in answer},
        absent={
            name: _why(answer) if name in played else LEFT_OUT
            for name, answer in answers.items()
            if "units" not in answer
        },
        running={name: own[options["running"]] for name, own in variables.items() if own.get(options["running"])},
        uncompared={
            name: " ".join(str(own[options["uncompared"]]).split())
            for name, own in variables.items()
            if own.get(options["uncompared"])
        },
        asked={name: dict(_asked(own.get(options["asked"]) or {})) for name, own in variables.items()},
        engines=engines[0]["instances"] if engines else None,
        engines_unknown=engines_unknown,
        routers=routers[0] if routers else None,
        routers_unknown=routers_unknown,
        # any of those that saw most of it
        etcd=max(etcd, key=lambda one: len(one["answering"]), default=None),
        etcd_unknown=etcd_unknown,
        now=time.time(),
    )


def _answers(variables: Mapping[str, Mapping[str, Any]], name: str, key: str) -> Iterator[Mapping[str, Any]]:
    for own in variables.values():
        answer = own.get(name) or {}
        if answer.get(key):
            yield answer


def _broken(variables: Mapping[str, Mapping[str, Any]], name: str) -> Iterator[str]:
    for own in variables.values():
        answer = own.get(name) or {}
        if answer and not answer.get("skipped"):
            yield _why(answer)


def _why(answer: Mapping[str, Any]) -> str:
    if not answer:
        return "it was lost before it could be looked at"
    why = " ".join(str(answer.get("msg") or "its result tells nothing").split())
    return f"it cannot be reached: {why}" if answer.get("unreachable") else why


def _asked(answer: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Results of a loop of ansible.builtin.uri over processes."""
    for each in answer.get("results") or ():
        if isinstance(each.get("item"), Mapping) and not each.get("skipped"):
            status = each.get("status")
            yield str(each["item"]["name"]), {"ok": status == 200, "why": _why(each), "json": each.get("json")}


def _reports(dest: Path, content: document.Document, task_vars: Mapping[str, Any]) -> Reports:
    try:
        sources = task_vars.get("ansible_inventory_sources") or ()
        return Reports.outside(sources, dest, {dest / text.FILE: document.to_json(content)})
    except FilesError as error:
        raise AnsibleActionFail(str(error)) from None


def _failure(content: document.Document, dest: Path) -> str:
    rules = dict.fromkeys(each["rule"] for each in content["problems"] if each["severity"] == "error")
    told = f" ({', '.join(rules)})" if rules else ""
    return f"Status of {content['cluster']}: {text.conclusion(content)}{told}. Everything stands in {dest / text.FILE}."
