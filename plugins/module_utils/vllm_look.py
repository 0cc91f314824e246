# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What instances say of themselves: every server of them is asked, all at the same time.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar

from ansible_collections.mooncake.pd.plugins.module_utils.vllm_api import ApiError, Client
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_metrics import load

Facts = Dict[str, Any]
T = TypeVar("T")
# More than that are asked one after the other. Each takes a thread and a connection.
AT_ONCE = 64
NEEDED = ("running", "waiting", "kv_usage")
# An answer after that many seconds is asked for, however long the others took: what is there answers in milliseconds.
SHORTEST = 0.05


class Limited:
    """Reads one server; all of its answers together have the client's timeout."""

    def __init__(self, client: Client, base: str) -> None:
        self.client = client
        self.base = base
        self.end = time.monotonic() + client.timeout

    def left(self) -> float:
        return max(SHORTEST, self.end - time.monotonic())

    def get(self, path: str) -> Tuple[int, bytes]:
        return self.client.get(self.base, path, self.left())

    def text(self, path: str) -> str:
        return self.client.read(self.base, path, self.left()).decode(errors="replace")

    def json(self, path: str, pick: Callable[[Any], T]) -> T:
        text = self.text(path)
        try:
            return pick(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise ApiError(f"{self.base}{path} answered something else than expected: {text[:200]!r}") from error


def look_at_server(client: Client, base: str) -> Tuple[Facts, List[str]]:
    """Facts of one API server and what could not be read."""
    facts: Facts = {"url": base, "healthy": False, "refused": False, "status": None, "error": None}
    facts.update(dict.fromkeys(("version", "models", *NEEDED, "prompt_tokens", "transfers", "started")))
    server = Limited(client, base)
    try:
        status, _body = server.get("/health")
    except ApiError as error:
        # each further question would only fail, or wait, in the same way
        facts.update(refused=error.refused, error=str(error))
        return facts, [str(error)]
    problems: List[str] = []
    facts.update(status=status, healthy=status == 200)
    if not facts["healthy"]:
        facts["error"] = f"{base}/health answered {status}"
        problems.append(facts["error"])

    def note(read: Callable[[], Facts]) -> None:
        try:
            facts.update(read())
        except ApiError as error:
            problems.append(str(error))

    note(lambda: {"version": server.json("/version", lambda its: str(its["version"]))})
    note(lambda: {"models": server.json("/v1/models", lambda its: [str(model["id"]) for model in its["data"]])})
    note(lambda: vars(load(server.text("/metrics"))))
    missing = [name for name in NEEDED if facts[name] is None]
    if missing and not any(problem.startswith(f"{base}/metrics") for problem in problems):
        problems.append(f"{base}/metrics does not tell {', '.join(missing)}; is --disable-log-stats set?")
    return facts, problems


def look_at_bootstrap(client: Client, base: str) -> Tuple[List[str], List[str]]:
    """Engine ids by rank and what could not be read."""
    try:
        return list(client.engine_ids(base).values()), []
    except ApiError as error:
        return [], [str(error)]


def summed(values: Sequence[Optional[int]]) -> Optional[int]:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def fullest(values: Sequence[Optional[float]]) -> Optional[float]:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def look(client: Client, instances: Sequence[Facts]) -> List[Facts]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [
            (
                instance,
                [pool.submit(look_at_server, client, url.rstrip("/")) for url in instance["api_urls"]],
                [
                    pool.submit(look_at_bootstrap, client, url.rstrip("/"))
                    for url in instance.get("bootstrap_urls") or ()
                ],
            )
            for instance in instances
        ]
        return [
            instance_of(instance, [job.result() for job in servers], [job.result() for job in bootstraps])
            for instance, servers, bootstraps in asked
        ]


def instance_of(
    instance: Facts, servers: Sequence[Tuple[Facts, List[str]]], bootstraps: Sequence[Tuple[List[str], List[str]]]
) -> Facts:
    facts = [its for its, _problems in servers]
    return {
        "name": instance["name"],
        "kind": instance["kind"],
        "healthy": bool(facts) and all(its["healthy"] for its in facts),
        "running": summed([its["running"] for its in facts]),
        "waiting": summed([its["waiting"] for its in facts]),
        "kv_usage": fullest([its["kv_usage"] for its in facts]),
        "engine_ids": [engine for engines, _problems in bootstraps for engine in engines],
        "problems": [problem for _its, problems in (*servers, *bootstraps) for problem in problems],
        "servers": facts,
    }
