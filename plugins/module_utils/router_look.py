# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the routers of the role router send to: their own answers, and the records that its launcher leaves of them.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.mooncake.pd.plugins.module_utils import notes
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_api import ApiError, Client
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_metrics import samples

# As roles/router/files/pd_router.py writes them.
MEMBERS, REMOVED = "members.json", "removed.json"
# Requests that vllm-router 0.1.17 has under way with a worker, also after the worker was removed. Those of a decode
# count from the moment it was chosen, so before anything reached it.
GAUGES = (
    "vllm_router_pd_active_decode_requests",
    "vllm_router_pd_pending_decode_requests",
    "vllm_router_pd_prefill_occupancy",
)
Process = Tuple[int, str]  # pid and start time, which together name one process for good


@dataclass(frozen=True)
class Worker:
    url: str
    kind: str
    healthy: Optional[bool] = None  # as the router sees it; None: it does not look


@dataclass
class Seen:
    """One router at one moment."""

    name: str
    url: str
    process: Optional[Process] = None  # None: it does not run, or waits for an instance
    ready: bool = False
    workers: List[Worker] = field(default_factory=list)
    busy: Dict[str, int] = field(default_factory=dict)  # requests under way, by URL of the worker
    by_hand: List[str] = field(default_factory=list)  # removed by somebody who is not the watcher
    problem: str = ""  # why the rest is not known

    def has(self, url: str) -> bool:
        return any(worker.url == url for worker in self.workers)

    def facts(self, names: Mapping[str, str], restarted: bool) -> Dict[str, Any]:
        return {
            "name": self.name,
            "url": self.url,
            "ready": self.ready,
            "restarted": restarted,
            "workers": [
                {"url": worker.url, "instance": names.get(worker.url), "kind": worker.kind, "healthy": worker.healthy}
                for worker in self.workers
            ],
        }


def address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def runtime(name: str) -> str:
    return os.path.join(notes.RUN_DIR, f"mooncake-pd-{name}")


def start_time(pid: int) -> Optional[str]:
    """As the launcher notes it; None: the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as source:
            fields = source.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _json(path: str) -> Dict[str, Any]:
    try:
        content = json.loads(notes.read(path) or "{}")
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def look(client: Client, name: str, url: str) -> Seen:
    record = _json(os.path.join(runtime(name), MEMBERS))
    pid, start = int(record.get("pid") or 0), str(record.get("start"))
    seen = Seen(name, url)
    if not record or start_time(pid) != start:
        # one that was started without the launcher answers all the same
        seen.problem = (
            "" if _silent(client, url) else f"{name} runs, but was not started by the launcher of the role router"
        )
    elif "workers" not in record:
        seen.problem = f"{name} was started by an older launcher of the role router"
    else:
        seen.process = (pid, start)
        try:
            _look_at_running(client, seen, record)
        except (ApiError, ValueError, KeyError, TypeError, AttributeError) as error:
            seen.problem = f"{name}: {error}"
    return seen


def _silent(client: Client, url: str) -> bool:
    try:
        client.get(url, "/")
    except ApiError as error:
        return error.refused
    return False


def _look_at_running(client: Client, seen: Seen, record: Dict[str, Any]) -> None:
    kinds = {url: worker["kind"] for url, worker in record["workers"].items()}
    removed = _json(os.path.join(runtime(seen.name), REMOVED))
    gone = removed.get("urls", []) if removed.get("pid") == record["pid"] else []
    expected = [Worker(url, kinds[url]) for url in record["members"] if url not in gone]
    seen.workers = expected
    try:
        seen.ready = client.get(seen.url, record["readiness"])[0] == 200
    except ApiError as error:
        if not error.refused:
            raise
        # it still starts: with these, if nobody comes between
        return
    if not record["removable"]:
        return
    answer = json.loads(client.read(seen.url, "/workers"))
    seen.workers = [Worker(its["url"], its["worker_type"], its["is_healthy"]) for its in answer["workers"]]
    seen.by_hand = [worker.url for worker in expected if not seen.has(worker.url)]
    text = client.read(record["metrics"], "/metrics").decode(errors="replace")
    for name, labels, value in samples(text):
        if name in GAUGES and value > 0:
            url = labels.get("worker", "")
            seen.busy[url] = seen.busy.get(url, 0) + int(value)


def note_removed(name: str, process: Process, urls: List[str]) -> None:
    """Tell the watcher of workers that it did not remove itself, so that it restarts the router to have them back."""
    path = os.path.join(runtime(name), REMOVED)
    noted = _json(path)
    known = noted.get("urls", []) if noted.get("pid") == process[0] else []
    text = json.dumps({"pid": process[0], "urls": sorted({*known, *urls})}) + "\n"
    notes.write(runtime(name), REMOVED, text)
