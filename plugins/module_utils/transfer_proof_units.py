# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Both ends of a proof of transfers as transient systemd units that run transfer_worker in the Python of Mooncake.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import inspect
import json
import os
from contextlib import suppress
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ansible_collections.mooncake.pd.plugins.module_utils import transfer_bench, transfer_worker
from ansible_collections.mooncake.pd.plugins.module_utils import transfer_bench_units as units

PREFIX = "mooncake-pd-transport"
PROTOCOLS = ("tcp", "rdma", "ascend")
PROOF = "proof"

ARGUMENTS: Dict[str, Any] = {
    **units.ARGUMENTS,
    "protocols": {"type": "list", "elements": "str", "choices": list(PROTOCOLS), "default": ["tcp"]},
    "metadata": {"type": "str", "default": transfer_worker.P2P},
    "npu": {"type": "int", "default": 0},
    "size": {"type": "int", "default": 4194304},
    "timeout": {"type": "int", "default": 15},
}


def path(name: str) -> str:
    """A file of the proof; /run is empty after a crash."""
    return os.path.join(units.LOGS, f"{PREFIX}-{name}")


def unit(name: str) -> str:
    return units.unit(name, PREFIX)


def python(place: str) -> Optional[str]:
    """The Python of an environment or prefix; or the path is that of a Python itself."""
    for name in (place, os.path.join(place, "bin/python"), os.path.join(place, "bin/python3")):
        if os.path.isfile(name) and os.access(name, os.X_OK):
            return name
    return None


def write(name: str, text: str) -> str:
    """There is no secret in it, and the user of the unit has to read it."""
    place = path(name)
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o644)
        file.write(text)
    return place


def remove_files() -> None:
    """Logs and specifications of every protocol, and the program."""
    for name in ["worker.py", *(f"{protocol}.{kind}" for protocol in PROTOCOLS for kind in ("json", "out", "log"))]:
        with suppress(FileNotFoundError):
            os.unlink(path(name))


def command(interpreter: str) -> List[str]:
    return [interpreter, write("worker.py", inspect.getsource(transfer_worker))]


def specification(params: Mapping[str, Any], protocol: str, action: str, **more: Any) -> str:
    return json.dumps(
        {
            "action": action,
            "protocol": protocol,
            "address": params["address"],
            "metadata": params["metadata"],
            # tells who left it, should the key outlive the engine
            "name": f"{PREFIX}-{params['address']}-{protocol}-{os.urandom(4).hex()}",
            "devices": [] if protocol == "tcp" else params["devices"],
            "device": params["npu"],
            "size": params["size"],
            **more,
        }
    )


def environment(params: Mapping[str, Any], protocol: str, ports: range) -> Dict[str, str]:
    """Beside what the engines have: that is what has to lead to the planned transport."""
    own = {
        **transfer_bench.port_environment(ports[0], ports[-1]),
        # transfer_engine_py.cpp@3b5a594: seconds, 5 at least
        "MC_TRANSFER_TIMEOUT": str(max(5, params["timeout"])),
        # transfer_metadata_plugin.cpp@3b5a594: else the first interface that is up is told to peers
        "MC_TCP_BIND_ADDRESS": params["address"],
    }
    # transfer_engine_impl.cpp@3b5a594: without it an engine takes RDMA or NPUs where they are, whatever it is asked for
    return {**own, "MC_FORCE_TCP": "1"} if protocol == "tcp" else own


def events(text: str) -> Iterator[Dict[str, Any]]:
    """What a worker said; a line that was cut off when it was ended says nothing."""
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "event" in event:
            yield event


def by_peer(text: str) -> Dict[str, str]:
    """The log of a worker cut at its marks; what came before the first one is that of no peer ("")."""
    parts: Dict[str, List[str]] = {"": []}
    current = ""
    for line in text.splitlines():
        if line.startswith(transfer_worker.MARK):
            current = line[len(transfer_worker.MARK) :]
            parts.setdefault(current, [])
        else:
            parts[current].append(line)
    return {name: "\n".join(lines) for name, lines in parts.items()}


def lack(params: Mapping[str, Any]) -> Tuple[str, str]:
    """(rule, problem) when a worker cannot be started at all."""
    if not python(params["path"]):
        return "mooncake", f"{params['path']} holds no Python (bin/python), so no Mooncake"
    return "", ""
