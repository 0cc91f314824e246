# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What probes share: files below a root, commands with a time limit, and the list of what stayed unknown."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils import masking
from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Answer
from ansible_collections.mooncake.pd.plugins.module_utils.host.system import System
from ansible_collections.mooncake.pd.plugins.module_utils.jobs import Late

_FILE = 4 << 20
_PIECE = 64 << 10


@dataclass
class Look:
    root: str = "/"
    system: System = field(default_factory=System)
    unknowns: list[dict[str, str]] = field(default_factory=list)

    def unknown(self, what: str, why: str, raw: str = "") -> None:
        entry = {"what": what, "why": masking.masked(why), "raw": masking.raw(raw)}
        if entry not in self.unknowns:
            self.unknowns.append(entry)

    def at(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def exists(self, path: str) -> bool:
        return os.path.exists(self.at(path))

    def listing(self, path: str) -> list[str]:
        return sorted(os.listdir(self.at(path)))

    def bytes(self, path: str, limit: int = _FILE) -> bytes:
        """In pieces: the kernel makes room for all that is asked for, and has none for so much."""
        parts = []
        with open(self.at(path), "rb", buffering=0) as source:
            while limit > 0:
                part = source.read(min(_PIECE, limit))
                if not part:
                    break
                parts.append(part)
                limit -= len(part)
        return b"".join(parts)

    def read(self, path: str) -> str:
        return self.bytes(path).decode("utf-8", "replace")

    def text(self, path: str, what: str) -> Optional[str]:
        """The text of a file; when it cannot be read, `what` is unknown."""
        try:
            return self.read(path)
        except OSError as error:
            self.unknown(what, f"{path} cannot be read: {(error.strerror or str(error)).lower()}.")
            return None

    def word(self, path: str, what: str) -> Optional[str]:
        """The text of a file that holds one value."""
        text = self.text(path, what)
        if text is not None and not text.strip():
            self.unknown(what, f"{path} is empty.")
        return (text or "").strip() or None

    def optional(self, path: str, what: str) -> Optional[str]:
        """The text of a file that the kernel may lack. It is unknown only when that cannot be told either."""
        try:
            return self.read(path)
        except FileNotFoundError:
            folder = os.path.dirname(path)
            if not self.exists(folder):
                self.unknown(what, f"{path} cannot be read: there is no {folder}.")
        except OSError as error:
            self.unknown(what, f"{path} cannot be read: {(error.strerror or str(error)).lower()}.")
        return None

    def number(self, path: str, what: str) -> Optional[int]:
        text = self.text(path, what)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            self.unknown(what, f"{path} holds no number.", text)
            return None

    def run(self, argv: Sequence[str], seconds: float) -> Answer:
        return self.system.run(argv, seconds)

    def sane(self, what: str, default: Any, function: Callable[[], Any]) -> Any:
        """What a probe finds; whatever goes wrong in it makes `what` unknown and ends nothing else."""
        try:
            return function()
        except Late:
            self.unknown(what, "This did not end in its time.")
        except Exception as error:
            self.unknown(what, f"This could not be found out: {type(error).__name__}: {error}.")
        return default
