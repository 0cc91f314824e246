# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When an instance may leave the routers, when nothing runs in it any more, when it may come back: rules, no I/O.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.mooncake.pd.plugins.module_utils.pd_instances import DECODE, PREFILL
from ansible_collections.mooncake.pd.plugins.module_utils.router_look import Seen

Facts = Mapping[str, Any]  # of an instance, as vllm_look.look() gives them
Change = Tuple[Collection[str], Collection[str]]  # names that leave, and that come


def unwell(instance: Facts, facts: Facts) -> str:
    """Why no router should send to this instance; empty when one may."""
    if not facts["healthy"]:
        return "; ".join(facts["problems"]) or "it is not healthy"
    if instance.get("bootstrap_urls") and len(facts["engine_ids"]) < len(instance["bootstrap_urls"]):
        return "; ".join(facts["problems"]) or "its bootstrap servers do not tell their engine ids"
    return ""


def in_rotation(instance: Facts, router: Seen) -> bool:
    """Whether the router sends to all of the instance. One that does not look at health may send to what is dead."""
    workers = {worker.url: worker.healthy for worker in router.workers}
    return all(workers.get(url, False) is not False for url in instance["api_urls"])


def too_few(
    instances: Sequence[Facts],
    sick: Mapping[str, str],
    routers: Sequence[Seen],
    change: Change,
    least: Mapping[str, int],
) -> List[str]:
    """Why these must not leave: what every router would keep of each kind. Who serves nothing costs nothing."""
    leave, come = change
    problems = []
    for kind in (PREFILL, DECODE):
        mine = [instance for instance in instances if instance["kind"] == kind]
        for router in routers:
            serving = [
                instance["name"]
                for instance in mine
                if not sick.get(instance["name"]) and in_rotation(instance, router)
            ]
            lost = [name for name in serving if name in leave]
            kept = sorted({*serving, *(instance["name"] for instance in mine if instance["name"] in come)} - set(leave))
            if lost and len(kept) < least[kind]:
                have = f"only {', '.join(kept)}" if kept else f"no {kind} at all"
                problems.append(
                    f"{router.name} would keep {have} that is healthy and in rotation, and min_healthy wants"
                    f" {least[kind]} {kind} (to leave: {', '.join(lost)})"
                )
    return problems


def under_way(instance: Facts, facts: Facts, routers: Sequence[Seen]) -> List[str]:
    """What is in flight, or may be. Nothing is where nothing listens, but silence says nothing."""
    texts = []
    for server in facts["servers"]:
        if server["refused"]:
            continue
        if server["running"] is None or server["waiting"] is None:
            texts.append(
                f"{server['url']} does not tell what it runs: {server['error'] or '; '.join(facts['problems'])}"
            )
        elif server["running"] or server["waiting"]:
            texts.append(f"{server['url']} has {server['running']} requests running and {server['waiting']} waiting")
    for router in routers:
        for url in instance["api_urls"]:
            if router.busy.get(url):
                texts.append(f"{router.name} has {router.busy[url]} requests under way with {url}")
    return texts


def held(facts: Facts) -> Optional[float]:
    """Share of the KV cache that is in use, by abandoned pulls for example; None: not known."""
    known = [server["kv_usage"] for server in facts["servers"] if not server["refused"]]
    if any(usage is None for usage in known):
        return None
    return max(known, default=0.0)


class Drain:
    """One instance on its way out: idle on two looks that lie `settle` apart, then without blocks, or long enough."""

    def __init__(self, instance: Dict[str, Any], began: float, settle: float, kv_timeout: float) -> None:
        self.instance = instance
        self.began = began
        self.settle = settle
        self.kv_timeout = kv_timeout if instance["kind"] == PREFILL else 0.0
        self.texts: List[str] = ["was not looked at"]
        self.done = False
        self.kv_waited_out = False
        self.seconds = 0.0
        self._idle_since: Optional[float] = None

    def see(self, now: float, texts: List[str], usage: Optional[float]) -> None:
        self.done, self.kv_waited_out = False, False
        self.texts = texts
        if texts:
            self._idle_since = None
            return
        self._idle_since = now if self._idle_since is None else self._idle_since
        idle = now - self._idle_since
        blocks = self.instance["kind"] == PREFILL and usage != 0
        if idle < self.settle:
            self.texts = [f"{self.instance['name']} became idle only just now"]
        elif blocks and idle < self.kv_timeout:
            share = "an unknown share" if usage is None else f"{usage:.2%}"
            self.texts = [f"{self.instance['name']} still holds {share} of its KV cache"]
        else:
            self.done, self.kv_waited_out = True, blocks
        self.seconds = round(now - self.began, 1)

    @property
    def patient(self) -> bool:
        """Nothing runs any more: only the blocks are waited for, and they have a time of their own."""
        return self._idle_since is not None

    def facts(self) -> Dict[str, Any]:
        return {"name": self.instance["name"], "seconds": self.seconds, "kv_waited_out": self.kv_waited_out}
