# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One question each to what a drill watches. Every one answers (whether it serves, who answered or why not).

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

Answer = Tuple[bool, str]
MASTERS, ETCD, TCP, COMPLETION = "masters", "etcd", "tcp", "completion"
KINDS = (MASTERS, ETCD, TCP, COMPLETION)
_MOST = 1 << 20
_QUICK = 2.0  # seconds for what answers at once when it is well


def probe(spec: Mapping[str, Any], key: str = "") -> Callable[[], Answer]:
    urls = list(spec["urls"])
    if spec["kind"] == MASTERS:
        return lambda: masters(urls)
    if spec["kind"] == ETCD:
        return lambda: etcd(urls)
    if spec["kind"] == TCP:
        return lambda: tcp(urls[0])
    return lambda: completion(urls[0], spec["model"], key, spec["timeout"])


def get(
    url: str, timeout: float, body: Optional[Mapping[str, Any]] = None, headers: Optional[Dict[str, str]] = None
) -> str:
    """No proxy of the environment answers; a certificate is made for the name that clients use."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})})
    with opener.open(request, timeout=timeout) as answer:
        return str(answer.read(_MOST).decode(errors="replace"))


def failure(error: BaseException) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason).strip() or type(error).__name__


def _json(url: str) -> Tuple[Mapping[str, Any], str]:
    try:
        said = json.loads(get(url, _QUICK))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return {}, failure(error)
    return (said, "") if isinstance(said, dict) else ({}, "no JSON object")


def masters(urls: Sequence[str]) -> Answer:
    """Whether one of them serves: /health of Mooncake 0.3.11 and later says service_ready (rpc_service.cpp@v0.3.11)."""
    leaders, why = [], []
    for url in urls:
        said, wrong = _json(url)
        if said.get("service_ready") is True:
            leaders.append(url)
        else:
            why.append(wrong or str(said.get("ha_state") or "not ready"))
    if len(leaders) > 1:
        return False, f"{len(leaders)} masters say that they lead"
    return bool(leaders), leaders[0] if leaders else "nobody leads: " + ", ".join(dict.fromkeys(why))


def etcd(urls: Sequence[str]) -> Answer:
    """Whether every one of them reads through the quorum: /health of etcd (server/etcdserver/api/etcdhttp)."""
    for url in urls:
        said, wrong = _json(url)
        # text up to 3.5
        if str(said.get("health", "")).lower() != "true":
            return False, f"{url}: {wrong or said.get('reason') or 'not healthy'}"
    return True, ""


def tcp(url: str) -> Answer:
    host, _colon, port = url.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _QUICK).close()
    except OSError as error:
        return False, failure(error)
    return True, ""


def completion(url: str, model: str, key: str, timeout: float) -> Answer:
    """What a client sees: an answer with text in it."""
    body = {"model": model, "prompt": "The drill asks: one two three four five", "max_tokens": 4, "temperature": 0}
    try:
        said = json.loads(get(url, timeout, body, {"Authorization": f"Bearer {key}"} if key else {}))
        text = said["choices"][0]["text"]
    except (OSError, http.client.HTTPException) as error:
        return False, failure(error)
    except (ValueError, LookupError, TypeError):
        return False, "the answer is no completion"
    return (True, "") if isinstance(text, str) and text else (False, "the answer has no text")
