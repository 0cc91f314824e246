# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what the routers send to true: `exec` starts a router and records what it knows, `watch` acts when it is stale,
`wait` ends when it is not.

Two things make it stale. The file of what is out (--out) names instances that no router may send to, whatever restarts.
And vllm-router with --kv-connector mooncake asks each prefill's bootstrap server for its engine ids once, at its start
(vllm-router 0.1.17, VllmPDRouter). A prefill has new ids after every restart (vLLM 0.32.0, MooncakeConnector), the
router's health check takes it back all the same, and a decode told to pull from an old id never answers.

A worker can be removed from a running vllm-router but not added, and the members of vLLM-Ascend's layerwise proxy do
not change at all while it runs. For the rest the routers restart, one after the other.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import json
import os
import re
import signal
import socket
import sys
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, NoReturn, Optional, Set, Tuple

Engines = Dict[str, str]  # data parallel rank -> engine id; empty where the router needs to know none

BOOTSTRAP_PORT = 8998  # vllm-router 0.1.17: the port when --prefill names none
OUT = Path("/var/lib/mooncake-pd-host/router-out.json")  # root's: who is out, {"out": {name: [URL, ...]}}
MEMBERS = "members.json"
REMOVED = "removed.json"
REFUSED = 0  # instead of a status: nothing listens there
LOST_SECONDS = 10.0  # a prefill that neither answers nor refuses is given up after this
LOST_REFUSALS = 2  # one that refuses: after so many looks in a row
SHORTEST_DRAIN = 5.0
# examples/disaggregated_prefill_v1/load_balance_proxy_layerwise_server_example.py of vLLM-Ascend
LAYERWISE = {"prefill": ("--prefiller-hosts", "--prefiller-ports"), "decode": ("--decoder-hosts", "--decoder-ports")}


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


def read_out(path: Path) -> Tuple[Set[str], str]:
    """URLs of what is out, and why they are not known when the file cannot be understood."""
    try:
        content = json.loads(path.read_text())
        return {str(url) for urls in content["out"].values() for url in urls}, ""
    except FileNotFoundError:
        return set(), ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return set(), f"cannot read who is out from {path}: {error!r}"


# ---------------------------------------------------------------------------------------------------------------------
# exec


class Worker(NamedTuple):
    kind: str  # prefill or decode
    bootstrap: str = ""  # URL of the server that tells a prefill's engine ids, where the router has to know them


class Command(NamedTuple):
    """A router's command line, taken apart."""

    rest: List[str]  # all but its workers
    workers: Dict[str, Worker]  # by URL
    url: str  # the router's own
    readiness: str  # path that says whether it can serve
    metrics: str  # URL, empty when it has none
    layerwise: bool

    def argv(self, members: Dict[str, Engines]) -> List[str]:
        chosen = [(url, worker) for url, worker in self.workers.items() if url in members]
        argv = list(self.rest)
        if not self.layerwise:
            for url, worker in chosen:
                argv += [f"--{worker.kind}", url, *([worker.bootstrap.rpartition(":")[2]] if worker.bootstrap else [])]
            return argv
        for kind, (hosts, ports) in LAYERWISE.items():
            parts = [urllib.parse.urlsplit(url) for url, worker in chosen if worker.kind == kind]
            argv += [hosts, *(str(part.hostname) for part in parts), ports, *(str(part.port) for part in parts)]
        return argv


