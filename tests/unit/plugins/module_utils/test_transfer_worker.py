# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program at both ends, with an engine and an NPU put in place; tests/integration has the real engine."""

from __future__ import annotations

import ctypes
import io
import json
import signal
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import transfer_worker as worker


class Engine:
    """Moves bytes within this process."""

    code = 0  # of initialize
    refuses = False  # to register
    transfer = 0
    asked: tuple[Any, ...] = ()

    def initialize(self, *arguments: Any) -> int:
        type(self).asked = arguments
        return self.code

    def get_rpc_port(self) -> int:
        return 18502

    def register_memory(self, address: int, size: int) -> int:
        return -1 if self.refuses else 0

    def transfer_sync_read(self, segment: str, here: int, there: int, size: int) -> int:
        ctypes.memmove(here, there, size)
        return self.transfer

    def transfer_sync_write(self, segment: str, here: int, there: int, size: int) -> int:
        ctypes.memmove(there, here, size)
        return self.transfer


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> type[Engine]:
    class Mine(Engine):
        pass

    monkeypatch.setitem(sys.modules, "mooncake", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "mooncake.engine", SimpleNamespace(TransferEngine=Mine))
    return Mine


SPEC = {
    "address": "192.0.2.21",
    "metadata": worker.P2P,
    "protocol": "tcp",
    "devices": [],
    "device": 0,
    "size": 5000,
    "name": "n",
    "sources": ["p1", "p2"],
    "patience": 5,
}


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int = 0, **spec: Any
) -> list[dict[str, Any]]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({**SPEC, **spec})))
    if code:
        with pytest.raises(SystemExit) as ended:
            worker.main()
        assert ended.value.code == code
    else:
        worker.main()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_offer_tells_what_lies_there_at_its_end(
    engine: type[Engine], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = b"w" * 5000

    def while_it_waits(ending: set[signal.Signals]) -> None:
        assert ending == {signal.SIGTERM, signal.SIGINT}
        (told,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert told["segment"] == "192.0.2.21:18502"
        assert told["length"] == 15000
        assert told["slots"] == {"p1": told["address"] + 5000, "p2": told["address"] + 10000}
        assert worker.digest(ctypes.string_at(told["address"], 5000)) == told["digest"]
        ctypes.memmove(told["slots"]["p2"], written, 5000)

    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: None)
    monkeypatch.setattr(signal, "sigwait", while_it_waits)
    (told,) = run(monkeypatch, capsys, action="offer")
    assert told["digests"]["p2"] == worker.digest(written)
    assert told["digests"]["p1"] == worker.digest(bytes(5000))
    assert engine.asked == ("192.0.2.21", worker.P2P, "tcp", "")


def prove(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **spec: Any) -> tuple[Any, bytearray]:
    there = bytearray(b"r" * 5000 + bytes(5000))
    address = ctypes.addressof(ctypes.c_char.from_buffer(there))
    peer = {"name": "d1", "segment": "192.0.2.21:18502", "address": address, "slot": address + 5000}
    told = run(monkeypatch, capsys, action="prove", peers=[peer], **spec)
    assert [event["event"] for event in told] == ["engine", "begun", "proved"]
    return told[2], there


def test_proof_tells_what_it_read_and_wrote(
    engine: type[Engine], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told, there = prove(monkeypatch, capsys)
    assert told["read"]["digest"] == worker.digest(b"r" * 5000)
    assert told["write"]["digest"] == told["back"]["digest"] == worker.digest(bytes(there[5000:]))
    assert {told[key]["code"] for key in ("read", "write", "back")} == {0}


def test_success_without_bytes_is_seen(
    engine: type[Engine], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("transfer_sync_read", "transfer_sync_write"):
        monkeypatch.setattr(engine, name, lambda *_: 0)
    told, _there = prove(monkeypatch, capsys)
    assert told["read"]["digest"] == told["back"]["digest"] == worker.digest(bytes(5000))
    assert told["write"]["digest"] != told["back"]["digest"]


def test_peer_that_hangs_is_left_at_once(
    engine: type[Engine], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "transfer_sync_read", lambda *_: -1)
    told, _there = prove(monkeypatch, capsys, patience=-1)
    assert (told["hangs"], "write" in told) == (True, False)
    told, _there = prove(monkeypatch, capsys)
    assert (told["hangs"], told["write"]["code"]) == (False, 0)


def test_engine_that_does_not_come_up(
    engine: type[Engine], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: None)
    engine.refuses = True
    (told,) = run(monkeypatch, capsys, code=1, action="offer")
    assert (told["event"], told["rule"]) == ("failed", "memory")
    assert told["problem"] == "15000 bytes of memory cannot be registered: the transfer engine answers -1"
    engine.code = -1
    (told,) = run(monkeypatch, capsys, code=1, action="offer")
    assert (told["event"], told["rule"]) == ("failed", "engine")
    assert told["problem"] == "the transfer engine cannot be initialised: it answers -1"


def test_without_mooncake(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "mooncake.engine", None)
    (told,) = run(monkeypatch, capsys, code=1, action="prove", peers=[])
    assert told["rule"] == "mooncake"


def test_central_metadata_and_ipv6(
    engine: type[Engine], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (told,) = run(monkeypatch, capsys, action="prove", peers=[], metadata="http://m:8080/metadata", devices=["a", "b"])
    assert told["segment"] == "n"
    assert engine.asked == ("n", "http://m:8080/metadata", "tcp", "a,b")
    (told,) = run(monkeypatch, capsys, action="prove", peers=[], address="2001:db8::1")
    assert told["segment"] == "[2001:db8::1]:18502"


class Acl:
    """CANN's library as far as it is called, with host memory instead of an NPU's."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.answers: dict[str, int] = {}

    def aclInit(self, _config: None) -> int:
        return self.answers.get("aclInit", 0)

    def aclrtSetDevice(self, device: ctypes.c_int32) -> int:
        return 0 if device.value == 3 else 107001

    def aclrtMalloc(self, address: Any, size: ctypes.c_size_t, policy: int) -> int:
        self.kept.append(ctypes.create_string_buffer(size.value))
        address._obj.value = ctypes.addressof(self.kept[-1])
        return 0

    def aclrtMemcpy(self, to: Any, room: ctypes.c_size_t, source: Any, size: ctypes.c_size_t, kind: int) -> int:
        assert room.value == size.value
        assert kind == (1 if isinstance(source, bytes) else 2)
        ctypes.memmove(to, source, size.value)
        return 0


def test_memory_of_an_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    acl = Acl()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: acl)
    npu = worker.Npu(3)
    address = npu.allocate(5000)
    assert address % (2 << 20) == 0
    npu.put(address, b"x" * 5000)
    assert npu.get(address, 5000) == b"x" * 5000
    acl.answers["aclInit"] = 100002  # somebody has called it before
    worker.Npu(3)
    with pytest.raises(worker.Trouble, match="aclrtSetDevice of CANN answers 107001"):
        worker.Npu(0)
    acl.answers["aclInit"] = 507000
    with pytest.raises(worker.Trouble, match="aclInit of CANN answers 507000") as raised:
        worker.Npu(3)
    assert raised.value.rule == "device"
