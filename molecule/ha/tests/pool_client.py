# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of the pool without memory of its own. It puts and fetches all the time, and says when, and what came of it.

It runs in a host, with the Python that has Mooncake.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import time

SIZE = 64 << 10
PAUSE = 0.2


def main(address: str, master: str) -> None:
    store = importlib.import_module("mooncake.store").MooncakeDistributedStore()
    if code := store.setup(address, "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", master):
        sys.exit(f"setup {code}")
    for number in itertools.count():
        began, key = time.time(), f"lab/{number}"
        content = number.to_bytes(8, "big") * (SIZE // 8)
        code = store.put(key, content)
        got = code == 0 and store.get(key) == content
        said = {"at": began, "seconds": time.time() - began, "key": key, "put": code, "got": got}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
        time.sleep(PAUSE)


if __name__ == "__main__":
    main(*sys.argv[1:])
