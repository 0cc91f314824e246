# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of Mooncake's store that lives through a drill: it uses the pool all the time, or fills it, and tells.

The module drill hands the text of this file to the Python that has Mooncake, so it imports nothing of the collection.
It ends when its input ends, also when whoever started it has died, and takes back what it has put.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import threading
import time
from typing import Any, Callable, Optional

MARK = "mooncake-pd-drill "
_BUFFER = 64 << 20
_NO_SPACE = -200
# of the pool after a put that found no room: the master evicts in a thread of its own
_PAUSE = 0.05
_TOLD = 1.0  # seconds between two reports of a filling client

Tell = Callable[[dict[str, Any]], None]


def value(token: str, number: int, size: int) -> bytes:
    return hashlib.shake_256(f"{token}/{number}".encode()).digest(size)


def key(token: str, kind: str, number: int) -> str:
    return f"mooncake-pd-drill/{token}/{kind}/{number}"


def remove(store: Any, name: str) -> int:
    """By force: an object that was just read has a lease of some seconds."""
    try:
        return int(store.remove(name, True))
    except TypeError:  # Mooncake before 0.3.9
        return int(store.remove(name))


def gone(code: int) -> bool:
    return code in (0, -704)  # removed, or not there


def clear(store: Any, names: list[str], tell: Tell) -> None:
    """Twice: what could not be reached in the middle of a fail-over can be a moment later."""
    left = names
    for pause in (0, 1):
        if left:
            time.sleep(pause)
            left = [name for name in left if not gone(remove(store, name))]
    tell({"removed": len(names) - len(left), "stuck": len(left)})


def watch(store: Any, wish: dict[str, Any], stop: threading.Event, tell: Tell) -> None:
    """Puts objects, uses the pool until it is stopped, and then looks which of them are still there."""
    token, size = wish["token"], wish["size"]
    kept = []
    for number in range(wish["objects"]):
        code = store.put(key(token, "kept", number), value(token, number, size))
        tell({"used": code == 0, "why": f"put {code}" if code else ""})
        if code == 0:
            kept.append(number)
    tell({"kept": len(kept), "wanted": wish["objects"]})
    number = 0
    while not stop.is_set():
        name, content = key(token, "used", number % 8), value(token, number, size)
        code, found = store.put(name, content), b""
        if code == 0:
            found = store.get(name)
            remove(store, name)
        why = f"put {code}" if code else "" if found == content else "get"
        tell({"used": not why, "why": why})
        number += 1
        stop.wait(wish["interval"])
    there = sum(store.get(key(token, "kept", number)) == value(token, number, size) for number in kept)
    tell({"there": there, "of": len(kept)})
    names = [key(token, "kept", number) for number in kept] + [key(token, "used", number) for number in range(8)]
    clear(store, names, tell)


def fill(store: Any, wish: dict[str, Any], stop: threading.Event, tell: Tell) -> None:
    """Puts objects until it is stopped or has put as much as it may."""
    token, size = wish["token"], wish["size"]
    content, refused, other, told = value(token, 0, size), 0, 0, 0.0
    put: list[str] = []

    def state() -> dict[str, Any]:
        return {"put": len(put), "refused": refused, "failed": other, "bytes": len(put) * size}

    while not stop.is_set() and len(put) * size < wish["most"]:
        name = key(token, "fill", len(put) + refused + other)
        code = store.put(name, content)
        if code == 0:
            put.append(name)
        else:
            refused, other = refused + (code == _NO_SPACE), other + (code != _NO_SPACE)
            stop.wait(_PAUSE)
        if time.monotonic() - told > _TOLD:
            told = time.monotonic()
            tell({"filling": state()})
    tell({"filled": state()})
    stop.wait()
    clear(store, put, tell)


def work(wish: dict[str, Any], make: Callable[[], Any], stop: threading.Event, tell: Tell) -> None:
    store = make()
    code = store.setup(
        wish["address"],
        wish["metadata_server"],
        0,  # it brings nothing into the pool, so nothing goes with it
        max(_BUFFER, 2 * wish["size"]),
        wish["protocol"],
        ",".join(wish["devices"]),
        wish["server_address"],
    )
    tell({"setup": code})
    if code == 0:
        {"watch": watch, "fill": fill}[wish["mode"]](store, wish, stop, tell)
        store.close()


def tell(said: dict[str, Any]) -> None:
    sys.stdout.write(f"{MARK}{json.dumps(said)}\n")
    sys.stdout.flush()


def made() -> Any:
    return importlib.import_module("mooncake.store").MooncakeDistributedStore()


def until_input_ends(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def main(argv: Optional[list[str]] = None) -> None:
    wish, stop = json.loads((sys.argv if argv is None else argv)[1]), threading.Event()
    threading.Thread(target=until_input_ends, args=(stop,), daemon=True).start()
    try:
        work(wish, made, stop, tell)
    except ImportError as error:
        tell({"import": str(error)})


if __name__ == "__main__":
    main()
