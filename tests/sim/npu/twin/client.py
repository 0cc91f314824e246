# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP requests without a proxy, standard library only."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit


def opened(url: str, body: Any, headers: dict[str, str] | None = None, timeout: float | None = None) -> Any:
    """(connection, answer) of a POST; the caller closes the connection."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"Request URL {url!r} is missing an 'http://' protocol.")
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout)
    try:
        every = {"Content-Type": "application/json", **(headers or {})}
        connection.request("POST", parts.path or "/", json.dumps(body), every)
        return connection, connection.getresponse()
    except http.client.HTTPException as error:
        connection.close()
        raise OSError(str(error) or type(error).__name__) from error
    except BaseException:
        connection.close()
        raise


def post(url: str, body: Any, headers: dict[str, str] | None = None, timeout: float | None = None) -> tuple[int, bytes]:
    connection, answer = opened(url, body, headers, timeout)
    try:
        return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error) or type(error).__name__) from error
    finally:
        connection.close()
