# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep vllm-router's engine ids true: `exec` starts a router and records what it knows, `watch` acts when
it is stale, `wait` ends when it is not.

vllm-router with --kv-connector mooncake asks each prefill's bootstrap server for its engine ids once, at its start
(vllm-router 0.1.17, VllmPDRouter). A prefill has new ids after every restart (vLLM 0.32.0, MooncakeConnector), the
router's health check takes it back all the same, and a decode told to pull from an old id never answers. A worker
that was removed from a router cannot be added again, so only a restart of the router makes the prefill usable.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import sys
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, NoReturn, Optional, Tuple

Engines = Dict[str, str]  # data parallel rank -> engine id

BOOTSTRAP_PORT = 8998  # vllm-router 0.1.17: the port when --prefill names none
MEMBERS = "members.json"
REMOVED = "removed.json"
REFUSED = 0  # instead of a status: nothing listens there
LOST_SECONDS = 10.0  # a prefill that neither answers nor refuses is given up after this
LOST_REFUSALS = 2  # one that refuses: after so many looks in a row
SHORTEST_DRAIN = 5.0


def say(text: str) -> None:
    print(text, flush=True)


def ask(url: str, path: str, timeout: float, method: str = "GET") -> Tuple[Optional[int], bytes]:
    """Status and body; status REFUSED when nothing listens, None when it is not known. No proxy is ever used."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except ConnectionRefusedError:
        return REFUSED, b""
    except (OSError, http.client.HTTPException):
        return None, b""
    finally:
        connection.close()


def ask_engines(bootstrap: str, timeout: float) -> Tuple[Optional[int], Optional[Engines]]:
    """Engine ids by rank, None when there are none (yet): the server is up before its workers have registered."""
    status, body = ask(bootstrap, "/query", timeout)
    try:
        answer = json.loads(body) if status == 200 else {}
        return status, {str(rank): str(entry["engine_id"]) for rank, entry in answer.items()} or None
    except (ValueError, TypeError, KeyError, AttributeError):
        return status, None


def start_time(pid: int) -> Optional[str]:
    """When the process started, in ticks since boot: with the pid it names one process for good. None: it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def write_json(path: Path, content: object) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    fresh.replace(path)


def read_json(path: Path) -> Dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


# ---------------------------------------------------------------------------------------------------------------------
# exec


def parse_command(command: List[str]) -> Tuple[List[str], Dict[str, str], str]:
    """Split the router's command: without its --prefill groups, bootstrap URL by prefill URL, the router's own URL."""
    rest: List[str] = []
    prefills: Dict[str, str] = {}
    own = {"--host": "127.0.0.1", "--port": "30000"}  # vllm-router's defaults
    words = list(command)
    while words:
        word = words.pop(0)
        if word in own and words:
            own[word] = words[0]
        if word != "--prefill":
            rest.append(word)
            continue
        group: List[str] = []
        while words and not words[0].startswith("--"):
            group.append(words.pop(0))
        if not group:
            raise ValueError("--prefill without a URL")
        port = group[1] if len(group) > 1 else str(BOOTSTRAP_PORT)
        if not port.isdigit():
            raise ValueError(f"--prefill {' '.join(group)}: the second word has to be the bootstrap port")
        parts = urllib.parse.urlsplit(group[0])
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        prefills[group[0]] = f"http://{host}:{port}"
    if not prefills:
        raise ValueError("the command has no --prefill")
    return rest, prefills, f"http://{own['--host']}:{own['--port']}"


