# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that collect, run on the controller."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class CollectError(Exception):
    """Something could not be collected; the text says what, why and the way out."""


def run(
    command: Sequence[str | Path],
    mend: str,
    *,
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
    cwd: Path | None = None,
) -> str:
    """Standard output of a program; what it said last when it failed."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
        )
    except FileNotFoundError:
        raise CollectError(f"{words[0]} is not on this machine. Mend: {mend}") from None
    if done.returncode:
        said = [line for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
        shown = shlex.join(word if len(word) < 80 else word[:60] + "..." for word in words[:6])
        raise CollectError(f"{shown} ... ended with {done.returncode}: {' | '.join(said[-6:])}. Mend: {mend}")
    return done.stdout