def http_url(host: str, port: str) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def parse_command(command: List[str]) -> Command:
    groups: List[List[str]] = [[]]
    for word in command:
        if word.startswith("--"):
            groups.append([])
        groups[-1].append(word)
    # vllm-router's defaults; the plan leaves none of them open
    own = {"--host": "127.0.0.1", "--port": "30000", "--kv-connector": "mooncake"}
    own.update({"--prometheus-host": "127.0.0.1", "--prometheus-port": "29000"})
    own.update({group[0]: group[1] for group in groups if len(group) > 1 and group[0] in own})
    url = http_url(own["--host"], own["--port"])
    hosts_and_ports = [word for words in LAYERWISE.values() for word in words]
    if any(group and group[0] in hosts_and_ports for group in groups):
        rest = [word for group in groups if group and group[0] not in hosts_and_ports for word in group]
        return Command(rest, layerwise_workers(groups), url, "/healthcheck", "", True)
    rest = [word for group in groups if group and group[0] not in ("--prefill", "--decode") for word in group]
    workers: Dict[str, Worker] = {}
    for group in groups:
        if group and group[0] in ("--prefill", "--decode"):
            if len(group) < 2:
                raise ValueError(f"{group[0]} without a URL")
            bootstrap = group[0] == "--prefill" and own["--kv-connector"] == "mooncake"
            workers[group[1]] = Worker(group[0][2:], bootstrap_url(group) if bootstrap else "")
    if not any(worker.kind == "prefill" for worker in workers.values()):
        raise ValueError("the command has no --prefill")
    metrics = http_url(own["--prometheus-host"], own["--prometheus-port"])
    return Command(rest, workers, url, "/readiness", metrics, False)


def bootstrap_url(group: List[str]) -> str:
    port = group[2] if len(group) > 2 else str(BOOTSTRAP_PORT)
    if not port.isdigit():
        raise ValueError(f"{' '.join(group)}: the word after the URL has to be the bootstrap port")
    return http_url(urllib.parse.urlsplit(group[1]).hostname or "", port)


def layerwise_workers(groups: List[List[str]]) -> Dict[str, Worker]:
    given = {group[0]: group[1:] for group in groups if group}
    workers = {}
    for kind, (hosts, ports) in LAYERWISE.items():
        if not given.get(hosts) or len(given[hosts]) != len(given.get(ports, [])):
            raise ValueError(f"{hosts} and {ports} have to name as many, and at least one")
        workers.update({http_url(*pair): Worker(kind) for pair in zip(given[hosts], given[ports])})
    return workers


def choose(command: Command, out: Set[str], timeout: float) -> Dict[str, Engines]:
    """Who can be a member now: not out, and with its engine ids where the router has to know them."""
    asked = {url: worker.bootstrap for url, worker in command.workers.items() if worker.bootstrap and url not in out}
    with ThreadPoolExecutor(max_workers=min(32, len(asked) or 1)) as pool:
        answers = dict(zip(asked, pool.map(lambda bootstrap: ask_engines(bootstrap, timeout)[1], asked.values())))
    members: Dict[str, Engines] = {}
    for url in command.workers:
        engines = answers.get(url, {})
        if url not in out and engines is not None:
            members[url] = engines
    return members


def lacking(command: Command, members: Dict[str, Engines], out: Set[str]) -> str:
    """Why these members are too few to start with; empty when they are not."""
    for kind in sorted({worker.kind for worker in command.workers.values()}):
        urls = [url for url, worker in command.workers.items() if worker.kind == kind]
        if not any(url in members for url in urls):
            servers = [command.workers[url].bootstrap for url in urls if url not in out]
            return f"no bootstrap server answers ({', '.join(servers)})" if servers else f"every {kind} is out"
    return ""


def run_exec(words: List[str], runtime: Path, out_file: Path, interval: float = 1.0, timeout: float = 2.0) -> NoReturn:
    command = parse_command(words)
    said: Set[str] = set()
    while True:
        out, unread = read_out(out_file)
        members = choose(command, out, timeout)
        text = lacking(command, members, out)
        # what is out not being known is no reason to keep the service from starting
        for line in (unread, f"waiting: {text}" if text else ""):
            if line and line not in said:
                say(line)
                said.add(line)
        if not text:
            break
        time.sleep(interval)
    for url, worker in command.workers.items():
        if url in out:
            say(f"starting without {url}: it is out")
        elif url not in members:
            # vllm-router would ask an absent bootstrap 30 times, up to 10 s apart, and then end
            say(f"starting without {url}: its bootstrap server {worker.bootstrap} does not answer")
    say(f"starting with {json.dumps(members, sort_keys=True)}")
    pid = os.getpid()
    record = {
        "pid": pid,
        "start": start_time(pid),
        "url": command.url,
        "readiness": command.readiness,
        "metrics": command.metrics,
        "removable": not command.layerwise,
        "workers": {url: worker._asdict() for url, worker in command.workers.items()},
        "members": members,
    }
    write_json(runtime / MEMBERS, record)
    argv = command.argv(members)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        say(f"cannot run {argv[0]}: {error.strerror}")
        sys.exit(127)


