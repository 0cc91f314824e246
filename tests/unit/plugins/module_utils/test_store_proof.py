# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import store_client, store_proof

WISH = {
    "server_address": "192.0.2.10:17051",
    "protocol": "tcp",
    "fallback": "",
    "sizes": [4, 8],
    "steps": ["put"],
}
IN = {"setup": 0}


def put(code: int = 0, size: int = 4) -> dict[str, Any]:
    return {"step": "put", "size": size, "code": code, "seconds": 0.5}


def got(found: int = 4, equal: bool = True) -> dict[str, Any]:
    return {"step": "get", "size": 4, "found": found, "equal": equal, "seconds": 0.5}


def removed(code: int) -> dict[str, Any]:
    return {"step": "remove", "size": 4, "code": code}


def ids(records: list[dict[str, Any]], code: int = 0, log: str = "", **wish: Any) -> list[str]:
    return [finding.id for finding in store_proof.judge(code, records, log, {**WISH, **wish})]


def test_nothing_is_wrong() -> None:
    assert ids([IN, put(), put(size=8)]) == []
    assert ids([IN, got(), got()], steps=["get"]) == []
    # removed, or not there any more
    assert ids([IN, removed(0), removed(-704)], steps=["remove"]) == []


@pytest.mark.parametrize(
    ("records", "log", "found"),
    [
        ([{"import": "No module named 'mooncake'"}], "", "no-mooncake"),
        ([{"setup": -900}], "E1 RPC call failed: invalid rpc arg", "version-skew"),
        ([{"setup": -1}], "E1130 1 client.cpp:1] Client not available", "no-master"),
        ([{"setup": -1}], "No master is available in HA backend", "no-master"),
        ([{"setup": -600}], "E1 something else", "setup-failed"),
        ([IN, put(-200)], "", "no-space"),
        ([IN, put(-800)], "", "put-failed"),
        ([IN, got(0, False)], "", "missing"),
        ([IN, got(4, False)], "", "wrong-value"),
        ([IN, got(3, False)], "", "wrong-value"),
        ([IN, removed(-706)], "", "not-removed"),
        ([IN, put()], "", "unfinished"),
        ([IN], "", "unfinished"),
    ],
)
def test_what_is_wrong_is_told_apart(records: list[dict[str, Any]], log: str, found: str) -> None:
    steps = [record["step"] for record in records if "step" in record][:1] or ["put"]
    assert ids(records, 1, log, steps=steps) == [found]


def test_a_client_that_said_nothing() -> None:
    assert ids([], 124) == ["timeout"]
    assert ids([], 137) == ["timeout"]
    assert ids([], 134, "terminate called") == ["crashed"]
    # the reason is worth more than that it took long
    assert ids([], 124, "Client not available") == ["no-master"]


def test_a_fall_back_is_told_beside_what_it_breaks() -> None:
    log, fallback = "W1130 topology.cpp:201] No RDMA devices found, check", "Found 0 HCAs|No RDMA devices found"
    assert ids([IN, put(), put()], log=log, protocol="rdma", fallback=fallback) == ["fallback"]
    assert ids([IN, put(-800)], log=log, protocol="rdma", fallback=fallback) == ["fallback", "put-failed"]
    assert ids([IN, put(), put()], log=log) == []


def test_findings_say_what_to_do() -> None:
    (finding,) = store_proof.judge(0, [IN, put(-200)], "", WISH)
    assert finding.text.startswith("[no-space] There is no room for an object of 4 bytes")
    assert "Mend: see which segments" in finding.text
    (finding,) = store_proof.judge(0, [IN, put(-4711)], "", WISH)
    assert "code -4711." in finding.text
    (finding,) = store_proof.judge(0, [IN, put(-800)], "", WISH)
    assert "code -800 (TRANSFER_FAIL)" in finding.text


def test_figures_are_of_what_was_moved() -> None:
    assert store_proof.figures([IN, put(), put(-200), got(), got(0, False), {**got(), "seconds": 0.0}, removed(0)]) == [
        {"step": "put", "size": 4, "seconds": 0.5, "bandwidth": 8},
        {"step": "get", "size": 4, "seconds": 0.5, "bandwidth": 8},
        {"step": "get", "size": 4, "seconds": 0.0, "bandwidth": None},
    ]


@pytest.mark.parametrize(
    ("address", "place"),
    [("192.0.2.10:17051", ("192.0.2.10", 17051)), ("etcd://192.0.2.1:2379;192.0.2.2:2379", None), ("x", None)],
)
def test_where_to_connect(address: str, place: Any) -> None:
    assert store_proof.host_and_port(address) == place


def test_records_are_found_among_other_lines() -> None:
    assert store_proof.said('noise\nmooncake-pd-store {"setup": 0}\nmooncake-pd-store {"cut') == [{"setup": 0}]


class Store:
    """What the client needs of MooncakeDistributedStore."""

    def __init__(self, forced: bool = True) -> None:
        self.forced = forced
        self.objects: dict[str, bytes] = {}
        self.given: tuple[Any, ...] = ()
        self.closed = False

    def setup(self, *given: Any) -> int:
        self.given = given
        return 0

    def put(self, key: str, value: bytes) -> int:
        self.objects[key] = value
        return 0

    def get(self, key: str) -> bytes:
        return self.objects.get(key, b"")

    def remove(self, key: str, *force: bool) -> int:
        if force and not self.forced:
            raise TypeError("incompatible function arguments")
        return 0 if self.objects.pop(key, None) is not None else -704

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("forced", [True, False])
def test_the_client_puts_gets_and_removes(forced: bool) -> None:
    store = Store(forced)
    wish = {**WISH, "address": "192.0.2.11", "metadata_server": "P2PHANDSHAKE", "devices": ["a", "b"], "token": "t"}
    said: list[dict[str, Any]] = []
    store_client.work({**wish, "steps": ["put", "get"]}, lambda: store, said.append)
    assert store.given == ("192.0.2.11", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "a,b", "192.0.2.10:17051")
    assert [item.get("step") for item in said] == [None, "put", "get", "put", "get"]
    assert [item["equal"] for item in said if "equal" in item] == [True, True]
    assert list(store.objects) == ["mooncake-pd-proof/t/0", "mooncake-pd-proof/t/1"]
    store_client.work({**wish, "steps": ["remove"]}, lambda: store, said.append)
    assert (store.objects, store.closed) == ({}, True)


def test_content_follows_from_token_and_number() -> None:
    assert store_client.value("t", 0, 8) == store_client.value("t", 0, 8)
    assert len({store_client.value(token, number, 8) for token in "ab" for number in (0, 1)}) == 4


def test_a_client_without_mooncake_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    def missing() -> Any:
        raise ImportError("No module named 'mooncake'")

    monkeypatch.setattr(store_client, "made", missing)
    store_client.main(["-", json.dumps(WISH)])
    assert store_proof.said(capsys.readouterr().out) == [{"import": "No module named 'mooncake'"}]
