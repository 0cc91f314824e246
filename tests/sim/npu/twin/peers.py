# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of one data-parallel group: rank 0's listens on the RPC port until all others have said hello.

vllm/v1/engine/utils.py (wait_for_engine_startup) and core.py (startup_handshake). After the start the port is closed
and the connections stay: over them a head gives requests to headless engines, and sees that a process has gone.
"""

from __future__ import annotations

import itertools
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from . import wire
from .engine import Emit, Engine, Request
from .log import Log
from .shape import INTERNAL, Shape
from .transfer_config import Refused

# vllm/v1/engine/core.py HANDSHAKE_TIMEOUT_MINS
HANDSHAKE_SECONDS = 300.0


class Runs(Protocol):
    """An engine, here or elsewhere."""

    rank: int
    dead: threading.Event
    death: str

    def run(self, request: Request, emit: Emit) -> None: ...

    def snapshot(self) -> dict[str, float]: ...


class Link:
    """A connection between two processes of a group, written by several threads."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._lock = threading.Lock()

    def send(self, message: Any) -> None:
        with self._lock:
            wire.send(self.connection, message)

    def receive(self) -> Any:
        return wire.receive(self.connection)


class RemoteEngine:
    """An engine of a headless process, as the head sees it."""

    def __init__(self, rank: int, link: Link) -> None:
        self.rank = rank
        self.dead = threading.Event()
        self.death = ""
        self.stats: dict[str, float] = {}
        self._link = link
        self._numbers = itertools.count()
        self._events: dict[int, queue.Queue[dict[str, Any]]] = {}

    def snapshot(self) -> dict[str, float]:
        return self.stats

    def run(self, request: Request, emit: Emit) -> None:
        number = next(self._numbers)
        events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._events[number] = events
        told = False
        try:
            asked = {
                "id": request.id,
                "tokens": request.tokens,
                "max_tokens": request.max_tokens,
                "params": request.params,
            }
            self._link.send({"op": "run", "rank": self.rank, "number": number, "request": asked})
            while True:
                try:
                    event = events.get(timeout=0.1)
                except queue.Empty:
                    if self.dead.is_set():
                        emit({"dead": True})
                        return
                    if request.cancelled.is_set() and not told:
                        told = True
                        self._link.send({"op": "abort", "rank": self.rank, "number": number})
                    continue
                emit(event)
                if "token" not in event:
                    return
        except OSError:
            emit({"dead": True})
        finally:
            self._events.pop(number, None)

    def took(self, message: dict[str, Any]) -> None:
        self.stats = message["stats"]
        events = self._events.get(message["number"])
        if events is not None:
            events.put(message["event"])


