# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The OpenAI-compatible server: shapes of vllm/entrypoints/openai at v0.32.0, for every release the same."""

from __future__ import annotations

import json
import queue
import select
import socket
import threading
import time
import traceback
import uuid
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import metrics
from .engine import Request
from .log import Log
from .peers import Runs
from .tokens import tokenize

_GET = ("/health", "/ping", "/version", "/v1/models", "/metrics")
_POST = ("/v1/completions", "/v1/chat/completions")


class Api:
    """What the handlers share."""

    def __init__(
        self,
        log: Log,
        *,
        names: list[str],
        root: str,
        max_len: int,
        version: str,
        by_source: bool,
        faults: dict[str, str],
    ) -> None:
        self.log = log
        self.names = names
        self.root = root
        self.max_len = max_len
        self.version = version
        self.by_source = by_source
        self.faults = faults
        self.created = int(time.time())
        self.engines: list[Runs] = []
        self.running: dict[Request, Runs] = {}
        self.open_answers = 0
        self.stopping = False
        self._lock = threading.Lock()
        self._turn = 0

    @property
    def dead(self) -> bool:
        return any(engine.dead.is_set() for engine in self.engines)

    def choose(self) -> Runs:
        """The engine with the fewest requests; among equals they take turns."""
        with self._lock:
            load = {engine.rank: 0 for engine in self.engines}
            for engine in self.running.values():
                load[engine.rank] += 1
            order = self.engines[self._turn :] + self.engines[: self._turn]
            self._turn = (self._turn + 1) % len(self.engines)
            return min(order, key=lambda engine: load[engine.rank])

    def begin(self, request: Request) -> queue.Queue[dict[str, Any]]:
        events: queue.Queue[dict[str, Any]] = queue.Queue()
        engine = self.choose()
        with self._lock:
            self.running[request] = engine

        def work() -> None:
            try:
                engine.run(request, events.put)
            except Exception as error:  # a mistake of the twin must not look like a slow engine
                self.log.error(f"the twin failed: {error!r}", "twin.py")
                events.put({"error": f"the twin failed: {error!r}"})
            finally:
                with self._lock:
                    self.running.pop(request, None)

        threading.Thread(target=work, daemon=True).start()
        return events


class Gone(Exception):
    """The client hung up."""


