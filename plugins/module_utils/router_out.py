# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is out of the routers, whatever restarts: a small file on the router host that only root writes.

The launcher of the role router (roles/router/files/pd_router.py) starts no router with what is named here, and its
watcher takes it out of those that run.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from typing import Dict, List

Out = Dict[str, List[str]]  # URLs by name of the instance

FILE = "/var/lib/mooncake-pd-host/router-out.json"


class OutError(ValueError):
    """The file cannot be believed."""


def read(path: str) -> Out:
    try:
        with open(path, encoding="utf-8") as source:
            content = json.load(source)["out"]
        return {str(name): [str(url) for url in urls] for name, urls in content.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutError(
            f"{path} does not tell who is out of the routers ({error!r}). Mend: move it away, then take out again who"
            " must stay out."
        ) from error


def write(path: str, out: Out) -> None:
    """Replace the file at once: the watcher may read it at any time. No file says that nobody is out."""
    if not out:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    # the routers run as the service user and have to read it, whatever umask root has
    os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | 0o055)
    handle, fresh = tempfile.mkstemp(dir=folder, prefix=".router-out-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            target.write(json.dumps({"out": out}, indent=1, sort_keys=True) + "\n")
        os.chmod(fresh, 0o644)
        os.replace(fresh, path)
    except OSError:
        os.unlink(fresh)
        raise
