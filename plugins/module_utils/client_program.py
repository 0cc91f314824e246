# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program of ours as a client of the pool: in the Python of an installed Mooncake, as the user of the engines.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import inspect
import json
import os
from typing import Any, Dict, List

# a client that cannot reach its master tries 20 times, some 4 s each (real_client.cpp@v0.3.11); older ones always do
ONCE = {"MC_STORE_CLIENT_SETUP_RETRIES": "1"}


def source(program: Any) -> str:
    """Of a module, wherever it was loaded from: Ansible brings it in a zip file."""
    return inspect.getsource(program)


def command(path: str, user: str, seconds: int, program: Any, wish: Dict[str, Any]) -> List[str]:
    """timeout(1) ends it whatever becomes of Ansible."""
    python = os.path.join(path, "bin", "python3")
    own = ["runuser", "-u", user, "--"] if user else []
    # as an argument: input that a program ends without reading is an error of its own and hides what it said
    return ["timeout", "--kill-after=5", str(seconds), *own, python, "-I", "-c", source(program), json.dumps(wish)]
