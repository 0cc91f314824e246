# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Metadata of Mooncake clients that died: keys that keep a client of the same name from starting."""

from __future__ import annotations

import base64
import ipaddress
import json
import socket
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence

DEAD, ALIVE, UNKNOWN = "dead", "alive", "unknown"
_SECONDS = 3.0
_LIMIT = 16 << 20  # one segment with many buffers and devices
# a proxy of the environment knows nothing of a metadata server
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class MetadataError(Exception):
    """A server that gave no answer, or one that was not understood."""


@dataclass(frozen=True)
class Stored:
    value: bytes
    revision: int = 0


def keys(name: str, cluster: str = "") -> tuple[str, str]:
    """Address of the client and its segment: transfer_metadata.cpp:150-266 of Mooncake 0.3.13."""
    prefix = f"mooncake/{cluster.rstrip('/')}/" if cluster.strip("/") else "mooncake/"
    return f"{prefix}rpc_meta/{name}", prefix + (name if "/" in name else f"ram/{name}")


def address(value: bytes) -> tuple[str, int]:
    try:
        content = json.loads(value)
        host, port = content["ip_or_host_name"], content["rpc_port"]
    except (ValueError, KeyError, TypeError):
        raise MetadataError("the stored address of the client is not understood") from None
    if not isinstance(host, str) or not host or not isinstance(port, int) or not 0 < port < 65536:
        raise MetadataError("the stored address of the client is not understood")
    return host, port


def ask(url: str, method: str = "GET", body: Optional[dict[str, Any]] = None) -> Optional[bytes]:
    """None for 404."""
    data = None if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with _OPENER.open(request, timeout=_SECONDS) as answer:
            return bytes(answer.read(_LIMIT))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise MetadataError(f"HTTP {error.code}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise MetadataError(getattr(reason, "strerror", None) or str(reason) or type(reason).__name__) from None


class Http:
    """Mooncake's own server: http_metadata_server.cpp."""

    def __init__(self, server: str) -> None:
        self.server = server

    def _url(self, key: str) -> str:
        # the server decodes nothing (seen), so it has to be written as Mooncake's client does: curl_easy_escape
        return f"{self.server}?key={urllib.parse.quote(key, safe='')}"

    def get(self, key: str) -> Optional[Stored]:
        value = ask(self._url(key))
        return None if value is None else Stored(value)

    def delete(self, key: str, stored: Stored) -> bool:
        if self.get(key) != stored:
            return False
        return ask(self._url(key), "DELETE") is not None


class Etcd:
    """The JSON gateway of etcd 3.4 and later."""

    def __init__(self, server: str) -> None:
        self.server = server

    def _call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = ask(f"{self.server}/v3/kv/{path}", "POST", body)
        try:
            content = json.loads(answer or b"")
        except ValueError:
            raise MetadataError("no answer of etcd's JSON gateway") from None
        if not isinstance(content, dict):
            raise MetadataError("no answer of etcd's JSON gateway")
        return content

    def get(self, key: str) -> Optional[Stored]:
        rows = self._call("range", {"key": _coded(key)}).get("kvs") or []
        try:
            return Stored(base64.b64decode(rows[0].get("value", "")), int(rows[0]["mod_revision"])) if rows else None
        except (KeyError, ValueError, AttributeError):
            raise MetadataError("no answer of etcd's JSON gateway") from None

    def delete(self, key: str, stored: Stored) -> bool:
        """Only what was seen: a client that came up meanwhile has written its own."""
        compare = {"key": _coded(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(stored.revision)}
        change = {"request_delete_range": {"key": _coded(key)}}
        return bool(self._call("txn", {"compare": [compare], "success": [change]}).get("succeeded"))


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def store(server: str) -> Http | Etcd:
    scheme, _slashes, rest = server.partition("://")
    if scheme == "etcd" and rest:
        return Etcd(f"http://{rest.split(';')[0].split(',')[0].rstrip('/')}")
    if scheme in ("http", "https") and rest:
        return Http(server)
    raise MetadataError(f"{server!r} is neither http://HOST:PORT/metadata nor etcd://HOST:PORT")


def _means_whoever_asks(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.rstrip(".").lower() == "localhost"
    return address.is_loopback or address.is_unspecified


def proof(host: str, port: int) -> tuple[str, str]:
    """Only a host that lives and refuses the connection proves that its client is dead."""
    if _means_whoever_asks(host):
        return UNKNOWN, f"{host}:{port} is another host's own address as well as this one's"
    try:
        socket.create_connection((host, port), timeout=_SECONDS).close()
    except ConnectionRefusedError:
        return DEAD, f"{host}:{port} refuses connections"
    except OSError as error:
        return UNKNOWN, f"whether {host}:{port} serves could not be found out: {error.strerror or error}"
    return ALIVE, f"{host}:{port} answers"


@dataclass(frozen=True)
class Result:
    server: str
    key: str
    state: str  # removed (in check mode: would be), kept, unknown, absent
    why: str
    size: int = 0


def sweep(
    server: str,
    names: Sequence[str],
    cluster: str,
    dry: bool,
    asked: Callable[[str, int], tuple[str, str]] = proof,
) -> list[Result]:
    results: list[Result] = []
    try:
        there = store(server)
        for name in names:
            results += _client(there, server, keys(name, cluster), dry, asked)
    except MetadataError as error:
        results.append(Result(server, "", UNKNOWN, str(error)))
    return results


def _client(
    there: Http | Etcd,
    server: str,
    both: tuple[str, str],
    dry: bool,
    asked: Callable[[str, int], tuple[str, str]],
) -> list[Result]:
    held = [(key, there.get(key)) for key in both]
    present = [(key, stored) for key, stored in held if stored is not None]
    if not present:
        return []
    own = held[0][1]
    if own is None:
        why = "no address of its client is stored, so nothing proves that it is dead"
        return [Result(server, key, UNKNOWN, why) for key, _stored in present]
    try:
        state, why = asked(*address(own.value))
    except MetadataError as error:
        state, why = UNKNOWN, str(error)
    if state != DEAD:
        return [Result(server, key, "kept" if state == ALIVE else UNKNOWN, why) for key, _stored in present]
    results = []
    # the address last: as long as it stands, the rest can be judged again
    for key, stored in reversed(present):
        if dry or there.delete(key, stored):
            results.append(Result(server, key, "removed", why, len(stored.value)))
        else:
            results.append(Result(server, key, "kept", "it has changed since it was looked at"))
            break
    return results
