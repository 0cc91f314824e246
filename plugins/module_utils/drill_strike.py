# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lose a unit of systemd in a certain way, and bring it back whatever happens to whoever asked for it.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List

from ansible_collections.mooncake.pd.plugins.module_utils import systemd

KILL, STOP, RESTART = "kill", "stop", "restart"
WAYS = (KILL, STOP, RESTART)
# after this, systemd itself starts a unit again that was stopped here, should the process that does it have died
SPARE = 60
_LOOK = 0.1


class StrikeError(Exception):
    """systemd did not do it."""


def guard_name(unit: str) -> str:
    return f"{unit.rpartition('.')[0] or unit}-drill-back"


def strike(
    run: systemd.Run,
    unit: str,
    how: str,
    hold: float,
    patience: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Dict[str, Any]:
    """Afterwards the unit runs again, by systemd's own restart or by ours."""
    before = systemd.show(run, [unit])[unit]
    if before.ActiveState != "active":
        raise StrikeError(f"{unit} does not run ({before.ActiveState}), so it cannot be lost")
    begun, at = clock(), time.time()
    if how == KILL:
        # all processes of the unit at once, as a crash of the host would
        _do(run, ["systemctl", "kill", "--signal=KILL", "--", unit])
    elif how == RESTART:
        _do(run, ["systemctl", "restart", "--", unit])
    else:
        _stop_and_start(run, unit, hold, sleep)
    lost, by = True, "itself"
    end = clock() + patience
    while True:
        now = systemd.show(run, [unit])[unit]
        # another start of it
        if now.ActiveState == "active" and now.InvocationID != before.InvocationID:
            break
        if clock() > end:
            by = "the drill"
            systemd.systemctl(run, "reset-failed", [unit])
            _do(run, ["systemctl", "start", "--", unit])
            now = systemd.show(run, [unit])[unit]
            lost = now.InvocationID != before.InvocationID
            break
        sleep(_LOOK)
    return {
        "unit": unit,
        "at": round(at, 3),
        "how": how,
        "lost": lost,
        # what brought it back
        "by": by if how == KILL else "the drill",
        "runs": now.ActiveState == "active",
        "seconds": round(clock() - begun, 3),
    }


def _stop_and_start(run: systemd.Run, unit: str, hold: float, sleep: Callable[[float], None]) -> None:
    guard = guard_name(unit)
    # Ctrl-C or a lost connection must not leave it stopped
    _do(
        run,
        [
            *("systemd-run", "--collect", f"--unit={guard}", f"--on-active={int(hold) + SPARE}"),
            *("--timer-property=AccuracySec=1s", "systemctl", "start", "--", unit),
        ],
    )
    try:
        _do(run, ["systemctl", "stop", "--", unit])
        sleep(hold)
    finally:
        _do(run, ["systemctl", "start", "--", unit])
        systemd.systemctl(run, "stop", [f"{guard}.timer"])


def _do(run: systemd.Run, command: List[str]) -> None:
    code, out, err = run(command)
    if code != 0:
        raise StrikeError(f"`{' '.join(command)}` failed: {err.strip() or out.strip() or code}")
