# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests ask masters, engines and the client of the pool."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNIT, CLIENT = "mooncake-pd-master", "lab-client"
ADDRESSES = {"mo-a": "10.90.95.11", "mo-b": "10.90.95.12", "mo-p1": "10.90.95.21", "mo-d1": "10.90.95.31"}
MASTERS = ("mo-a", "mo-b")
MEMBERS = ("mo-a", "mo-b", "mo-p1")  # of etcd
ETCD = "etcd://" + ";".join(f"{ADDRESSES[host]}:2379" for host in MEMBERS)
ROUTER = "http://10.90.95.12:8000"
# Seconds. Another master serves ten seconds after the one that led is gone; both engines look into the pool before they
# compute, one request after the other, and each look takes 5 s at most meanwhile.
LATEST = 30
PYTHON = "/var/cache/mooncake-pd/engine/bin/python"


def ask(host: str, port: int, path: str, body: dict[str, Any] | None = None, timeout: float = 3) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(
        f"http://{ADDRESSES[host]}:{port}/{path}",
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with opener.open(request, timeout=timeout) as answer:
        return answer.read().decode()


def until(what: Callable[[], Any], seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, what
        time.sleep(0.1)
    return found


def role(host: str) -> tuple[str, bool] | None:
    try:
        told = json.loads(ask(host, 9003, "health"))
    except OSError:
        return None
    return told["role"], told["service_ready"]


def leader(seconds: float = 30) -> str:
    return until(lambda: next((host for host in MASTERS if role(host) == ("leader", True)), None), seconds)


def other(host: str) -> str:
    return next(name for name in MASTERS if name != host)


def keys() -> set[str]:
    """All that the pool has."""
    return set(ask(leader(), 9003, "get_all_keys").split())


def segments() -> set[str]:
    """The hosts whose memory is in the pool."""
    told = json.loads(ask(leader(), 9003, "get_segments_detail"))["segments"]
    by_address = {address: host for host, address in ADDRESSES.items()}
    return {by_address[item["segment_name"].partition(":")[0]] for item in told}


def etcd_status(host: str) -> dict[str, Any] | None:
    try:
        return json.loads(ask(host, 2379, "v3/maintenance/status", {}))
    except OSError:
        return None


def etcd_leader() -> str | None:
    told = {host: etcd_status(host) for host in MEMBERS}
    return next((host for host, one in told.items() if one and one["leader"] == one["header"]["member_id"]), None)


def counter(host: str, port: int, name: str) -> float:
    """The sum of a counter of vLLM over its labels."""
    found = re.findall(rf"^{re.escape(name)}(?:\{{.*\}})? (\S+)$", ask(host, port, "metrics"), re.MULTILINE)
    assert found, name
    return sum(map(float, found))


@dataclass(frozen=True)
class Turn:
    """One object of the client."""

    at: float
    seconds: float
    key: str
    put: int
    got: bool

    @property
    def good(self) -> bool:
        return self.put == 0 and self.got


class PoolClient:
    """It puts an object five times a second and fetches it again, as long as the tests run."""

    def __init__(self, host: Any, address: str) -> None:
        self.host = host
        # of a run that was killed
        self.stop()
        program = (Path(__file__).parent / "pool_client.py").read_text()
        host.check_output(f"cat > /root/pool_client.py << 'END'\n{program}\nEND")
        command = f"{PYTHON} -u /root/pool_client.py {address} '{ETCD}'"
        host.check_output(f"systemd-run --unit {CLIENT} --collect --setenv=MC_STORE_CLUSTER_ID=lab {command}")
        until(lambda: len(self.turns()) > 10, 60)

    def turns(self, since: float = 0) -> list[Turn]:
        lines = self.host.check_output(f"journalctl -u {CLIENT} -o cat").splitlines()
        found = [Turn(**json.loads(line)) for line in lines if line.startswith("{")]
        return [turn for turn in found if turn.at >= since]

    def works(self, since: float) -> float:
        """When the first object that was begun since then is there: seconds from then."""
        turns = until(lambda: [turn for turn in self.turns(since) if turn.good], 120)
        return turns[0].at + turns[0].seconds - since

    def stop(self) -> None:
        self.host.run(f"systemctl stop {CLIENT}")


def slowest(report: Any) -> float:
    return max(answer.seconds for answer in report.answers)


def told(clients: Any, phase: str, turns: list[Turn], had: set[str]) -> None:
    """What was seen of a loss or a change, in figures."""
    report = clients.report.phase(phase)
    bad = sum(not turn.good for turn in turns)
    print(f"{phase}: {len(report.answers)} answers, {len(report.faults)} faults, the slowest {slowest(report):.1f} s")
    # what the engines had put, they may have put again
    mine = {key for key in had if key.startswith("lab/")}
    print(f"{phase}: {bad} of {len(turns)} objects not put, {len(mine & keys())} of {len(mine)} keys kept")
    print(clients.report)


def only_late(clients: Any) -> None:
    """The pool may come back late, and so may answers; nobody is to be told an error or another text."""
    report = clients.report
    assert {answer.kind for answer in report.faults} <= {"slow"}, report
    assert slowest(report) < LATEST, report
