# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is seen of units: their state, what they run and what their files say. Nothing here changes anything."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import time
from typing import Any, Dict, Iterable, List, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils import notes, systemd, unit_file
from ansible_collections.mooncake.pd.plugins.module_utils.unit_log import stem

PREFIX = "mooncake-pd-"
_APPENDS = re.compile(r"^StandardOutput=append:(/.*)$", re.MULTILINE)
_SERVICE = re.compile(re.escape(PREFIX) + r"[A-Za-z0-9:_.\\@-]+\.service")
_EXITED = 1  # CLD_EXITED of siginfo, as systemd has it in ExecMainCode
_NOT_SET = (0, 2**64 - 1)


def offset() -> float:
    """Seconds between the epoch and the boot. Not the clock's time in the journal: it may have been set since."""
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)


def file_text(folder: str, name: str) -> Optional[str]:
    """Text of a unit file; None when there is none, also for a broken link."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="surrogateescape") as source:
            return source.read()
    except (FileNotFoundError, IsADirectoryError):
        return None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def running_digest(folder: str, name: str) -> Optional[str]:
    text = notes.read(os.path.join(folder, stem(name), "digest"))
    return (text or "").strip() or None


def ours(folder: str) -> List[str]:
    """Services of the collection's name whose files it wrote."""
    found = [name for name in os.listdir(folder) if _SERVICE.fullmatch(name)]
    return sorted(name for name in found if unit_file.is_ours(file_text(folder, name) or ""))


def loaded(run: systemd.Run) -> List[str]:
    """Services of the collection's name that systemd has in memory: also one that was started without a file."""
    command = ["systemctl", "list-units", "--all", "--plain", "--no-legend", "--full", f"{PREFIX}*.service"]
    code, out, err = run(command)
    if code != 0:
        raise systemd.SystemdError(f"`systemctl list-units` failed: {err.strip() or out.strip()}")
    rows = [line.split() for line in out.splitlines() if line.strip()]
    # not-found: somebody's After= names it, nothing more
    return [row[0] for row in rows if _SERVICE.fullmatch(row[0]) and row[1:2] != ["not-found"]]


def strays(found: Iterable[str], planned: Sequence[str], known: Sequence[str]) -> List[str]:
    return sorted(
        name for name in set(found) - set(planned) if not any(fnmatch.fnmatchcase(name, pattern) for pattern in known)
    )


def log_of(name: str, text: Optional[str]) -> str:
    """Where a person reads what the unit said."""
    match = _APPENDS.search(text or "")
    return match.group(1) if match else f"journalctl -u {name}"


def describe(unit: systemd.Unit, text: Optional[str], runs: Optional[str], since_boot: float) -> Dict[str, Any]:
    """One unit for people and scripts; what is not known or does not apply is None."""
    written = None if text is None else digest(text)
    active = unit.ActiveState in ("active", "reloading", "refreshing")
    moment = unit.ActiveEnterTimestampMonotonic if active else unit.InactiveEnterTimestampMonotonic
    exited = unit.ExecMainCode == _EXITED
    return {
        "name": unit.name,
        "installed": text is not None,
        "ours": text is not None and unit_file.is_ours(text),
        "enabled": unit.UnitFileState == "enabled",
        "active_state": unit.ActiveState,
        "sub_state": unit.SubState,
        "running": unit.running,
        "waits_for_restart": unit.waits_for_restart,
        "result": unit.Result,
        "main_pid": unit.MainPID or None,
        "since": round(since_boot + moment / 1e6, 3) if moment else None,
        "restarts": unit.NRestarts,
        "exit_code": unit.ExecMainStatus if exited else None,
        "exit_text": unit.exit_text if unit.died else None,
        "advice": unit.advice if unit.died else None,
        "digest_running": runs,
        "digest_file": written,
        "outdated": unit.running and runs != written,
        "log": log_of(unit.name, text),
        "memory": None if unit.MemoryCurrent in _NOT_SET else unit.MemoryCurrent,
        "invocation_id": unit.InvocationID or None,
    }