def run_exec(command: List[str], runtime: Path, interval: float = 1.0, timeout: float = 2.0) -> NoReturn:
    rest, prefills, own_url = parse_command(command)
    said = ""
    with ThreadPoolExecutor(max_workers=min(32, len(prefills))) as pool:
        while True:
            answers = pool.map(lambda item: (item[0], ask_engines(item[1], timeout)[1]), prefills.items())
            members = {url: engines for url, engines in answers if engines}
            if members:
                break
            text = f"waiting: no bootstrap server answers ({', '.join(prefills.values())})"
            if text != said:
                say(text)
                said = text
            time.sleep(interval)
    for url in prefills:
        if url not in members:
            # vllm-router would ask an absent bootstrap 30 times, up to 10 s apart, and then end
            say(f"starting without {url}: its bootstrap server {prefills[url]} does not answer")
        else:
            port = prefills[url].rpartition(":")[2]
            rest += ["--prefill", url, port]
    say(f"starting with {json.dumps(members, sort_keys=True)}")
    pid = os.getpid()
    record = {"pid": pid, "start": start_time(pid), "url": own_url, "planned": prefills, "members": members}
    write_json(runtime / MEMBERS, record)
    try:
        os.execvp(rest[0], rest)
    except OSError as error:
        say(f"cannot run {rest[0]}: {error.strerror}")
        sys.exit(127)


# ---------------------------------------------------------------------------------------------------------------------
# watch


class Prefill:
    """What is known of one prefill, over time."""

    def __init__(self, url: str, bootstrap: str) -> None:
        self.url = url
        self.bootstrap = bootstrap
        self.engines: Optional[Engines] = None
        self.healthy = False
        self.lost = False
        self.deaf = False
        self._refusals = 0
        self._silent_since: Optional[float] = None

    def look(self, recorded: List[Optional[Engines]], now: float, timeout: float) -> None:
        """Ask the bootstrap, and /health only when it matters: no ids, or not those that every router has."""
        status, self.engines = ask_engines(self.bootstrap, timeout)
        settled = self.engines is not None and all(engines == self.engines for engines in recorded)
        self.healthy = settled or ask(self.url, "/health", timeout)[0] == 200
        if self.engines is not None:
            self._refusals, self._silent_since, self.lost, self.deaf = 0, None, False, False
            return
        self._silent_since = now if self._silent_since is None else self._silent_since
        silent_long = now - self._silent_since >= LOST_SECONDS
        self.deaf = self.healthy and silent_long
        # An engine id dies with the process that held it. Taken out while it is away, the prefill
        # cannot be taken back by the router's health check before its new id was seen here.
        self._refusals = self._refusals + 1 if status == REFUSED and not self.healthy else 0
        self.lost = not self.healthy and (self._refusals >= LOST_REFUSALS or silent_long)


class Router:
    """One router process: what `exec` recorded of it, and what is seen of it."""

    def __init__(self, runtime: Path) -> None:
        self.runtime = runtime
        self.name = runtime.name
        self.process: Optional[Tuple[int, str]] = None
        self.url = ""
        self.planned: Dict[str, str] = {}
        self.members: Dict[str, Engines] = {}
        self.removed: List[str] = []
        self.unnoted: Optional[Tuple[int, str]] = None  # the process whose removals could not be noted
        self.status: Optional[int] = None
        self.was_ready = False
        self.ready_since: Optional[float] = None
        self.quiet_since: Optional[float] = None
        self.kill_at: Optional[float] = None

    def load(self) -> None:
        record = read_json(self.runtime / MEMBERS)
        process = (int(record.get("pid", 0)), str(record.get("start")))
        if not record or start_time(process[0]) != process[1]:
            self.process = None
        elif process != self.process:
            self.process = process
            self.was_ready, self.ready_since, self.quiet_since, self.kill_at = False, None, None, None
            self.url, self.planned, self.members = record["url"], record["planned"], record["members"]
            removed = read_json(self.runtime / REMOVED)
            self.removed = removed.get("urls", []) if removed.get("pid") == process[0] else []

    def look(self, now: float, timeout: float) -> None:
        self.status = ask(self.url, "/readiness", timeout)[0] if self.process else REFUSED
        if self.status == 200:
            if not self.was_ready:
                say(f"{self.name}: ready")
            self.was_ready = True
            self.ready_since, self.quiet_since = self.ready_since or now, None
        else:
            # not known (no answer in time) is neither ready nor out of service
            self.ready_since = None
            self.quiet_since = None if self.status is None else self.quiet_since or now

    def serves(self, now: float, settle: float) -> bool:
        return self.kill_at is None and self.ready_since is not None and now - self.ready_since >= settle

    def out_of_service(self, now: float, settle: float) -> bool:
        return self.quiet_since is not None and now - self.quiet_since >= settle

    def knows(self, url: str) -> Optional[Engines]:
        return None if url in self.removed else self.members.get(url)

    def remove(self, url: str, timeout: float) -> bool:
        query = urllib.parse.urlencode({"url": url})
        if ask(self.url, f"/remove_worker?{query}", timeout, method="POST")[0] != 200:
            return False
        self.removed.append(url)
        if self.process:
            try:
                write_json(self.runtime / REMOVED, {"pid": self.process[0], "urls": self.removed})
            except OSError as error:
                # The folder goes when the unit stops, and nobody has to know then what its router was told.
                if self.unnoted != self.process:
                    say(f"{self.name}: cannot note the removal of {url}: {error}")
                self.unnoted = self.process
        return True

    def send(self, signum: signal.Signals) -> bool:
        """Signal the recorded process, but never another one that got its pid."""
        if self.process is None or start_time(self.process[0]) != self.process[1]:
            return False
        try:
            os.kill(self.process[0], signum)
        except ProcessLookupError:
            return False
        return True


