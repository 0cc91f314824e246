# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What programs said about themselves, so that it need not be asked again before they change."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from typing import Any, Callable, Optional

_ELF = b"\x7fELF"
_NAME = "programs.json"


class Memory:
    """Only of programs whose own file tells that they changed: no scripts, and no caches that stand before others."""

    def __init__(self, folder: Optional[str]) -> None:
        self._path = os.path.join(folder, _NAME) if folder else None
        self._known: dict[str, Any] = {}
        self._new = False
        if self._path:
            with suppress(OSError, ValueError), open(self._path, encoding="utf-8") as source:
                known = json.load(source)
                self._known = known if isinstance(known, dict) else {}

    def recall(self, path: str, about: str, ask: Callable[[], Optional[dict[str, Any]]]) -> Optional[dict[str, Any]]:
        state = _state(path)
        key = f"{about} {path}"
        known = self._known.get(key)
        if state and isinstance(known, dict) and known.get("state") == state and isinstance(known.get("said"), dict):
            return dict(known["said"])
        said = ask()
        if state and said:
            self._known[key] = {"state": state, "said": said}
            self._new = True
        return said

    def keep(self) -> None:
        if not self._new or not self._path:
            return
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(self._path))
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            json.dump(self._known, target, indent=1, sort_keys=True)
        os.replace(temporary, self._path)
        self._new = False


def _state(path: str) -> Optional[list[Any]]:
    real = os.path.realpath(path)
    if "cache" in os.path.basename(real):
        return None
    try:
        with open(real, "rb") as source:
            if source.read(4) != _ELF:
                return None
            status = os.fstat(source.fileno())
    except OSError:
        return None
    return [real, status.st_size, status.st_mtime_ns, status.st_ino]