class Problem(Exception):
    """Status, type, text and parameter of an error answer."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "uvicorn"
    sys_version = ""
    timeout = 60
    api: Api

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def version_string(self) -> str:
        return "uvicorn"

    # -- answers -------------------------------------------------------------------------------------------------

    def reply(self, status: int, body: Any = None, kind: str = "application/json", **headers: str) -> None:
        data = (
            b""
            if body is None
            else body.encode()
            if isinstance(body, str)
            else json.dumps(body, separators=(",", ":")).encode()
        )
        self.send_response(status)
        if body is not None:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.api.log.access(
            f"{self.client_address[0]}:{self.client_address[1]}",
            f"{self.command} {self.path}",
            status,
            HTTPStatus(status).phrase,
        )

    def failed(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        self.reply(status, {"error": {"message": message, "type": kind, "param": param, "code": status}})

    def _known_path(self, path: str) -> bool:
        allowed = "GET" if path in _GET else "POST" if path in _POST else None
        if allowed is None:
            self.reply(404, {"detail": "Not Found"})
        elif allowed != self.command:
            self.reply(405, {"detail": "Method Not Allowed"}, Allow=allowed)
        return allowed == self.command

    def do_GET(self) -> None:
        api, path = self.api, self.path.partition("?")[0]
        if not self._known_path(path):
            return
        if path in ("/health", "/ping"):
            self.reply(503 if api.dead or "health-503" in api.faults else 200)
        elif path == "/version":
            self.reply(200, {"version": api.version})
        elif path == "/v1/models":
            self.reply(200, {"object": "list", "data": [self._model(name) for name in api.names]})
        else:
            values = {engine.rank: engine.snapshot() for engine in sorted(api.engines, key=lambda e: e.rank)}
            text = metrics.render(values, api.names[0], api.by_source)
            self.reply(200, text, "text/plain; version=0.0.4; charset=utf-8")

    def _model(self, name: str) -> dict[str, Any]:
        permission = {
            "id": f"modelperm-{uuid.uuid4().hex[:16]}",
            "object": "model_permission",
            "created": self.api.created,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        return {
            "id": name,
            "object": "model",
            "created": self.api.created,
            "owned_by": "vllm",
            "root": self.api.root,
            "parent": None,
            "max_model_len": self.api.max_len,
            "permission": [permission],
        }

    # -- completions ---------------------------------------------------------------------------------------------

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if not self._known_path(path):
            return
        try:
            body = json.loads(raw)
            if not isinstance(body, dict):
                raise ValueError("no object")
        except ValueError as error:
            self.failed(400, "Bad Request", f"1 validation error:\n  JSON decode error: {error}", "body")
            return
        try:
            Completion(self, body, chat=path.endswith("chat/completions")).answer()
        except Problem as problem:
            self.failed(*problem.args)
        except (Gone, OSError):
            self.close_connection = True

    def client_left(self) -> bool:
        readable, _write, _error = select.select([self.connection], [], [], 0)
        try:
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True


class Completion:
    """One POST of either kind."""

    def __init__(self, handler: Handler, body: dict[str, Any], chat: bool) -> None:
        self.handler = handler
        self.api = handler.api
        self.body = body
        self.chat = chat
        self.model = body.get("model") or self.api.names[0]
        if self.model not in self.api.names:
            aliases = ", ".join(self.api.names)
            text = f"The model `{self.model}` does not exist. Valid aliases: {aliases}."
            raise Problem(404, "NotFoundError", text, "model")
        self.prompts = self._chat_prompt() if chat else self._prompts()
        asked = body.get("max_completion_tokens", body.get("max_tokens"))
        self.max_tokens = int(asked if asked is not None else 16)
        if self.max_tokens > self.api.max_len:
            text = (
                f"max_tokens={self.max_tokens} cannot be greater than max_model_len={self.api.max_len}. Please request "
                f"fewer output tokens. (parameter=max_tokens, value={self.max_tokens})"
            )
            raise Problem(400, "BadRequestError", text, "max_tokens")
        longest = max(len(prompt) for prompt in self.prompts) + self.max_tokens
        if longest > self.api.max_len:
            text = (
                f"This model's maximum context length is {self.api.max_len} tokens. However, you requested {longest}."
            )
            raise Problem(400, "BadRequestError", text, "input_tokens")
        name = handler.headers.get("X-Request-Id") or uuid.uuid4().hex[:16]
        self.id = f"{'chatcmpl' if chat else 'cmpl'}-{name}"
        self.created = int(time.time())

    def _prompts(self) -> list[list[int]]:
        prompt = self.body.get("prompt")
        if isinstance(prompt, str) or (isinstance(prompt, list) and prompt and isinstance(prompt[0], int)):
            return [tokenize(prompt)]
        if isinstance(prompt, list) and prompt:
            return [tokenize(one) for one in prompt]
        raise Problem(
            400, "BadRequestError", "Either prompt or prompt_embeds must be provided and non-empty.", "prompt"
        )

    def _chat_prompt(self) -> list[list[int]]:
        try:
            text = " ".join(f"{m['role']} {_content(m['content'])}" for m in self.body["messages"])
        except (KeyError, TypeError) as error:
            raise Problem(400, "Bad Request", "1 validation error:\n  messages", "messages") from error
        return [tokenize(text + " assistant")]

    def answer(self) -> None:
        params = self.body.get("kv_transfer_params")
        if params and len(self.prompts) > 1:
            raise Problem(400, "BadRequestError", "the twin moves KV for one prompt at a time", "prompt")
        if self.api.stopping or self.api.dead:
            raise Problem(503 if self.api.stopping else 500, "InternalServerError", "EngineCore encountered an issue.")
        requests = [
            Request(self.id if self.chat else f"{self.id}-{i}", tokens, self.max_tokens, params)
            for i, tokens in enumerate(self.prompts)
        ]
        streams = [(request, self.api.begin(request)) for request in requests]
        self.api.open_answers += 1
        try:
            if self.body.get("stream"):
                self._stream(streams)
            else:
                self._whole(streams)
        finally:
            self.api.open_answers -= 1
            for request in requests:
                request.cancelled.set()

    def _events(self, request: Request, events: queue.Queue[dict[str, Any]]) -> Any:
        looked = time.monotonic()
        while True:
            if time.monotonic() - looked > 0.2:
                looked = time.monotonic()
                if self.handler.client_left():
                    request.cancelled.set()
                    raise Gone
            try:
                event = events.get(timeout=0.2)
            except queue.Empty:
                continue
            yield event
            if "token" not in event:
                return

    def _whole(self, streams: list[tuple[Request, queue.Queue[dict[str, Any]]]]) -> None:
        choices, tokens, params, external = [], 0, None, 0
        for index, (request, events) in enumerate(streams):
            text, reason = "", None
            for event in self._events(request, events):
                if "token" in event:
                    text, tokens = text + event["token"], tokens + 1
                elif "finish" in event:
                    reason, params, external = event["finish"], event["params"], external + event["external"]
                else:
                    text = (
                        event.get("error")
                        or "EngineCore encountered an issue. See stack trace (above) for the root cause."
                    )
                    raise Problem(500, "InternalServerError", text)
            choices.append(self._choice(index, text, reason))
        if all(choice["finish_reason"] == "abort" for choice in choices) and "abort-hangs" in self.api.faults:
            while not self.handler.client_left():
                time.sleep(0.2)
            raise Gone
        self.handler.reply(200, self._envelope(choices, tokens, params))

    def _choice(self, index: int, text: str, reason: str | None) -> dict[str, Any]:
        common = {
            "logprobs": None,
            "finish_reason": reason,
            "stop_reason": None,
            "token_ids": None,
            "routed_experts": None,
        }
        if not self.chat:
            return {"index": index, "text": text, **common, "prompt_logprobs": None, "prompt_token_ids": None}
        message = {
            "role": "assistant",
            "content": text,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": None,
        }
        return {"index": index, "message": message, **common}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _usage(self, tokens: int) -> dict[str, Any]:
        prompt = sum(len(p) for p in self.prompts)
        return {"prompt_tokens": prompt, "total_tokens": prompt + tokens, "completion_tokens": tokens}

    def _envelope(self, choices: list[dict[str, Any]], tokens: int, params: Any) -> dict[str, Any]:
        chat = {"prompt_logprobs": None, "prompt_token_ids": None, "prompt_text": None} if self.chat else {}
        return {
            **self._head("chat.completion" if self.chat else "text_completion"),
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": f"vllm-{self.api.version}-twin",
            "usage": {**self._usage(tokens), "prompt_tokens_details": None, "completion_tokens_details": None},
            **chat,
            "kv_transfer_params": params,
            "ec_transfer_params": None,
            "metrics": None,
        }

    def _stream(self, streams: list[tuple[Request, queue.Queue[dict[str, Any]]]]) -> None:
        handler = self.handler
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        tokens = 0
        if self.chat:
            self._chunk({"role": "assistant", "content": ""}, None)
        for request, events in streams:
            count = 0
            last = ""
            for event in self._events(request, events):
                if "token" in event:
                    count += 1
                    if count < self.max_tokens:
                        self._chunk(event["token"], None)
                    else:  # the last one comes with the reason
                        last = event["token"]
                elif "finish" in event:
                    self._chunk(last, event["finish"])
                else:
                    text = (
                        event.get("error")
                        or "EngineCore encountered an issue. See stack trace (above) for the root cause."
                    )
                    error = {"message": text, "type": "InternalServerError", "param": None, "code": 500}
                    self._send(json.dumps({"error": error}))
            tokens += count
        if (self.body.get("stream_options") or {}).get("include_usage"):
            kind = "chat.completion.chunk" if self.chat else "text_completion"
            end = {**self._head(kind), "choices": [], "usage": self._usage(tokens)}
            self._send(json.dumps({**end, "system_fingerprint": f"vllm-{self.api.version}-twin"}))
        self._send("[DONE]")
        handler.wfile.write(b"0\r\n\r\n")
        handler.api.log.access(
            f"{handler.client_address[0]}:{handler.client_address[1]}", f"POST {handler.path}", 200, "OK"
        )

    def _chunk(self, text: Any, reason: str | None) -> None:
        choice: dict[str, Any] = {"index": 0}
        if self.chat:
            choice["delta"] = text if isinstance(text, dict) else {"content": text}
        else:
            choice["text"] = text
        choice |= {"logprobs": None, "finish_reason": reason}
        if not self.chat:
            choice |= {"stop_reason": None, "prompt_token_ids": None, "token_ids": None}
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        self._send(json.dumps({**self._head(kind), "choices": [choice]}, separators=(",", ":")))

    def _send(self, text: str) -> None:
        data = f"data: {text}\n\n".encode()
        self.handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.handler.wfile.flush()


def _content(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(part.get("text", "") for part in content)
    return str(content)


class Server(ThreadingHTTPServer):
    """Bound early and listening late, as vLLM's: the address is taken before the engine starts."""

    daemon_threads = True
    request_queue_size = 2048

    def __init__(self, host: str | None, port: int, api: Api) -> None:
        self.address_family = socket.AF_INET6 if host and ":" in host else socket.AF_INET
        handler = type("BoundHandler", (Handler,), {"api": api})
        super().__init__((host or "", port), handler, bind_and_activate=False)
        try:
            self.allow_reuse_address = True
            # not the parent's: it asks the resolver for the host's name
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(self.server_address)
        except BaseException:
            self.server_close()
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        traceback.print_exc()  # a mistake of the twin, must not look like a slow engine
