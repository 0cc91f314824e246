# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of Mooncake's store that puts, gets or removes some objects and says what it saw.

store_proof hands the text of this file to the Python that has Mooncake, so it imports nothing of the collection.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import time
from typing import Any, Callable, Optional

MARK = "mooncake-pd-store "
_BUFFER = 64 << 20


def value(token: str, number: int, size: int) -> bytes:
    """What stands under a key: whoever knows the token knows it, so nothing has to be told to the other side."""
    return hashlib.shake_256(f"{token}/{number}".encode()).digest(size)


def key(token: str, number: int) -> str:
    return f"mooncake-pd-proof/{token}/{number}"


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.perf_counter()
    answer = call()
    return answer, time.perf_counter() - begun


def put(store: Any, token: str, number: int, size: int) -> dict[str, Any]:
    content = value(token, number, size)
    code, seconds = timed(lambda: store.put(key(token, number), content))
    return {"size": size, "code": code, "seconds": seconds}


def get(store: Any, token: str, number: int, size: int) -> dict[str, Any]:
    content = value(token, number, size)
    found, seconds = timed(lambda: store.get(key(token, number)))
    return {"size": size, "found": len(found), "equal": found == content, "seconds": seconds}


def remove(store: Any, token: str, number: int, size: int) -> dict[str, Any]:
    """By force: an object that was just read has a lease of some seconds."""
    try:
        code = store.remove(key(token, number), True)
    except TypeError:  # Mooncake before 0.3.9
        code = store.remove(key(token, number))
    return {"size": size, "code": code}


STEPS = {"put": put, "get": get, "remove": remove}


def work(wish: dict[str, Any], make: Callable[[], Any], tell: Callable[[dict[str, Any]], None]) -> None:
    store = make()
    code = store.setup(
        wish["address"],
        wish["metadata_server"],
        0,  # it brings nothing into the pool, so nothing goes with it
        max(_BUFFER, 2 * max(wish["sizes"])),
        wish["protocol"],
        ",".join(wish["devices"]),
        wish["server_address"],
    )
    tell({"setup": code})
    if code == 0:
        for number, size in enumerate(wish["sizes"]):
            for step in wish["steps"]:
                tell({"step": step, **STEPS[step](store, wish["token"], number, size)})
        store.close()


def tell(said: dict[str, Any]) -> None:
    sys.stdout.write(f"{MARK}{json.dumps(said)}\n")
    sys.stdout.flush()


def made() -> Any:
    return importlib.import_module("mooncake.store").MooncakeDistributedStore()


def main(argv: Optional[list[str]] = None) -> None:
    wish = json.loads((sys.argv if argv is None else argv)[1])
    try:
        work(wish, made, tell)
    except ImportError as error:
        tell({"import": str(error)})


if __name__ == "__main__":
    main()