# ---------------------------------------------------------------------------------------------------------------------
# watch


class Instance:
    """What is known of one prefill or decode, over time."""

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
        status, self.engines = ask_engines(self.bootstrap, timeout) if self.bootstrap else (None, {})
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
        self.server = re.sub("^mooncake-pd-", "", runtime.name)  # its name in HAProxy
        self.process: Optional[Tuple[int, str]] = None
        self.url = ""
        self.readiness = ""
        self.removable = True
        self.workers: Dict[str, Worker] = {}
        self.members: Dict[str, Engines] = {}
        self.removed: List[str] = []
        self.unnoted: Optional[Tuple[int, str]] = None  # the process whose removals could not be noted
        self.status: Optional[int] = None
        self.was_ready = False
        self.ready_since: Optional[float] = None
        self.quiet_since: Optional[float] = None
        self.held_since: Optional[float] = None  # HAProxy gives it nothing new, so that it can end
        self.kill_at: Optional[float] = None

    def load(self) -> None:
        record = read_json(self.runtime / MEMBERS)
        process = (int(record.get("pid", 0)), str(record.get("start")))
        # without workers it is the record of an older launcher
        if "workers" not in record or start_time(process[0]) != process[1]:
            self.process = None
        elif process != self.process:
            self.process = process
            self.was_ready, self.ready_since, self.quiet_since, self.kill_at = False, None, None, None
            self.url, self.readiness, self.removable = record["url"], record["readiness"], record["removable"]
            self.workers = {url: Worker(**worker) for url, worker in record["workers"].items()}
            self.members = record["members"]
            self.removed = []
        if self.process:
            # also what somebody else noted: a worker that was removed by hand and is wanted back
            removed = read_json(self.runtime / REMOVED)
            noted = removed.get("urls", []) if removed.get("pid") == self.process[0] else []
            self.removed += [url for url in noted if url not in self.removed]

    def look(self, now: float, timeout: float) -> None:
        self.status = ask(self.url, self.readiness, timeout)[0] if self.process else REFUSED
        if self.status == 200:
            if not self.was_ready:
                say(f"{self.name}: ready")
                self.held_since = None
            self.was_ready = True
            self.ready_since, self.quiet_since = self.ready_since or now, None
        else:
            # not known (no answer in time) is neither ready nor out of service
            self.ready_since = None
            self.quiet_since = None if self.status is None else self.quiet_since or now

    def serves(self, now: float, settle: float) -> bool:
        leaves = self.kill_at is not None or self.held_since is not None
        return not leaves and self.ready_since is not None and now - self.ready_since >= settle

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


class Frontend:
    """HAProxy's admin socket. A router's weight there is 0 from before it is told to end until it is ready again."""

    def __init__(self, path: Optional[Path], backend: str) -> None:
        self.path = path
        self.backend = backend

    def ask(self, commands: str, timeout: float) -> str:
        """The answer; empty when there is none: HAProxy does not run, or nothing was told of it."""
        if self.path is None:
            return ""
        answer = b""
        try:
            with socket.socket(socket.AF_UNIX) as admin:
                admin.settimeout(timeout)
                admin.connect(str(self.path))
                admin.sendall(f"{commands}\n".encode())
                while part := admin.recv(65536):
                    answer += part
        except OSError:
            return ""
        return answer.decode(errors="replace")

    def servers(self, commands: str, timeout: float) -> Dict[str, Dict[str, str]]:
        """Statistics by server, after the commands."""
        answer = self.ask(f"{commands}show stat {self.backend} 4 -1", timeout)
        table = answer[answer.find("# pxname") + 2 :] if "# pxname" in answer else ""
        return {row.get("svname") or "": row for row in csv.DictReader(table.splitlines())}

    def hold(self, server: str, timeout: float) -> bool:
        """Let nothing new go to a router: whether it still has requests, as far as HAProxy can be asked."""
        found = self.servers(f"set weight {self.backend}/{server} 0%;", timeout).get(server, {})
        return found.get("scur", "0") != "0"

    def release(self, kept: Set[str], timeout: float) -> None:
        """Give every router its share again, also what another watcher left, but not to those that are kept."""
        if self.path is None:
            return
        for server, row in self.servers("", timeout).items():
            if server not in kept and row.get("uweight") == "0":
                self.ask(f"set weight {self.backend}/{server} 100%", timeout)


