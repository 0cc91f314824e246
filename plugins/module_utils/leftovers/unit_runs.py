# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When runs of units ended: what is older may be what they left."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils import notes, systemd

_BEGINS = ("ExecMainStartTimestamp", "InactiveExitTimestamp")
# of a unit that starts itself again only some are written, and which ones differs between releases of systemd
_ENDS = ("InactiveEnterTimestamp", "ActiveExitTimestamp")
_MAIN_END = "ExecMainExitTimestamp"
_TIMES = (*_BEGINS, *_ENDS, _MAIN_END)
_STATES = ("ActiveState", "SubState", "InvocationID", "FragmentPath")


@dataclass(frozen=True)
class Run:
    """State of a unit, when its present run began, and when the last one ended (wall clock)."""

    name: str
    active_state: str = "inactive"
    sub_state: str = "dead"
    invocation: str = ""
    fragment: str = ""
    began: Optional[float] = None
    ended: Optional[float] = None

    @property
    def idle(self) -> bool:
        return self.active_state in ("inactive", "failed") or self.sub_state.startswith("auto-restart")


def parse_time(text: str) -> Optional[float]:
    """Mon 2026-11-30 06:15:02.049014 UTC, as `systemctl --timestamp=us+utc` writes it."""
    words = text.split()
    if len(words) != 4 or words[3] != "UTC":
        return None
    form = "%Y-%m-%d %H:%M:%S.%f" if "." in words[2] else "%Y-%m-%d %H:%M:%S"
    try:
        return datetime.strptime(f"{words[1]} {words[2]}", form).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def parse(text: str, names: Sequence[str]) -> list[Run]:
    blocks = [block for block in text.strip("\n").split("\n\n") if block.strip()]
    if len(blocks) != len(names):
        raise systemd.SystemdError(f"systemctl show answered for {len(blocks)} of {len(names)} units")
    return [_run(name, block) for name, block in zip(names, blocks)]


def _run(name: str, block: str) -> Run:
    values = dict(line.partition("=")[::2] for line in block.splitlines())
    times = {key: parse_time(values.get(key, "")) for key in _TIMES}
    run = Run(
        name,
        values.get("ActiveState", "inactive"),
        values.get("SubState", "dead"),
        values.get("InvocationID", ""),
        values.get("FragmentPath", ""),
        # The earlier: what tells systemd its main process later (conmon of podman) has run for a while then.
        min((moment for moment in (times[key] for key in _BEGINS) if moment), default=None),
    )
    # the end of a main process counts only when the rest has ended with it
    ends = [times[key] for key in (*_ENDS, *((_MAIN_END,) if run.idle else ()))]
    return replace(run, ended=max((moment for moment in ends if moment), default=None))


def show(run: systemd.Run, names: Sequence[str]) -> list[Run]:
    if not names:
        return []
    properties = ",".join(("Id", *_STATES, *_TIMES))
    command = ["systemctl", "show", "--no-pager", "--timestamp=us+utc", f"--property={properties}", "--", *names]
    code, out, err = run(command)
    if code != 0:
        raise systemd.SystemdError(f"`systemctl show` failed: {err.strip() or out.strip()}")
    return parse(out, names)


def latest(runs: Sequence[Run], boot: float) -> tuple[float, str]:
    """The last end of a run, and whose it was; the boot when nothing has run since.

    The start of a running unit is no end: what another one that still runs made before it would pass for left.
    """
    ends = [(run.ended, f"the last stop of {run.name}") for run in runs if run.ended is not None and run.ended > boot]
    now = time.time()
    # after a clock was set back, a stop may seem to lie ahead
    return max([(min(moment, now), text) for moment, text in ends], default=(boot, "the start of this host"))


def texts(runs: Sequence[Run]) -> dict[str, str]:
    return {run.name: notes.read(run.fragment) or "" for run in runs if os.path.isabs(run.fragment)}
