# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which peers wait for KV of the prefill workers on this host.

MooncakeConnector of vLLM 0.32.0 (mooncake_connector.py, receive_kv_from_single_worker) opens a connection to a worker
of prefill for each batch of pulls and closes it with the last answer. So a connection is a pull, also one for a request
that its client has given up: the worker answers that one only after VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Callable, Dict, List, Set, Tuple
from urllib.parse import urlsplit

from ansible_collections.mooncake.pd.plugins.module_utils import sockets
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_api import Client

Place = Tuple[str, int]
Table = Callable[[Set[int]], Tuple[List[sockets.Row], int]]


def workers(client: Client, bootstrap: str) -> Set[Place]:
    """Where the workers of an instance take pulls; ApiError when that is not told."""
    return client.query(bootstrap, _places, "the addresses of workers")


def _places(told: Any) -> Set[Place]:
    return {
        _place(address)
        for entry in told.values()
        for ranks in entry["worker_addr"].values()
        for address in ranks.values()
    }


def _place(address: Any) -> Place:
    parts = urlsplit(address)
    if not parts.hostname or not parts.port:
        raise ValueError(address)
    return str(ipaddress.ip_address(parts.hostname)), parts.port


def pulls(places: Set[Place], table: Table) -> Dict[str, List[str]]:
    """Peers by worker, of the workers on this host; OSError when the sockets cannot be read."""
    rows, bad = table({port for _address, port in places})
    if bad:
        raise OSError(f"{bad} rows of /proc/net/tcp were not understood")
    found: Dict[str, List[str]] = {}
    for row in rows:
        if row.state == "ESTABLISHED" and (row.address, row.port) in places:
            found.setdefault(sockets.place(row.address, row.port), []).append(row.remote)
    return found
