# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a server of vLLM, or what stands in front of it, over HTTP.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, TypeVar
from urllib.error import HTTPError
from urllib.request import HTTPDefaultErrorHandler, HTTPErrorProcessor, HTTPHandler, OpenerDirector, Request

from ansible.module_utils.urls import open_url

from ansible_collections.mooncake.pd.plugins.module_utils.vllm_metrics import prompt_tokens_by_source

T = TypeVar("T")
# What a connection, a status line and a body can fail with; HTTPError is one of them.
BROKEN = (OSError, http.client.HTTPException)
COMPLETIONS = "/v1/completions"
PROMPT = "the quick brown fox jumps over the lazy dog and runs into the deep forest"
# The counters follow an answer with the engine's next step, so they may be looked at too early.
METRICS_LAG_SECONDS = 10.0


def reason(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__


def _cause(error: BaseException) -> Any:
    """Of a URLError that wraps another error, that one."""
    inner = getattr(error, "reason", None)
    return inner if isinstance(inner, BaseException) else error


class ApiError(Exception):
    """A question has no answer of use; the text says which and why."""

    def __init__(self, text: str, cause: Optional[BaseException] = None) -> None:
        super().__init__(text)
        inner = _cause(cause) if cause is not None else None
        # Nothing listens there, unless a firewall rejects. Everything else leaves open whether something is in flight.
        self.refused = isinstance(inner, ConnectionRefusedError)
        # socket.timeout is no TimeoutError in Python 3.9
        self.silent = isinstance(inner, (socket.timeout, TimeoutError))


@dataclass(frozen=True)
class Completion:
    text: str
    prompt_tokens: int
    kv_transfer_params: Optional[Dict[str, Any]] = None


def completion_of(base: str, raw: bytes) -> Completion:
    """The body of an answer with status 200."""
    try:
        data = json.loads(raw)
        return Completion(
            data["choices"][0]["text"], int(data["usage"]["prompt_tokens"]), data.get("kv_transfer_params")
        )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        shown = raw[:300].decode(errors="replace") if raw else "an empty body"
        raise ApiError(f"{base}{COMPLETIONS} answered 200, but with {shown} instead of a completion") from error


def _plain_opener() -> OpenerDirector:
    opener = OpenerDirector()
    for handler in (HTTPHandler, HTTPDefaultErrorHandler, HTTPErrorProcessor):
        opener.add_handler(handler())
    return opener


# open_url makes a TLS context for every question, also for a plain one: 45 ms of CPU where this takes 1.5.
_PLAIN = _plain_opener()


class Client:
    """HTTP without a proxy: those are for the way out, the service is inside."""

    def __init__(self, timeout: float, validate_certs: bool = True) -> None:
        self.timeout = timeout
        self.validate_certs = validate_certs

    def open(
        self,
        base: str,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
    ) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        sent = {"User-Agent": "mooncake.pd", "Content-Type": "application/json", **(headers or {})}
        within = self.timeout if timeout is None else timeout
        if base.startswith("http://"):
            return _PLAIN.open(Request(base + path, data, sent), timeout=within)
        return open_url(
            base + path,
            data=data,
            headers=sent,
            unredirected_headers=["Authorization"],
            method="POST" if body is not None else "GET",
            timeout=within,
            use_proxy=False,
            validate_certs=self.validate_certs,
        )

    def get(self, base: str, path: str, timeout: Optional[float] = None) -> Tuple[int, bytes]:
        """Status and body, whatever the status is."""
        try:
            try:
                answer = self.open(base, path, timeout=timeout)
            except HTTPError as error:
                answer = error
            return int(answer.code), answer.read()
        except BROKEN as error:
            raise ApiError(f"{base}{path} cannot be read: {reason(_cause(error))}", error) from error

    def read(self, base: str, path: str, timeout: Optional[float] = None) -> bytes:
        """Body of an answer that must be 200."""
        status, body = self.get(base, path, timeout)
        if status != 200:
            raise ApiError(f"{base}{path} answered {status}: {body[:200].decode(errors='replace') or 'an empty body'}")
        return body

    def begin(
        self,
        base: str,
        body: Mapping[str, Any],
        headers: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
    ) -> Any:
        """A completion whose status is 200; the caller reads it."""
        try:
            return self.open(base, COMPLETIONS, body, headers, timeout)
        except HTTPError as error:
            try:
                text = error.read(500).decode(errors="replace") or "with an empty body"
            except BROKEN as broken:
                text = f"and broke off ({reason(broken)})"
            raise ApiError(f"{base}{COMPLETIONS} answered {error.code}: {text}") from error
        except BROKEN as error:
            within = round(self.timeout if timeout is None else timeout, 1)
            raise ApiError(
                f"{base}{COMPLETIONS} did not answer within {within:g} s: {reason(_cause(error))}", error
            ) from error

    def complete(
        self,
        base: str,
        body: Mapping[str, Any],
        headers: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
    ) -> Completion:
        """A whole completion; its text may be empty."""
        try:
            raw = self.begin(base, body, headers, timeout).read()
        except BROKEN as error:
            raise ApiError(f"{base}{COMPLETIONS} broke off its answer: {reason(error)}", error) from error
        return completion_of(base, raw)

    def sources(self, base: str, required: bool = True, timeout: Optional[float] = None) -> Dict[str, float]:
        """Prompt tokens that the server counted, by source."""
        text = self.read(base, "/metrics", timeout).decode(errors="replace")
        counts = prompt_tokens_by_source(text)
        if counts is None and required:
            raise ApiError(
                f"{base}/metrics does not tell where prompt tokens came from, so nothing is proven; "
                "is --disable-log-stats set?"
            )
        return counts or {}

    def query(self, bootstrap: str, pick: Callable[[Any], T], what: str, timeout: Optional[float] = None) -> T:
        """What a bootstrap server tells of its engines, as far as it is picked; it has to be what."""
        raw = self.read(bootstrap, "/query", timeout)
        try:
            return pick(json.loads(raw))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            shown = raw[:200].decode(errors="replace") or "an empty body"
            raise ApiError(f"{bootstrap}/query answered {shown} instead of {what}") from error

    def engine_ids(self, bootstrap: str, timeout: Optional[float] = None) -> Dict[int, str]:
        """Data parallel rank -> engine id (MooncakeBootstrapServer of vLLM 0.32.0), lowest rank first; never empty."""
        found = self.query(
            bootstrap,
            lambda told: {int(rank): str(entry["engine_id"]) for rank, entry in told.items()},
            "engine ids",
            timeout,
        )
        if not found:
            raise ApiError(f"{bootstrap}/query knows no engine: its workers have not registered (yet)")
        return dict(sorted(found.items()))


def check_text(base: str, completion: Completion) -> Completion:
    """The same, if it has a text."""
    if not completion.text:
        raise ApiError(f"{base}{COMPLETIONS} answered 200 with an empty text")
    return completion
