# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with the twin's npu-smi and hccn_tool, run as programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TWIN = Path(__file__).parents[3] / "sim" / "npu"
MODULES = {"npu-smi": "npu_smi", "hccn_tool": "hccn"}


class NpuHost:
    """Files below `root`, tools below `bin`."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = folder / "root"
        self.bin = folder / "bin"
        self._state = folder / "state.json"
        for path in (self.root / "dev", self.bin):
            path.mkdir(parents=True)
        patch.setenv("MOONCAKE_PD_TWIN_STATE", str(self._state))
        patch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")

    def tell(self, *tools: str, **told: Any) -> None:
        """The twin's state; `tools` are there then."""
        self._state.write_text(json.dumps(told))
        for tool in tools:
            lines = f"#!{sys.executable} -IS\nimport sys\n\nsys.path.insert(0, {str(TWIN)!r})\n"
            self.script(tool, lines + f"from twin.{MODULES[tool]} import main\n\nmain()\n")

    def script(self, tool: str, text: str) -> None:
        path = self.bin / tool
        path.write_text(text)
        path.chmod(0o755)

    def file(self, path: str, text: str) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def chips(self, count: int) -> None:
        for number in range(count):
            (self.root / "dev" / f"davinci{number}").touch()


def of_this_host(name: str) -> list[str]:
    """Processes that have `name` in their command."""
    listed = subprocess.run(["ps", "-eo", "pid,stat,args"], capture_output=True, text=True, check=True).stdout
    own = str(os.getpid())
    return [line for line in listed.splitlines() if name in line and line.split()[0] != own]
