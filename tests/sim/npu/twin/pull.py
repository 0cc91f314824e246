# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MooncakeConnectorV1 and MooncakeHybridConnector: decode fetches the prompt's KV from prefill, worker by worker."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import wire
from .state import since

if TYPE_CHECKING:
    from .engine import Engine, Request, Worker

_PLACE = "mooncake_connector.py"


class LoadFailed(Exception):
    """The prompt's KV did not come."""


def offer(engine: Engine, request: Request, blocks: list[int]) -> dict[str, Any]:
    """Prefill: keep the prompt's blocks and say where they are. Keys by release, mooncake_connector.py per tag."""
    release, settings = engine.settings.release.vllm_ascend, engine.settings
    count = -(-len(request.tokens) // engine.cache.size)
    ids = blocks[:count]
    if "wrong-kv" in settings.faults:
        for block in ids:
            engine.cache.write([block], [value ^ 1 for value in engine.cache.read(block) or []])
    engine.holder.hold(request.id, blocks)
    engine.log.info(f"Delaying free of {len(ids)} blocks for request {request.id}", _PLACE)
    hybrid = engine.transfer is not None and engine.transfer.connector == "MooncakeHybridConnector"
    grouped = since(release, "0.22.1rc1") or (hybrid and since(release, "0.21.0rc1"))
    params: dict[str, Any] = {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_block_ids": [ids] if grouped else ids,
        "remote_engine_id": engine.engine_id,
        "remote_host": settings.address,
        "remote_port": engine.side,
        "last_token_id": 0,
    }
    if since(release, "0.12.0rc1"):
        params |= {"remote_pcp_size": settings.sizes.pcp, "remote_dcp_size": 1}
    if since(release, "0.13.0"):
        params |= {"remote_multi_nodes_meta_mapping": {}, "num_prompt_blocks": count}
    if since(release, "0.14.0rc1"):
        params["remote_request_id"] = request.id
    if since(release, "0.18.0"):
        params["remote_ptp_size"] = settings.sizes.tp
    if since(release, "0.23.0"):
        params["remote_block_size"] = engine.cache.size
    return params


def server(engine: Engine) -> Callable[[Worker], Callable[[socket.socket], None]]:
    """What a prefill worker answers on its KV port."""
    count = len(engine.workers)

    def for_worker(worker: Worker) -> Callable[[socket.socket], None]:
        def serve(connection: socket.socket) -> None:
            while True:
                message = wire.receive(connection)
                if "kv-hang" in engine.settings.faults:
                    continue
                if message["op"] == "get_meta":
                    wire.send(connection, {"engine_id": engine.engine_id, "workers": count, "session": worker.session})
                elif message["op"] == "read":
                    # in the real one decode reads this memory itself, so nobody asks whose blocks they are
                    found = [engine.cache.read(block) for block in message["blocks"]]
                    parts = [None if block is None else block[worker.index :: count] for block in found]
                    wire.send(connection, {"blocks": parts})
                elif message["op"] == "done_receiving":
                    if not engine.holder.fetched(message["request_id"], worker.index):
                        worker.log.warning(
                            "MooncakeConnector finish req not in reqs to process. If it is a P node, this request may "
                            f"have been force freed. request_id={message['request_id']}",
                            _PLACE,
                        )
                    wire.send(connection, {"ack": True})

        return serve

    return for_worker


def fetch(engine: Engine, request: Request, params: dict[str, Any]) -> list[int] | None:
    """Decode: read the prompt's blocks from every prefill worker; None when the request names no blocks."""
    release = engine.settings.release.vllm_ascend
    if not params.get("remote_block_ids"):
        return None
    needed = ["remote_engine_id", "remote_host", "remote_port"]
    needed += ["remote_request_id"] if since(release, "0.14.0rc1") else []
    if not all(name in params for name in needed):
        engine.log.warning(f"Got invalid KVTransferParams. params={params}. ", _PLACE)
        return None
    if not since(release, "0.12.0rc1") and params["remote_engine_id"] == engine.engine_id:
        engine.workers[0].log.error(
            f"AssertionError: Conflict engine id {engine.engine_id} with local engine id {engine.engine_id}.", _PLACE
        )
        request.cancelled.wait()  # its thread is dead, and nobody tells the scheduler
        raise LoadFailed("aborted")
    ids = params["remote_block_ids"]
    ids = ids[0] if ids and isinstance(ids[0], list) else ids
    assert engine.transfer
    workers = int(params.get("remote_ptp_size") or engine.transfer.size("prefill", "tp_size"))
    workers *= int(params.get("remote_pcp_size") or 1) * engine.transfer.size("prefill", "pp_size", 1)
    began = time.monotonic()
    parts = [_read(engine, request, params, index=index, workers=workers, ids=ids) for index in range(workers)]
    for worker in engine.workers:
        took = f"KV cache transfer for request {request.id} took {(time.monotonic() - began) * 1e3:.2f} ms"
        if since(release, "0.21.0rc1"):
            took += f". local_ip {engine.settings.address} local_device_id {worker.device} "
            took += f"remote_session_id {parts[0][1]}"
        else:
            took += f" (1 groups, {len(ids)} blocks)."
        worker.log.info(took, _PLACE)
    return _merge([part for part, _session in parts])


def _merge(parts: list[list[list[int]]]) -> list[int]:
    """parts[worker][block] -> the values in their order: worker w of n holds every n-th value of a block."""
    merged: list[int] = []
    for block in range(len(parts[0])):
        pieces = [part[block] for part in parts]
        values = [0] * sum(len(piece) for piece in pieces)
        for index, piece in enumerate(pieces):
            values[index :: len(pieces)] = piece
        merged += values
    return merged


def _read(
    engine: Engine, request: Request, params: dict[str, Any], *, index: int, workers: int, ids: list[int]
) -> tuple[list[list[int]], str]:
    elsewhere = (params.get("remote_multi_nodes_meta_mapping") or {}).get(str(index), {})
    host, port = str(elsewhere.get("host") or params["remote_host"]), int(params["remote_port"]) + index
    log = engine.workers[index % len(engine.workers)].log
    # ZeroMQ keeps on connecting, so a refused connection is no answer either
    deadline = time.monotonic() + engine.settings.transfer_timeout
    while True:
        try:
            with wire.connect(host, port, max(0.05, deadline - time.monotonic())) as connection:
                connection.settimeout(max(0.05, deadline - time.monotonic()))
                wire.send(connection, {"op": "get_meta"})
                meta = wire.receive(connection)
                if meta["engine_id"] != params["remote_engine_id"] or meta["workers"] != workers:
                    # the real one would use addresses that it remembers and read what lies there now
                    raise LoadFailed(f"{host}:{port} is another engine than the request says")
                wire.send(connection, {"op": "read", "blocks": ids})
                blocks = wire.receive(connection)["blocks"]
                remote = params.get("remote_request_id") or request.id
                wire.send(connection, {"op": "done_receiving", "request_id": remote})
                wire.receive(connection)
        except (OSError, ValueError) as error:
            if request.cancelled.is_set():
                raise LoadFailed("aborted") from error
            if time.monotonic() < deadline and isinstance(error, ConnectionRefusedError):
                request.cancelled.wait(0.1)
                continue
            log.glog("E", "ascend_direct_transport.cpp", f"Failed to connect to target: {host}:{port}, status: 103900")
            log.error(f"Receive failed after all retries. source=tcp://{host}:{port}, error={error}. ", _PLACE)
            raise LoadFailed(f"no KV from {host}:{port}") from error
        if any(block is None for block in blocks):
            log.error("Mooncake transfer failed, ret: -1", place=_PLACE)
            raise LoadFailed(f"{host}:{port} does not hold these blocks any more")
        return blocks, str(meta["session"])