class Watcher:
    """Every decision comes from what is seen now and from the routers' own files: a new watcher takes over at once."""

    def __init__(self, runtimes: List[Path], drain: float, settle: float, timeout: float) -> None:
        self.routers = [Router(runtime) for runtime in runtimes]
        self.prefills: Dict[str, Prefill] = {}
        self.drain = drain
        self.settle = settle
        self.timeout = timeout
        self._said: Dict[str, str] = {}
        self._pool = ThreadPoolExecutor(max_workers=32)

    def say_change(self, key: str, text: str) -> None:
        if self._said.get(key, "") != text:
            self._said[key] = text
            if text:
                say(text)

    def tick(self, now: float) -> None:
        self.look(now)
        for router in self.routers:
            if router.process:
                self.take_out(router)
                self.restart(router, now)

    def look(self, now: float) -> None:
        for router in self.routers:
            router.load()
            for url, bootstrap in router.planned.items():
                if url not in self.prefills or self.prefills[url].bootstrap != bootstrap:
                    self.prefills[url] = Prefill(url, bootstrap)
        planned = {url for router in self.routers for url in router.planned}
        self.prefills = {url: prefill for url, prefill in self.prefills.items() if url in planned}
        running = [router for router in self.routers if router.process]
        jobs = [self._pool.submit(router.look, now, self.timeout) for router in self.routers]
        jobs += [
            self._pool.submit(prefill.look, [router.knows(url) for router in running], now, self.timeout)
            for url, prefill in self.prefills.items()
        ]
        for job in jobs:
            job.result()
        for url, prefill in self.prefills.items():
            text = f"{url}: /health is 200 but its bootstrap server {prefill.bootstrap} gives no engine id: restart it"
            self.say_change(f"deaf {url}", text if prefill.deaf else "")

    def stale(self, router: Router) -> Dict[str, str]:
        """Prefills this router may still send to although their engine ids are no longer true, with the reason."""
        found = {}
        for url, recorded in router.members.items():
            prefill = self.prefills[url]
            if url in router.removed:
                continue
            if prefill.engines is not None and prefill.engines != recorded:
                found[url] = f"engine ids were {json.dumps(recorded)}, are {json.dumps(prefill.engines)}"
            elif prefill.lost:
                found[url] = "neither its bootstrap server nor /health answers"
        return found

    def take_out(self, router: Router) -> None:
        if router.status == REFUSED:
            return
        for url, reason in self.stale(router).items():
            done = router.remove(url, self.timeout)
            text = f"{router.name}: {'took out' if done else 'could NOT take out'} {url}: {reason}"
            self.say_change(f"remove {router.name} {url} {router.process}", text)

    def reason(self, router: Router) -> str:
        """Why this router has to be restarted; empty when it has not."""
        back = [
            url
            for url, prefill in self.prefills.items()
            if url in router.planned and prefill.engines and prefill.healthy and router.knows(url) != prefill.engines
        ]
        if back:
            return f"to take in {', '.join(back)}"
        if router.status == REFUSED and not router.was_ready:
            # it reads the ids, or waits for a bootstrap server that is gone: `exec` decides anew
            stale = self.stale(router)
            if stale:
                return f"it is still starting with {', '.join(stale)}"
        return ""

    def lacks(self, router: Router, now: float) -> str:
        """What this router still lacks to serve every healthy prefill; empty when nothing."""
        if router.process is None:
            return f"{router.name} does not run, or waits for a prefill (see its log)"
        if router.status != 200:
            return f"{router.name} gives status {router.status} on /readiness"
        needs = self.reason(router)
        if needs:
            return f"{router.name} has to restart {needs}"
        stale = self.stale(router)
        if stale:
            return f"{router.name} may still send to {', '.join(stale)}"
        return "" if router.serves(now, self.settle) else f"{router.name} became ready only just now"

    def restart(self, router: Router, now: float) -> None:
        if router.kill_at is not None:
            if now >= router.kill_at and router.send(signal.SIGKILL):
                say(f"{router.name}: SIGKILL, requests did not end within the drain timeout of {self.drain:g} s")
                router.kill_at = now + SHORTEST_DRAIN
            return
        reason = self.reason(router)
        waiting = [r.name for r in self.routers if r is not router and not r.serves(now, self.settle)]
        allowed = not waiting or router.out_of_service(now, self.settle)
        self.say_change(
            f"waits {router.name}",
            f"{router.name}: restart {reason} waits for {', '.join(waiting)}" if reason and not allowed else "",
        )
        if not reason or not allowed:
            return
        if router.send(signal.SIGTERM):
            # without new requests it has been draining since it left service
            began = now if router.quiet_since is None else router.quiet_since
            router.kill_at = max(now + SHORTEST_DRAIN, began + self.drain)
            say(f"{router.name}: restart {reason}")


