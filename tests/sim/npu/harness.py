# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start twins (or the real thing) on loopback addresses, ask them, stop them. For tests of this folder's programs."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HERE = Path(__file__).parent


def _unused() -> Iterator[int]:
    """Ports free on every address, none twice; below the kernel's own range and above what Mooncake draws from."""
    start = random.SystemRandom().randrange(23000, 29000)
    for port in itertools.chain(range(start, 29400), range(23000, start)):
        with socket.socket() as trial:
            try:
                trial.bind(("0.0.0.0", port))
            except OSError:
                continue
        yield port


_PORTS = _unused()


def free_port() -> int:
    return next(_PORTS)


def free_range(count: int) -> int:
    """First of that many free ports in a row."""
    found = [free_port()]
    while len(found) < count:
        port = free_port()
        found = [*found, port] if port == found[-1] + 1 else [port]
    return found[0]


def build(path: Path, ascend: str, mooncake: str = "0.3.11.post1", generation: str = "A3", *more: str) -> Path:
    """An environment of the twin."""
    command = [sys.executable, str(HERE / "environment.py"), "--vllm-ascend", ascend, "--mooncake", mooncake]
    command += ["--generation", generation, "--path", str(path), "--python", os.path.realpath(sys.executable), *more]
    subprocess.run(command, check=True)
    return path


def wait_until(condition: Callable[[], Any], what: Callable[[], str] | str, seconds: float = 15.0) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what if isinstance(what, str) else what()}"
        time.sleep(0.02)
    return value


class Answer:
    def __init__(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def events(self) -> list[str]:
        return [line[6:] for line in self.text.splitlines() if line.startswith("data: ")]


def ask(
    url: str, body: Any = None, *, headers: dict[str, str] | None = None, timeout: float = 15, method: str | None = None
) -> Answer:
    """Status 0 when nothing listens there (any more)."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=timeout)
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    try:
        kind = {"Content-Type": "application/json"} if data else {}
        connection.request(method or ("POST" if data else "GET"), parts.path, data, {**kind, **(headers or {})})
        answer = connection.getresponse()
        return Answer(answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()})
    except (ConnectionRefusedError, ConnectionResetError):
        return Answer(0, b"", {})
    finally:
        connection.close()


class Started:
    """A process with its own log file and process group."""

    def __init__(self, log: Path, argv: list[str], environment: dict[str, str]) -> None:
        self.log = log
        self.argv = argv
        with log.open("ab") as stream:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def said(self, text: str) -> int:
        return self.text.count(text)

    def wait_said(self, text: str, count: int = 1, seconds: float = 15) -> None:
        wait_until(lambda: self.said(text) >= count, lambda: f"{count} x {text!r} in\n{self.text[-3000:]}", seconds)

    def wait_healthy(self, url: str, seconds: float = 15) -> None:
        def healthy() -> bool:
            code = self.process.poll()
            assert code is None, f"ended with {code}:\n{self.text[-3000:]}"
            return ask(f"{url}/health").status == 200

        wait_until(healthy, lambda: f"{url} healthy:\n{self.text[-3000:]}", seconds)

    def terminate(self, seconds: float = 15) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds: float = 15) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still there after {seconds} s:\n{self.text[-3000:]}") from None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Fleet:
    """Everything a test starts; `stop` ends it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[Started] = []
        self.proxies: list[PullProxy] = []
        self._numbers = itertools.count()

    def start(self, argv: list[str], **environment: str) -> Started:
        log = self.directory / f"{next(self._numbers)}.log"
        process = Started(log, argv, {"MOONCAKE_PD_TWIN_STATE": str(self.directory / "state.json"), **environment})
        self.started.append(process)
        return process

    def vllm(self, home: Path, *options: str, model: str = "/no/model", **environment: str) -> Started:
        return self.start([str(home / "bin/vllm"), "serve", model, *options], **environment)

    def stop(self) -> None:
        for proxy in self.proxies:
            proxy.close()
        for process in self.started:
            process.kill()


def transfer(connector: str, role: str, port: int, sizes: dict[str, dict[str, int]], **more: Any) -> str:
    data = {"kv_connector": connector, "kv_role": role, "kv_port": port, "kv_connector_extra_config": sizes, **more}
    return json.dumps(data)


def sizes(prefill: tuple[int, int], decode: tuple[int, int]) -> dict[str, dict[str, int]]:
    """(dp, tp) of both sides."""
    return {
        "prefill": {"dp_size": prefill[0], "tp_size": prefill[1]},
        "decode": {"dp_size": decode[0], "tp_size": decode[1]},
    }


class PullProxy:
    """A router for the pull connectors in few lines: prefill first, its kv_transfer_params to decode, round robin."""

    def __init__(self, address: str, prefill: list[str], decode: list[str]) -> None:
        turns = (itertools.cycle(prefill), itertools.cycle(decode))

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                identity = {"X-Request-Id": os.urandom(8).hex()}
                told = {"do_remote_decode": True, "do_remote_prefill": False}
                first = {**body, "max_tokens": 1, "stream": False, "kv_transfer_params": told}
                answer = ask(next(turns[0]) + self.path, first, headers=identity)
                if answer.status == 200:
                    second = {**body, "kv_transfer_params": answer.json["kv_transfer_params"]}
                    answer = ask(next(turns[1]) + self.path, second, headers=identity)
                self.send_response(answer.status)
                self.end_headers()
                self.wfile.write(answer.body)

        ThreadingHTTPServer.daemon_threads = True
        self.port = free_port()
        self.url = f"http://{address}:{self.port}"
        self._server = ThreadingHTTPServer((address, self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
