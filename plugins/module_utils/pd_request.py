# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request through a chosen prefill and a chosen decode, as a router would send it.

Contracts: what vllm-router 0.1.17 sends with --kv-connector mooncake and nixl, and what vLLM-Ascend's
examples/disaggregated_prefill_v1/load_balance_proxy_layerwise_server_example.py@v0.23.0 does.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import json
import queue
import socketserver
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler
from typing import Any, Callable, Dict, Mapping, Union

from ansible_collections.mooncake.pd.plugins.module_utils.pd_pairs import Pair, Server
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_api import ApiError, Client, Completion

METASERVER = "/v1/metaserver"
# What decode posts to the metaserver, or how its own request ended.
Event = Union[Mapping[str, Any], Completion, ApiError]


class PairError(Exception):
    """The request failed; the text says at which step, and what to do. hung: it took all of its time."""

    def __init__(self, text: str, hung: bool = False) -> None:
        super().__init__(text)
        self.hung = hung


class Question:
    """A prompt with its identity and its deadline. Both sides must know the request by the same id up to
    vLLM-Ascend 0.13 (mooncake_connector.py), and layerwise for good."""

    def __init__(self, client: Client, body: Mapping[str, Any], timeout: float) -> None:
        self.client = client
        self.body = {**body, "temperature": 0, "stream": False}
        self.timeout = timeout
        self.id = uuid.uuid4().hex
        self._end = time.monotonic() + timeout

    def left(self) -> float:
        return self._end - time.monotonic()

    def ask(self, server: Server, params: Mapping[str, Any], **changes: Any) -> Completion:
        left = self.left()
        if left <= 0:
            raise PairError(f"nothing left of the {self.timeout:g} s when {server} was to be asked", hung=True)
        headers = {"X-Request-Id": self.id}
        if server.rank is not None:
            headers["X-data-parallel-rank"] = str(server.rank)
        body = {**self.body, **changes, "kv_transfer_params": params}
        return self.client.complete(server.url, body, headers, left)

    def ask_prefill(self, server: Server, params: Mapping[str, Any]) -> Completion:
        """One token, since a prefill hands over only what ended by length; and no end of sequence before it."""
        try:
            return self.ask(server, params, max_tokens=1, min_tokens=1)
        except ApiError as error:
            raise PairError(
                f"{server} failed its part: {error}. Mend: see the end of its log.", hung=error.silent
            ) from error

    def ask_decode(self, pair: Pair, params: Mapping[str, Any]) -> Completion:
        """After prefill."""
        try:
            return self.ask(pair.decode, params, ignore_eos=True)
        except ApiError as error:
            raise self.decode_failed(pair, error) from error

    def decode_failed(self, pair: Pair, error: ApiError) -> PairError:
        if not error.silent:
            return PairError(
                f"{pair.decode} failed after {pair.prefill} had answered: {error}. Mend: see the end of both logs; "
                "decode's says why it could not get the KV."
            )
        return PairError(
            f"{pair.prefill} answered and {pair.decode} did not within {self.timeout:g} s: the KV did not come. "
            "Mend: see the end of both logs, and whether the hosts reach each other's KV ports.",
            hung=True,
        )


def through_mooncake(question: Question, pair: Pair) -> Completion:
    """Upstream's MooncakeConnector (vLLM 0.32.0): both are told of the transfer, decode also of the engine."""
    transfer = {"transfer_id": f"xfer-{question.id}"}
    question.ask_prefill(pair.prefill, {**transfer, "do_remote_decode": True, "do_remote_prefill": False})
    told = {
        **transfer,
        "do_remote_decode": False,
        "do_remote_prefill": True,
        "remote_bootstrap_addr": pair.prefill.bootstrap,
        "remote_engine_id": pair.prefill.engine_id,
    }
    return question.ask_decode(pair, told)


def through_nixl(question: Question, pair: Pair) -> Completion:
    """NixlConnector and vLLM-Ascend's MooncakeConnectorV1: decode is told what prefill answers."""
    asked: Dict[str, Any] = {"do_remote_decode": True, "do_remote_prefill": False}
    asked.update(dict.fromkeys(("remote_engine_id", "remote_block_ids", "remote_host", "remote_port")))
    told = question.ask_prefill(pair.prefill, asked).kv_transfer_params
    if not told:
        raise PairError(
            f"{pair.prefill} answered without kv_transfer_params: it hands over no KV. Mend: start it with the "
            "planned --kv-transfer-config, and ask by the contract of its connector."
        )
    return question.ask_decode(pair, told)


class Metaserver:
    """Where decode asks for a prefill in contract layerwise, in place of the proxy's."""

    def __init__(self, address: str, port: int) -> None:
        waiting: Dict[str, queue.Queue[Event]] = {}

        class Handler(BaseHTTPRequestHandler):
            timeout = 60

            def log_message(self, format: str, *args: Any) -> None:  # pylint: disable=redefined-builtin
                pass

            def do_POST(self) -> None:
                status = 404
                try:
                    params = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                    # the API puts a prefix and a suffix to the id that it was given
                    known = [name for name in waiting if name in str(params["request_id"])]
                except (ValueError, KeyError, TypeError):
                    known, status = [], 400
                if known and self.path == METASERVER:
                    waiting[known[0]].put(params)
                    status = 200
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

        class Server(socketserver.ThreadingTCPServer):  # http.server's asks the resolver for the host's name
            allow_reuse_address = True
            daemon_threads = True

        self.waiting = waiting
        self._server = Server((address, port), Handler)
        self.url = f"http://{address}:{self._server.server_address[1]}{METASERVER}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Metaserver:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def expect(self, request_id: str) -> queue.Queue[Event]:
        """Where what decode posts for the request will be."""
        self.waiting[request_id] = queue.Queue()
        return self.waiting[request_id]

    def through(self, question: Question, pair: Pair) -> Completion:
        """Decode first, which says here where it wants the KV; then prefill, which pushes it there."""
        events = self.expect(question.id)
        asked = {"do_remote_decode": False, "do_remote_prefill": True, "metaserver": self.url}

        def decode() -> None:
            try:
                events.put(question.ask(pair.decode, asked, ignore_eos=True))
            except ApiError as error:
                events.put(error)

        # not waited for: when prefill fails, decode waits until this process is gone
        threading.Thread(target=decode, daemon=True).start()
        try:
            return self._follow(question, pair, events)
        finally:
            del self.waiting[question.id]

    def _follow(self, question: Question, pair: Pair, events: queue.Queue[Event]) -> Completion:
        prefilled = False
        while True:
            try:
                event = events.get(timeout=max(0.0, question.left()))
            except queue.Empty:
                event = ApiError("", TimeoutError())
            if isinstance(event, Completion):
                return event
            if isinstance(event, ApiError):
                if prefilled:
                    raise question.decode_failed(pair, event)
                raise self._never_asked(question, pair, event)
            if not prefilled:
                question.ask_prefill(pair.prefill, event)
                prefilled = True

    def _never_asked(self, question: Question, pair: Pair, error: ApiError) -> PairError:
        if not error.silent:
            return PairError(
                f"{pair.decode} failed before it asked for a prefill: {error}. Mend: see the end of its log."
            )
        return PairError(
            f"{pair.decode} did not ask {self.url} for a prefill within {question.timeout:g} s. Mend: let its host "
            "reach this address and port, start it with the planned --kv-transfer-config, and ask by the contract of "
            "its connector.",
            hung=True,
        )


Through = Callable[[Question, Pair], Completion]
DIRECT: Dict[str, Through] = {"mooncake": through_mooncake, "nixl": through_nixl}
LAYERWISE = "layerwise"
