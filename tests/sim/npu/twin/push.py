# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MooncakeLayerwiseConnector: decode asks the proxy's metaserver for a prefill, which pushes to decode's ports."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import wire
from .client import post
from .pull import LoadFailed, _merge
from .state import since

if TYPE_CHECKING:
    from .engine import Engine, Request, Worker

_PLACE = "mooncake_layerwise_connector.py"


class Inbox:
    """Decode: what has been pushed for the requests that wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._parts: dict[str, dict[int, list[list[int]]]] = {}
        self._failed: set[str] = set()

    def expect(self, request_id: str) -> None:
        with self._changed:
            self._parts[request_id] = {}
            self._failed.discard(request_id)

    def put(self, request_id: str, part: int, blocks: list[list[int]]) -> bool:
        with self._changed:
            if request_id not in self._parts:
                return False
            self._parts[request_id][part] = blocks
            self._changed.notify_all()
            return True

    def fail(self, request_id: str) -> None:
        with self._changed:
            self._failed.add(request_id)
            self._changed.notify_all()

    def wait(self, request_id: str, count: int, cancelled: threading.Event) -> list[list[list[int]]]:
        """All parts; waits as long as nobody aborts, because decode has no clock for it."""
        with self._changed:
            try:
                while len(self._parts[request_id]) < count:
                    if request_id in self._failed or cancelled.is_set():
                        raise LoadFailed("aborted" if cancelled.is_set() else "prefill said that it failed")
                    self._changed.wait(0.1)
                return [self._parts[request_id][part] for part in range(count)]
            finally:
                self._parts.pop(request_id, None)


def server(engine: Engine) -> Callable[[Worker], Callable[[socket.socket], None]]:
    """What a decode worker answers on its KV port."""

    def for_worker(worker: Worker) -> Callable[[socket.socket], None]:
        def serve(connection: socket.socket) -> None:
            while True:
                message = wire.receive(connection)
                if message["op"] == "get_meta":
                    worker.log.info(f"Got GET META INFO for request {message['request_id']}", _PLACE)
                    wire.send(connection, {"engine_id": engine.engine_id, "session": worker.session})
                elif message["op"] == "done_sending":
                    engine.inbox.put(message["request_id"], message["part"], message["blocks"])
                    wire.send(connection, {"ack": True})
                elif message["op"] == "failed_sending":
                    worker.log.error(
                        f"Got FAILED_SENDING_MSG for request. request_id={message['request_id']}. ", _PLACE
                    )
                    engine.inbox.fail(message["request_id"])
                    wire.send(connection, {"ack": True})

        return serve

    return for_worker


def await_prompt(engine: Engine, request: Request, params: dict[str, Any], blocks: list[int]) -> list[int]:
    """Decode: ask for a prefill and wait for what it pushes."""
    settings, url = engine.settings, params.get("metaserver")
    assert engine.transfer
    message = {
        "token_ids": [],
        "request_id": request.id,
        "do_remote_prefill": False,
        "do_remote_decode": True,
        "remote_block_ids": [blocks],
        "remote_block_size": [engine.cache.size],
        "remote_engine_id": engine.engine_id,
        "remote_host": settings.address,
        "remote_port": engine.side,
        "remote_tp_size": settings.sizes.tp,
        "remote_pcp_size": settings.sizes.pcp,
        "remote_dcp_size": 1,
    }
    if since(settings.release.vllm_ascend, "0.17.0rc1"):
        message["remote_cached_tokens"] = 0
    engine.inbox.expect(request.id)
    engine.log.info(f"Send request: {request.id} to proxy metaserver: {url}", _PLACE)
    threading.Thread(target=_ask, args=(engine, str(url), message), daemon=True).start()
    parts = engine.transfer.size("prefill", "tp_size") * engine.transfer.size("prefill", "pcp_size", 1)
    return _merge(engine.inbox.wait(request.id, parts, request.cancelled))


def _ask(engine: Engine, url: str, message: dict[str, Any]) -> None:
    """An answer of any status counts as success, as in the real one."""
    for attempt in (1, 2, 3):
        try:
            post(url, message)
            return
        except (OSError, ValueError) as error:
            engine.log.error(f"Failed to connect to metaserver. url={url}, retry={attempt}. ", _PLACE)
            if attempt == 3:
                engine.log.error(f"Access metaserver fail. error={error}. ", _PLACE)


def deliver(engine: Engine, request: Request, params: dict[str, Any], blocks: list[int]) -> None:
    """Prefill: push the prompt's blocks to decode's workers."""
    release = engine.settings.release.vllm_ascend
    if since(release, "0.17.0rc1") and "remote_cached_tokens" not in params:
        # behind the proxy of the pull connectors; an error in the scheduler ends the engine (vllm-ascend issue 14000)
        from .engine import EngineDied  # noqa: PLC0415 - the modules need each other

        raise EngineDied("KeyError: 'remote_cached_tokens'")
    if "no-push" in engine.settings.faults or not params.get("remote_host"):
        return
    ids = blocks[: -(-len(request.tokens) // engine.cache.size)]
    count, targets = len(engine.workers), int(params.get("remote_tp_size") or 1)
    change = 1 if "wrong-kv" in engine.settings.faults else 0
    for worker in engine.workers:
        host, port = str(params["remote_host"]), int(params["remote_port"]) + worker.index % targets
        part = [[value ^ change for value in engine.cache.read(block) or []][worker.index :: count] for block in ids]
        try:
            _send(engine, params, worker, part, (host, port))
        except (OSError, ValueError) as error:
            worker.log.glog(
                "E", "ascend_direct_transport.cpp", f"Failed to connect to target: {host}:{port}, status: 103900"
            )
            worker.log.error(f"Mooncake transfer failed for request {request.id}: {error}", _PLACE)
            _tell_failure(engine, params, host, port)
            return


def _send(
    engine: Engine, params: dict[str, Any], worker: Worker, part: list[list[int]], target: tuple[str, int]
) -> None:
    host, port = target
    deadline = time.monotonic() + engine.settings.transfer_timeout
    while True:
        try:
            connection = wire.connect(host, port, max(0.05, deadline - time.monotonic()))
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    with connection:
        connection.settimeout(max(0.05, deadline - time.monotonic()))
        wire.send(connection, {"op": "get_meta", "request_id": params["request_id"]})
        meta = wire.receive(connection)
        if meta["engine_id"] != params["remote_engine_id"]:
            raise ConnectionError(f"{host}:{port} is another engine than the request says")
        message = {"op": "done_sending", "request_id": params["request_id"], "part": worker.index, "blocks": part}
        wire.send(connection, message)
        wire.receive(connection)


def _tell_failure(engine: Engine, params: dict[str, Any], host: str, port: int) -> None:
    if not since(engine.settings.release.vllm_ascend, "0.20.2rc1"):
        return  # decode waits for ever
    try:
        with wire.connect(host, port, 1) as connection:
            connection.settimeout(1)
            wire.send(connection, {"op": "failed_sending", "request_id": params["request_id"]})
            wire.receive(connection)
    except (OSError, ValueError):
        pass