class Watcher:
    """Every decision comes from what is seen now and from the routers' own files: a new watcher takes over at once."""

    timeout = 1.0  # seconds for an answer

    def __init__(self, runtimes: List[Path], out: Path, frontend: Frontend, drain: float, settle: float) -> None:
        self.routers = [Router(runtime) for runtime in runtimes]
        self.instances: Dict[str, Instance] = {}
        self.out: Set[str] = set()
        self.out_file = out
        self.frontend = frontend
        self.drain = drain
        self.settle = settle
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
        self.frontend.release({r.server for r in self.routers if r.held_since is not None}, self.timeout)

    def look(self, now: float) -> None:
        out, unread = read_out(self.out_file)
        self.out = self.out if unread else out
        self.say_change("out", unread)
        for router in self.routers:
            router.load()
            for url, worker in router.workers.items():
                if url not in self.instances or self.instances[url].bootstrap != worker.bootstrap:
                    self.instances[url] = Instance(url, worker.bootstrap)
        planned = {url for router in self.routers for url in router.workers}
        self.instances = {url: instance for url, instance in self.instances.items() if url in planned}
        running = [router for router in self.routers if router.process]
        jobs = [self._pool.submit(router.look, now, self.timeout) for router in self.routers]
        jobs += [
            self._pool.submit(instance.look, [router.knows(url) for router in running], now, self.timeout)
            for url, instance in self.instances.items()
            if url not in self.out
        ]
        for job in jobs:
            job.result()
        for url, instance in self.instances.items():
            text = f"{url}: /health is 200 but its bootstrap server {instance.bootstrap} gives no engine id: restart it"
            self.say_change(f"deaf {url}", text if instance.deaf and url not in self.out else "")

    def stale(self, router: Router) -> Dict[str, str]:
        """Instances this router may still send to although it should not, with the reason."""
        found = {}
        for url, recorded in router.members.items():
            instance = self.instances[url]
            if url in router.removed:
                continue
            if url in self.out:
                found[url] = "it is out"
            elif instance.engines is not None and instance.engines != recorded:
                found[url] = f"engine ids were {json.dumps(recorded)}, are {json.dumps(instance.engines)}"
            elif instance.lost:
                found[url] = "neither its bootstrap server nor /health answers"
        return found

    def take_out(self, router: Router) -> None:
        if router.status == REFUSED or not router.removable:
            return
        stale = self.stale(router)
        left = {router.workers[url].kind for url in router.members if url not in stale and url not in router.removed}
        swaps = bool(self.back(router))
        for url, reason in stale.items():
            # The last of a kind that leaves while others come serves until the restart that takes these in.
            if url in self.out and swaps and router.workers[url].kind not in left:
                continue
            done = router.remove(url, self.timeout)
            text = f"{router.name}: {'took out' if done else 'could NOT take out'} {url}: {reason}"
            self.say_change(f"remove {router.name} {url} {router.process}", text)

    def back(self, router: Router) -> List[str]:
        """Who could serve, but only after a restart of this router."""
        return [
            url
            for url in router.workers
            if url not in self.out
            and self.instances[url].engines is not None
            and self.instances[url].healthy
            and router.knows(url) != self.instances[url].engines
        ]

    def reason(self, router: Router) -> str:
        """Why this router has to be restarted; empty when it has not."""
        back = self.back(router)
        if back:
            return f"to take in {', '.join(back)}"
        starting = router.status == REFUSED and not router.was_ready
        stale = self.stale(router) if starting or not router.removable else {}
        if stale and starting:
            # it reads the ids, or waits for a bootstrap server that is gone: `exec` decides anew
            return f"it is still starting with {', '.join(stale)}"
        return f"to leave out {', '.join(stale)}" if stale else ""

    def lacks(self, router: Router, now: float) -> str:
        """What this router still lacks to serve every healthy instance; empty when nothing."""
        if router.process is None:
            return f"{router.name} does not run, or waits for an instance (see its log)"
        if router.status != 200:
            return f"{router.name} gives status {router.status} on {router.readiness}"
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
            if router.was_ready:
                router.held_since = None
            return
        if router.ready_since is not None and not self.drained(router, now):
            return
        if router.send(signal.SIGTERM):
            # without new requests it has been draining since it left service
            began = min(since for since in (router.held_since, router.quiet_since, now) if since is not None)
            router.kill_at = max(now + SHORTEST_DRAIN, began + self.drain)
            say(f"{router.name}: restart {reason}")

    def drained(self, router: Router, now: float) -> bool:
        """Let HAProxy send nothing new, then wait for what runs. A router that is told to end closes its listener at
        once, and there decode has to reach the layerwise proxy while a request runs; without HAProxy nothing is lost
        by going on."""
        router.held_since = now if router.held_since is None else router.held_since
        busy = self.frontend.hold(router.server, self.timeout)
        return not busy or now - router.held_since >= self.drain - SHORTEST_DRAIN