def run_watch(runtimes: List[Path], drain: float, settle: float, interval: float) -> NoReturn:
    watcher = Watcher(runtimes, drain, settle, timeout=1.0)
    say(f"watching {', '.join(router.name for router in watcher.routers)}")
    while True:
        began = time.monotonic()
        watcher.tick(began)
        time.sleep(max(0.05, interval - (time.monotonic() - began)))


def run_wait(runtimes: List[Path], timeout: float, settle: float, interval: float = 0.25) -> int:
    watcher = Watcher(runtimes, 0.0, settle, timeout=1.0)
    end = time.monotonic() + timeout
    while True:
        now = time.monotonic()
        watcher.look(now)
        missing = [text for text in (watcher.lacks(router, now) for router in watcher.routers) if text]
        if not missing:
            return 0
        if now >= end:
            say(f"not within {timeout:g} s: " + "; ".join(missing))
            return 1
        time.sleep(interval)


def main(argv: Optional[List[str]] = None) -> NoReturn:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser("exec", help="start a router with the prefills whose bootstrap server answers")
    start.add_argument("command", nargs=argparse.REMAINDER, help="-- vllm-router ARGS...")
    watch = verbs.add_parser("watch", help="take stale prefills out of the routers, restart these one by one")
    watch.add_argument("runtime", nargs="+", type=Path, help="runtime directory of each router")
    watch.add_argument("--drain-timeout", type=float, default=300.0, help="seconds a router may take to end")
    watch.add_argument("--settle", type=float, default=2.0, help="seconds a router is ready before the next may go")
    watch.add_argument("--interval", type=float, default=1.0, help="seconds between looks")
    wait = verbs.add_parser("wait", help="wait until the routers serve with the engine ids of now")
    wait.add_argument("runtime", nargs="+", type=Path, help="runtime directory of each router")
    wait.add_argument("--timeout", type=float, default=120.0, help="seconds to wait")
    wait.add_argument("--settle", type=float, default=2.0, help="seconds a router has to be ready")
    args = parser.parse_args(argv)
    if args.verb == "wait":
        sys.exit(run_wait(args.runtime, args.timeout, args.settle))
    if args.verb == "watch":
        run_watch(args.runtime, args.drain_timeout, args.settle, args.interval)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    runtime = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if not runtime:
        parser.error("RUNTIME_DIRECTORY is not set: exec runs in a systemd unit with RuntimeDirectory=")
    try:
        run_exec(command, Path(runtime))
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
