# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A P/D cluster of stand-ins on 127.0.0.1 with routers and watcher, for the tests of the router role."""

from __future__ import annotations

import functools
import http.client
import importlib.util
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
PD_ROUTER = HERE.parents[2] / "roles" / "router" / "files" / "pd_router.py"
STAND_IN_ROUTER = [sys.executable, str(HERE / "vllm_router.py")]
STAND_IN_LAYERWISE = [sys.executable, str(HERE / "layerwise_proxy.py")]


@functools.cache
def load_pd_router() -> ModuleType:
    """The launcher as a module; it lies in the role and in no package."""
    spec = importlib.util.spec_from_file_location("pd_router", PD_ROUTER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _unused() -> Iterator[int]:
    """Ports of 127.0.0.1, none of them twice, and below those that the kernel gives to outgoing connections:
    such a one could be taken between this look and its use."""
    start = random.SystemRandom().randrange(18000, 29000)
    for port in itertools.chain(range(start, 30000), range(18000, start)):
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


_PORTS = _unused()


def free_ports(count: int) -> list[int]:
    return list(itertools.islice(_PORTS, count))


def request(
    port: int,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    timeout: float = 5.0,
    headers: dict[str, str] | None = None,
    method: str | None = None,
) -> tuple[int, bytes, str]:
    """Status, body and content type; status 0 when nothing listens, -1 when there was no (whole) answer in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        data = None if body is None else json.dumps(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method or ("GET" if body is None else "POST"), path, data, {**kind, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers.get("Content-Type", "")
    except ConnectionRefusedError:
        return 0, b"", ""
    except (OSError, http.client.HTTPException) as error:
        return -1, repr(error).encode(), ""
    finally:
        connection.close()


def get_json(port: int, path: str) -> Any:
    return json.loads(request(port, path)[1] or b"{}")


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 15.0) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return value


class Unit:
    """What systemd does for a unit with Restart=always and RuntimeDirectory=: respawn, a fresh directory each time."""

    def __init__(self, directory: Path, name: str, argv: list[str], respawn: bool = True, delay: float = 0.1) -> None:
        self.name = name
        self.argv = argv
        self.respawn = respawn
        self.delay = delay
        self.runtime = directory / name
        self.log = directory / f"{name}.log"
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._wanted = False
        self._thread: threading.Thread | None = None

    def start(self) -> Unit:
        self._wanted = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        wait_until(lambda: self.process, f"start of {self.name}")
        return self

    def _run(self) -> None:
        while self._wanted:
            shutil.rmtree(self.runtime, ignore_errors=True)
            self.runtime.mkdir(parents=True)
            with self.log.open("ab") as log:
                env = {**os.environ, "RUNTIME_DIRECTORY": str(self.runtime), "PYTHONUNBUFFERED": "1"}
                self.starts += 1
                self.process = subprocess.Popen(self.argv, stdout=log, stderr=log, env=env)
            self.process.wait()
            if not self.respawn:
                return
            time.sleep(self.delay)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def stop(self, signum: int = signal.SIGTERM, timeout: float = 10.0) -> None:
        self._wanted = False
        if self.process is None or self._thread is None:
            return
        self.process.send_signal(signum)
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._thread.join(timeout)

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class Instance:
    """A prefill or decode stand-in on fixed ports."""

    def __init__(self, cluster: Cluster, kind: str, name: str) -> None:
        self.cluster = cluster
        self.kind = kind
        self.name = name
        self.port, self.bootstrap_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        self.unit: Unit | None = None

    def start(self, **options: float | str) -> None:
        self.launch(**options)
        self.wait_up()

    def wait_up(self) -> None:
        wait_until(lambda: request(self.port, "/stand-in")[0] == 200, f"{self.name} up")

    def launch(self, **options: float | str) -> None:
        argv = [sys.executable, str(HERE / "pd_instance.py"), self.kind, "--name", self.name, "--port", str(self.port)]
        argv += ["--bootstrap-port", str(self.bootstrap_port)] if self.kind == "prefill" else []
        for option, value in options.items():
            argv += [f"--{option.replace('_', '-')}", str(value)]
        self.unit = Unit(self.cluster.directory, self.name, argv, respawn=False).start()

    def kill(self) -> None:
        assert self.unit is not None
        self.unit.stop(signal.SIGKILL)

    def engines(self) -> dict[str, str]:
        return {rank: entry["engine_id"] for rank, entry in get_json(self.bootstrap_port, "/query").items()}


class Cluster:
    def __init__(self, directory: Path, prefill: int, decode: int, router: list[str] | None = None) -> None:
        self.directory = directory
        self.prefill = [Instance(self, "prefill", f"p{i + 1}") for i in range(prefill)]
        self.decode = [Instance(self, "decode", f"d{i + 1}") for i in range(decode)]
        self.ports = free_ports(2)
        self.out_file = directory / "out.json"
        self.readiness = "/healthcheck" if router == STAND_IN_LAYERWISE else "/readiness"
        self.routers: list[Unit] = []
        for letter, port in zip("ab", self.ports, strict=True):
            argv = [sys.executable, str(PD_ROUTER), "exec", "--out", str(self.out_file)]
            argv += ["--", *(router or STAND_IN_ROUTER)]
            argv += ["--host", "127.0.0.1", "--port", str(port)]
            argv += self.layerwise_members() if router == STAND_IN_LAYERWISE else self.members_and_metrics()
            self.routers.append(Unit(directory, f"router-{letter}", argv))
        self.watcher: Unit | None = None
        self.units: list[Unit] = []

    def members_and_metrics(self) -> list[str]:
        argv = ["--prometheus-port", str(free_ports(1)[0])]
        for p in self.prefill:
            argv += ["--prefill", p.url, str(p.bootstrap_port)]
        for d in self.decode:
            argv += ["--decode", d.url]
        return argv

    def layerwise_members(self) -> list[str]:
        argv = []
        for kind, instances in (("prefiller", self.prefill), ("decoder", self.decode)):
            argv += [f"--{kind}-hosts", *(["127.0.0.1"] * len(instances))]
            argv += [f"--{kind}-ports", *(str(instance.port) for instance in instances)]
        return argv

    def start(self) -> Cluster:
        for instance in (*self.prefill, *self.decode):
            instance.launch()
        for instance in (*self.prefill, *self.decode):
            instance.wait_up()
        for router in self.routers:
            router.start()
        wait_until(lambda: self.ready() == [True, True], "both routers ready", 90)
        return self

    def rows(self) -> list[dict[str, Any]]:
        """As pd_instances tells of them."""
        return [
            {
                "name": instance.name,
                "kind": instance.kind,
                "api_urls": [instance.url],
                "bootstrap_urls": [f"http://127.0.0.1:{instance.bootstrap_port}"] if instance.kind == "prefill" else [],
            }
            for instance in (*self.prefill, *self.decode)
        ]

    def put_out(self, *instances: Instance) -> None:
        fresh = self.out_file.with_suffix(".new")
        fresh.write_text(json.dumps({"out": {instance.name: [instance.url] for instance in instances}}))
        fresh.replace(self.out_file)

    def watch(self, **options: float | str) -> Unit:
        argv = [sys.executable, str(PD_ROUTER), "watch", "--out", str(self.out_file)]
        for option, value in {"interval": 0.1, "settle": 0.3, "drain_timeout": 5.0, **options}.items():
            argv += [f"--{option.replace('_', '-')}", str(value)]
        argv += [str(router.runtime) for router in self.routers]
        self.watcher = Unit(self.directory, "watch", argv, respawn=False).start()
        self.units.append(self.watcher)
        wait_until(lambda: self.said("router-b: ready") or self.said("watching"), "watcher runs")
        return self.watcher

    def said(self, text: str) -> int:
        return (self.directory / "watch.log").read_text().count(text) if (self.directory / "watch.log").exists() else 0

    def ready(self) -> list[bool]:
        return [request(port, self.readiness, timeout=1)[0] == 200 for port in self.ports]

    def workers(self) -> list[set[str]]:
        """Names of those that each stand-in router sends to; empty when it does not answer."""
        names = {row["api_urls"][0]: row["name"] for row in self.rows()}
        answers = [request(port, "/stand-in") for port in self.ports]
        return [
            {names[url] for url in json.loads(body)["workers"]} if status == 200 else set()
            for status, body, _kind in answers
        ]

    def current(self) -> bool:
        """Both routers are ready and hold all decodes, and exactly the engine ids that the prefills have now."""
        wanted = {**{p.url: p.engines() for p in self.prefill}, **{d.url: {} for d in self.decode}}
        return self.ready() == [True, True] and all(self.members(router) == wanted for router in self.routers)

    def members(self, router: Unit) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads((router.runtime / "members.json").read_text())["members"]
        except (OSError, ValueError):
            return {}
        return record

    def stop(self) -> None:
        for unit in [*self.units, *self.routers]:
            unit.stop(signal.SIGKILL)
        for instance in (*self.prefill, *self.decode):
            if instance.unit is not None:
                instance.kill()

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-4000:]}" for path in sorted(self.directory.glob("*.log")))


class Sampler(threading.Thread):
    """Looks at the routers all the time: how long was none of them ready?"""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.none_ready = 0.0
        self.both_ready = 0
        self.looks = 0
        self._end = threading.Event()

    def run(self) -> None:
        last = time.monotonic()
        while not self._end.is_set():
            ready = self.cluster.ready()
            now = time.monotonic()
            self.looks += 1
            self.both_ready += all(ready)
            self.none_ready += 0.0 if any(ready) else now - last
            last = now
            time.sleep(0.02)

    def end(self) -> Sampler:
        self._end.set()
        self.join(10)
        return self


class Load:
    """Closed loop: each client sends the next request when the last has ended; every second one is streamed."""

    def __init__(self, port: int, clients: int, timeout: float, headers: dict[str, str] | None = None) -> None:
        self.port = port
        self.timeout = timeout
        self.headers = headers
        self.results: list[tuple[float, float, str]] = []
        self.began = time.monotonic()
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._client, daemon=True) for _time in range(clients)]
        for thread in self._threads:
            thread.start()

    def _client(self) -> None:
        stream = False
        while not self._end.is_set():
            stream = not stream
            at = time.monotonic()
            body = {"model": "tiny", "prompt": "x" * 4000, "max_tokens": 4, "stream": stream}
            status, data, kind = request(self.port, "/v1/completions", body, timeout=self.timeout, headers=self.headers)
            verdict = "ok"
            if status == -1:
                verdict = "hung" if b"timed out" in data else f"broken {data[:60]!r}"
            elif status != 200:
                verdict = f"{status} {kind}" if data else f"{status} EMPTY"
            elif not data or (stream and not data.rstrip().endswith(b"data: [DONE]")):
                verdict = "truncated"
            self.results.append((at - self.began, time.monotonic() - at, verdict))
            if verdict != "ok":
                time.sleep(0.05)

    def end(self) -> Load:
        self._end.set()
        for thread in self._threads:
            thread.join(self.timeout + 5)
        return self

    def count(self, since: float = 0.0, until: float = 1e9) -> Counter[str]:
        return Counter(verdict for at, _took, verdict in self.results if since <= at < until)

    def now(self) -> float:
        return time.monotonic() - self.began

    def summary(self) -> str:
        times = sorted(seconds for _at, seconds, verdict in self.results if verdict == "ok") or [0.0]
        bad = [(at, seconds) for at, seconds, verdict in self.results if verdict != "ok"]
        text = f"{len(self.results)} requests {dict(self.count())} p50 {times[len(times) // 2] * 1e3:.0f} ms"
        text += f" p99 {times[int(len(times) * 0.99)] * 1e3:.0f} ms max ok {times[-1]:.2f} s"
        if bad:
            first, last = min(at for at, _took in bad), max(at + s for at, s in bad)
            text += f"; bad from {first:.1f} to {last:.1f} s, longest {max(s for _at, s in bad):.1f} s"
        return text


def render(directory: Path, variables: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Write what the role would write into a directory: haproxy.cfg, haproxy-keys and facts.json."""
    extra = directory / "variables.json"
    extra.write_text(
        json.dumps({"ansible_python_interpreter": sys.executable, "router_config_dir": str(directory), **variables})
    )
    ansible = Path(sys.executable).with_name("ansible-playbook")
    command = [str(ansible), "-i", "localhost,", "-c", "local", "-e", f"@{extra}", str(HERE / "render.yml")]
    return subprocess.run(command, capture_output=True, text=True, check=False)
