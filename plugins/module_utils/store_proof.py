# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a client of Mooncake's store has said, and what is wrong when it is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils import store_client, transfer_bench

# docs/source/troubleshooting/error-code.md of Mooncake@v0.3.11
CODES = {
    -1: "internal error",
    -101: "SEGMENT_NOT_FOUND",
    -200: "NO_AVAILABLE_HANDLE",
    -600: "INVALID_PARAMS",
    -703: "REPLICA_IS_NOT_READY",
    -704: "OBJECT_NOT_FOUND",
    -706: "OBJECT_HAS_LEASE",
    -707: "LEASE_EXPIRED",
    -800: "TRANSFER_FAIL",
    -801: "CHECKSUM_MISMATCH",
    -900: "RPC_FAIL",
    -1010: "UNAVAILABLE_IN_CURRENT_STATUS",
    -1011: "UNAVAILABLE_IN_CURRENT_MODE",
}
_GONE = (0, -704)  # removed, or not there
_NO_SPACE = -200
_KILLED = (124, 137)  # timeout(1) of coreutils; the second one when it had to kill
# client_service.cpp and master_client.cpp of 0.3.13.post1; the skew as seen with 0.3.11.post1 against 0.3.13.post1
_NO_MASTER = re.compile(r"Client not available|No master is available in HA backend|Failed to connect to master")
_SKEW = re.compile(r"invalid rpc arg")
_ADDRESS = re.compile(r"([^:/\[\]]+):(\d{1,5})")


@dataclass(frozen=True)
class Finding:
    id: str
    what: str
    fix: str

    @property
    def text(self) -> str:
        return f"[{self.id}] {self.what} Mend: {self.fix}"


def host_and_port(server_address: str) -> Optional[tuple[str, int]]:
    """None of etcd://..., where etcd knows who leads."""
    found = _ADDRESS.fullmatch(server_address)
    return (found[1], int(found[2])) if found else None


def no_master(server_address: str, why: str) -> Finding:
    return Finding(
        "no-master",
        f"The master at {server_address} does not answer: {why}.",
        "see whether it runs (status.yml), and whether a firewall closes its port to this host.",
    )


def said(out: str) -> list[dict[str, Any]]:
    """The records of the client; whatever else it printed is left out."""
    return [
        json.loads(line[len(store_client.MARK) :])
        for line in out.splitlines()
        if line.startswith(store_client.MARK) and line.rstrip().endswith("}")
    ]


def code_text(code: int) -> str:
    return f"{code} ({CODES[code]})" if code in CODES else str(code)


def judge(code: int, records: Sequence[Mapping[str, Any]], log: str, wish: Mapping[str, Any]) -> Iterator[Finding]:
    """What is wrong, the cause before what follows from it."""
    missing = next((record["import"] for record in records if "import" in record), None)
    if missing is not None:
        yield Finding(
            "no-mooncake",
            f"The Python that has to have Mooncake cannot import it: {missing}.",
            "run prepare.yml, or name the environment that has it (path).",
        )
        return
    setup = next((record["setup"] for record in records if "setup" in record), None)
    if setup != 0:
        yield _not_in(setup, code, log, wish)
        return
    if wish["fallback"] and re.search(wish["fallback"], log):
        yield Finding(
            "fallback",
            f"{wish['protocol']} is planned, and the client found no device for it and used another transport.",
            "make the RDMA devices visible to this host (ibv_devinfo), or plan tcp.",
        )
    steps = [record for record in records if "step" in record]
    for number, record in enumerate(steps):
        found = _STEPS[record["step"]](record)
        if found:
            yield found
            return
        if number == len(wish["sizes"]) * len(wish["steps"]) - 1:
            return
    yield Finding(
        "unfinished",
        f"The client ended with {code} after {len(steps)} of {len(wish['sizes']) * len(wish['steps'])} steps: "
        f"{transfer_bench.complaint(log)}.",
        "read the log of the master, and try again with a larger timeout.",
    )


def _not_in(setup: Optional[int], code: int, log: str, wish: Mapping[str, Any]) -> Finding:
    server = wish["server_address"]
    if _SKEW.search(log):
        return Finding(
            "version-skew",
            f"The master at {server} does not understand this client: they are of different releases of Mooncake.",
            "install one release everywhere (mooncake.version, prepare.yml), then restart the master.",
        )
    if _NO_MASTER.search(log):
        return no_master(server, "it cannot be reached by its RPC" if setup is None else f"code {code_text(setup)}")
    if setup is None:
        cause = transfer_bench.complaint(log)
        if code in _KILLED:
            return Finding("timeout", f"The client did not get in in time: {cause}.", "read the log of the master.")
        return Finding("crashed", f"The client ended with {code}: {cause}.", "mend what it says.")
    return Finding(
        "setup-failed",
        f"The client did not get in, code {code_text(setup)}: {transfer_bench.complaint(log)}.",
        "mend what it says.",
    )


def _put(record: Mapping[str, Any]) -> Optional[Finding]:
    if record["code"] == 0:
        return None
    if record["code"] == _NO_SPACE:
        return Finding(
            "no-space",
            f"There is no room for an object of {record['size']} bytes (-200): nobody has brought a segment, or all "
            "are full and nothing can go.",
            "see which segments the master has (/get_segments_detail on its metrics port), and start what is missing.",
        )
    return Finding(
        "put-failed",
        f"An object of {record['size']} bytes was not taken, code {code_text(record['code'])}.",
        "see whether this host reaches the others on the ports of the plan. If a process of the pool has died, the "
        "master still hands its memory out for the time of its client_ttl: try again after it.",
    )


def _get(record: Mapping[str, Any]) -> Optional[Finding]:
    if record["equal"]:
        return None
    if record["found"] == 0:
        return Finding(
            "missing",
            f"An object of {record['size']} bytes that was put is not there, or cannot be fetched.",
            "see whether this host reaches the others on the ports of the plan, and whether a process of the pool has "
            "died since.",
        )
    return Finding(
        "wrong-value",
        f"An object of {record['size']} bytes came back with {record['found']} bytes and other content.",
        "do not use the pool: one memory or one network changes data. Try pairs of hosts with baseline.yml.",
    )


def _removed(record: Mapping[str, Any]) -> Optional[Finding]:
    if record["code"] in _GONE:
        return None
    return Finding(
        "not-removed",
        f"An object of {record['size']} bytes was not removed, code {code_text(record['code'])}.",
        "it is no harm: the master lets it go when it needs the room.",
    )


_STEPS = {"put": _put, "get": _get, "remove": _removed}


def figures(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of each object that was moved, in their order; what failed took no time that means anything."""
    return [
        {
            "step": record["step"],
            "size": record["size"],
            "seconds": round(record["seconds"], 6),
            "bandwidth": round(record["size"] / record["seconds"]) if record["seconds"] > 0 else None,
        }
        for record in records
        if record.get("equal") or (record.get("step") == "put" and record["code"] == 0)
    ]
