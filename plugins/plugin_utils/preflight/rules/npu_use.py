# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses the NPUs of the plan, and whether enough of their memory is left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import npu as view
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import ENGINES, Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import GIB, MIB, size, some
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import UNIT_PREFIX

# A process that only opened the NPU holds about 130 MB (vllm-ascend issues with npu-smi tables of leftovers)
_CONTEXT = 500 * MIB
# 2.9 to 3.5 GB are in use on an idle NPU
_IDLE = 5 * GIB
_BUSY = 5  # percent
# vLLM up to 0.32.0: --gpu-memory-utilization, 0.9 or 0.92 by release; the smaller asks for less
_UTILIZATION = 0.9
_LEFTOVERS = (
    "https://github.com/vllm-project/vllm/issues/34643; https://github.com/vllm-project/vllm-ascend/issues/8972"
)


def _foreign(host: Host) -> dict[int, list[Mapping[str, Any]]]:
    """Planned chip -> processes on it that are none of the plan's units."""
    found: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for process in host.each("npu.processes") if host.ascend else ():
        if process["chip"] in host.devices and not view.is_own(host, process):
            found[process["chip"]].append(process)
    return found


@rule(
    "npu-foreign-process",
    family="npu",
    about="the NPUs of the plan are not used by others",
    why="An engine takes nearly all memory of its NPUs and ends at the start when it is not there.",
    source=_LEFTOVERS,
    cases=("C-026", "C-056", "C-006"),
)
def npu_foreign_process(host: Host) -> Iterator[Found]:
    by_pid: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for processes in _foreign(host).values():
        for process in processes:
            by_pid[process["pid"]].append(process)
    # one finding for all that are stopped in one way
    by_way: dict[tuple[str, str], list[int]] = defaultdict(list)
    for pid, processes in by_pid.items():
        most = max((process["memory"] or 0 for process in processes), default=0)
        unsure = any(process["memory"] is None for process in processes)
        severity = "error" if unsure or most >= _CONTEXT else "warning"
        by_way[_way_out(processes[0]), severity].append(pid)
    for (fix, severity), pids in by_way.items():
        numbers = [process["chip"] for pid in pids for process in by_pid[pid]]
        yield Found(
            what=f"{view.told(numbers)} {view.are(numbers)} used by {len(pids)}"
            f" process{'es' if len(pids) > 1 else ''} that the plan does not know",
            evidence="; ".join(_about(by_pid[pid]) for pid in sorted(pids)[:4])
            + (f"; and {len(pids) - 4} more" if len(pids) > 4 else ""),
            fix=fix,
            severity=severity,
        )


def _about(processes: list[Mapping[str, Any]]) -> str:
    process = processes[0]
    held = sum(item["memory"] or 0 for item in processes)
    text = f"pid {process['pid']} ({process['command'] or process['name'] or 'name unknown'}) holds {size(held)}"
    text += f" on {view.told(item['chip'] for item in processes)}"
    parts = [
        f"{word} {process[key]}"
        for key, word in (("user", "user"), ("unit", "unit"), ("container", "container"))
        if process[key]
    ]
    return ", ".join([text, *parts])


def _way_out(process: Mapping[str, Any]) -> str:
    # what has no command here is not of this host's own process numbers
    if process["container"] or process["container_pid"] or process["command"] is None:
        return "stop the container (`docker ps`, `crictl ps`), or plan other NPUs with `devices`."
    unit = str(process["unit"] or "")
    if unit.startswith(UNIT_PREFIX):
        return "it is of an earlier plan: `systemctl disable --now` its unit."
    if unit.endswith(".service"):
        return "stop its unit with `systemctl stop`, or plan other NPUs with `devices`."
    return "stop the process when it is a leftover (kill <pid>), or plan other NPUs with `devices`."


@rule(
    "npu-memory-used",
    family="npu",
    severity="warning",
    about="memory of a NPU is used by processes that are seen",
    why="Memory without a process belongs to another container or to one that died; an engine ends at the start when"
    " it does not get its share.",
    source="https://github.com/vllm-project/vllm/issues/20305",
    cases=("C-037", "C-056", "C-026"),
)
def npu_memory_used(host: Host) -> Iterator[Found]:
    if view.unsure(host, "processes"):
        return
    with_process = {process["chip"] for process in host.each("npu.processes")}
    used = view.with_fact(view.chips(host), "hbm_used", lambda value: value > _IDLE)
    totals = view.with_fact(view.chips(host), "hbm_total", bool)
    free = set(view.planned(host, used)) - with_process
    short = {
        number for number in free if number in totals and totals[number] - used[number] < _share(host, totals[number])
    }
    for numbers, severity in ((short, "error"), (free - short, "warning")):
        if numbers:
            yield Found(
                what=f"{view.told(numbers)}: memory is used, and no process is seen there"
                + (", so --gpu-memory-utilization cannot be met" if severity == "error" else ""),
                evidence=some((f"chip {n}: {size(used[n])}" for n in sorted(numbers)), 16),
                fix="look for containers that have these NPUs; when there is none reset them"
                " (`npu-smi set -t reset -i <card> -c <chip>`) or reboot the host.",
                severity=severity,
            )


def _share(host: Host, total: int) -> float:
    """What an engine of the host wants at least of such a NPU."""
    wanted = [_utilization(process) for process in host.processes if process["kind"] in ENGINES]
    return total * min(wanted, default=_UTILIZATION)


def _utilization(process: Mapping[str, Any]) -> float:
    words = [part for word in process["unit"].get("argv") or () for part in str(word).split("=", 1)]
    for option, value in pairwise(words):
        if option == "--gpu-memory-utilization":
            try:
                return float(value)
            except ValueError:
                break
    return _UTILIZATION


@rule(
    "npu-aicore-busy",
    family="npu",
    severity="warning",
    about="nothing computes on the NPUs of the plan before they are ours",
    why="Somebody works there whom this host does not show, such as a container with its own process numbers.",
    source=_LEFTOVERS,
    cases=("C-030",),
)
def npu_aicore_busy(host: Host) -> Iterator[Found]:
    if view.unsure(host, "processes"):
        return
    with_process = {process["chip"] for process in host.each("npu.processes")}
    busy = view.with_fact(view.chips(host), "aicore", lambda percent: percent >= _BUSY)
    numbers = sorted(set(view.planned(host, busy)) - with_process)
    if numbers:
        yield Found(
            what=f"{view.told(numbers)} {view.are(numbers)} at work, and no process is seen there",
            evidence=some((f"chip {number}: AICore {busy[number]} %" for number in numbers), 16),
            fix="find out who uses these NPUs (`docker ps`, `crictl ps`, other users), or plan others with `devices`.",
        )