class Head:
    """Rank 0's process."""

    def __init__(self, shape: Shape, address: str, digest: str, log: Log, checks_digest: bool) -> None:
        self.shape = shape
        self.remote: dict[int, RemoteEngine] = {}
        self._digest = digest if checks_digest else None
        self._log = log
        self._changed = threading.Condition()
        self._states: dict[int, str] = {}
        self._links: list[Link] = []
        self._error: Refused | None = None
        self.on_loss: Callable[[str], bool] = lambda who: False  # whether that is the end
        try:
            self._listener = wire.listen(address, shape.rpc_port)
        except OSError as error:
            raise Refused(
                "zmq.error.ZMQError", f"{error.strerror} (addr='tcp://{address}:{shape.rpc_port}')"
            ) from error
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _peer = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        link = Link(connection)
        ranks: list[int] = []
        try:
            connection.sendall(wire.GREETING)
            hello = link.receive()
            problem = self._judge(hello)
            if problem:
                self._fail(problem)
                return
            ranks = hello["ranks"]
            link.send({"op": "hello"})
            with self._changed:
                self._links.append(link)
                for rank in ranks:
                    self._states[rank] = "CONNECTED"
                    self.remote[rank] = RemoteEngine(rank, link)
                self._changed.notify_all()
            while True:
                self._take(link.receive())
        except (OSError, ValueError, KeyError):
            pass
        finally:
            connection.close()
            if ranks:
                self._lost(ranks)

    def _judge(self, hello: dict[str, Any]) -> str | None:
        for rank in hello["ranks"]:
            if not 0 <= rank < self.shape.dp:
                return f"Message from engine with unexpected data parallel rank: {rank}"
            if rank in self.shape.ranks:
                return f"HELLO message from remote engine {rank}, expected it to be local"
            if hello["headless"] and self.shape.mode != INTERNAL:
                return f"Remote engine {rank} must not use --headless in external or hybrid dp lb mode"
            if not hello["headless"] and self.shape.mode == INTERNAL:
                return f"Remote engine {rank} must use --headless unless in external or hybrid dp lb mode"
            if rank in self._states:
                return f"Unexpected HELLO message for remote engine {rank} in CoreEngineState.CONNECTED state."
        return None

    def _take(self, message: dict[str, Any]) -> None:
        if message["op"] == "ready":
            if self._digest is not None and message["digest"] != self._digest:
                self._fail(
                    f"Configuration mismatch detected for engine {message['ranks'][0]}. All DP workers must have "
                    "identical configurations for parameters that affect collective communication (e.g., enable_eplb, "
                    f"eplb_config.log_balancedness). Worker hash: {message['digest']}, Expected hash: {self._digest}. "
                    "Please ensure all workers are started with the same command-line arguments."
                )
                return
            with self._changed:
                self._states.update(dict.fromkeys(message["ranks"], "READY"))
                self._changed.notify_all()
        elif message["op"] == "event":
            self.remote[message["rank"]].took(message)

    def _fail(self, text: str) -> None:
        with self._changed:
            self._error = Refused("RuntimeError", text)
            self._changed.notify_all()

    def _lost(self, ranks: list[int]) -> None:
        if self._error:
            return  # that is why it hung up
        if self.on_loss(f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"):
            for rank in ranks:
                self.remote[rank].death = "its process went away"
                self.remote[rank].dead.set()

    def _wait(self, states: tuple[str, ...], what: str) -> None:
        missing = self.shape.dp - self.shape.local
        with self._changed:
            said = 0.0
            while True:
                if self._error:
                    raise self._error
                there = sum(state in states for state in self._states.values())
                if there == missing:
                    return
                if time.monotonic() - said > 10:
                    said = time.monotonic()
                    local = self.shape.local if what == "start" else 0
                    self._log.debug(
                        f"Waiting for {local} local, {missing - there} remote core engine proc(s) to {what}.",
                        "utils.py",
                    )
                self._changed.wait(0.5)

    def meet(self) -> None:
        """Returns when every rank of the group has said hello."""
        self._wait(("CONNECTED", "READY"), "connect")
        for link in self._links:
            link.send({"op": "init"})

    def ready(self) -> None:
        """Returns when every engine of the group has started; from then on the port is free."""
        self._wait(("READY",), "start")
        # an accept in another thread would keep the socket open
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Member:
    """Any other process of the group."""

    def __init__(self, shape: Shape, address: str, digest: str) -> None:
        self.shape = shape
        self._address = address
        self._digest = digest
        self._link: Link | None = None
        self._running: dict[tuple[int, int], Request] = {}
        self.engines: dict[int, Engine] = {}
        self.on_loss: Callable[[str], bool] = lambda who: False  # whether that is the end

    def meet(self) -> None:
        deadline = time.monotonic() + HANDSHAKE_SECONDS
        while self._link is None:
            try:
                connection = wire.connect(self._address, self.shape.rpc_port, 5)
                connection.settimeout(None)
                link = Link(connection)
                link.send({"ranks": list(self.shape.ranks), "headless": self.shape.headless})
                if link.receive()["op"] == "hello":
                    self._link = link
            except (OSError, ValueError) as error:
                if time.monotonic() > deadline:
                    text = "Did not receive response from front-end process within 5 minutes"
                    raise Refused("RuntimeError", text) from error
                time.sleep(0.2)
        try:
            self._link.receive()
        except (OSError, ValueError):
            self.on_loss("rank 0")
            threading.Event().wait()

    def ready(self) -> None:
        assert self._link
        self._link.send({"op": "ready", "ranks": list(self.shape.ranks), "digest": self._digest})
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._link
        try:
            while True:
                message = self._link.receive()
                key = (message["rank"], message["number"])
                if message["op"] == "run":
                    request = Request(**message["request"])
                    self._running[key] = request
                    threading.Thread(target=self._run, args=(key, request), daemon=True).start()
                elif message["op"] == "abort" and key in self._running:
                    self._running[key].cancelled.set()
        except (OSError, ValueError):
            self.on_loss("rank 0")

    def _run(self, key: tuple[int, int], request: Request) -> None:
        rank, number = key
        engine = self.engines[rank]
        assert self._link
        link = self._link

        def emit(event: dict[str, Any]) -> None:
            try:
                link.send({"op": "event", "rank": rank, "number": number, "event": event, "stats": engine.snapshot()})
            except OSError:
                request.cancelled.set()

        try:
            engine.run(request, emit)
        finally:
            self._running.pop(key, None)
