# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With the real Mooncake it is tried in tests/integration."""

from __future__ import annotations

import threading
from typing import Any

from ansible_collections.mooncake.pd.plugins.module_utils import drill_client

WISH = {
    **{"address": "127.0.0.1", "metadata_server": "P2PHANDSHAKE", "protocol": "tcp", "devices": []},
    **{"server_address": "127.0.0.1:1", "token": "t", "objects": 4, "size": 100, "most": 1000, "interval": 0},
}


class Store:
    """A pool of some objects that forgets the oldest, or all, or refuses."""

    def __init__(self, room: int = 100, setup: int = 0) -> None:
        self.room, self.code = room, setup
        self.kept: dict[str, bytes] = {}
        self.puts = 0
        self.closed = False

    def setup(self, *_given: Any) -> int:
        return self.code

    def put(self, name: str, content: bytes) -> int:
        self.puts += 1
        if self.puts % 7 == 0:
            return -200
        self.kept[name] = content
        while len(self.kept) > self.room:
            del self.kept[next(iter(self.kept))]
        return 0

    def get(self, name: str) -> bytes:
        return self.kept.get(name, b"")

    def remove(self, name: str, force: bool) -> int:
        assert force
        return 0 if self.kept.pop(name, None) is not None else -704

    def close(self) -> None:
        self.closed = True


def run(store: Store, mode: str, after: int = 0) -> list[dict[str, Any]]:
    """Stopped when it has told so much."""
    stop, told = threading.Event(), []

    def tell(said: dict[str, Any]) -> None:
        told.append(said)
        if "filled" in said or ("used" in said and len(told) > after):
            stop.set()

    drill_client.work({**WISH, "mode": mode}, lambda: store, stop, tell)
    return told


def test_it_uses_the_pool_and_tells_what_is_still_there() -> None:
    store = Store()
    told = run(store, "watch", after=12)
    # the first ones are puts, and use the pool, too
    assert told[:6] == [{"setup": 0}, *[{"used": True, "why": ""}] * 4, {"kept": 4, "wanted": 4}]
    used = [said for said in told if "used" in said]
    assert {said["why"] for said in used} == {"", "put -200"}
    assert told[-2:] == [{"there": 4, "of": 4}, {"removed": 12, "stuck": 0}]
    assert (store.kept, store.closed) == ({}, True)


def test_what_was_lost_is_told() -> None:
    told = run(Store(room=2), "watch")
    there = next(said for said in told if "there" in said)
    assert (there["there"] < there["of"], there["of"]) == (True, 4)


def test_it_fills_as_far_as_it_may_and_removes_all_of_it() -> None:
    store = Store(room=3)
    told = run(store, "fill")
    filled = next(said["filled"] for said in told if "filled" in said)
    assert filled == {"put": 10, "refused": 1, "failed": 0, "bytes": 1000}
    assert told[-1] == {"removed": 10, "stuck": 0}
    assert store.kept == {}


def test_what_cannot_be_removed_is_told() -> None:
    class Stubborn(Store):
        def remove(self, name: str, force: bool) -> int:
            return -706

    assert run(Stubborn(), "fill")[-1] == {"removed": 0, "stuck": 10}


def test_without_a_way_in_it_puts_nothing() -> None:
    store = Store(setup=-900)
    assert run(store, "watch") == [{"setup": -900}]
    assert store.puts == 0