def run_watch(runtimes: List[Path], out_file: Path, frontend: Frontend, options: argparse.Namespace) -> NoReturn:
    watcher = Watcher(runtimes, out_file, frontend, options.drain_timeout, options.settle)
    say(f"watching {', '.join(router.name for router in watcher.routers)}")
    while True:
        began = time.monotonic()
        watcher.tick(began)
        time.sleep(max(0.05, options.interval - (time.monotonic() - began)))


def run_wait(runtimes: List[Path], out_file: Path, timeout: float, settle: float, interval: float = 0.25) -> int:
    watcher = Watcher(runtimes, out_file, Frontend(None, ""), 0.0, settle)
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
    start = verbs.add_parser("exec", help="start a router with the instances that are not out and known by their ids")
    start.add_argument("command", nargs=argparse.REMAINDER, help="-- ROUTER ARGS...")
    watch = verbs.add_parser("watch", help="take stale instances out of the routers, restart these one by one")
    watch.add_argument("--drain-timeout", type=float, default=300.0, help="seconds a router may take to end")
    watch.add_argument("--interval", type=float, default=1.0, help="seconds between looks")
    watch.add_argument("--haproxy", type=Path, help="admin socket of the HAProxy before the routers")
    watch.add_argument("--backend", default="pd_routers", help="name of the routers' backend there")
    wait = verbs.add_parser("wait", help="wait until the routers serve with the engine ids and the members of now")
    wait.add_argument("--timeout", type=float, default=120.0, help="seconds to wait")
    for verb in (watch, wait):
        verb.add_argument("runtime", nargs="+", type=Path, help="runtime directory of each router")
        verb.add_argument("--settle", type=float, default=2.0, help="seconds a router is ready before it counts")
    for verb in (start, watch, wait):
        verb.add_argument("--out", type=Path, default=OUT, help="file that tells who is out")
    args = parser.parse_args(argv)
    if args.verb == "wait":
        sys.exit(run_wait(args.runtime, args.out, args.timeout, args.settle))
    if args.verb == "watch":
        run_watch(args.runtime, args.out, Frontend(args.haproxy, args.backend), args)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    runtime = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if not runtime:
        parser.error("RUNTIME_DIRECTORY is not set: exec runs in a systemd unit with RuntimeDirectory=")
    try:
        run_exec(command, Path(runtime), args.out)
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
