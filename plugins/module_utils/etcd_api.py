# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks one member of etcd by the JSON form of its API (/v3/, since etcd 3.4), through no proxy."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Optional


class EtcdError(Exception):
    """A member did not answer, or answered with an error; the text is its own."""


@dataclass(frozen=True)
class Tls:
    ca: str
    certificate: Optional[str] = None
    key: Optional[str] = None

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key)
        return context


class Member:
    """The member behind an endpoint."""

    def __init__(self, endpoint: str, tls: Optional[Tls] = None, timeout: float = 5, token: str = "") -> None:
        self.endpoint = endpoint.rstrip("/")
        self.timeout = timeout
        self.token = token
        handlers: list[Any] = [urllib.request.ProxyHandler({})]
        if endpoint.startswith("https:"):
            try:
                context = tls.context() if tls else ssl.create_default_context()
            except (OSError, ssl.SSLError) as error:
                raise EtcdError(f"the certificates cannot be used: {error}") from None
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self.opener = urllib.request.build_opener(*handlers)

    def call(self, path: str, body: Optional[Mapping[str, Any]] = None) -> dict[str, Any]:
        with self._open(path, body or {}) as answer:
            return _decoded(_read(answer))

    def stream(self, path: str) -> Iterator[dict[str, Any]]:
        """What the member sends piece by piece, one JSON document a line."""
        with self._open(path, {}) as answer:
            while True:
                line = _read(answer, line=True)
                if not line:
                    return
                piece = _decoded(line)
                if "error" in piece:
                    raise EtcdError(_said(piece["error"]))
                yield piece.get("result", {})

    def login(self, user: str, password: str) -> None:
        self.token = self.call("/v3/auth/authenticate", {"name": user, "password": password})["token"]

    def _open(self, path: str, body: Mapping[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", **({"Authorization": self.token} if self.token else {})}
        request = urllib.request.Request(f"{self.endpoint}{path}", json.dumps(body).encode(), headers)
        try:
            return self.opener.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(4096).decode(errors="replace")
            if error.code == 404:
                raise EtcdError("it does not know the API /v3/: etcd before 3.4, or no etcd") from None
            raise EtcdError(_error_of(text) or f"HTTP {error.code}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise EtcdError(str(reason) or type(reason).__name__) from None


def text_key(text: str) -> str:
    """Keys and values are base64 in JSON."""
    return base64.b64encode(text.encode()).decode()


def _read(answer: Any, line: bool = False) -> bytes:
    try:
        read: bytes = answer.readline() if line else answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise EtcdError(f"the answer broke off: {error}") from None
    return read


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        raise EtcdError(f"it answers no JSON: {text[:60]!r}") from None
    if not isinstance(answer, dict):
        raise EtcdError(f"it answers something else than etcd: {text[:60]!r}")
    return answer


def _error_of(text: str) -> str:
    try:
        return _said(json.loads(text))
    except ValueError:
        return ""


def _said(error: Any) -> str:
    if isinstance(error, Mapping):
        return str(error.get("message") or error.get("error") or error)
    return str(error)
