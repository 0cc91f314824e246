# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""transfer_offer and transfer_proof with systemd and the program put in place; tests/integration has the real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import sockets, systemd, transfer_segment
from ansible_collections.mooncake.pd.plugins.module_utils import transfer_bench_units as units
from ansible_collections.mooncake.pd.plugins.module_utils import transfer_proof_units as proof
from ansible_collections.mooncake.pd.plugins.module_utils.transfer_segment import Descriptor
from ansible_collections.mooncake.pd.plugins.module_utils.transfer_worker import MARK, Trouble
from ansible_collections.mooncake.pd.plugins.modules import transfer_offer, transfer_proof

from .conftest import RunModule

SEGMENT = "192.0.2.21:18502"
OFFERED = {"segment": SEGMENT, "address": 4096, "length": 2000, "size": 1000, "digest": "d", "slots": {"p1": 5096}}
RECEIVED = {"event": "received", "digests": {"p1": "w"}}


def line(**event: Any) -> str:
    return json.dumps(event) + "\n"


class Machine:
    """What systemd-run and systemctl would do, and what was asked of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs: list[list[str]] = []
        self.states: dict[str, systemd.Unit] = {}
        self.out = line(event="offered", **OFFERED)
        self.log = ""
        self.dies = self.stays = self.silent = False
        self.code = 0
        self.answer: tuple[int, str, str] = (0, "", "")
        self.spec: dict[str, Any] = {}

    def run_command(self, argv: list[str], data: str = "", **_more: Any) -> tuple[int, str, str]:
        self.runs.append(argv)
        name = next((word[7:] for word in argv if word.startswith("--unit=")), "")
        if "--wait" in argv:
            self.spec = json.loads(data)
            return self.answer
        if argv[0] == "systemd-run":
            protocol = name[len(proof.PREFIX) + 1 : -len(".service")]
            self.spec = json.loads(Path(proof.path(f"{protocol}.json")).read_text())
            Path(proof.path(f"{protocol}.out")).write_text(self.out)
            Path(proof.path(f"{protocol}.log")).write_text(self.log)
            state = "failed" if self.dies else "active"
            self.states[name] = systemd.Unit(name, LoadState="loaded", ActiveState=state)
            return self.code, "", "no such user"
        if argv[:2] == ["systemctl", "stop"] and not self.stays:
            for stopped in argv[3:]:
                if self.states.pop(stopped, systemd.Unit("")).running and not self.silent:
                    protocol = stopped[len(proof.PREFIX) + 1 : -len(".service")]
                    with Path(proof.path(f"{protocol}.out")).open("a") as file:
                        file.write(line(**RECEIVED))
        return 0, "", ""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda self, argv, **more: made.run_command(argv, **more))
    monkeypatch.setattr(systemd, "show", lambda run, names: {n: made.states.get(n, systemd.Unit(n)) for n in names})
    monkeypatch.setattr(sockets, "probe", lambda address, port: sockets.FREE)
    monkeypatch.setattr(units, "LOGS", str(tmp_path))
    monkeypatch.setattr(transfer_segment, "describe", lambda *_: Descriptor(SEGMENT, ("tcp",), (), ((4096, 2000),)))
    python = tmp_path / "engine/bin/python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    return made


def offer(run_module: RunModule, machine: Machine, **more: Any) -> dict[str, Any]:
    arguments = {"path": str(machine.path / "engine"), "address": "192.0.2.21", "sources": ["p1"], "size": 1000, **more}
    answer = run_module(transfer_offer, **arguments)
    assert (answer["failed"], answer["changed"]) == (False, True)
    return answer["offer"]["protocols"]


def test_offer_ends_by_itself_and_takes_no_planned_port(run_module: RunModule, machine: Machine) -> None:
    claims = [{"first": 18500, "last": 18510, "purpose": "api"}]
    told = offer(run_module, machine, claims=claims, runtime=77, environment={"MC_MIN_RPC_PORT": "15000", "A": "b"})
    assert told == {"tcp": {"rule": "", "problem": "", **OFFERED, "installed": "tcp"}}
    argv = next(run for run in machine.runs if run[0] == "systemd-run")
    assert {"--unit=mooncake-pd-transport-tcp.service", "--property=RuntimeMaxSec=77", "--setenv=A=b"} <= set(argv)
    assert {"--setenv=MC_MIN_RPC_PORT=18511", "--setenv=MC_MAX_RPC_PORT=18514"} <= set(argv)
    assert {"--setenv=MC_FORCE_TCP=1", "--setenv=MC_TCP_BIND_ADDRESS=192.0.2.21"} <= set(argv)
    assert argv[-2:] == [str(machine.path / "engine/bin/python"), str(machine.path / "mooncake-pd-transport-worker.py")]
    assert "def offer(" in Path(argv[-1]).read_text()
    assert (machine.spec["sources"], machine.spec["action"]) == (["p1"], "offer")


def test_tcp_alone_is_forced(run_module: RunModule, machine: Machine) -> None:
    told = offer(run_module, machine, protocols=["rdma"], devices=["mlx5_0"])
    assert (told["rdma"]["rule"], told["rdma"]["problem"]) == (
        "fallback",
        "rdma is planned, the engine has installed tcp",
    )
    argv = next(run for run in machine.runs if run[0] == "systemd-run")
    assert not any("MC_FORCE_TCP" in word for word in argv)
    assert machine.spec["devices"] == ["mlx5_0"]


def test_protocols_share_no_port(run_module: RunModule, machine: Machine) -> None:
    offer(run_module, machine, protocols=["tcp", "rdma"])
    lowest = [word for run in machine.runs for word in run if word.startswith("--setenv=MC_MIN_RPC_PORT=")]
    assert lowest == ["--setenv=MC_MIN_RPC_PORT=18500", "--setenv=MC_MIN_RPC_PORT=18504"]


def test_offers_that_cannot_be_made(run_module: RunModule, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(**more: Any) -> tuple[str, str]:
        one = offer(run_module, machine, **more)["tcp"]
        return one["rule"], one["problem"]

    machine.out = line(event="failed", rule="memory", problem="cannot be registered")
    machine.log = "E0102 03:04:05.1  7 x.cpp:1] no room\n"
    assert told() == ("memory", "cannot be registered (no room)")
    machine.out = ""
    rule, problem = told(timeout=0)
    assert (rule, problem) == ("engine", "no memory is offered after 0 s: no room")
    machine.dies = True
    assert told() == ("engine", "the engine ended before it offered its memory: no room")
    machine.code = 1
    assert told() == ("engine", "systemd-run failed: no such user")
    monkeypatch.setattr(sockets, "probe", lambda address, port: sockets.TAKEN)
    assert told()[0] == "ports"
    assert told(path="/nowhere")[0] == "mooncake"

    def dead(server: str) -> None:
        raise Trouble("metadata", f"{server} gives no answer")

    monkeypatch.setattr(transfer_segment, "reachable", dead)
    assert told(metadata="http://m/metadata") == ("metadata", "http://m/metadata gives no answer")


def test_stop_tells_what_arrived(run_module: RunModule, machine: Machine) -> None:
    offer(run_module, machine)
    answer = run_module(transfer_offer, check=True, state="stopped")
    assert (answer["changed"], answer["witness"]) == (True, {})
    answer = run_module(transfer_offer, state="stopped")
    assert answer["stopped"] == ["mooncake-pd-transport-tcp.service"]
    assert answer["witness"] == {"tcp": {"received": {"p1": "w"}, "ended": ""}}
    assert [path.name for path in machine.path.iterdir()] == ["engine"]
    answer = run_module(transfer_offer, state="stopped")
    assert (answer["changed"], answer["witness"]) == (False, {})


def test_stop_tells_of_an_engine_that_died(run_module: RunModule, machine: Machine) -> None:
    offer(run_module, machine)
    machine.log = "F0102 03:04:05.1  7 x.cpp:1] Check failed\n"
    Path(proof.path("tcp.log")).write_text(machine.log)
    machine.states.clear()
    answer = run_module(transfer_offer, state="stopped")
    assert answer["witness"]["tcp"] == {"received": {}, "ended": "ended in the middle: Check failed"}
    offer(run_module, machine)
    machine.silent = True
    answer = run_module(transfer_offer, state="stopped")
    assert answer["witness"]["tcp"]["ended"] == "hangs and had to be killed: Check failed"
    offer(run_module, machine)
    machine.stays = True
    answer = run_module(transfer_offer, state="stopped")
    assert (answer["failed"], "cannot be stopped" in answer["msg"]) == (True, True)


def test_check_mode_starts_and_moves_nothing(run_module: RunModule, machine: Machine) -> None:
    answer = run_module(transfer_offer, check=True, path="/x", address="192.0.2.21")
    assert answer["offer"]["protocols"] == {}
    answer = run_module(transfer_proof, check=True, name="p1", peers=["d1"], path="/x", address="192.0.2.11")
    assert answer["proof"]["results"] == []
    assert machine.runs == []


FINE = {"rule": "", "problem": ""}
OFFERS = {
    "d1": {"address": "192.0.2.21", "protocols": {"tcp": {**FINE, **OFFERED, "installed": "tcp"}}},
    "p1": {"address": "192.0.2.11", "protocols": {"tcp": FINE}},
}


def prove(run_module: RunModule, machine: Machine, offers: Any = None, **more: Any) -> dict[str, Any]:
    arguments = {"name": "p1", "peers": ["d1"], "path": str(machine.path / "engine"), "address": "192.0.2.11", **more}
    answer = run_module(transfer_proof, offers=offers or OFFERS, size=1000, **arguments)
    assert (answer["failed"], answer["changed"]) == (False, False)
    (result,) = answer["proof"]["results"]
    return result


def moved(**more: Any) -> str:
    told = {
        "read": {"code": 0, "seconds": 0.5, "digest": "d"},
        "write": {"code": 0, "seconds": 0.25, "digest": "w"},
        "back": {"code": 0, "seconds": 0.5, "digest": "w"},
        "hangs": False,
    }
    return line(event="begun", peer="d1") + line(event="proved", peer="d1", **{**told, **more})


def test_proof_that_succeeds(run_module: RunModule, machine: Machine) -> None:
    machine.answer = (0, moved(), "")
    assert prove(run_module, machine, timeout=20) == {
        "peer": "d1",
        "protocol": "tcp",
        "rule": "",
        "problem": "",
        "host": "",
        "segment": SEGMENT,
        "installed": "tcp",
        "registered": 2000,
        "bytes": 1000,
        "read": 0.5,
        "write": 0.25,
        "written": "w",
    }
    (argv,) = machine.runs
    assert {"--unit=mooncake-pd-transport-proof.service", "--property=RuntimeMaxSec=185"} <= set(argv)
    assert "--setenv=MC_TRANSFER_TIMEOUT=20" in argv
    assert machine.spec["peers"] == [{"name": "d1", "segment": SEGMENT, "address": 4096, "slot": 5096}]


FAILED = {"code": -1, "seconds": 0.5, "digest": "x"}
OTHER = {"code": 0, "seconds": 0.5, "digest": "x"}
SAID = f"note\n{MARK}other\nnot this\n{MARK}d1\nE0102 03:04:05.1  7 x.cpp:1] rejected\n"


@pytest.mark.parametrize(
    ("answer", "rule", "words"),
    [
        ((0, moved(read=FAILED, write=FAILED), SAID), "read", "reading answers -1: rejected"),
        ((0, moved(read={**FAILED, "seconds": 61}, hangs=True), SAID), "timeout", "answers -1 after 61 s: rejected"),
        ((0, moved(read=OTHER), SAID), "checksum-read", "other bytes have arrived"),
        ((0, moved(write=FAILED), SAID), "write", "writing answers -1: rejected"),
        ((0, moved(back=FAILED), SAID), "read", "reading back what was written answers -1"),
        ((0, moved(back=OTHER), SAID), "checksum-back", "other bytes than those are read back"),
        ((15, line(event="begun", peer="d1"), SAID), "timeout", "ended with 15 in the middle: rejected"),
        ((-11, '{"event": "beg', "note\n"), "timeout", "ended with -11 before its turn: note"),
        (
            (1, line(event="failed", rule="device", problem="no NPU"), "E0102 03:04:05.1  7 x.cpp:1] aclInit"),
            "device",
            "no NPU (aclInit)",
        ),
    ],
)
def test_proof_that_fails(run_module: RunModule, machine: Machine, answer: Any, rule: str, words: str) -> None:
    machine.answer = answer
    result = prove(run_module, machine)
    assert result["rule"] == rule
    assert words in result["problem"]


def test_what_is_wrong_before_anything_is_moved(
    run_module: RunModule, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(offers: Any, **more: Any) -> tuple[str, str, str]:
        result = prove(run_module, machine, offers, **more)
        return result["rule"], result["problem"], result["host"]

    def changed(**more: Any) -> dict[str, Any]:
        return {**OFFERS, "d1": {"protocols": {"tcp": {**OFFERS["d1"]["protocols"]["tcp"], **more}}}}

    assert told({"p1": OFFERS["p1"]})[0] == "lost"
    assert told(changed(rule="memory", problem="no room")) == ("memory", "no room", "d1")
    assert told(changed(slots={}))[0] == "lost"
    assert prove(run_module, machine, changed(problem="x", rule="fallback", installed="cxl"))["installed"] == "cxl"
    own = {**OFFERS, "p1": {"protocols": {"tcp": {"rule": "fallback", "problem": "tcp"}}}}
    assert told(own) == ("fallback", "tcp", "p1")
    assert told(changed(address=1))[0] == "unregistered"
    assert told(OFFERS, path="/nowhere")[0] == "mooncake"
    monkeypatch.setattr(sockets, "probe", lambda address, port: sockets.TAKEN)
    assert told(OFFERS)[0] == "ports"

    def silent(*_arguments: Any) -> Descriptor:
        raise Trouble("address", "nobody answers")

    monkeypatch.setattr(transfer_segment, "describe", silent)
    assert told(OFFERS) == ("address", "nobody answers", "")
    assert machine.runs == []
